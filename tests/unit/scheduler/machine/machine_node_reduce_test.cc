// Groups whose ranks are all on one node: they reduce there, and servers are nothing to them.
#include <string>
#include <vector>

#include "core/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/store/state_codec.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

NodeReduceRequest On(const std::string& node) { return {.possible = true, .node_identity = node}; }

class MachineNodeReduceTest : public ::testing::Test {
 protected:
  // A job of three ranks on one node.
  void SetUp() override {
    for (uint32_t rank = 0; rank < 3; ++rank) job_ = harness_.Ask<JobJoined>(JoinAs(rank)).job;
  }
  static JoinJob JoinAs(uint32_t rank) {
    JoinJob request = Join("gpt", 3, rank, 100 + rank);
    request.node = "node-a";
    request.node_reduce = On("boot 1");
    return request;
  }
  JoinGroup GroupAs(uint32_t rank, const std::string& node = "boot 1", const std::string& name = "world") const {
    JoinGroup request = Group(job_, rank, 100 + rank, {2, 0, 1});
    request.group_name = name;
    request.request_number = 1;
    request.node_reduce = On(node);
    return request;
  }
  std::vector<RequestHandle> SendAll() {
    std::vector<RequestHandle> handles;
    for (uint32_t rank = 0; rank < 3; ++rank) handles.push_back(harness_.Send(GroupAs(rank)));
    return handles;
  }
  GroupJoined Open() { return harness_.Get<GroupJoined>(SendAll().back()); }
  std::string ReasonOf(const std::string& kind) const {
    std::string reason;
    for (const EventRecord& event : harness_.events()) {
      if (EventKey(event.kind) == kind) reason = event.reason;
    }
    return reason;
  }
  std::vector<GroupView> OpenGroups() {
    std::vector<JobView> jobs = harness_.Jobs();
    return jobs.at(0).groups;
  }

  MachineHarness harness_;
  JobId job_;
};

TEST_F(MachineNodeReduceTest, WhatEndsOneIsToldToItsRanks) {
  const GroupId group = Open().group;
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  CloseGroups giving_up{job_, JobRank(2), Incarnation(102), {}, {}};
  giving_up.failures = {{group, "no shared memory is left"}};
  harness_.Ask<Done>(giving_up);
  std::vector<std::string> told;
  for (const SendWatch& update : harness_.watched(watcher)) {
    for (const GroupMap& map : update.groups) told.push_back(map.failure);
  }
  EXPECT_THAT(told, ::testing::ElementsAre("rank 0 (rank 2 of the job) on node-a: no shared memory is left"));
}

TEST_F(MachineNodeReduceTest, TheyOpenWithoutServersAndAreToldWhereToMeet) {
  const std::vector<RequestHandle> handles = SendAll();
  const std::vector<uint32_t> rank_in_group = {1, 2, 0};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const GroupJoined answer = harness_.Get<GroupJoined>(handles[rank]);
    EXPECT_EQ(answer.node_reduce, NodeReduceMode::kNodeAlone);
    EXPECT_EQ(answer.meeting_name, harness_.Get<GroupJoined>(handles[0]).meeting_name);
    EXPECT_THAT(answer.meeting_name, Not(IsEmpty()));
    EXPECT_TRUE(answer.map->empty());
    EXPECT_EQ(DecodeToken(answer.token)->rank, Rank(rank_in_group[rank]));
    EXPECT_GT(DecodeToken(answer.token)->max_chunk_bytes, 0u);
  }
  EXPECT_EQ(ReasonOf("group-opened"), "3 ranks reduce among themselves on node node-a, wire none");
  ASSERT_THAT(OpenGroups(), SizeIs(1));
  EXPECT_EQ(OpenGroups()[0].state.node_reduce, NodeReduceMode::kNodeAlone);
}

