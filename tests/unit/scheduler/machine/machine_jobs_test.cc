// Jobs and groups: joining, leases of ranks, losses, the rendezvous of a group, restarts.
#include "core/token.h"
#include "scheduler/machine/request_checks.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class MachineJobsTest : public ::testing::Test {
 protected:
  // Ranks 0 .. world_size - 1 of job "gpt", with incarnation 100 + rank.
  JobId JoinAll(uint32_t world_size) {
    JobId job;
    for (uint32_t rank = 0; rank < world_size; ++rank) {
      job = harness_.Ask<JobJoined>(Join("gpt", world_size, rank, 100 + rank)).job;
    }
    return job;
  }

  MachineHarness harness_;
};

TEST_F(MachineJobsTest, TheFirstRankMakesTheJobAndAllMakeItRun) {
  harness_.Ask<ServerRegistered>(Server("a", 11, 1));
  const auto second = harness_.Ask<JobJoined>(Join("gpt", 2, 1, 101));
  EXPECT_EQ(second.server_count, 1u);
  EXPECT_EQ(second.lease_ttl_ms, kTtlMs);
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kJoining);
  const auto first = harness_.Ask<JobJoined>(Join("gpt", 2, 0, 100));
  EXPECT_EQ(first.job, second.job);
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kRunning);
  EXPECT_EQ(harness_.Ask<JobJoined>(Join("gpt", 2, 0, 100)).job, first.job) << "the same incarnation again";
  EXPECT_NE(harness_.Ask<JobJoined>(Join("bert", 2, 0, 300)).job, first.job);
  const auto cluster = harness_.Ask<ClusterView>(GetCluster());
  EXPECT_GE(cluster.now_unix_ms, cluster.started_at_unix_ms) << "the doctor compares clocks by it";
  EXPECT_EQ(cluster.jobs, 2u);
  EXPECT_EQ(cluster.workers, 3u);
  EXPECT_EQ(cluster.servers_live, 1u);
}

// `jobs` jobs of each tenant, with `ranks` live ranks each.
PersistedState StateOfTenants(const std::vector<std::string>& tenants, size_t jobs, uint32_t ranks) {
  PersistedState state = NewState();
  for (const std::string& tenant : tenants) {
    for (size_t i = 0; i < jobs; ++i) {
      JobState job;
      job.id = JobId(state.next_job_id++);
      job.name = tenant + std::to_string(i);
      job.world_size = ranks;
      job.phase = JobPhase::kRunning;
      job.tenant = tenant;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        job.ranks[JobRank(rank)].incarnation = Incarnation(100 + rank);
      }
      state.jobs.push_back(std::move(job));
    }
  }
  return state;
}

JoinJob JoinOf(const std::string& tenant, const std::string& job) {
  JoinJob join = Join(job, 2, 0, 7);
  join.tenant = tenant;
  return join;
}

TEST_F(MachineJobsTest, ATenantWithManyJobsLeavesOthersTheLastQuarter) {
  MachineHarness harness(StateOfTenants({"greedy"}, kMaxLiveJobs * 3 / 4 - 1, 1));
  harness.Ask<JobJoined>(JoinOf("greedy", "last"));
  const absl::Status refused = harness.Try(JoinOf("greedy", "more"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("tenant greedy has 3072 of the 4096 jobs"), HasSubstr("end some of yours")));
  JoinJob second = JoinOf("greedy", "last");
  second.rank = JobRank(1);
  second.incarnation = Incarnation(8);
  harness.Ask<JobJoined>(second);
  harness.Ask<JobJoined>(JoinOf("modest", "first"));
  harness.Ask<JobJoined>(JoinOf("", "of-nobody"));
}

