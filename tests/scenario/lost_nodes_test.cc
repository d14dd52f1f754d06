// Groups with rails that go on without lost ranks: a rank that is killed takes its node out of the group, and ops that
// are open end with the nodes that are left. The ranks of a node reduce through real shared memory.
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/node_parts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "reduce/reduce.h"
#include "tests/scenario/cluster.h"
#include "tests/scenario/roster_results.h"
#include "tests/scenario/tensors.h"
#include "worker/local_reduce/host_local_reduce.h"

namespace shoal {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr uint32_t kNodes = 3;
constexpr uint32_t kRanksPerNode = 2;
constexpr uint32_t kWorkers = kNodes * kRanksPerNode;
constexpr uint64_t kOps = 5;
constexpr size_t kElements = 9'001;  // some chunks for each server and rail

struct Kill {
  std::vector<uint32_t> workers;  // at the same moment
  bool server_as_well = false;    // likewise, server 0
};

// The ranks of each node in order, then these nodes in order.
Bytes ResultOf(const std::vector<Bytes>& tensors, const std::vector<uint32_t>& nodes, ReduceSpec spec, bool scales) {
  ReduceSpec on_node = spec;
  if (spec.op == ReduceOp::kAvg) on_node.op = ReduceOp::kSum;
  std::vector<Bytes> sums;
  for (const uint32_t node : nodes) {
    const auto first = tensors.begin() + node * kRanksPerNode;
    sums.push_back(Expected({first, first + kRanksPerNode}, on_node));
  }
  spec.ranks_per_input = kRanksPerNode;
  if (scales && spec.op == ReduceOp::kSum && nodes.size() < kNodes) {
    spec.op = ReduceOp::kPremulSum;
    spec.premul_factor = static_cast<double>(kNodes) / static_cast<double>(nodes.size());
  }
  return Expected(sums, spec);
}

// The test shows little where kills come before or after all ops.
struct Seen : SeenRosters {
  int left_alone = 0;  // ops that ended because another rank of the node was killed
};

void ExpectResultsOfTheNodesThatAreLeft(uint64_t seed, const std::vector<Kill>& kills, ReduceSpec spec, bool scales,
                                        Seen* all_seen) {
  const std::string where = absl::StrCat("seed ", seed, ", op ", std::string(ReduceOpName(spec.op)));
  std::mt19937_64 random(seed);
  uint64_t turns = 0;
  ClusterOptions options = {.workers = kWorkers,
                            .servers = 2,
                            .max_chunk_bytes = 1024,
                            .credit_chunks = 1 + static_cast<uint32_t>(seed % 4),
                            .min_ranks = kRanksPerNode,
                            .scales_sums = scales,
                            .workers_per_node = kRanksPerNode,
                            .make_local_reduce = [] { return MakeHostLocalReduce().value(); },
                            .seed = seed,
                            .after_each_turn = [&] { ++turns; }};
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  std::vector<std::vector<Bytes>> contributions;
  std::vector<std::vector<Bytes>> tensors;
  for (uint64_t op = 0; op < kOps; ++op) {
    contributions.push_back(Tensors(kWorkers, spec.codec.tensor_type(), kElements, seed * 10 + op));
    tensors.push_back(contributions.back());
    for (uint32_t w = 0; w < kWorkers; ++w) cluster.Submit(w, 0, op, tensors[op][w], spec.codec.tensor_type(), spec.op);
  }
  std::vector<uint32_t> nodes = {0, 1, 2};
  std::vector<std::vector<uint32_t>> rosters = {nodes};  // newest last
  std::vector<uint32_t> alone;                           // their neighbours were killed
  for (const Kill& kill : kills) {
    cluster.RunUntil([&, until = turns + random() % 4000] { return turns >= until; });
    for (const uint32_t worker : kill.workers) {
      cluster.KillWorker(worker);
      std::erase(nodes, worker / kRanksPerNode);
      alone.push_back(worker ^ 1);
    }
    for (const uint32_t worker : kill.workers) std::erase(alone, worker);
    if (kill.server_as_well) cluster.KillServer(0);
    rosters.push_back(nodes);
    if (random() % 2 == 0) cluster.RunUntil([&, until = turns + random() % 500] { return turns >= until; });
    cluster.MoveGroup(1);
  }
  std::vector<uint32_t> left;
  for (const uint32_t node : nodes) left.insert(left.end(), {2 * node, 2 * node + 1});
  const auto all_done = [&] {
    return std::ranges::all_of(left, [&](uint32_t w) { return cluster.Done(w, kOps - 1) != nullptr; }) &&
           std::ranges::all_of(alone, [&](uint32_t w) { return cluster.Done(w, kOps - 1) != nullptr; });
  };
  ASSERT_TRUE(cluster.RunUntil(all_done)) << where;
  const size_t element_bytes = DataTypeSize(spec.codec.tensor_type());
  for (uint64_t op = 0; op < kOps; ++op) {
    std::vector<RosterSum> sums;
    for (const std::vector<uint32_t>& roster : rosters) {
      sums.push_back(
          {ResultOf(contributions[op], roster, spec, scales), static_cast<uint32_t>(roster.size()) * kRanksPerNode});
    }
    ExpectResultsOfRosters(cluster, op, left, tensors[op], sums, element_bytes, where, all_seen);
    if (testing::Test::HasFatalFailure()) return;
    for (const uint32_t w : alone) {
      const absl::Status& status = cluster.Done(w, op)->status;
      if (status.ok()) continue;  // it was done before
      ++all_seen->left_alone;
      ASSERT_TRUE(absl::IsAborted(status)) << where << ": " << status;
      // The scheduler's news may come first: then it is not said which rank was lost.
      ASSERT_THAT(std::string(status.message()),
                  AnyOf(HasSubstr(absl::StrCat("rank ", w ^ 1, " of the job on node-", w / 2, " was lost: ")),
                        HasSubstr(absl::StrCat("rank ", w, " of the job on node-", w / 2, " is left out, since "))));
      ASSERT_THAT(std::string(status.message()), HasSubstr("the other nodes go on without it"));
    }
  }
}

void ForSeeds(uint64_t first, uint64_t last, const std::function<void(uint64_t seed, Seen* seen)>& run) {
  Seen seen;
  for (uint64_t seed = first; seed <= last; ++seed) {
    run(seed, &seen);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(seen.whole, 5);
  EXPECT_GT(seen.mixed, 3);
  EXPECT_GT(seen.fewer, 5);
}

uint32_t Victim(uint64_t seed) { return static_cast<uint32_t>(seed % kWorkers); }

TEST(LostNodes, F23OpenOpsEndWithTheNodesThatAreLeftAndALoneRankIsTold) {
  Seen alone;
  ForSeeds(1, 36, [&](uint64_t seed, Seen* seen) {
    ExpectResultsOfTheNodesThatAreLeft(seed, {{.workers = {Victim(seed)}}}, {.op = ReduceOp::kSum}, false, seen);
    alone.left_alone += seen->left_alone;
  });
  EXPECT_GT(alone.left_alone, 20);
}

TEST(LostNodes, F23AveragesAreOverTheRanksThatContributed) {
  ForSeeds(100, 124, [](uint64_t seed, Seen* seen) {
    ExpectResultsOfTheNodesThatAreLeft(seed, {{.workers = {Victim(seed)}}}, {.op = ReduceOp::kAvg}, false, seen);
  });
}

TEST(LostNodes, F23SumsAreScaledToAllRanksWhereThatIsAsked) {
  ForSeeds(200, 224, [](uint64_t seed, Seen* seen) {
    ExpectResultsOfTheNodesThatAreLeft(seed, {{.workers = {Victim(seed)}}}, {.op = ReduceOp::kSum}, true, seen);
  });
}

TEST(LostNodes, F23AServerMayDieInTheSameMoment) {
  ForSeeds(300, 324, [](uint64_t seed, Seen* seen) {
    ExpectResultsOfTheNodesThatAreLeft(seed, {{.workers = {Victim(seed)}, .server_as_well = true}},
                                       {.op = ReduceOp::kSum}, seed % 2 == 0, seen);
  });
}

TEST(LostNodes, F23AWholeNodeMayDieAtOnce) {
  ForSeeds(400, 424, [](uint64_t seed, Seen* seen) {
    ExpectResultsOfTheNodesThatAreLeft(seed, {{.workers = {Victim(seed), Victim(seed) ^ 1}}}, {.op = ReduceOp::kAvg},
                                       false, seen);
  });
}

TEST(LostNodes, F23TwoNodesMayLoseARankEach) {
  ForSeeds(500, 536, [](uint64_t seed, Seen* seen) {
    const uint32_t first = Victim(seed);
    const uint32_t second = (first + 2 + static_cast<uint32_t>(seed / kWorkers % 2)) % kWorkers;  // on the next node
    const std::vector<Kill> at_once = {{.workers = {first, second}}};
    const std::vector<Kill> in_turn = {{.workers = {first}, .server_as_well = seed % 3 == 0}, {.workers = {second}}};
    ExpectResultsOfTheNodesThatAreLeft(seed, seed % 2 == 0 ? at_once : in_turn, {.op = ReduceOp::kAvg}, false, seen);
  });
}

}  // namespace
}  // namespace shoal
