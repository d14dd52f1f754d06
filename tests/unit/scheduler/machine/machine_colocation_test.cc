// Colocated servers: which ranks are asked to run one, which groups may use them, and with which shares.
#include <functional>
#include <string>
#include <vector>

#include "core/colocation.h"
#include "core/node_reduce.h"
#include "core/token.h"
#include "scheduler/store/state_codec.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JoinJob Offer(const std::string& job, uint32_t world_size, uint32_t rank, Colocation colocation = Colocation::kAuto) {
  JoinJob request = Join(job, world_size, rank, 100 + rank);
  request.colocation = static_cast<uint32_t>(colocation);
  return request;
}

// A rank of a job with as many ranks on each node, which can reduce there first.
JoinJob OfferOnNode(uint32_t world_size, uint32_t rank, uint32_t local_world_size) {
  JoinJob request = Offer("gpt", world_size, rank);
  request.node = "node" + std::to_string(rank / local_world_size);
  request.node_reduce = {.possible = true, .node_identity = "boot of " + request.node, .can_rails = true};
  request.local_world_size = local_world_size;
  return request;
}

RegisterServer ServerOfRank(JobId job, uint32_t rank) {
  RegisterServer request = Server("node" + std::to_string(rank) + "-job" + std::to_string(job.value()), 500 + rank,
                                  static_cast<uint32_t>(5000 + 100 * job.value() + rank));
  request.node = "node" + std::to_string(rank);
  request.job = job;
  return request;
}

class MachineColocationTest : public ::testing::Test {
 protected:
  void AddDedicated(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      harness_.Ask<ServerRegistered>(Server("dedicated-" + std::to_string(i), 10 + i, 1000 + i));
    }
  }

  // All ranks join, and those that are asked to run a colocated server register it. Returns how many were asked.
  uint32_t JoinAndColocate(uint32_t world_size, Colocation colocation = Colocation::kAuto) {
    uint32_t colocated = 0;
    for (uint32_t rank = 0; rank < world_size; ++rank) {
      const auto joined = harness_.Ask<JobJoined>(Offer("gpt", world_size, rank, colocation));
      job_ = joined.job;
      if (!joined.colocate_server) continue;
      ++colocated;
      harness_.Ask<ServerRegistered>(ServerOfRank(job_, rank));
    }
    return colocated;
  }

  // In rank order.
  static std::vector<JoinJob> EveryRankOf(uint32_t nodes, uint32_t ranks_per_node) {
    std::vector<JoinJob> ranks;
    for (uint32_t rank = 0; rank < nodes * ranks_per_node; ++rank) {
      ranks.push_back(OfferOnNode(nodes * ranks_per_node, rank, ranks_per_node));
    }
    return ranks;
  }

  // All ranks of a new job join. Returns those that are asked to run a colocated server.
  std::vector<uint32_t> Asked(std::vector<JoinJob> ranks) {
    const std::string job = "job-" + std::to_string(++jobs_);
    std::vector<uint32_t> asked;
    for (JoinJob& rank : ranks) {
      rank.job_name = job;
      if (harness_.Ask<JobJoined>(rank).colocate_server) asked.push_back(rank.rank.value());
    }
    return asked;
  }

  GroupJoined OpenGroup(std::vector<uint32_t> ranks) {
    std::vector<RequestHandle> handles;
    for (const uint32_t rank : ranks) handles.push_back(harness_.Send(Group(job_, rank, 100 + rank, ranks)));
    return harness_.Get<GroupJoined>(handles.front());
  }

  // By name of the server.
  static std::map<std::string, uint32_t> Weights(const GroupJoined& group) {
    std::map<std::string, uint32_t> weights;
    for (const Shard& shard : group.map->shards()) weights[shard.server_name] = shard.weight;
    return weights;
  }

  MachineHarness harness_;
  JobId job_;
  uint32_t jobs_ = 0;
};

TEST_F(MachineColocationTest, AutoAsksEveryNodeWhereServersAreFewerThanRanks) {
  AddDedicated(3);
  EXPECT_EQ(JoinAndColocate(4), 4u);
}

TEST_F(MachineColocationTest, AutoAsksNobodyWhereThereAreEnoughServers) {
  AddDedicated(4);
  EXPECT_EQ(JoinAndColocate(4), 0u);
}