TEST_F(MachineJobsTest, ATenantWithManyRanksLeavesOthersTheLastQuarter) {
  constexpr size_t kJobs = 512;
  MachineHarness harness(StateOfTenants({"greedy"}, kJobs, kMaxLiveWorkers * 3 / 4 / kJobs));
  const absl::Status refused = harness.Try(JoinOf("greedy", "more"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("tenant greedy has 49152 of the 65536 ranks"));
  EXPECT_EQ(harness.Ask<ClusterView>(GetCluster()).jobs, kJobs) << "nothing of it is left";
  harness.Ask<JobJoined>(JoinOf("modest", "first"));
}

TEST_F(MachineJobsTest, BadJoinsAreRefusedByValue) {
  harness_.Ask<JobJoined>(Join("gpt", 4, 2, 102));
  struct Case {
    void (*spoil)(JoinJob*);
    absl::StatusCode code;
    std::vector<std::string> messages;
  };
  const Case cases[] = {
      {[](JoinJob* r) { r->control_version = 7; },
       absl::StatusCode::kFailedPrecondition,
       {"rank 1 of job \"gpt\" speaks control version 7", "this scheduler speaks 2 to 3"}},
      {[](JoinJob* r) { r->world_size = 8; },
       absl::StatusCode::kInvalidArgument,
       {"world size 4", "rank 2, process 1002 on node node2", "rank 1, process 1001 on node node1, has world size 8"}},
      {[](JoinJob* r) { r->rank = JobRank(4); }, absl::StatusCode::kInvalidArgument, {"rank 4", "ranks 0 to 3"}},
      {[](JoinJob* r) { r->world_size = 0; }, absl::StatusCode::kInvalidArgument, {"world size 0"}},
      {[](JoinJob* r) { r->world_size = kMaxWorldSize + 1; }, absl::StatusCode::kInvalidArgument, {"65537"}},
      {[](JoinJob* r) { r->job_name = ""; }, absl::StatusCode::kInvalidArgument, {"job name"}},
      {[](JoinJob* r) { r->incarnation = Incarnation(); }, absl::StatusCode::kInvalidArgument, {"incarnation"}},
  };
  for (const Case& c : cases) {
    JoinJob request = Join("gpt", 4, 1, 101);
    c.spoil(&request);
    const absl::Status status = harness_.Try(request);
    EXPECT_EQ(status.code(), c.code) << status;
    for (const std::string& message : c.messages) EXPECT_THAT(Text(status), HasSubstr(message));
  }
  EXPECT_EQ(OnlyJob(harness_).ranks.size(), 1u);
}

TEST_F(MachineJobsTest, ATakenRankIsRefusedWhenItsHolderShowsLife) {
  const JobId job = JoinAll(2);
  harness_.Advance(400);
  JoinJob rival = Join("gpt", 2, 1, 201);
  rival.node = "elsewhere";
  rival.pid = 77;
  const RequestHandle handle = harness_.Send(rival);
  EXPECT_FALSE(harness_.HasReply(handle));
  harness_.Send(Beat(job, 0, 100));
  EXPECT_FALSE(harness_.HasReply(handle)) << "another rank's heartbeat says nothing about this one";
  harness_.Advance(1000);
  EXPECT_TRUE(harness_.Try(Beat(job, 1, 101)).ok());
  const absl::Status status = harness_.StatusOf(handle);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Text(status), AllOf(HasSubstr("rank 1 of job \"gpt\""),
                                  HasSubstr("process 1001 on node node1, which was heard 0 s ago; end that process"),
                                  HasSubstr("give process 77 on node elsewhere another rank or job name")));
}

TEST_F(MachineJobsTest, ARestartedRankGetsItsPlaceWhenTheOldOnesLeaseIsOver) {
  const JobId old_job = JoinAll(2);
  const RequestHandle rank0 = harness_.Send(Join("gpt", 2, 0, 200));
  const RequestHandle rank1 = harness_.Send(Join("gpt", 2, 1, 201));
  harness_.Advance(kTtlMs);
  const JobId new_job = harness_.Get<JobJoined>(rank0).job;
  EXPECT_NE(new_job, old_job) << "the old job failed, so its name starts another";
  EXPECT_EQ(harness_.Get<JobJoined>(rank1).job, new_job);
  EXPECT_THAT(harness_.EventKinds(), AllOf(Contains("rank-lost"), Contains("job-failed")));
}

TEST_F(MachineJobsTest, ACancelledJoinIsForgotten) {
  const JobId job = JoinAll(1);
  const RequestHandle handle = harness_.Send(Join("gpt", 1, 0, 200));
  harness_.StepEvent(RequestCancelled{handle});
  EXPECT_TRUE(harness_.Try(Beat(job, 0, 100)).ok());
  EXPECT_FALSE(harness_.HasReply(handle));
}

