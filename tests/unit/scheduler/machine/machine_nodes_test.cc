// Nodes of one name, and several names on one node: plans go by boot ids where members tell them, and by names where
// they don't.
#include <algorithm>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/colocation.h"
#include "core/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

struct Place {
  std::string node;
  std::string boot_id;
};

// What the scheduler made of where the members are. Weights are by server, dedicated ones first.
struct Plan {
  std::vector<uint32_t> asked_for_servers;
  std::vector<uint32_t> weights;
  uint32_t chunk_bytes = 0;
  uint32_t credit_chunks = 0;
  uint32_t look_ahead_chunks = 0;
  double busiest_port = 0;
  double busiest_link = 0;

  friend bool operator==(const Plan&, const Plan&) = default;
  friend void PrintTo(const Plan& plan, std::ostream* out) {
    *out << "servers asked of " << ::testing::PrintToString(plan.asked_for_servers) << ", weights "
         << ::testing::PrintToString(plan.weights) << ", " << plan.credit_chunks << " chunks of " << plan.chunk_bytes
         << " bytes, " << plan.look_ahead_chunks << " ahead, busiest port " << plan.busiest_port;
  }
};

class MachineNodesTest : public ::testing::Test {
 protected:
  void AddServer(const Place& place, uint32_t number, JobId job = JobId()) {
    RegisterServer server = Server("s" + std::to_string(number), 500 + number, 5000 + number);
    server.node = place.node;
    server.boot_id = place.boot_id;
    server.job = job;
    harness_.Ask<ServerRegistered>(server);
  }
  // Returns those that are asked to run a colocated server, which do so.
  std::vector<uint32_t> JoinAll(const std::vector<Place>& ranks, Colocation colocation) {
    std::vector<uint32_t> asked;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      JoinJob join = Join("gpt", static_cast<uint32_t>(ranks.size()), rank, 100 + rank);
      join.node = ranks[rank].node;
      join.boot_id = ranks[rank].boot_id;
      join.colocation = static_cast<uint32_t>(colocation);
      join.colocates_without_servers = true;
      const auto joined = harness_.Ask<JobJoined>(join);
      job_ = joined.job;
      if (!joined.colocate_server) continue;
      asked.push_back(rank);
      AddServer(ranks[rank], 100 + rank, job_);
    }
    return asked;
  }
  GroupJoined OpenGroup(const std::vector<uint32_t>& ranks) {
    std::vector<RequestHandle> handles;
    for (const uint32_t rank : ranks) handles.push_back(harness_.Send(Group(job_, rank, 100 + rank, ranks)));
    return harness_.Get<GroupJoined>(handles.front());
  }
  GroupJoined OpenGroupOfAll() {
    std::vector<uint32_t> all;
    for (uint32_t rank = 0; rank < harness_.Jobs().at(0).world_size; ++rank) all.push_back(rank);
    return OpenGroup(all);
  }
  Plan PlanOf(const GroupJoined& group) {
    const GroupToken token = *DecodeToken(group.token);
    Plan plan{.chunk_bytes = token.max_chunk_bytes,
              .credit_chunks = token.credit_chunks,
              .look_ahead_chunks = group.look_ahead_chunks,
              .busiest_port = group.busiest_port,
              .busiest_link = group.busiest_link};
    for (const Shard& shard : group.map->shards()) plan.weights.push_back(shard.weight);
    return plan;
  }
  // A new cluster with these dedicated servers and a job of these ranks.
  Plan PlanFor(const std::vector<Place>& ranks, const std::vector<Place>& servers,
               Colocation colocation = Colocation::kOn) {
    harness_ = MachineHarness();
    for (uint32_t i = 0; i < servers.size(); ++i) AddServer(servers[i], i);
    std::vector<uint32_t> asked = JoinAll(ranks, colocation);
    Plan plan = PlanOf(OpenGroupOfAll());
    plan.asked_for_servers = std::move(asked);
    return plan;
  }

  MachineHarness harness_;
  JobId job_;
};

const std::vector<Place> kTwoNamedNodes = {{"a", ""}, {"a", ""}, {"b", ""}, {"b", ""}};
const std::vector<Place> kTwoNodesOfOneName = {
    {"localhost", "boot 1"}, {"localhost", "boot 1"}, {"localhost", "boot 2"}, {"localhost", "boot 2"}};

TEST_F(MachineNodesTest, NodesOfOneNameArePlannedAsIfEachHadItsOwn) {
  EXPECT_EQ(PlanFor(kTwoNodesOfOneName, {}), PlanFor(kTwoNamedNodes, {})) << "one colocated server on each";
  EXPECT_THAT(PlanFor(kTwoNodesOfOneName, {}).asked_for_servers, ElementsAre(0u, 2u));
  const std::vector<Place> named = {{"c", ""}};
  const std::vector<Place> of_one_name = {{"localhost", "boot 3"}};
  EXPECT_EQ(PlanFor(kTwoNodesOfOneName, of_one_name), PlanFor(kTwoNamedNodes, named));
  EXPECT_THAT(PlanFor(kTwoNodesOfOneName, of_one_name).weights, Not(Contains(0u))) << "the dedicated one has its share";
  EXPECT_EQ(PlanFor(kTwoNodesOfOneName, of_one_name, Colocation::kOff),
            PlanFor(kTwoNamedNodes, named, Colocation::kOff));
}