TEST_F(MachineColocationTest, AutoAsksNobodyOnANodeThatHasAServer) {
  RegisterServer server = Server("here", 11, 1);
  server.node = "node2";
  harness_.Ask<ServerRegistered>(server);
  EXPECT_EQ(JoinAndColocate(4), 3u);
}

TEST_F(MachineColocationTest, AutoCountsNodesWhereRanksReduceWithinTheirsFirst) {
  AddDedicated(1);
  EXPECT_THAT(Asked(EveryRankOf(2, 4)), ElementsAre(0u, 4u)) << "one rank of each node";
  EXPECT_THAT(Asked(EveryRankOf(1, 4)), IsEmpty());
  AddDedicated(2);
  EXPECT_THAT(Asked(EveryRankOf(2, 4)), IsEmpty()) << "with as many servers as nodes they would have weight 0";
  EXPECT_THAT(Asked(EveryRankOf(4, 2)), ElementsAre(0u, 2u, 4u, 6u));
}

TEST_F(MachineColocationTest, AutoCountsRanksWhereTheirGroupsAreFlat) {
  AddDedicated(2);
  const std::vector<JoinJob> rails = EveryRankOf(2, 4);
  ASSERT_THAT(Asked(rails), IsEmpty());
  const auto asked_if = [&](const std::function<void(JoinJob*)>& change) {
    std::vector<JoinJob> ranks = rails;
    for (JoinJob& rank : ranks) change(&rank);
    return Asked(ranks);
  };
  const auto one_of_each_node = ElementsAre(0u, 4u);
  EXPECT_THAT(
      asked_if([](JoinJob* rank) { rank->node_reduce->choice = static_cast<uint32_t>(NodeReduceChoice::kOff); }),
      one_of_each_node);
  EXPECT_THAT(asked_if([](JoinJob* rank) { rank->node_reduce->possible = false; }), one_of_each_node);
  EXPECT_THAT(asked_if([](JoinJob* rank) { rank->node_reduce->can_rails = false; }), one_of_each_node);
  EXPECT_THAT(asked_if([](JoinJob* rank) { rank->node_reduce->node_identity.clear(); }), one_of_each_node);
  EXPECT_THAT(asked_if([](JoinJob* rank) { rank->node_reduce.reset(); }), one_of_each_node) << "an older process";
  EXPECT_THAT(asked_if([](JoinJob* rank) { rank->local_world_size = 0; }), one_of_each_node) << "not known, or older";
  EXPECT_THAT(asked_if([](JoinJob* rank) { rank->local_world_size = 3; }), one_of_each_node) << "unequal nodes";
  EXPECT_THAT(asked_if([](JoinJob* rank) { rank->local_world_size = 16; }), one_of_each_node) << "that can't be";
}

TEST_F(MachineColocationTest, ARestartedSchedulerAsksTheSameRanks) {
  for (const uint32_t servers : {1u, 2u}) {
    harness_ = MachineHarness();
    AddDedicated(servers);
    const std::vector<JoinJob> ranks = EveryRankOf(2, 4);
    EXPECT_EQ(harness_.Ask<JobJoined>(ranks[0]).colocate_server, servers == 1);
    MachineHarness restarted(*harness_.last_saved());
    EXPECT_FALSE(restarted.Ask<JobJoined>(ranks[0]).colocate_server) << "it has its answer";
    EXPECT_EQ(restarted.Ask<JobJoined>(ranks[4]).colocate_server, servers == 1);
    EXPECT_FALSE(restarted.Ask<JobJoined>(ranks[5]).colocate_server);
  }
}

TEST_F(MachineColocationTest, OnAsksEveryNodeAndOffNobody) {
  AddDedicated(8);
  EXPECT_EQ(JoinAndColocate(2, Colocation::kOff), 0u);
  EXPECT_FALSE(harness_.Ask<JobJoined>(Offer("other", 2, 0, Colocation::kOff)).colocate_server);
  EXPECT_TRUE(harness_.Ask<JobJoined>(Offer("another", 2, 0, Colocation::kOn)).colocate_server);
}

