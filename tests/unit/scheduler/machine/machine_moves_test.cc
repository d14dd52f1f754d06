// How groups are given new maps (docs/failover.md).
#include <numeric>
#include <string>
#include <utility>
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
  const ClusterView cluster = harness_.Ask<ClusterView>(GetCluster{});
  EXPECT_EQ(cluster.moves.servers_changed, 1u);
  EXPECT_EQ(cluster.moves.asked_by_rank, 0u);
}

TEST_F(MachineMovesTest, AServerThatLeavesIsTakenFromThem) {
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "drained"});
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b"));
}

TEST_F(MachineMovesTest, ALostServerIsTakenFromThemAndGivenAgainWhenItIsBack) {
  for (int beat = 0; beat < 3; ++beat) {
    harness_.Advance(kTtlMs / 3);
    for (uint32_t rank = 0; rank < 2; ++rank) harness_.Ask<WorkerRenewed>(Beat(job_, rank, 100 + rank));
    harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(2), Incarnation(1), {}});
  }
  harness_.Advance(kTtlMs / 100);
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
  harness_.Ask<ServerReported>(Report(1, 1, false));
  auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b"));
  EXPECT_THAT(Names(*harness_.Ask<std::shared_ptr<const ShardMap>>(GetShardMap())), ElementsAre("a", "b"));
  EXPECT_EQ(harness_.events().back().kind, EventKind::kGroupMoved);
  EXPECT_THAT(harness_.events().back().reason, HasSubstr("rank 1 lost server a: connection reset by peer"));
  EXPECT_EQ(harness_.machine().Numbers(harness_.now()).moves.asked_by_rank, 1u);
  EXPECT_EQ(harness_.machine().Numbers(harness_.now()).moves.servers_changed, 0u);
  // The other rank saw the same: nothing more happens.
  harness_.Ask<ServerReported>(Report(0, 1, false));
  EXPECT_THAT(TakeMoves(), IsEmpty());
  // The group does without that life of the server, also when others come, and takes the next one.
  Register("c", 1);
  moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b", "c"));
  EXPECT_EQ(harness_.machine().Numbers(harness_.now()).moves.servers_changed, 1u);
  Register("a", 2);
  moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a", "b", "c"));
}

TEST_F(MachineMovesTest, AServerThatWasReachedAgainStays) {
  harness_.Ask<ServerReported>(Report(0, 2, true));
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a", "b"));
  EXPECT_GT(moves[0]->epoch(), epoch_);
}

TEST_F(MachineMovesTest, TheLastServerIsNotTakenAwayByAReport) {
  harness_.Ask<ServerReported>(Report(0, 1, false));
  epoch_ = TakeMoves().at(0)->epoch();
  harness_.Ask<ServerReported>(Report(0, 2, false));
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u) << "the other one is tried again";
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a"));
  harness_.Ask<Done>(DeregisterServer{ServerId(2), Incarnation(1), ""});
  TakeMoves();
  epoch_ = moves[0]->epoch();
  harness_.Ask<ServerReported>(Report(0, 1, false));
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

TEST_F(MachineMovesTest, AReportOfAnEpochThatIsOverIsAnsweredWithTheNewestMap) {
  EXPECT_TRUE(harness_.Ask<ServerReported>(Report(0, 1, false)).newer.has_value()) << "it has moved by this report";
  // The news of the move were lost on their way to rank 1, which goes on reporting.
  const ServerReported answer = harness_.Ask<ServerReported>(Report(1, 1, true));
  ASSERT_TRUE(answer.newer.has_value());
  EXPECT_EQ(answer.newer->group, group_);
  EXPECT_THAT(Names(*answer.newer->map), ElementsAre("b"));
  EXPECT_EQ(TakeMoves().size(), 1u);
}

// I10: the only server loses the scheduler for longer than its lease, while ranks lose it and reach it again, or not.
class MachineKeptReportsTest : public MachineMovesTest, public ::testing::WithParamInterface<bool> {};