TEST_F(MachineJobsTest, ALostRankIsToldToTheWatchersOfItsJob) {
  const JobId job = JoinAll(3);
  const JobId other = harness_.Ask<JobJoined>(Join("bert", 1, 0, 300)).job;
  const WatcherId watcher = harness_.Watch(job);
  const WatcherId stranger = harness_.Watch(other);
  for (int i = 0; i < 4; ++i) {
    harness_.Advance(kTtlMs / 3);
    EXPECT_TRUE(harness_.Try(Beat(job, 0, 100)).ok());
    EXPECT_TRUE(harness_.Try(Beat(job, 2, 102)).ok());
    EXPECT_TRUE(harness_.Try(Beat(other, 0, 300)).ok());
  }
  ASSERT_EQ(harness_.watched(watcher).size(), 2u);
  const SendWatch& update = harness_.watched(watcher)[1];
  EXPECT_EQ(update.map, nullptr);
  ASSERT_EQ(update.lost_ranks.size(), 1u);
  EXPECT_EQ(update.lost_ranks[0].rank, JobRank(1));
  EXPECT_EQ(update.lost_ranks[0].node, "node1");
  EXPECT_EQ(update.lost_ranks[0].incarnation, Incarnation(101));
  EXPECT_THAT(update.lost_ranks[0].reason, HasSubstr("no heartbeat for 5 s"));
  EXPECT_EQ(harness_.watched(stranger).size(), 1u) << "other jobs don't notice";
  const absl::Status late = harness_.Try(Beat(job, 1, 101));
  EXPECT_EQ(late.code(), absl::StatusCode::kNotFound);

  const WatcherId newcomer = harness_.Watch(job);
  ASSERT_EQ(harness_.watched(newcomer).size(), 1u);
  EXPECT_EQ(harness_.watched(newcomer)[0].lost_ranks.size(), 1u) << "the first message is the present state";
  EXPECT_NE(harness_.watched(newcomer)[0].map, nullptr);
}

TEST_F(MachineJobsTest, ARankThatHearsLateOfSeveralLossesHearsFirstOfTheOneThatFailedTheJob) {
  const JobId job = JoinAll(3);
  for (const uint32_t rank : {2, 0}) {
    EXPECT_TRUE(harness_
                    .Try(LeaveJob{.job = job,
                                  .rank = JobRank(rank),
                                  .incarnation = Incarnation(100 + rank),
                                  .reason = "out of memory",
                                  .failed = true})
                    .ok());
  }
  const WatcherId watcher = harness_.Watch(job);
  const std::vector<RankLost>& lost = harness_.watched(watcher).at(0).lost_ranks;
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(lost[0].rank, JobRank(2));
  EXPECT_EQ(lost[1].rank, JobRank(0));
}

TEST_F(MachineJobsTest, WatchingAnUnknownJobIsRefused) {
  const WatcherId watcher = harness_.Watch(JobId(99));
  EXPECT_EQ(harness_.closed().at(watcher).code(), absl::StatusCode::kNotFound);
}

TEST_F(MachineJobsTest, LeavingInOrderIsNoLoss) {
  const JobId job = JoinAll(2);
  const WatcherId watcher = harness_.Watch(job);
  EXPECT_TRUE(harness_.Try(Leave(job, 0, 100)).ok());
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kRunning);
  EXPECT_TRUE(harness_.Try(Leave(job, 1, 101)).ok());
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kEnded);
  EXPECT_EQ(harness_.watched(watcher).size(), 1u);
  EXPECT_EQ(harness_.Try(Leave(job, 1, 101)).code(), absl::StatusCode::kNotFound);
  EXPECT_NE(JoinAll(2), job) << "the name of an ended job starts a new one";
}