TEST_F(MachineColocationTest, OneRankOfANodeIsAskedAndKeepsItsAnswer) {
  JoinJob second = Offer("gpt", 3, 1);
  second.node = "node0";
  EXPECT_TRUE(harness_.Ask<JobJoined>(Offer("gpt", 3, 0)).colocate_server);
  EXPECT_FALSE(harness_.Ask<JobJoined>(second).colocate_server);
  EXPECT_TRUE(harness_.Ask<JobJoined>(Offer("gpt", 3, 2)).colocate_server);
  EXPECT_TRUE(harness_.Ask<JobJoined>(Offer("gpt", 3, 0)).colocate_server) << "the same process asked again";
  EXPECT_FALSE(harness_.Ask<JobJoined>(second).colocate_server);
}

TEST_F(MachineColocationTest, WithoutAnyDedicatedServerTheRanksServersCarryEqualShares) {
  ASSERT_EQ(JoinAndColocate(4), 4u);
  const GroupJoined group = OpenGroup({0, 1, 2, 3});
  ASSERT_EQ(group.map->shards().size(), 4u);
  for (const auto& [name, weight] : Weights(group)) EXPECT_EQ(weight, 1u) << name;
  EXPECT_EQ(group.look_ahead_chunks, 0u) << "equal shares need no pacing";
}

TEST_F(MachineColocationTest, WeightsFollowTheFormulaAndEveryRankGetsTheSame) {
  AddDedicated(4);
  ASSERT_EQ(JoinAndColocate(8), 8u);
  const GroupJoined group = OpenGroup({0, 1, 2, 3, 4, 5, 6, 7});
  ASSERT_EQ(group.map->shards().size(), 12u);
  for (const auto& [name, weight] : Weights(group)) {
    EXPECT_EQ(weight, name.starts_with("dedicated") ? 7u : 2u) << name;
  }
  EXPECT_GT(group.look_ahead_chunks, 12u);
  EXPECT_THAT(harness_.events().back().reason, AllOf(HasSubstr("4 servers on their own nodes (weight 7)"),
                                                     HasSubstr("8 servers on ranks' nodes (weight 2)")));
}

TEST_F(MachineColocationTest, AGroupUsesTheServersOfItsOwnNodesAlone) {
  AddDedicated(1);
  ASSERT_EQ(JoinAndColocate(4), 4u);
  const std::map<std::string, uint32_t> weights = Weights(OpenGroup({1, 3}));
  EXPECT_EQ(weights.size(), 3u);
  EXPECT_TRUE(weights.contains("node1-job1"));
  EXPECT_TRUE(weights.contains("node3-job1"));
  EXPECT_TRUE(weights.contains("dedicated-0"));
}

TEST_F(MachineColocationTest, AGroupWaitsForAServerOnANodeOfItsOwn) {
  for (const uint32_t rank : {0u, 1u}) job_ = harness_.Ask<JobJoined>(Offer("gpt", 2, rank)).job;
  harness_.Ask<ServerRegistered>(ServerOfRank(job_, 0));
  const RequestHandle gives_up = harness_.Send(Group(job_, 1, 101, {1}, 100));
  harness_.Advance(101);
  EXPECT_THAT(std::string(harness_.StatusOf(gives_up).message()),
              HasSubstr("for a server that may serve it (all 1 of the job are colocated with ranks on other nodes"));
  const RequestHandle waits = harness_.Send(Group(job_, 1, 101, {1}));
  EXPECT_FALSE(harness_.HasReply(waits));
  harness_.Ask<ServerRegistered>(ServerOfRank(job_, 1));
  EXPECT_EQ(harness_.Get<GroupJoined>(waits).map->shards().size(), 1u);
}

TEST_F(MachineColocationTest, OtherJobsDontUseOrCountThem) {
  ASSERT_EQ(JoinAndColocate(2), 2u);
  EXPECT_EQ(harness_.Ask<JobJoined>(Offer("gpt", 2, 0)).server_count, 2u);
  const auto other = harness_.Ask<JobJoined>(Join("bert", 1, 0, 300));
  EXPECT_EQ(other.server_count, 0u);
  const RequestHandle waiting = harness_.Send(Group(other.job, 0, 300, {0}));
  EXPECT_FALSE(harness_.HasReply(waiting)) << "no server serves that job";
  const auto map = harness_.Ask<std::shared_ptr<const ShardMap>>(GetShardMap());
  EXPECT_THAT(map->shards(), IsEmpty()) << "the cluster's map has the servers that serve all";
  AddDedicated(1);
  EXPECT_EQ(harness_.Get<GroupJoined>(waiting).map->shards().size(), 1u);
}