TEST_F(MachineNodeReduceTest, EachGroupMeetsUnderANameOfItsOwnThatFitsASocket) {
  const std::string first = Open().meeting_name;
  RequestHandle last;
  for (uint32_t rank = 0; rank < 3; ++rank) last = harness_.Send(GroupAs(rank, "boot 1", "second"));
  EXPECT_NE(harness_.Get<GroupJoined>(last).meeting_name, first);
  PersistedState state = *harness_.last_saved();
  state.cluster_id = "0123456789abcdef";
  state.next_job_id = UINT64_MAX - 1;
  state.next_group_id = UINT64_MAX - 1;
  MachineHarness other(state);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    JoinJob join = JoinAs(rank);
    join.job_name = "other";
    join.world_size = 2;
    job_ = other.Ask<JobJoined>(join).job;
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    JoinGroup request = GroupAs(rank);
    request.ranks = JobRanks({0, 1});
    last = other.Send(request);
  }
  EXPECT_THAT(other.Get<GroupJoined>(last).meeting_name, Not(IsEmpty()));
  EXPECT_LE(other.Get<GroupJoined>(last).meeting_name.size(), kMaxMeetingNameBytes);
}

TEST_F(MachineNodeReduceTest, TheyDoNotWaitForServersButForTheirRanks) {
  harness_.Ask<ServerRegistered>(Server("a", 1, 1001));
  JoinGroup first = GroupAs(0);
  first.min_servers = 7;
  const RequestHandle waiting = harness_.Send(first);
  harness_.Send(GroupAs(1));
  EXPECT_FALSE(harness_.HasReply(waiting));
  const RequestHandle last = harness_.Send(GroupAs(2));
  EXPECT_EQ(harness_.Get<GroupJoined>(last).node_reduce, NodeReduceMode::kNodeAlone);
  EXPECT_TRUE(harness_.Get<GroupJoined>(last).map->empty());
}

TEST_F(MachineNodeReduceTest, AWaitForRanksNamesNoServersUnlessThoseAreNeeded) {
  JoinGroup request = GroupAs(0);
  request.wait_ms = 1000;
  const RequestHandle alone = harness_.Send(request);
  harness_.Advance(1500);
  EXPECT_THAT(std::string(harness_.StatusOf(alone).message()), HasSubstr("rank 1"));
  EXPECT_THAT(std::string(harness_.StatusOf(alone).message()), Not(HasSubstr("servers")));
  request.node_reduce->choice = static_cast<uint32_t>(NodeReduceChoice::kOff);
  const RequestHandle flat = harness_.Send(request);
  harness_.Advance(1500);
  EXPECT_THAT(std::string(harness_.StatusOf(flat).message()), HasSubstr("and for servers (0 of 1 registered)"));
}

TEST_F(MachineNodeReduceTest, AGroupOverNodesIsFlatAndTheReasonIsRecorded) {
  harness_.Ask<ServerRegistered>(Server("a", 1, 1001));
  harness_.Send(GroupAs(2));
  harness_.Send(GroupAs(0));
  const RequestHandle last = harness_.Send(GroupAs(1, "boot 2"));
  EXPECT_EQ(harness_.Get<GroupJoined>(last).node_reduce, NodeReduceMode::kFlat);
  EXPECT_EQ(harness_.Get<GroupJoined>(last).meeting_name, "");
  EXPECT_THAT(harness_.Get<GroupJoined>(last).map->shards(), SizeIs(1));
  EXPECT_THAT(ReasonOf("group-opened"), HasSubstr("; not within a node: ranks 2 and 1 are both on node node-a but"));
}

TEST_F(MachineNodeReduceTest, AnOlderProcessMakesTheGroupFlat) {
  harness_.Ask<ServerRegistered>(Server("a", 1, 1001));
  harness_.Send(GroupAs(0));
  harness_.Send(GroupAs(1));
  JoinGroup older = GroupAs(2);
  older.node_reduce.reset();
  EXPECT_EQ(harness_.Ask<GroupJoined>(older).node_reduce, NodeReduceMode::kFlat);
  EXPECT_THAT(ReasonOf("group-opened"), HasSubstr("not within a node: rank 2's process runs a version that cannot"));
}

TEST_F(MachineNodeReduceTest, RanksThatAskForDifferentThingsAreNamed) {
  JoinGroup host = GroupAs(0);
  host.node_reduce->choice = static_cast<uint32_t>(NodeReduceChoice::kHost);
  const RequestHandle first = harness_.Send(host);
  JoinGroup older = GroupAs(1);
  older.node_reduce.reset();
  harness_.Send(older);
  const RequestHandle last = harness_.Send(GroupAs(2));
  for (const RequestHandle handle : {first, last}) {
    EXPECT_EQ(harness_.StatusOf(handle).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(harness_.StatusOf(handle).message()),
                HasSubstr("node_reduce is host on rank 0 and auto on rank 2; give every rank the same"));
  }
}

