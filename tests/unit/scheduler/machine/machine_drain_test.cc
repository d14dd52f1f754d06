// How servers leave when an operator wants it (docs/failover.md, F4).
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MachineDrainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string name : {"a", "b"}) Register(name, 1);
    for (uint32_t rank = 0; rank < 2; ++rank) job_ = harness_.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
    const RequestHandle first = harness_.Send(Group(job_, 0, 100, {0, 1}));
    harness_.Send(Group(job_, 1, 101, {0, 1}));
    ASSERT_TRUE(harness_.StatusOf(first).ok());
    watcher_ = harness_.Watch(job_);
    harness_.watched(watcher_).clear();
  }
  ServerId Register(const std::string& name, uint64_t incarnation) {
    return harness_.Ask<ServerRegistered>(Server(name, incarnation, static_cast<uint32_t>(name[0]))).server;
  }
  ServerDraining Drain(const std::string& name) { return harness_.Ask<ServerDraining>(DrainServer{name}); }
  bool IsToldToDrain(uint64_t server, uint64_t incarnation = 1) {
    return harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(server), Incarnation(incarnation), {}}).drain;
  }
  // Of the group's newest map since the last call; empty if there is none.
  std::vector<std::string> TakeMove() {
    std::vector<std::string> names;
    for (const SendWatch& update : harness_.watched(watcher_)) {
      for (const GroupMap& group : update.groups) names = Names(*group.map);
    }
    harness_.watched(watcher_).clear();
    return names;
  }
  std::vector<std::string> PublishedNames() {
    return Names(*harness_.Ask<std::shared_ptr<const ShardMap>>(GetShardMap()));
  }
  std::string StateOf(size_t index) {
    return std::string(ServerStateName(harness_.Ask<std::vector<ServerView>>(ListServers())[index].state));
  }
  static std::vector<std::string> Names(const ShardMap& map) {
    std::vector<std::string> names;
    for (const Shard& shard : map.shards()) names.push_back(shard.server_name);
    return names;
  }

  MachineHarness harness_;
  JobId job_;
  WatcherId watcher_;
};

TEST_F(MachineDrainTest, F4ItsGroupsMoveAtOnceAndItIsToldWithItsNextHeartbeat) {
  EXPECT_FALSE(IsToldToDrain(1));
  const ServerDraining answer = Drain("a");
  EXPECT_EQ(answer.server, ServerId(1));
  EXPECT_EQ(answer.incarnation, Incarnation(1));
  EXPECT_FALSE(answer.was_draining);
  EXPECT_EQ(answer.groups_kept, 0u);
  EXPECT_THAT(TakeMove(), ElementsAre("b"));
  EXPECT_THAT(PublishedNames(), ElementsAre("b"));
  EXPECT_THAT(harness_.EventKinds(), Contains("server-draining"));
  EXPECT_EQ(StateOf(0), "draining");
  EXPECT_TRUE(IsToldToDrain(1));
  EXPECT_FALSE(IsToldToDrain(2));
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "shoalctl drain"});
  EXPECT_EQ(StateOf(0), "left");
  EXPECT_THAT(TakeMove(), ElementsAre()) << "the group has moved already";
}

TEST_F(MachineDrainTest, AskingTwiceChangesNothingMore) {
  Drain("a");
  TakeMove();
  const ServerDraining again = Drain("a");
  EXPECT_TRUE(again.was_draining);
  EXPECT_EQ(again.server, ServerId(1));
  EXPECT_THAT(TakeMove(), ElementsAre());
}

TEST_F(MachineDrainTest, TheLastServerKeepsItsGroupsUntilAnotherComes) {
  Drain("a");
  TakeMove();
  EXPECT_EQ(Drain("b").groups_kept, 1u);
  EXPECT_THAT(TakeMove(), ElementsAre());
  EXPECT_THAT(PublishedNames(), ElementsAre());
  Register("c", 1);
  EXPECT_THAT(TakeMove(), ElementsAre("c"));
}

TEST_F(MachineDrainTest, AGroupThatWasGivenUpKeepsNoServer) {
  Drain("a");
  EXPECT_EQ(Drain("b").groups_kept, 1u);
  harness_.GiveOldestGroupUp(job_, JobRank(1), Incarnation(101));
  EXPECT_EQ(Drain("b").groups_kept, 0u);
}

TEST_F(MachineDrainTest, ANewGroupWaitsForAServerThatDoesNotLeave) {
  Drain("a");
  Drain("b");
  JoinGroup request = Group(job_, 0, 100, {0});
  request.group_name = "alone";
  const RequestHandle waiting = harness_.Send(request);
  EXPECT_FALSE(harness_.HasReply(waiting));
  Register("c", 1);
  EXPECT_THAT(Names(*harness_.Get<GroupJoined>(waiting).map), ElementsAre("c"));
}

TEST_F(MachineDrainTest, ItsNextLifeIsAMemberLikeAnyOther) {
  Drain("a");
  TakeMove();
  Register("a", 1);
  EXPECT_EQ(StateOf(0), "draining") << "the same life, that registers once more, still has to leave";
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "shoalctl drain"});
  Register("a", 2);
  EXPECT_EQ(StateOf(0), "live");
  EXPECT_FALSE(IsToldToDrain(1, 2));
  EXPECT_THAT(TakeMove(), ElementsAre("a", "b"));
}

TEST_F(MachineDrainTest, ItIsSavedBeforeItIsSaidAndKnownAfterARestart) {
  harness_.set_save_at_once(false);
  const RequestHandle handle = harness_.Send(DrainServer{"a"});
  EXPECT_FALSE(harness_.HasReply(handle));
  EXPECT_THAT(TakeMove(), ElementsAre());
  harness_.FinishSave();
  EXPECT_TRUE(harness_.HasReply(handle));
  EXPECT_THAT(TakeMove(), ElementsAre("b"));
  MachineHarness after(harness_.last_saved());
  EXPECT_TRUE(after.Ask<ServerRenewed>(HeartbeatServer{ServerId(1), Incarnation(1), {}}).drain);
  EXPECT_THAT(Names(*after.Ask<std::shared_ptr<const ShardMap>>(GetShardMap())), ElementsAre("b"));
}

TEST_F(MachineDrainTest, WhatCannotBeDrainedIsRefusedWithTheReason) {
  const absl::Status unknown = harness_.Try(DrainServer{"z\n"});
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("no server is named \"z?\"; live servers: a, b"));

  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "SIGTERM"});
  const absl::Status left = harness_.Try(DrainServer{"a"});
  EXPECT_EQ(left.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(left.message()), HasSubstr("server a is left (SIGTERM); there is nothing to drain"));

  RegisterServer colocated = Server("of-rank-0", 5, 99);
  colocated.job = job_;
  harness_.Ask<ServerRegistered>(colocated);
  const absl::Status of_rank = harness_.Try(DrainServer{"of-rank-0"});
  EXPECT_EQ(of_rank.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(of_rank.message()), HasSubstr("is colocated with a rank"));
}

TEST_F(MachineDrainTest, OneThatDiesWhileItDrainsIsLost) {
  Drain("a");
  harness_.Advance(kTtlMs / 2);
  EXPECT_FALSE(IsToldToDrain(2));  // b's heartbeat: the scheduler's own network works
  harness_.Advance(kTtlMs / 2 + 1);
  EXPECT_EQ(StateOf(0), "lost");
}

}  // namespace
}  // namespace shoal::scheduler
