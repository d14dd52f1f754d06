// What operators ask for: servers that leave (docs/failover.md, F4), stay or are evicted, and jobs that are aborted.
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

class MachineAdminTest : public ::testing::Test {
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
  std::string StateOf(size_t index) { return std::string(ServerStateName(harness_.Servers()[index].state)); }
  static std::vector<std::string> Names(const ShardMap& map) {
    std::vector<std::string> names;
    for (const Shard& shard : map.shards()) names.push_back(shard.server_name);
    return names;
  }

  MachineHarness harness_;
  JobId job_;
  WatcherId watcher_;
};

TEST_F(MachineAdminTest, F4ItsGroupsMoveAtOnceAndItIsToldWithItsNextHeartbeat) {
  EXPECT_FALSE(IsToldToDrain(1));
  const ServerDraining answer = Drain("a");
  EXPECT_EQ(answer.server, ServerId(1));
  EXPECT_EQ(answer.registered_at_unix_ms, harness_.Servers()[0].state.registered_at_unix_ms);
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

TEST_F(MachineAdminTest, AskingTwiceChangesNothingMore) {
  Drain("a");
  TakeMove();
  const ServerDraining again = Drain("a");
  EXPECT_TRUE(again.was_draining);
  EXPECT_EQ(again.server, ServerId(1));
  EXPECT_THAT(TakeMove(), ElementsAre());
}

TEST_F(MachineAdminTest, TheLastServerKeepsItsGroupsUntilAnotherComes) {
  Drain("a");
  TakeMove();
  EXPECT_EQ(Drain("b").groups_kept, 1u);
  EXPECT_THAT(TakeMove(), ElementsAre());
  EXPECT_THAT(PublishedNames(), ElementsAre());
  Register("c", 1);
  EXPECT_THAT(TakeMove(), ElementsAre("c"));
}

TEST_F(MachineAdminTest, AGroupThatWasGivenUpKeepsNoServer) {
  Drain("a");
  EXPECT_EQ(Drain("b").groups_kept, 1u);
  harness_.GiveOldestGroupUp(job_, JobRank(1), Incarnation(101));
  EXPECT_EQ(Drain("b").groups_kept, 0u);
}

TEST_F(MachineAdminTest, ANewGroupWaitsForAServerThatDoesNotLeave) {
  Drain("a");
  Drain("b");
  JoinGroup request = Group(job_, 0, 100, {0});
  request.group_name = "alone";
  const RequestHandle waiting = harness_.Send(request);
  EXPECT_FALSE(harness_.HasReply(waiting));
  Register("c", 1);
  EXPECT_THAT(Names(*harness_.Get<GroupJoined>(waiting).map), ElementsAre("c"));
}

TEST_F(MachineAdminTest, ItsNextLifeIsAMemberLikeAnyOther) {
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

TEST_F(MachineAdminTest, ItIsSavedBeforeItIsSaidAndKnownAfterARestart) {
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

TEST_F(MachineAdminTest, WhatCannotBeDrainedIsRefusedWithTheReason) {
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

TEST_F(MachineAdminTest, OneThatIsAskedToStayIsUsedAgain) {
  Drain("a");
  EXPECT_TRUE(IsToldToDrain(1));
  TakeMove();
  const ServerUndrained answer = harness_.Ask<ServerUndrained>(UndrainServer{"a"});
  EXPECT_EQ(answer.server, ServerId(1));
  EXPECT_TRUE(answer.was_draining);
  EXPECT_EQ(StateOf(0), "live");
  EXPECT_FALSE(IsToldToDrain(1));
  EXPECT_THAT(PublishedNames(), ElementsAre("b")) << "it is told only now, and refuses groups until then";
  EXPECT_FALSE(IsToldToDrain(1));
  EXPECT_THAT(PublishedNames(), ElementsAre("a", "b"));
  EXPECT_THAT(TakeMove(), ElementsAre("a", "b"));
  EXPECT_THAT(harness_.EventKinds(), Contains("server-undrained"));
  EXPECT_FALSE(harness_.Ask<ServerUndrained>(UndrainServer{"a"}).was_draining) << "asked twice";
  EXPECT_THAT(TakeMove(), ElementsAre());
}

TEST_F(MachineAdminTest, AGroupThatWaitsForAServerGetsTheOneThatStays) {
  Drain("a");
  Drain("b");
  JoinGroup request = Group(job_, 0, 100, {0});
  request.group_name = "alone";
  const RequestHandle waiting = harness_.Send(request);
  EXPECT_FALSE(harness_.HasReply(waiting));
  harness_.Ask<ServerUndrained>(UndrainServer{"b"});
  IsToldToDrain(2);
  EXPECT_FALSE(harness_.HasReply(waiting));
  IsToldToDrain(2);
  EXPECT_THAT(Names(*harness_.Get<GroupJoined>(waiting).map), ElementsAre("b"));
}

TEST_F(MachineAdminTest, OneThatIsToLeaveAgainBeforeItHeardThatItMayStayLeaves) {
  Drain("a");
  harness_.Ask<ServerUndrained>(UndrainServer{"a"});
  EXPECT_FALSE(IsToldToDrain(1));
  EXPECT_FALSE(Drain("a").was_draining);
  EXPECT_TRUE(IsToldToDrain(1));
  EXPECT_TRUE(IsToldToDrain(1));
  EXPECT_THAT(PublishedNames(), ElementsAre("b"));
}

TEST_F(MachineAdminTest, OneThatHasLeftCannotStay) {
  Drain("a");
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "shoalctl drain"});
  const absl::Status left = harness_.Try(UndrainServer{"a"});
  EXPECT_EQ(left.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(left.message()), HasSubstr("is left (shoalctl drain); there is nothing to undrain"));
}

TEST_F(MachineAdminTest, AnEvictedServerIsLostAtOnceAndItsProcessIsToldToEnd) {
  const ServerEvicted answer = harness_.Ask<ServerEvicted>(EvictServer{"a"});
  EXPECT_EQ(answer.server, ServerId(1));
  EXPECT_EQ(answer.groups_kept, 0u);
  EXPECT_EQ(StateOf(0), "lost");
  EXPECT_THAT(TakeMove(), ElementsAre("b"));
  EXPECT_THAT(harness_.EventKinds(), Contains("server-evicted"));
  const absl::Status renewal = harness_.Try(HeartbeatServer{ServerId(1), Incarnation(1), {}});
  EXPECT_EQ(renewal.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(renewal.message()), HasSubstr("an operator evicted server a"));
  EXPECT_EQ(harness_.Try(Server("a", 1, 'a')).code(), absl::StatusCode::kAborted);
  Register("a", 2);
  EXPECT_EQ(StateOf(0), "live") << "its next process is a member like any other";
  EXPECT_TRUE(harness_.Try(HeartbeatServer{ServerId(1), Incarnation(2), {}}).ok());
  EXPECT_THAT(TakeMove(), ElementsAre("a", "b"));
}

TEST_F(MachineAdminTest, WhoEvictsTheLastServerIsTold) {
  harness_.Ask<ServerEvicted>(EvictServer{"a"});
  EXPECT_EQ(harness_.Ask<ServerEvicted>(EvictServer{"b"}).groups_kept, 1u);
}

TEST_F(MachineAdminTest, AnEvictionIsKnownAfterARestart) {
  harness_.Ask<ServerEvicted>(EvictServer{"a"});
  MachineHarness after(harness_.last_saved());
  EXPECT_EQ(after.Try(HeartbeatServer{ServerId(1), Incarnation(1), {}}).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(after.Try(Server("a", 1, 'a')).code(), absl::StatusCode::kAborted);
}

TEST_F(MachineAdminTest, TheRanksOfAnAbortedJobHearOfItAtOnce) {
  const JobAborted answer = harness_.Ask<JobAborted>(AbortJob{"gpt", "wrong\ndata"});
  EXPECT_EQ(answer.job, job_);
  EXPECT_EQ(answer.groups_failed, 1u);
  EXPECT_EQ(answer.live_ranks, 2u);
  std::vector<std::string> failures;
  for (const SendWatch& update : harness_.watched(watcher_)) {
    for (const GroupMap& group : update.groups) failures.push_back(group.failure);
  }
  EXPECT_THAT(failures, ElementsAre("an operator aborted job \"gpt\": wrong?data"));
  EXPECT_THAT(harness_.EventKinds(), Contains("job-aborted"));
  const std::vector<JobView> jobs = harness_.Jobs();
  EXPECT_EQ(jobs[0].phase, JobPhase::kFailed);
  EXPECT_EQ(jobs[0].failure, "an operator aborted job \"gpt\": wrong?data");
}

TEST_F(MachineAdminTest, AnAbortedJobGetsNoNewGroupAndNobodyWaitsForOne) {
  JoinGroup request = Group(job_, 0, 100, {0, 1});
  request.group_name = "next";
  const RequestHandle waiting = harness_.Send(request);
  EXPECT_FALSE(harness_.HasReply(waiting));
  harness_.Ask<JobAborted>(AbortJob{"gpt", ""});
  EXPECT_EQ(harness_.StatusOf(waiting), absl::AbortedError("an operator aborted job \"gpt\""));
  request.group_name = "another";
  EXPECT_EQ(harness_.Try(request), absl::AbortedError("an operator aborted job \"gpt\""));
}

TEST_F(MachineAdminTest, TheNameOfAnAbortedJobMayBeUsedAgain) {
  harness_.Ask<JobAborted>(AbortJob{"gpt", ""});
  for (uint32_t rank = 0; rank < 2; ++rank) {
    harness_.Ask<Done>(LeaveJob{.job = job_, .rank = JobRank(rank), .incarnation = Incarnation(100 + rank)});
  }
  EXPECT_NE(harness_.Ask<JobJoined>(Join("gpt", 2, 0, 200)).job, job_);
}

// A restarted process waits for its predecessor's rank when the operator ends the old job.
TEST_F(MachineAdminTest, WhoWaitsForARankOfAnAbortedJobStartsTheNextOne) {
  const RequestHandle waiting = harness_.Send(Join("gpt", 2, 0, 200));
  EXPECT_FALSE(harness_.HasReply(waiting)) << "rank 0 is held by a process that has its lease";
  harness_.Ask<JobAborted>(AbortJob{"gpt", ""});
  const JobId next = harness_.Get<JobJoined>(waiting).job;
  EXPECT_NE(next, job_);
  EXPECT_EQ(harness_.Ask<JobJoined>(Join("gpt", 2, 1, 201)).job, next);
  // The old rank 0 is still there, and its heartbeats concern nobody else.
  EXPECT_TRUE(harness_.Try(HeartbeatWorker{.job = job_, .rank = JobRank(0), .incarnation = Incarnation(100)}).ok());
}

TEST_F(MachineAdminTest, TheRanksOfAnAbortedJobThatEndWithItChangeNothingOfItsReason) {
  harness_.Ask<JobAborted>(AbortJob{"gpt", "no use"});
  harness_.Ask<Done>(LeaveJob{
      .job = job_, .rank = JobRank(1), .incarnation = Incarnation(101), .reason = "its op failed", .failed = true});
  EXPECT_EQ(harness_.Jobs()[0].failure, "an operator aborted job \"gpt\": no use");
}

TEST_F(MachineAdminTest, WhatCannotBeAbortedIsRefusedWithTheReason) {
  const absl::Status unknown = harness_.Try(AbortJob{"bert\n", ""});
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("no job is named \"bert?\"; open jobs: gpt"));
  harness_.Ask<JobAborted>(AbortJob{"gpt", "no use"});
  const absl::Status again = harness_.Try(AbortJob{"gpt", ""});
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("job \"gpt\" has failed: an operator aborted job"));
}

TEST_F(MachineAdminTest, AnAbortIsKnownAfterARestart) {
  harness_.Ask<JobAborted>(AbortJob{"gpt", "no use"});
  MachineHarness after(harness_.last_saved());
  EXPECT_EQ(after.Jobs()[0].failure, "an operator aborted job \"gpt\": no use");
  EXPECT_EQ(after.Try(Group(job_, 0, 100, {0, 1})).code(), absl::StatusCode::kAborted);
}

TEST_F(MachineAdminTest, OneThatDiesWhileItDrainsIsLost) {
  Drain("a");
  for (int beat = 0; beat < 3; ++beat) {
    harness_.Advance(kTtlMs / 3);
    EXPECT_FALSE(IsToldToDrain(2));  // b's heartbeat: the scheduler's own network works
  }
  harness_.Advance(kTtlMs / 100);
  EXPECT_EQ(StateOf(0), "lost");
}

}  // namespace
}  // namespace shoal::scheduler