TEST_F(MachineJobsTest, LeavingWithAFailureIsALoss) {
  const JobId job = JoinAll(2);
  const WatcherId watcher = harness_.Watch(job);
  EXPECT_TRUE(harness_.Try(Leave(job, 1, 101, true, "out of memory")).ok());
  ASSERT_EQ(harness_.watched(watcher).size(), 2u);
  EXPECT_EQ(harness_.watched(watcher)[1].lost_ranks[0].reason, "out of memory");
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kFailed);
  EXPECT_EQ(harness_.Ask<JobJoined>(Join("gpt", 2, 0, 100)).job, job) << "a survivor is still in its old job";
  EXPECT_NE(harness_.Ask<JobJoined>(Join("gpt", 2, 0, 200)).job, job) << "a new process starts a new one";
}

TEST_F(MachineJobsTest, ARankThatLeftMayComeBackWhileTheJobRuns) {
  const JobId job = JoinAll(2);
  EXPECT_TRUE(harness_.Try(Leave(job, 1, 101)).ok());
  EXPECT_EQ(harness_.Ask<JobJoined>(Join("gpt", 2, 1, 201)).job, job);
  EXPECT_TRUE(harness_.Try(Leave(job, 1, 201)).ok());
  EXPECT_EQ(harness_.Ask<JobJoined>(Join("gpt", 2, 1, 201)).job, job) << "also in the same process";
}

TEST_F(MachineJobsTest, PastJobsAreForgottenInTheEnd) {
  for (uint32_t i = 0; i < kMaxPastJobs + 10; ++i) {
    const auto joined = harness_.Ask<JobJoined>(Join("job" + std::to_string(i), 1, 0, 500));
    EXPECT_TRUE(harness_.Try(Leave(joined.job, 0, 500)).ok());
  }
  EXPECT_EQ(harness_.Jobs().size(), kMaxPastJobs);
  EXPECT_EQ(harness_.Ask<ClusterView>(GetCluster()).jobs, 0u);
  EXPECT_THAT(harness_.last_saved()->jobs, ::testing::IsEmpty()) << "they are not worth keeping over a restart";
}

// ---- groups ----

class MachineGroupsTest : public MachineJobsTest {
 protected:
  void AddServer(const std::string& name, uint32_t port) { harness_.Ask<ServerRegistered>(Server(name, port, port)); }
};

TEST_F(MachineGroupsTest, AllRanksGetTheGroupTheMapAndATokenOfTheirOwn) {
  AddServer("a", 1);
  AddServer("b", 2);
  const JobId job = JoinAll(3);
  const std::vector<uint32_t> ranks = {2, 0};
  const RequestHandle rank0 = harness_.Send(Group(job, 0, 100, ranks));
  EXPECT_FALSE(harness_.HasReply(rank0));
  EXPECT_FALSE(OnlyJob(harness_).groups[0].open);
  EXPECT_THAT(OnlyJob(harness_).groups[0].missing_ranks, ElementsAre(JobRank(2)));
  const RequestHandle rank2 = harness_.Send(Group(job, 2, 102, ranks));
  const GroupJoined first = harness_.Get<GroupJoined>(rank0);
  const GroupJoined second = harness_.Get<GroupJoined>(rank2);
  EXPECT_EQ(first.group, second.group);
  EXPECT_EQ(first.map->epoch(), Epoch(2));
  EXPECT_THAT(first.nodes, ElementsAre("node2", "node0"));
  const GroupToken token = *DecodeToken(first.token);
  EXPECT_TRUE(CheckToken(NewState().token_key, token, harness_.now().unix_ms / 1000).ok());
  EXPECT_EQ(token.job, job);
  EXPECT_EQ(token.group, first.group);
  EXPECT_EQ(token.rank, Rank(1)) << "rank 0 of the job stands second in the list";
  EXPECT_EQ(token.incarnation, Incarnation(100));
  EXPECT_EQ(token.group_size, 2u);
  const FlowPlan flow = PlanFlow(EvenPortLoad(3, 2), {}, 0);  // the job's third rank may reduce in another group
  EXPECT_EQ(token.max_chunk_bytes, flow.chunk_bytes);
  EXPECT_EQ(token.credit_chunks, flow.credit_chunks);
  EXPECT_EQ(token.epoch, Epoch(2));
  EXPECT_EQ(token.expires_at_unix_s, harness_.now().unix_ms / 1000 + kTokenLifetimeSeconds);
  EXPECT_EQ(DecodeToken(second.token)->rank, Rank(0));
  const JobView view = OnlyJob(harness_);
  ASSERT_EQ(view.groups.size(), 1u);
  EXPECT_TRUE(view.groups[0].open);
  EXPECT_THAT(view.groups[0].missing_ranks, IsEmpty());
}