TEST_P(MachineKeptReportsTest, AReportThatCanNotBeActedOnIsKeptUntilTheServerRegistersAgain) {
  harness_.Ask<Done>(DeregisterServer{ServerId(2), Incarnation(1), "drained"});
  epoch_ = TakeMoves().at(0)->epoch();
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "as if its lease had run out"});
  EXPECT_FALSE(harness_.Ask<ServerReported>(Report(0, 1, GetParam())).newer.has_value());
  EXPECT_THAT(TakeMoves(), IsEmpty());
  Register("a", 1);  // the same life
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a"));
  EXPECT_GT(moves[0]->epoch(), epoch_);
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "once more, and nobody lost it"});
  Register("a", 1);
  EXPECT_THAT(TakeMoves(), IsEmpty()) << "the report was acted on";
}

INSTANTIATE_TEST_SUITE_P(Reports, MachineKeptReportsTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Reachable" : "OutOfReach"; });

// I10, F11: only groups with the lost rank end.
TEST_F(MachineMovesTest, AGroupOfAFailedJobThatItsLostRankIsNotInGoesOnAndIsMoved) {
  for (uint32_t rank = 0; rank < 3; ++rank) job_ = harness_.Ask<JobJoined>(Join("larger", 3, rank, 100 + rank)).job;
  const RequestHandle first = harness_.Send(Group(job_, 0, 100, {0, 1}));
  harness_.Send(Group(job_, 1, 101, {0, 1}));
  group_ = harness_.Get<GroupJoined>(first).group;
  epoch_ = harness_.Get<GroupJoined>(first).map->epoch();
  harness_.Ask<Done>(Leave(job_, 2, 102, /*failed=*/true));
  watcher_ = harness_.Watch(job_);
  harness_.watched(watcher_).clear();
  harness_.Ask<ServerReported>(Report(0, 1, false));
  auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u) << "a rank's report still moves it";
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b"));
  Register("c", 1);
  moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u) << "so does a server that joins";
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b", "c"));
}

TEST_F(MachineMovesTest, ServersThatComeTogetherAreGivenInAFewMoves) {
  for (char name = 'c'; name < 'o'; ++name) Register(std::string(1, name), 1);
  EXPECT_EQ(TakeMoves().size(), MovePace::kAtOnce);
  harness_.Advance(250);
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0]->shards().size(), 14u);
  harness_.Advance(2000);
  EXPECT_THAT(TakeMoves(), IsEmpty());
}

TEST_F(MachineMovesTest, AMoveThatWasPutOffIsMadeByTheNextScheduler) {
  for (char name = 'c'; name < 'o'; ++name) Register(std::string(1, name), 1);
  EXPECT_LT(TakeMoves().back()->shards().size(), 14u);
  const auto map_of = [&](MachineHarness& scheduler) {
    const WatcherId watcher = scheduler.Watch(job_);
    return scheduler.watched(watcher).at(0).groups.at(0).map;
  };
  MachineHarness next(harness_.last_saved());
  const std::shared_ptr<const ShardMap> map = map_of(next);
  EXPECT_EQ(map->shards().size(), 14u);
  MachineHarness third(next.last_saved());
  EXPECT_EQ(map_of(third)->epoch(), map->epoch()) << "nothing moved again";
}