TEST_F(MachineNodeReduceTest, WhatNoProcessSaysIsRefused) {
  JoinGroup unknown = GroupAs(0);
  unknown.node_reduce->choice = 4;
  EXPECT_THAT(std::string(harness_.Try(unknown).message()),
              HasSubstr("asks for node_reduce 4; give 0 (auto), 1 (off), 2 (host) or 3 (nccl)"));
  for (const std::string& identity : {std::string(kMaxNameBytes + 1, 'x'), std::string("two\nlines")}) {
    EXPECT_THAT(std::string(harness_.Try(GroupAs(0, identity)).message()), HasSubstr("gave the node identity"));
    JoinJob join = JoinAs(0);
    join.node_reduce->node_identity = identity;
    EXPECT_THAT(std::string(harness_.Try(join).message()), HasSubstr("gave the node identity"));
  }
}

TEST_F(MachineNodeReduceTest, WhatBecomesOfServersIsNothingToThem) {
  harness_.Ask<ServerRegistered>(Server("a", 1, 1001));
  harness_.Ask<ServerRegistered>(Server("b", 2, 1002));
  const GroupJoined opened = Open();
  const WatcherId watcher = harness_.Watch(job_);
  EXPECT_THAT(harness_.watched(watcher).at(0).groups, IsEmpty()) << "it has no map";
  EXPECT_EQ(harness_.Ask<ServerDraining>(DrainServer{"a"}).groups_kept, 0u);
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "drained"});
  harness_.Ask<Done>(DeregisterServer{ServerId(2), Incarnation(2), "SIGTERM"});
  ReportServer report{.job = job_, .rank = JobRank(0), .incarnation = Incarnation(100), .group = opened.group};
  report.server = ServerId(2);
  EXPECT_FALSE(harness_.Ask<ServerReported>(report).newer.has_value());
  for (const SendWatch& news : harness_.watched(watcher)) {
    EXPECT_THAT(news.groups, IsEmpty());
    EXPECT_FALSE(news.colocation.has_value());
  }
  EXPECT_THAT(harness_.EventKinds(), Not(Contains("group-moved")));
}

TEST_F(MachineNodeReduceTest, NobodyIsAskedToRunAServerForThem) {
  for (const bool has_flat_group : {false, true}) {
    MachineHarness harness;
    harness.Ask<ServerRegistered>(Server("a", 1, 1001));
    for (uint32_t rank = 0; rank < 3; ++rank) {
      JoinJob join = JoinAs(rank);
      join.colocates_without_servers = true;
      job_ = harness.Ask<JobJoined>(join).job;
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      harness.Send(GroupAs(rank));
      if (has_flat_group) harness.Send(GroupAs(rank, "", "flat"));
    }
    harness.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "SIGTERM"});
    EXPECT_EQ(std::ranges::count(harness.EventKinds(), "colocation-requested"), has_flat_group ? 1 : 0);
  }
}

TEST_F(MachineNodeReduceTest, ALostRankIsToldToTheOthers) {
  Open();
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  harness_.Ask<Done>(Leave(job_, 1, 101, /*failed=*/true, "it broke"));
  ASSERT_THAT(harness_.watched(watcher), SizeIs(1));
  EXPECT_EQ(harness_.watched(watcher)[0].lost_ranks.at(0).rank, JobRank(1));
  EXPECT_THAT(harness_.EventKinds(), Contains("job-failed"));
}

TEST_F(MachineNodeReduceTest, TheyAreGoneWhenAllRanksHaveClosedThem) {
  const GroupId group = Open().group;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(OpenGroups(), SizeIs(1));
    harness_.Ask<Done>(CloseGroups{job_, JobRank(rank), Incarnation(100 + rank), {group}, {}});
  }
  EXPECT_THAT(OpenGroups(), IsEmpty());
  EXPECT_THAT(harness_.EventKinds(), Contains("group-closed"));
}