TEST_F(MachineGroupsTest, TheSameNameAgainIsANewGroup) {
  AddServer("a", 1);
  const JobId job = JoinAll(1);
  const GroupJoined first = harness_.Ask<GroupJoined>(Group(job, 0, 100, {0}));
  const GroupJoined second = harness_.Ask<GroupJoined>(Group(job, 0, 100, {0}));
  EXPECT_GT(second.group, first.group);
  EXPECT_EQ(OnlyJob(harness_).groups.size(), 1u);
}

TEST_F(MachineGroupsTest, ItWaitsForServers) {
  const JobId job = JoinAll(1);
  JoinGroup request = Group(job, 0, 100, {0}, 60'000);
  request.min_servers = 2;
  const RequestHandle handle = harness_.Send(request);
  AddServer("a", 1);
  EXPECT_FALSE(harness_.HasReply(handle));
  AddServer("b", 2);
  EXPECT_EQ(harness_.Get<GroupJoined>(handle).map->shards().size(), 2u);
}

TEST_F(MachineGroupsTest, TimeUpNamesTheMissingRanksAndServers) {
  const JobId job = harness_.Ask<JobJoined>(Join("gpt", 4, 0, 100)).job;
  harness_.Ask<JobJoined>(Join("gpt", 4, 1, 101));
  harness_.Ask<JobJoined>(Join("gpt", 4, 2, 102));
  EXPECT_TRUE(harness_.Try(Leave(job, 2, 102)).ok());
  AddServer("a", 1);
  JoinGroup request = Group(job, 0, 100, {0, 1, 2, 3}, 2000);
  request.min_servers = 2;
  const RequestHandle handle = harness_.Send(request);
  harness_.Advance(1999);
  EXPECT_FALSE(harness_.HasReply(handle));
  harness_.Advance(1);
  const absl::Status status = harness_.StatusOf(handle);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(status),
              AllOf(HasSubstr("rank 0 waited 2 s in group \"world\""),
                    HasSubstr("rank 1 (on node node1, joined the job, has not asked for the group)"),
                    HasSubstr("rank 2 (on node node2, left: it left)"), HasSubstr("rank 3 (never joined the job)"),
                    HasSubstr("servers (1 of 2 registered)")));
  EXPECT_THAT(OnlyJob(harness_).groups, ::testing::IsEmpty());
}

TEST_F(MachineGroupsTest, TimeUpWithAllRanksThereSpeaksOfServersOnly) {
  const JobId job = JoinAll(1);
  const RequestHandle handle = harness_.Send(Group(job, 0, 100, {0}, 0));
  harness_.Advance(0);
  EXPECT_THAT(Text(harness_.StatusOf(handle)), HasSubstr("for servers (0 of 1 registered)"));
}

TEST_F(MachineGroupsTest, DifferentListsFailEverybodyWhoWaits) {
  AddServer("a", 1);
  const JobId job = JoinAll(3);
  const RequestHandle rank0 = harness_.Send(Group(job, 0, 100, {0, 1, 2}));
  const RequestHandle rank1 = harness_.Send(Group(job, 1, 101, {0, 1}));
  for (const RequestHandle handle : {rank0, rank1}) {
    const absl::Status status = harness_.StatusOf(handle);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(status), AllOf(HasSubstr("rank 0 gave ranks [0, 1, 2]"), HasSubstr("rank 1 gave ranks [0, 1]")));
  }
  const RequestHandle again0 = harness_.Send(Group(job, 0, 100, {0, 1}));
  JoinGroup other_chunks = Group(job, 1, 101, {0, 1});
  other_chunks.max_chunk_bytes = 4096;
  const RequestHandle again1 = harness_.Send(other_chunks);
  EXPECT_THAT(Text(harness_.StatusOf(again0)), AllOf(HasSubstr("any size"), HasSubstr("4096 bytes")));
  EXPECT_EQ(harness_.StatusOf(again1).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MachineGroupsTest, ChunksFollowFromWhatAnOperatorSaysOfThePorts) {
  constexpr uint64_t kPortBytes = 48 << 10;
  harness_ = MachineHarness(std::nullopt, kPortBytes);
  AddServer("a", 1);
  const JobId job = JoinAll(2);
  const RequestHandle rank0 = harness_.Send(Group(job, 0, 100, {0, 1}));
  const RequestHandle rank1 = harness_.Send(Group(job, 1, 101, {0, 1}));
  const FlowPlan flow = PlanFlow(EvenPortLoad(2, 1), {}, 0, kPortBytes);
  EXPECT_NE(flow, PlanFlow(EvenPortLoad(2, 1), {}, 0));
  for (const RequestHandle handle : {rank0, rank1}) {
    EXPECT_EQ(DecodeToken(harness_.Get<GroupJoined>(handle).token)->max_chunk_bytes, flow.chunk_bytes);
  }
  EXPECT_THAT(harness_.events().back().reason, HasSubstr("ports of 49152 bytes"));
}

