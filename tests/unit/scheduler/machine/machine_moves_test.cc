// How groups are given new maps (docs/failover.md).
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MachineMovesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string name : {"a", "b"}) Register(name, 1);
    for (uint32_t rank = 0; rank < 2; ++rank) job_ = harness_.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
    const RequestHandle first = harness_.Send(Group(job_, 0, 100, {0, 1}));
    harness_.Send(Group(job_, 1, 101, {0, 1}));
    group_ = harness_.Get<GroupJoined>(first).group;
    epoch_ = harness_.Get<GroupJoined>(first).map->epoch();
    watcher_ = harness_.Watch(job_);
    harness_.watched(watcher_).clear();
  }
  ServerId Register(const std::string& name, uint64_t incarnation) {
    const uint32_t port = static_cast<uint32_t>(name[0]);
    return harness_.Ask<ServerRegistered>(Server(name, incarnation, port)).server;
  }
  // The maps that the group was given since the last call.
  std::vector<std::shared_ptr<const ShardMap>> TakeMoves() {
    std::vector<std::shared_ptr<const ShardMap>> maps;
    for (const SendWatch& update : harness_.watched(watcher_)) {
      for (const GroupMap& group : update.groups) {
        EXPECT_EQ(group.group, group_);
        maps.push_back(group.map);
      }
    }
    harness_.watched(watcher_).clear();
    return maps;
  }
  ReportServer Report(uint32_t rank, uint64_t server, bool reachable) const {
    return {.job = job_,
            .rank = JobRank(rank),
            .incarnation = Incarnation(100 + rank),
            .group = group_,
            .epoch = epoch_,
            .server = ServerId(server),
            .server_incarnation = Incarnation(1),
            .reachable = reachable,
            .reason = "connection reset by peer"};
  }
  static std::vector<std::string> Names(const ShardMap& map) {
    std::vector<std::string> names;
    for (const Shard& shard : map.shards()) names.push_back(shard.server_name);
    return names;
  }

  MachineHarness harness_;
  JobId job_;
  GroupId group_;
  Epoch epoch_;
  WatcherId watcher_;
};

TEST_F(MachineMovesTest, AServerThatJoinsIsGivenToOpenGroups) {
  Register("c", 1);
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a", "b", "c"));
  EXPECT_GT(moves[0]->epoch(), epoch_);
}

TEST_F(MachineMovesTest, AServerThatLeavesIsTakenFromThem) {
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "drained"});
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b"));
}

TEST_F(MachineMovesTest, ALostServerIsTakenFromThemAndGivenAgainWhenItIsBack) {
  harness_.Advance(kTtlMs / 2);
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Ask<WorkerRenewed>(Beat(job_, rank, 100 + rank));
  harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(2), Incarnation(1), {}});
  harness_.Advance(kTtlMs / 2);
  auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b"));
  Register("a", 2);
  moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a", "b"));
  EXPECT_EQ(moves[0]->shards()[0].incarnation, Incarnation(2));
}

TEST_F(MachineMovesTest, AReportMovesTheReportersGroupAloneAndTheServerKeepsItsPlace) {
  harness_.Ask<Done>(Report(1, 1, false));
  auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b"));
  EXPECT_THAT(Names(*harness_.Ask<std::shared_ptr<const ShardMap>>(GetShardMap())), ElementsAre("a", "b"));
  EXPECT_EQ(harness_.events().back().kind, "group-moved");
  EXPECT_THAT(harness_.events().back().reason, HasSubstr("rank 1 lost server a: connection reset by peer"));
  // The other rank saw the same: nothing more happens.
  harness_.Ask<Done>(Report(0, 1, false));
  EXPECT_THAT(TakeMoves(), IsEmpty());
  // The group does without that life of the server, also when others come, and takes the next one.
  Register("c", 1);
  moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b", "c"));
  Register("a", 2);
  moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a", "b", "c"));
}

TEST_F(MachineMovesTest, AServerThatWasReachedAgainStays) {
  harness_.Ask<Done>(Report(0, 2, true));
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a", "b"));
  EXPECT_GT(moves[0]->epoch(), epoch_);
}

TEST_F(MachineMovesTest, TheLastServerIsNotTakenAwayByAReport) {
  harness_.Ask<Done>(Report(0, 1, false));
  epoch_ = TakeMoves().at(0)->epoch();
  harness_.Ask<Done>(Report(0, 2, false));
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u) << "the other one is tried again";
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a"));
  harness_.Ask<Done>(DeregisterServer{ServerId(2), Incarnation(1), ""});
  TakeMoves();
  epoch_ = moves[0]->epoch();
  harness_.Ask<Done>(Report(0, 1, false));
  EXPECT_THAT(TakeMoves(), IsEmpty());
}

TEST_F(MachineMovesTest, WithNoServerLeftAGroupKeepsItsMapUntilOneComes) {
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "drained"});
  EXPECT_EQ(TakeMoves().size(), 1u);
  harness_.Ask<Done>(DeregisterServer{ServerId(2), Incarnation(1), "drained"});
  EXPECT_THAT(TakeMoves(), IsEmpty()) << "the last one serves it while it drains";
  Register("c", 1);
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("c"));
}

TEST_F(MachineMovesTest, WhoIsNoMemberIsNotHeard) {
  ReportServer report = Report(0, 1, false);
  report.incarnation = Incarnation(999);
  EXPECT_EQ(harness_.Try(report).code(), absl::StatusCode::kNotFound);
  report = Report(0, 1, false);
  report.group = GroupId(77);
  EXPECT_EQ(harness_.Try(report).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(TakeMoves(), IsEmpty());
}

TEST_F(MachineMovesTest, AnEpochIsSavedBeforeItIsToldAndKnownAfterARestart) {
  harness_.set_save_at_once(false);
  harness_.Send(Report(0, 1, false));
  EXPECT_THAT(TakeMoves(), IsEmpty());
  harness_.FinishSave();
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  MachineHarness after(harness_.last_saved());
  const WatcherId watcher = after.Watch(job_);
  ASSERT_EQ(after.watched(watcher).size(), 1u);
  ASSERT_EQ(after.watched(watcher)[0].groups.size(), 1u);
  EXPECT_EQ(after.watched(watcher)[0].groups[0].map->Digest(), moves[0]->Digest());
}

}  // namespace
}  // namespace shoal::scheduler