TEST_F(MachineNodeReduceTest, TheNextSchedulerKnowsThem) {
  const std::vector<RequestHandle> handles = SendAll();
  const absl::StatusOr<PersistedState> saved = DecodeState(EncodeState(*harness_.last_saved()));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(*saved, *harness_.last_saved());
  MachineHarness next(*saved);
  next.Ask<ServerRegistered>(Server("a", 1, 1001));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const GroupJoined first = harness_.Get<GroupJoined>(handles[rank]);
    const GroupJoined again = next.Ask<GroupJoined>(GroupAs(rank));
    EXPECT_EQ(again.group, first.group);
    EXPECT_EQ(again.token, first.token);
    EXPECT_EQ(again.node_reduce, NodeReduceMode::kNodeAlone);
    EXPECT_EQ(again.meeting_name, first.meeting_name);
    EXPECT_TRUE(again.map->empty());
  }
  EXPECT_THAT(next.EventKinds(), Not(Contains("group-moved")));
}

TEST_F(MachineNodeReduceTest, AJobThatIsOnOneNodeNeedsNoServersOnceAllRanksAreThere) {
  MachineHarness harness;
  EXPECT_FALSE(harness.Ask<JobJoined>(JoinAs(0)).needs_no_servers);
  EXPECT_FALSE(harness.Ask<JobJoined>(JoinAs(1)).needs_no_servers);
  EXPECT_TRUE(harness.Ask<JobJoined>(JoinAs(2)).needs_no_servers);
  EXPECT_TRUE(harness.Ask<JobJoined>(JoinAs(0)).needs_no_servers) << "it asks again while it waits for servers";
  MachineHarness over_nodes;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    JoinJob join = JoinAs(rank);
    if (rank == 2) join.node_reduce = On("boot 2");
    EXPECT_FALSE(over_nodes.Ask<JobJoined>(join).needs_no_servers);
  }
}

// Ranks that have their answer do not ask again, so a new scheduler hears of them from the saved state alone.
TEST_F(MachineNodeReduceTest, TheNextSchedulerKnowsThatAJobNeedsNoServers) {
  MachineHarness harness;
  for (uint32_t rank = 0; rank < 3; ++rank) harness.Ask<JobJoined>(JoinAs(rank));
  const absl::StatusOr<PersistedState> saved = DecodeState(EncodeState(*harness.last_saved()));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(*saved, *harness.last_saved());
  MachineHarness next(*saved);
  EXPECT_TRUE(next.Ask<JobJoined>(JoinAs(0)).needs_no_servers);
  JoinJob moved = JoinAs(1);
  moved.node_reduce = On("boot 2");
  EXPECT_FALSE(next.Ask<JobJoined>(moved).needs_no_servers) << "what a rank says now counts";
}

// Heartbeats of all ranks, each second for ten seconds: rank 2 calls its collectives later than the others.
void TrainWithALateRank(MachineHarness* harness, JobId job) {
  for (uint64_t second = 1; second <= 10; ++second) {
    harness->Advance(1000);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      HeartbeatWorker beat = Beat(job, rank, 100 + rank);
      beat.load.away_ns_total = second * (rank == 2 ? 300 : 100) * kNsPerMs;
      beat.load.counted_ns_total = second * kNsPerS;
      beat.load.ops_completed = second * 10;
      harness->Ask<WorkerRenewed>(beat);
    }
  }
}

TEST_F(MachineNodeReduceTest, TheRankThatTheOthersWaitForIsNamed) {
  Open();
  TrainWithALateRank(&harness_, job_);
  EXPECT_THAT(ReasonOf("rank-slow"), HasSubstr("wait for it 20 % of the time, 20.0 ms an op (late-compute)"));
  EXPECT_THAT(harness_.Jobs()[0].slow_ranks, SizeIs(1));
}

TEST_F(MachineNodeReduceTest, RanksThatTakePartInDifferentGroupsAreNotCompared) {
  Open();
  std::vector<RequestHandle> handles;
  for (const uint32_t rank : {0u, 1u}) {
    JoinGroup request = GroupAs(rank, "boot 1", "pair");
    request.ranks = {JobRank(0), JobRank(1)};
    request.request_number = 2;
    handles.push_back(harness_.Send(request));
  }
  harness_.Get<GroupJoined>(handles.back());
  TrainWithALateRank(&harness_, job_);
  EXPECT_THAT(harness_.EventKinds(), Not(Contains("rank-slow")))
      << "the others have ops of their own under way while it has none";
}

}  // namespace
}  // namespace shoal::scheduler