TEST_F(MachineGroupsTest, ChunksAndCreditFollowFromTheRanksMeasurements) {
  AddServer("a", 1);
  const JobId job = JoinAll(2);
  JoinGroup slow = Group(job, 0, 100, {0, 1});
  slow.link = {.bytes_per_s = 1'000'000'000, .round_trip_ns = 90'000};
  JoinGroup fast = Group(job, 1, 101, {0, 1});
  fast.link = {.bytes_per_s = 4'000'000'000, .round_trip_ns = 200'000};
  const RequestHandle rank0 = harness_.Send(slow);
  const RequestHandle rank1 = harness_.Send(fast);
  const FlowPlan flow = PlanFlow(EvenPortLoad(2, 1), {.bytes_per_s = 4'000'000'000, .round_trip_ns = 90'000}, 0);
  EXPECT_NE(flow, PlanFlow(EvenPortLoad(2, 1), {}, 0));
  for (const RequestHandle handle : {rank0, rank1}) {
    const GroupToken token = *DecodeToken(harness_.Get<GroupJoined>(handle).token);
    EXPECT_EQ(token.max_chunk_bytes, flow.chunk_bytes);
    EXPECT_EQ(token.credit_chunks, flow.credit_chunks);
  }
}

TEST_F(MachineGroupsTest, WhatOneRankHasWithinItsNodeSaysNothingOfOthersLinks) {
  AddServer("a", 1);
  const JobId job = JoinAll(2);
  const LinkFacts measured{.bytes_per_s = 50'000'000, .round_trip_ns = 90'000, .message_ns = 9'000};
  const LinkFacts nothing;
  for (const LinkFacts& of_other : {measured, nothing, WithinOneNode()}) {
    JoinGroup beside_server = Group(job, 0, 100, {0, 1});
    beside_server.link = WithinOneNode();
    JoinGroup other = Group(job, 1, 101, {0, 1});
    other.link = of_other;
    harness_.Send(beside_server);
    const GroupJoined joined = harness_.Get<GroupJoined>(harness_.Send(other));
    EXPECT_EQ(joined.link, of_other);
    EXPECT_EQ(DecodeToken(joined.token)->max_chunk_bytes, PlanFlow(EvenPortLoad(2, 1), of_other, 0).chunk_bytes);
  }
}

TEST_F(MachineGroupsTest, WithinOneNodeTheThreadsOfServersCountAndNotItsPort) {
  RegisterServer server = Server("a", 1, 1);
  server.addresses.push_back("127.0.0.1:2");
  harness_.Ask<ServerRegistered>(server);
  JobId job;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    JoinJob join = Join("gpt", 2, rank, 100 + rank);
    join.node = server.node;
    job = harness_.Ask<JobJoined>(join).job;
  }
  // One of them could not see the servers in time.
  JoinGroup first = Group(job, 0, 100, {0, 1});
  first.link = WithinOneNode();
  harness_.Send(first);
  const GroupJoined joined = harness_.Get<GroupJoined>(harness_.Send(Group(job, 1, 101, {0, 1})));
  EXPECT_EQ(joined.link, WithinOneNode());
  const FlowPlan flow = PlanFlow(EvenPortLoad(2, 2), WithinOneNode(), 0);
  EXPECT_EQ(DecodeToken(joined.token)->max_chunk_bytes, flow.chunk_bytes);
  EXPECT_EQ(DecodeToken(joined.token)->credit_chunks, flow.credit_chunks);
  EXPECT_EQ(joined.busiest_port, 1);
}