TEST_F(MachineMovesTest, RanksAndServersThatNeverAgreeMoveAGroupEverMoreSlowly) {
  size_t moves = 0;
  std::vector<size_t> in_each_second;
  for (int second = 0; second < 20; ++second) {
    for (int tenth = 0; tenth < 10; ++tenth) {
      // Rank 0 can't reach a, rank 1 can't reach b, and both say so at once.
      harness_.Ask<ServerReported>(Report(0, 1, false));
      harness_.Ask<ServerReported>(Report(1, 2, false));
      harness_.Advance(100);
      for (const auto& map : TakeMoves()) {
        epoch_ = map->epoch();
        ++moves;
      }
    }
    for (uint32_t rank = 0; rank < 2; ++rank) harness_.Ask<WorkerRenewed>(Beat(job_, rank, 100 + rank));
    for (const uint64_t server : {1, 2}) {
      harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(server), Incarnation(1), {}});
    }
    in_each_second.push_back(std::exchange(moves, 0));
  }
  EXPECT_LE(in_each_second[0], 6u);
  for (size_t second = 2; second < in_each_second.size(); ++second) EXPECT_LE(in_each_second[second], 1u);
  const size_t late = std::accumulate(in_each_second.begin() + 10, in_each_second.end(), size_t{0});
  EXPECT_GE(late, 8u) << "it goes on trying: one of the paths may work again";
}

// ---- servers without memory for the group ----

class MachineRefusalsTest : public MachineMovesTest {
 protected:
  ReportServer Refused(uint32_t rank, uint64_t server) const {
    ReportServer report = Report(rank, server, false);
    report.refused = true;
    report.reason = "server " + std::string(1, static_cast<char>('a' + server - 1)) + " needs 8 bytes, 2 are free";
    return report;
  }
  void KeepAlive(uint64_t ms, const std::vector<uint64_t>& servers) {
    for (uint64_t passed = 0; passed < ms; passed += 100) {
      harness_.Advance(100);
      for (uint32_t rank = 0; rank < 2; ++rank) harness_.Ask<WorkerRenewed>(Beat(job_, rank, 100 + rank));
      for (const uint64_t server : servers) {
        harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(server), Incarnation(1), {}});
      }
    }
  }
  // The group is on a alone, and b has refused it.
  void MoveToA() {
    harness_.Ask<ServerReported>(Refused(0, 2));
    epoch_ = TakeMoves().at(0)->epoch();
  }
};

TEST_F(MachineRefusalsTest, ARefusalIsRememberedWhileOthersServeTheGroup) {
  MoveToA();
  Register("c", 1);
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a", "c"));
}

TEST_F(MachineRefusalsTest, AGroupThatAllServersRefuseIsGivenUpAfterALeaseWithTheirReasons) {
  MoveToA();
  harness_.Ask<ServerReported>(Refused(0, 1));
  harness_.Ask<ServerReported>(Refused(1, 1));
  KeepAlive(kTtlMs - 100, {1, 2});
  EXPECT_THAT(TakeMoves(), IsEmpty()) << "nobody has the memory, so it is moved to nobody";
  KeepAlive(200, {1, 2});
  std::vector<std::string> failures;
  for (const SendWatch& update : harness_.watched(watcher_)) {
    for (const GroupMap& group : update.groups) failures.push_back(group.failure);
  }
  harness_.watched(watcher_).clear();
  EXPECT_THAT(failures, ElementsAre("no reduction server that is left has the memory for group \"world\": server a "
                                    "needs 8 bytes, 2 are free; server b needs 8 bytes, 2 are free"));
  EXPECT_EQ(harness_.events().back().kind, EventKind::kGroupFailed);
  // Whoever asks hears it too, also from a scheduler that was started anew, and it moves no more.
  EXPECT_EQ(harness_.Ask<ServerReported>(Refused(1, 1)).newer->failure, failures[0]);
  Register("c", 1);
  EXPECT_THAT(TakeMoves(), IsEmpty());
  MachineHarness after(harness_.last_saved());
  const WatcherId watcher = after.Watch(job_);
  EXPECT_EQ(after.watched(watcher).at(0).groups.at(0).failure, failures[0]);
}

TEST_F(MachineRefusalsTest, TheLeaseCountsFromWhenTheGroupWorkedLast) {
  MoveToA();
  KeepAlive(2000, {1, 2});  // a serves it
  harness_.Ask<ServerReported>(Refused(0, 1));
  KeepAlive(kTtlMs - 100, {1, 2});
  EXPECT_THAT(TakeMoves(), IsEmpty());
  KeepAlive(200, {1, 2});
  EXPECT_EQ(harness_.events().back().kind, EventKind::kGroupFailed);
}