TEST_F(MachineColocationTest, TheClusterCountsThemByThemselves) {
  AddDedicated(1);
  const ServerId heard = harness_.Ask<ServerRegistered>(Server("heard", 20, 2000)).server;
  ASSERT_EQ(JoinAndColocate(3), 3u);
  const auto cluster = harness_.Ask<ClusterView>(GetCluster());
  EXPECT_EQ(cluster.servers_live, 2u);
  EXPECT_EQ(cluster.servers_colocated, 3u);
  EXPECT_EQ(cluster.servers_lost, 0u);
  for (int i = 0; i < 6; ++i) {
    harness_.Advance(kTtlMs / 3);
    harness_.Ask<ServerRenewed>(HeartbeatServer{.server = heard, .incarnation = Incarnation(20), .load = {}});
  }
  const auto later = harness_.Ask<ClusterView>(GetCluster());
  EXPECT_EQ(later.servers_live, 1u);
  EXPECT_EQ(later.servers_colocated, 0u);
  EXPECT_EQ(later.servers_lost, 1u) << "those of ranks that are lost are no loss of their own";
}

TEST_F(MachineColocationTest, AServerForAJobThatIsNotOpenIsRefused) {
  const absl::Status unknown = harness_.Try(ServerOfRank(JobId(77), 0));
  EXPECT_EQ(unknown.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("job 77, which is not open here"));
  JoinAndColocate(1);
  harness_.Send(Leave(job_, 0, 100));
  EXPECT_EQ(harness_.Try(ServerOfRank(job_, 0)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(MachineColocationTest, AnUnknownColocationIsRefused) {
  JoinJob request = Join("gpt", 1, 0, 100);
  request.colocation = 9;
  const absl::Status status = harness_.Try(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("asks for colocation 9; give 0 (off), 1 (auto) or 2 (on)"));
}

TEST_F(MachineColocationTest, ARestartedSchedulerKnowsWhoseServersTheyAre) {
  AddDedicated(2);
  ASSERT_EQ(JoinAndColocate(4), 4u);
  const absl::StatusOr<PersistedState> state = DecodeState(EncodeState(*harness_.last_saved()));
  ASSERT_TRUE(state.ok()) << state.status();
  MachineHarness restarted(*state);
  const auto views = restarted.Servers();
  EXPECT_EQ(std::count_if(views.begin(), views.end(), [&](const ServerView& view) { return view.state.job == job_; }),
            4);
  EXPECT_EQ(restarted.Ask<JobJoined>(Offer("gpt", 4, 0)).server_count, 6u);
}

TEST_F(MachineColocationTest, ServersOfEndedJobsMakeRoomBeforeDedicatedOnes) {
  AddDedicated(1);
  const auto dedicated = harness_.Ask<ServerRegistered>(Server("old", 99, 9));
  DeregisterServer gone;
  gone.server = dedicated.server;
  gone.incarnation = Incarnation(99);
  ASSERT_TRUE(harness_.Try(gone).ok());
  ASSERT_EQ(JoinAndColocate(1, Colocation::kOn), 1u);
  for (uint32_t i = 0; i < kMaxGoneServers + 10; ++i) {
    RegisterServer server = ServerOfRank(job_, 0);
    server.name = "passing-" + std::to_string(i);
    server.addresses = {"10.0.0.2:" + std::to_string(1 + i)};
    gone.server = harness_.Ask<ServerRegistered>(server).server;
    gone.incarnation = server.incarnation;
    ASSERT_TRUE(harness_.Try(gone).ok());
  }
  std::vector<std::string> names;
  for (const ServerView& view : harness_.Servers()) names.push_back(view.state.name);
  EXPECT_THAT(names, Contains("old"));
  EXPECT_EQ(names.size(), kMaxGoneServers + 2);
}

}  // namespace
}  // namespace shoal::scheduler