TEST_F(MachineGroupsTest, DifferentWiresFailEverybodyWhoWaits) {
  AddServer("a", 1);
  const JobId job = JoinAll(2);
  const RequestHandle plain = harness_.Send(Group(job, 0, 100, {0, 1}));
  JoinGroup narrow = Group(job, 1, 101, {0, 1});
  narrow.wire = static_cast<uint32_t>(WireFormat::kBfloat16);
  const RequestHandle other = harness_.Send(narrow);
  for (const RequestHandle handle : {plain, other}) {
    EXPECT_EQ(harness_.StatusOf(handle).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(harness_.StatusOf(handle)), AllOf(HasSubstr("rank 0 gave"), HasSubstr("wire none"),
                                                       HasSubstr("rank 1 gave"), HasSubstr("wire bf16")));
  }
  JoinGroup also_narrow = Group(job, 0, 100, {0, 1});
  also_narrow.wire = narrow.wire;
  harness_.Send(also_narrow);
  EXPECT_EQ(harness_.Ask<GroupJoined>(narrow).nodes.size(), 2u);
  const JobView view = OnlyJob(harness_);
  ASSERT_EQ(view.groups.size(), 1u);
  EXPECT_EQ(view.groups[0].state.wire, WireFormat::kBfloat16);
  EXPECT_EQ(harness_.last_saved()->jobs.at(0).groups.at(0).wire, WireFormat::kBfloat16);
}

TEST_F(MachineGroupsTest, BadRequestsAreRefusedByValue) {
  const JobId job = JoinAll(2);
  struct Case {
    JoinGroup request;
    absl::StatusCode code;
    std::string message;
  };
  JoinGroup small_chunks = Group(job, 0, 100, {0, 1});
  small_chunks.max_chunk_bytes = 10;
  JoinGroup unknown_wire = Group(job, 0, 100, {0, 1});
  unknown_wire.wire = 6;
  JoinGroup nameless = Group(job, 0, 100, {0, 1});
  nameless.group_name.clear();
  const Case cases[] = {
      {Group(job, 0, 100, {}), absl::StatusCode::kInvalidArgument, "lists 0 ranks"},
      {Group(job, 0, 100, {0, 2}), absl::StatusCode::kInvalidArgument, "lists rank 2, but the job has world size 2"},
      {Group(job, 0, 100, {0, 0}), absl::StatusCode::kInvalidArgument, "rank 0 twice"},
      {Group(job, 0, 100, {1}), absl::StatusCode::kInvalidArgument, "does not contain that rank"},
      {small_chunks, absl::StatusCode::kInvalidArgument, "chunk size of 10 bytes"},
      {unknown_wire, absl::StatusCode::kInvalidArgument,
       "asks for wire 6; give one of 0 (none), 3 (fp16), 4 (bf16), 5 (int8), 10 (fp8)"},
      {nameless, absl::StatusCode::kInvalidArgument, "group name"},
      {Group(job, 0, 999, {0, 1}), absl::StatusCode::kNotFound, "join the job first"},
      {Group(JobId(99), 0, 100, {0, 1}), absl::StatusCode::kNotFound, "no job has id 99"},
  };
  for (const Case& c : cases) {
    const absl::Status status = harness_.Try(c.request);
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_THAT(Text(status), HasSubstr(c.message));
  }
}