TEST_F(MachineNodesTest, TheWindowIsThatOfTheRanksOfOneNode) {
  std::vector<Place> ranks;
  for (int i = 0; i < 8; ++i) ranks.push_back({"localhost", "boot " + std::to_string(i / 2)});
  std::vector<Place> servers;
  for (int i = 0; i < 8; ++i) servers.push_back({"localhost", "boot of server " + std::to_string(i)});
  EXPECT_EQ(PlanFor(ranks, servers, Colocation::kOff).busiest_port, 2) << "not the 8 ranks of the name";
}

// Hybrid sharding: the ranks with the same local index reduce together, all of these groups at the same time.
TEST_F(MachineNodesTest, ReplicasOfANodesRanksShareItsPortAsOneGroupWould) {
  std::vector<Place> ranks;
  for (int i = 0; i < 8; ++i) ranks.push_back({"node-" + std::to_string(i / 4), ""});
  const std::vector<Place> servers = {{"c", ""}, {"d", ""}};
  const Plan of_all = PlanFor(ranks, servers, Colocation::kOff);
  const Plan replica = PlanOf(OpenGroup({1, 5}));
  EXPECT_EQ(replica.busiest_port, 4);
  EXPECT_EQ(replica.busiest_port, of_all.busiest_port);
  EXPECT_EQ(replica.chunk_bytes, of_all.chunk_bytes);
  EXPECT_EQ(replica.credit_chunks, of_all.credit_chunks);
  EXPECT_EQ(replica.busiest_link, 1) << "what an all-reduce of this group alone takes";
}

// The stages of a pipeline: groups on nodes of their own have the dedicated servers in common, and no colocated ones.
TEST_F(MachineNodesTest, GroupsOnOtherNodesOfTheJobMeetAtDedicatedServers) {
  std::vector<Place> ranks;
  for (int i = 0; i < 8; ++i) ranks.push_back({"node-" + std::to_string(i / 2), ""});
  const Plan of_all = PlanFor(ranks, {{"c", ""}}, Colocation::kOff);
  const Plan stage = PlanOf(OpenGroup({0, 1, 2, 3}));
  EXPECT_EQ(stage.busiest_port, 8);
  EXPECT_EQ(stage.chunk_bytes, of_all.chunk_bytes);
  EXPECT_EQ(stage.busiest_link, 4) << "what an all-reduce of this group alone takes";
  PlanFor(ranks, {});
  EXPECT_EQ(PlanOf(OpenGroup({0, 1, 2, 3})).busiest_port, 2) << "two colocated servers, for four ranks";
  EXPECT_EQ(PlanOf(OpenGroup({0, 2})).busiest_port, 2) << "and for the other two on these nodes as well";
}

// A process joins a job with its first group.
TEST_F(MachineNodesTest, RanksThatAreStillToComeCountAsThoseThatAreThere) {
  for (uint32_t i = 0; i < 2; ++i) AddServer({"server-" + std::to_string(i), ""}, i);
  for (const uint32_t rank : {0u, 4u}) {
    JoinJob join = Join("gpt", 8, rank, 100 + rank);
    join.node = "node-" + std::to_string(rank / 4);
    job_ = harness_.Ask<JobJoined>(join).job;
  }
  EXPECT_EQ(PlanOf(OpenGroup({0, 4})).busiest_port, 4);
}

TEST_F(MachineNodesTest, RanksThatHaveLeftDoNotCount) {
  std::vector<Place> ranks;
  for (int i = 0; i < 4; ++i) ranks.push_back({"node-" + std::to_string(i / 2), ""});
  PlanFor(ranks, {{"c", ""}}, Colocation::kOff);
  harness_.Ask<Done>(LeaveJob{.job = job_, .rank = JobRank(3), .incarnation = Incarnation(103)});
  EXPECT_EQ(PlanOf(OpenGroup({0, 2})).busiest_port, 3);
}

TEST_F(MachineNodesTest, ALinkCarriesWhatItsRankPushesAndWhatItsServerSends) {
  std::vector<Place> ranks;
  for (int i = 0; i < 4; ++i) ranks.push_back({"node-" + std::to_string(i), ""});
  const Plan plan = PlanFor(ranks, {});
  EXPECT_THAT(plan.asked_for_servers, SizeIs(4));
  EXPECT_DOUBLE_EQ(plan.busiest_port, 1);
  EXPECT_DOUBLE_EQ(plan.busiest_link, 2.0 * 3 / 4);
}