TEST_F(MachineRefusalsTest, TheLeaseCountsFromTheFirstRefusalAfterServersChanged) {
  MoveToA();
  KeepAlive(2000, {1, 2});  // a serves it
  Register("c", 1);
  EXPECT_EQ(TakeMoves().size(), 1u);
  KeepAlive(2 * kTtlMs, {1, 2, 3});
  harness_.Ask<Done>(DeregisterServer{.server = ServerId(1), .incarnation = Incarnation(1), .reason = ""});
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("c"));
  epoch_ = moves[0]->epoch();
  harness_.Ask<ServerReported>(Refused(0, 3));
  KeepAlive(kTtlMs - 100, {2, 3});
  EXPECT_NE(harness_.events().back().kind, EventKind::kGroupFailed) << "a may come back";
  KeepAlive(200, {2, 3});
  EXPECT_EQ(harness_.events().back().kind, EventKind::kGroupFailed);
}

TEST_F(MachineRefusalsTest, AServerThatFreedMemoryIsTriedAgain) {
  MoveToA();
  harness_.Ask<ServerReported>(Refused(0, 1));
  HeartbeatServer beat{ServerId(2), Incarnation(1), {}};
  beat.load.slot_memory_used_bytes = 100;
  harness_.Ask<ServerRenewed>(beat);
  EXPECT_THAT(TakeMoves(), IsEmpty());
  beat.load.slot_memory_used_bytes = 10;
  harness_.Ask<ServerRenewed>(beat);
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b"));
}

TEST_F(MachineRefusalsTest, AServerThatComesIsTried) {
  MoveToA();
  harness_.Ask<ServerReported>(Refused(0, 1));
  Register("b", 2);
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("b"));
}

TEST_F(MachineRefusalsTest, OneThatIsOutOfReachIsTriedBeforeTheGroupIsGivenUp) {
  harness_.Ask<ServerReported>(Report(0, 1, false));
  epoch_ = TakeMoves().at(0)->epoch();
  harness_.Ask<ServerReported>(Refused(0, 2));
  const auto moves = TakeMoves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_THAT(Names(*moves[0]), ElementsAre("a"));
  epoch_ = moves[0]->epoch();
  harness_.Ask<ServerReported>(Report(0, 1, false));
  KeepAlive(2 * kTtlMs, {1, 2});
  EXPECT_THAT(TakeMoves(), IsEmpty()) << "its ranks try to reach a, and nobody else may have it";
  KeepAlive(2 * kTtlMs, {2});
  EXPECT_EQ(harness_.events().back().kind, EventKind::kGroupFailed) << "a is gone, b lacks the memory";
}

// I10: else no watcher would ever be heard of in a cluster in which something always changes.
TEST_F(MachineMovesTest, AWatcherIsToldTheStateAtItsComingHoweverMuchChangesAfterIt) {
  harness_.set_save_at_once(false);
  harness_.Send(Report(0, 1, false));
  const WatcherId late = harness_.Watch(job_);
  harness_.Send(Server("c", 1, 'c'));
  EXPECT_THAT(harness_.watched(late), IsEmpty()) << "nothing of it is saved yet";
  harness_.FinishSave();  // of what was when it came
  ASSERT_EQ(harness_.watched(late).size(), 1u);
  EXPECT_THAT(Names(*harness_.watched(late)[0].groups.at(0).map), ElementsAre("b"));
  harness_.Send(Server("d", 1, 'd'));
  while (harness_.save_under_way()) harness_.FinishSave();
  std::vector<std::string> newest;
  for (const SendWatch& update : harness_.watched(late)) {
    for (const GroupMap& group : update.groups) newest = Names(*group.map);
  }
  EXPECT_THAT(newest, ElementsAre("b", "c", "d"));
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