TEST_F(MachineGroupsTest, ALostRankFailsTheGroupsThatWait) {
  const JobId job = JoinAll(3);
  const RequestHandle handle = harness_.Send(Group(job, 0, 100, {0, 1}, 60'000));
  EXPECT_TRUE(harness_.Try(Leave(job, 2, 102, true, "killed")).ok());
  const absl::Status status = harness_.StatusOf(handle);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Text(status), HasSubstr("rank 2 of job \"gpt\" on node node2 was lost: killed"));
  const absl::Status later = harness_.Try(Group(job, 1, 101, {0, 1}));
  EXPECT_EQ(later.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Text(later), HasSubstr("killed"));
}

TEST_F(MachineGroupsTest, ALostRankHearsTheSameOfARequestThatWaitsAndOfALaterOne) {
  AddServer("a", 1);
  const JobId job = JoinAll(2);
  const RequestHandle waiting = harness_.Send(Group(job, 0, 100, {0, 1}, /*wait_ms=*/20'000));
  for (int second = 0; second < 6; ++second) {
    harness_.Advance(1000);
    EXPECT_TRUE(harness_.Try(Beat(job, 1, 101)).ok());
  }
  const absl::Status refusal = harness_.StatusOf(waiting);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Text(refusal), HasSubstr("rank 0 of job \"gpt\" on node node0 is lost (no heartbeat for 5"));
  EXPECT_EQ(harness_.Try(Group(job, 0, 100, {0, 1})), refusal);
}

TEST_F(MachineGroupsTest, ARepeatedRequestReplacesTheFirst) {
  AddServer("a", 1);
  const JobId job = JoinAll(2);
  const RequestHandle first = harness_.Send(Group(job, 0, 100, {0, 1}));
  const RequestHandle second = harness_.Send(Group(job, 0, 100, {0, 1}));
  EXPECT_EQ(harness_.StatusOf(first).code(), absl::StatusCode::kAborted);
  harness_.Send(Group(job, 1, 101, {0, 1}));
  EXPECT_TRUE(harness_.StatusOf(second).ok());
}

TEST_F(MachineGroupsTest, ACancelledRequestDoesNotCount) {
  AddServer("a", 1);
  const JobId job = JoinAll(2);
  const RequestHandle first = harness_.Send(Group(job, 0, 100, {0, 1}));
  harness_.StepEvent(RequestCancelled{first});
  const RequestHandle second = harness_.Send(Group(job, 1, 101, {0, 1}));
  EXPECT_FALSE(harness_.HasReply(first) || harness_.HasReply(second));
}

TEST_F(MachineGroupsTest, GroupIdsAreSavedBeforeTheyAreGivenOut) {
  AddServer("a", 1);
  const JobId job = JoinAll(1);
  harness_.set_save_at_once(false);
  const RequestHandle handle = harness_.Send(Group(job, 0, 100, {0}));
  EXPECT_FALSE(harness_.HasReply(handle));
  harness_.FinishSave();
  const GroupJoined joined = harness_.Get<GroupJoined>(handle);
  EXPECT_GT(harness_.last_saved()->next_group_id, joined.group.value());
}

TEST_F(MachineGroupsTest, ARestartedSchedulerKnowsTheRunningJob) {
  AddServer("a", 1);
  const JobId job = JoinAll(2);
  harness_.Send(Group(job, 0, 100, {0, 1}));
  harness_.Send(Group(job, 1, 101, {0, 1}));
  MachineHarness after(harness_.last_saved());
  const JobView view = OnlyJob(after);
  EXPECT_EQ(view.phase, JobPhase::kRunning);
  EXPECT_EQ(view.groups.size(), 1u);
  for (int beat = 0; beat < 5; ++beat) {
    EXPECT_TRUE(after.Try(Beat(job, 0, 100)).ok());
    after.Advance(beat < 4 ? kTtlMs / 5 : kTtlMs / 5 - 1);
  }
  EXPECT_EQ(after.Ask<JobJoined>(Join("gpt", 2, 0, 100)).job, job);
  const WatcherId watcher = after.Watch(job);
  after.Advance(1);
  ASSERT_EQ(after.watched(watcher).size(), 3u) << "first the state, then the map without the server, then the loss";
  EXPECT_EQ(after.watched(watcher)[2].lost_ranks[0].rank, JobRank(1));
  MachineHarness again(after.last_saved());
  EXPECT_EQ(OnlyJob(again).phase, JobPhase::kFailed);
  EXPECT_THAT(Text(again.Try(Group(job, 0, 100, {0, 1}))), HasSubstr("rank 1 of job \"gpt\" on node node1 was lost"));
}

}  // namespace
}  // namespace shoal::scheduler