TEST_F(MachineNodesTest, PodsOfOneComputerShareItsNetworkCard) {
  const std::vector<Place> pods = {{"pod-0", "boot 1"}, {"pod-1", "boot 1"}, {"pod-2", "boot 2"}, {"pod-3", "boot 2"}};
  EXPECT_EQ(PlanFor(pods, {}), PlanFor(kTwoNamedNodes, {}));
  const std::vector<Place> pod_beside = {{"pod-4", "boot 1"}};
  EXPECT_EQ(PlanFor(pods, pod_beside, Colocation::kAuto), PlanFor(kTwoNamedNodes, {{"a", ""}}, Colocation::kAuto))
      << "no colocated server beside a dedicated one";
}

TEST_F(MachineNodesTest, AColocatedServerServesTheRanksOfItsComputerAlone) {
  JoinAll(kTwoNodesOfOneName, Colocation::kOn);
  EXPECT_EQ(OpenGroup({0, 1}).map->shards().size(), 1u);
  EXPECT_EQ(OpenGroup({0, 1}).map->shards()[0].server_name, "s100");
  EXPECT_EQ(OpenGroup({2, 3}).map->shards()[0].server_name, "s102");
  harness_ = MachineHarness();
  JoinAll({{"pod-0", "boot 1"}, {"pod-1", "boot 1"}}, Colocation::kOn);
  EXPECT_EQ(OpenGroup({1}).map->shards()[0].server_name, "s100");
}

// As long as some processes are of an older version, which tell no boot id.
TEST_F(MachineNodesTest, WhereSomeTellNoBootIdTheirNamesCount) {
  const std::vector<Place> half_old = {{"a", "boot 1"}, {"a", ""}, {"b", ""}, {"b", "boot 2"}};
  EXPECT_EQ(PlanFor(half_old, {}), PlanFor(kTwoNamedNodes, {}));
  EXPECT_EQ(PlanFor(half_old, {{"b", ""}}), PlanFor(kTwoNamedNodes, {{"b", ""}}));
  EXPECT_EQ(PlanFor(kTwoNamedNodes, {{"b", "boot 2"}}), PlanFor(kTwoNamedNodes, {{"b", ""}}));
  EXPECT_EQ(PlanFor({{"a", "boot 1"}, {"a", "boot 1"}, {"b", "boot 2"}, {"b", "boot 2"}}, {{"b", ""}}),
            PlanFor(kTwoNamedNodes, {{"b", ""}}));
}

TEST_F(MachineNodesTest, ARestartedSchedulerKnowsThemStill) {
  const Plan plan = PlanFor(kTwoNodesOfOneName, {{"localhost", "boot 3"}});
  harness_ = MachineHarness(*harness_.last_saved());
  Plan again = PlanOf(OpenGroupOfAll());
  again.asked_for_servers = plan.asked_for_servers;
  EXPECT_EQ(again, plan);
}

TEST_F(MachineNodesTest, WithNoServerLeftOneRankOfEachComputerIsAsked) {
  AddServer({"c", "boot 3"}, 1);
  JoinAll(kTwoNodesOfOneName, Colocation::kOff);
  OpenGroupOfAll();
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(501), "SIGTERM"});
  std::vector<JobRank> asked;
  for (const SendWatch& update : harness_.watched(watcher)) {
    if (update.colocation.has_value()) asked = update.colocation->ranks;
  }
  EXPECT_THAT(asked, ElementsAre(JobRank(0), JobRank(2)));
}

TEST_F(MachineNodesTest, F12ComputersOfOneNameThatFallSilentTogetherAreNotBlamed) {
  AddServer({"localhost", "boot 1"}, 1);
  AddServer({"localhost", "boot 2"}, 2);
  harness_.Advance(3 * kTtlMs);
  EXPECT_THAT(harness_.EventKinds(), Contains("scheduler-cut-off"));
}

TEST_F(MachineNodesTest, ANameOfSeveralNodesIsToldOnceForAJob) {
  const auto told = [this] { return std::ranges::count(harness_.EventKinds(), "node-name-shared"); };
  JoinAll(kTwoNodesOfOneName, Colocation::kOff);
  EXPECT_EQ(told(), 1);
  EXPECT_EQ(harness_.events().back().subject, "job \"gpt\"");
  EXPECT_THAT(harness_.events().back().reason,
              HasSubstr("ranks 0 and 2 are on different nodes, and both are named localhost"));
  for (const std::vector<Place>& good :
       {kTwoNamedNodes, std::vector<Place>{{"pod-0", "boot 1"}, {"pod-1", "boot 1"}, {"pod-2", "boot 2"}},
        std::vector<Place>{{"a", "boot 1"}, {"a", ""}, {"b", "boot 2"}}}) {
    harness_ = MachineHarness();
    JoinAll(good, Colocation::kOff);
    EXPECT_EQ(told(), 0);
  }
}

}  // namespace
}  // namespace shoal::scheduler
