// Groups that go on without lost ranks: ops that are open when one is killed end with those that are left.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/op_ledger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "reduce/reduce.h"
#include "tests/scenario/cluster.h"
#include "tests/scenario/roster_results.h"
#include "tests/scenario/tensors.h"

namespace shoal {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr uint64_t kOps = 6;
constexpr size_t kElements = 9'001;  // some chunks for each server

struct Kill {
  uint32_t worker;
  bool server_as_well;  // server 0, at the same moment
};

// What the contributions of these workers make, in their order.
Bytes ResultOf(const std::vector<Bytes>& tensors, const std::vector<uint32_t>& workers, ReduceSpec spec, bool scales) {
  std::vector<Bytes> inputs;
  for (const uint32_t worker : workers) inputs.push_back(tensors[worker]);
  if (scales && spec.op == ReduceOp::kSum && inputs.size() < tensors.size()) {
    spec.op = ReduceOp::kPremulSum;
    spec.premul_factor = static_cast<double>(tensors.size()) / static_cast<double>(inputs.size());
  }
  return Expected(inputs, spec);
}

// Kills come after a number of turns of the loops that the seed draws.
void ExpectResultsOfThoseThatAreLeft(uint64_t seed, const std::vector<Kill>& kills, ReduceSpec spec, bool scales,
                                     SeenRosters* all_seen) {
  const std::string where =
      absl::StrCat("seed ", seed, ", ", kills.size(), " kills, op ", std::string(ReduceOpName(spec.op)));
  std::mt19937_64 random(seed);
  uint64_t turns = 0;
  uint64_t turns_until_kill = 0;
  Cluster cluster({.workers = kWorkers,
                   .servers = 2,
                   .max_chunk_bytes = 1024,
                   .credit_chunks = 1 + static_cast<uint32_t>(seed % 4),
                   .min_ranks = 2,
                   .scales_sums = scales,
                   .seed = seed,
                   .after_each_turn = [&] { ++turns; }});
  cluster.OpenGroup(1, 0);
  std::vector<std::vector<Bytes>> contributions;
  std::vector<std::vector<Bytes>> tensors;
  for (uint64_t op = 0; op < kOps; ++op) {
    contributions.push_back(Tensors(kWorkers, spec.codec.tensor_type(), kElements, seed * 10 + op));
    tensors.push_back(contributions.back());
  }
  for (uint64_t op = 0; op < kOps; ++op) {
    for (uint32_t w = 0; w < kWorkers; ++w) cluster.Submit(w, 0, op, tensors[op][w], spec.codec.tensor_type(), spec.op);
  }
  std::vector<uint32_t> left = {0, 1, 2, 3};
  std::vector<std::vector<uint32_t>> rosters = {left};  // newest last
  for (const Kill& kill : kills) {
    turns_until_kill = turns + random() % 4000;
    cluster.RunUntil([&] { return turns >= turns_until_kill; });
    cluster.KillWorker(kill.worker);
    if (kill.server_as_well) cluster.KillServer(0);
    std::erase(left, kill.worker);
    rosters.push_back(left);
    if (random() % 2 == 0) cluster.RunUntil([&, until = turns + random() % 500] { return turns >= until; });
    cluster.MoveGroup(1);
  }
  const auto all_done = [&] {
    for (const uint32_t w : left) {
      for (uint64_t op = 0; op < kOps; ++op) {
        if (cluster.Done(w, op) == nullptr) return false;
      }
    }
    return true;
  };
  ASSERT_TRUE(cluster.RunUntil(all_done)) << where;
  const size_t element_bytes = DataTypeSize(spec.codec.tensor_type());
  for (uint64_t op = 0; op < kOps; ++op) {
    std::vector<RosterSum> sums;
    for (const std::vector<uint32_t>& roster : rosters) {
      sums.push_back({ResultOf(contributions[op], roster, spec, scales), static_cast<uint32_t>(roster.size())});
    }
    ExpectResultsOfRosters(cluster, op, left, tensors[op], sums, element_bytes, where, all_seen);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// The seeds' runs, whose kills come inside ops.
void ForSeeds(uint64_t first, uint64_t last, const std::function<void(uint64_t seed, SeenRosters* seen)>& run) {
  SeenRosters seen;
  for (uint64_t seed = first; seed <= last; ++seed) {
    run(seed, &seen);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(seen.whole, 10);
  EXPECT_GT(seen.mixed, 10);
  EXPECT_GT(seen.fewer, 10);
}

constexpr ReduceSpec kSum = {.op = ReduceOp::kSum};
constexpr ReduceSpec kAverage = {.op = ReduceOp::kAvg};

TEST(LostRanks, F23OpenOpsEndWithTheRanksThatAreLeft) {
  ForSeeds(1, 60, [](uint64_t seed, SeenRosters* seen) {
    ExpectResultsOfThoseThatAreLeft(seed, {{static_cast<uint32_t>(seed % kWorkers), false}}, kSum, false, seen);
  });
}

TEST(LostRanks, F23AveragesAreOverThoseThatContributed) {
  ForSeeds(100, 130, [](uint64_t seed, SeenRosters* seen) {
    ExpectResultsOfThoseThatAreLeft(seed, {{static_cast<uint32_t>(seed % kWorkers), false}}, kAverage, false, seen);
  });
}

TEST(LostRanks, F23SumsAreScaledToAllRanksWhereThatIsAsked) {
  ForSeeds(200, 230, [](uint64_t seed, SeenRosters* seen) {
    ExpectResultsOfThoseThatAreLeft(seed, {{static_cast<uint32_t>(seed % kWorkers), false}}, kSum, true, seen);
  });
}

TEST(LostRanks, F23AServerMayDieInTheSameMoment) {
  ForSeeds(300, 360, [](uint64_t seed, SeenRosters* seen) {
    ExpectResultsOfThoseThatAreLeft(seed, {{static_cast<uint32_t>(seed % kWorkers), true}}, kSum, seed % 2 == 0, seen);
  });
}

TEST(LostRanks, F23SeveralMayBeLostOneAfterTheOther) {
  ForSeeds(400, 460, [](uint64_t seed, SeenRosters* seen) {
    const auto first = static_cast<uint32_t>(seed % kWorkers);
    const auto second = static_cast<uint32_t>((seed + 1 + seed / 4 % 3) % kWorkers);
    ExpectResultsOfThoseThatAreLeft(seed, {{first, seed % 3 == 0}, {second, false}}, kAverage, false, seen);
  });
}

TEST(LostRanks, F23ALostRankHoldsNoResultBack) {
  Cluster cluster({.workers = 3, .servers = 2, .credit_chunks = 2, .min_ranks = 1});
  cluster.OpenGroup(1, 0);
  cluster.RunUntilQuiet();
  cluster.KillWorker(2);
  cluster.MoveGroup(1);
  cluster.RunUntilQuiet();
  // Far more ops than servers keep without a commit.
  for (uint64_t op = 1; op <= 2 * kMaxUncommittedOps; ++op) {
    std::vector<Bytes> tensors = Tensors(3, DataType::kFloat32, 100, op);
    const Bytes expected = Expected({tensors[0], tensors[1]}, kSum);
    for (uint32_t w = 0; w < 2; ++w) cluster.Submit(w, 0, op, tensors[w], DataType::kFloat32, ReduceOp::kSum);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Done(0, op) != nullptr && cluster.Done(1, op) != nullptr; }))
        << op;
    ASSERT_TRUE(cluster.Done(0, op)->status.ok()) << cluster.Done(0, op)->status;
    ASSERT_EQ(tensors[0], expected) << op;
    ASSERT_EQ(tensors[1], expected) << op;
  }
  EXPECT_LE(cluster.worker_counters(0).retained_results, 2 * kCommitAnnounceOps);
}

TEST(LostRanks, F23AServerThatComesLaterBeginsWithTheRosterOfItsEpoch) {
  Cluster cluster({.workers = 3, .servers = 2, .min_ranks = 1});
  cluster.TakeOutOfMaps(1);
  cluster.OpenGroup(1, 0);
  cluster.RunUntilQuiet();
  cluster.KillWorker(0);
  cluster.MoveGroup(1);
  cluster.RunUntilQuiet();
  cluster.PutIntoMaps(1);
  cluster.MoveGroup(1);
  cluster.RunUntilQuiet();
  std::vector<Bytes> tensors = Tensors(3, DataType::kFloat32, kElements, 7);
  const Bytes expected = Expected({tensors[1], tensors[2]}, kAverage);
  for (uint32_t w = 1; w < 3; ++w) cluster.Submit(w, 0, 1, tensors[w], DataType::kFloat32, ReduceOp::kAvg);
  cluster.RunUntilQuiet();
  EXPECT_GT(cluster.server_counters(1).chunks_reduced, 0u);
  for (uint32_t w = 1; w < 3; ++w) {
    ASSERT_NE(cluster.Done(w, 1), nullptr);
    ASSERT_TRUE(cluster.Done(w, 1)->status.ok()) << cluster.Done(w, 1)->status;
    EXPECT_EQ(tensors[w], expected);
    EXPECT_EQ(cluster.Done(w, 1)->contributors, (Contributors{.least = 2, .most = 2}));
  }
}

TEST(LostRanks, F24AnOpWithoutARankThatHasClosedTheGroupEndsOrGoesOn) {
  for (const bool goes_on : {false, true}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Cluster cluster({.workers = 3, .servers = 2, .min_ranks = goes_on ? 1u : 0u, .seed = seed});
      cluster.OpenGroup(1, 0);
      cluster.RunUntilQuiet();
      std::vector<std::vector<Bytes>> tensors;
      for (uint64_t op = 1; op <= 2; ++op) tensors.push_back(Tensors(3, DataType::kFloat32, kElements, 7 * seed + op));
      const std::vector<std::vector<Bytes>> contributions = tensors;
      for (uint64_t op = 1; op <= 2; ++op) {
        // The last rank closes the group after its first op, before or after the others call their second one.
        for (uint32_t w = 0; w < 4 - op; ++w) {
          cluster.Submit(w, 0, op, tensors[op - 1][w], DataType::kFloat32, ReduceOp::kSum);
        }
        if ((op == 2) == (seed % 2 == 0)) cluster.Command(2, CloseGroupCommand{GroupHandle(0)});
        if (op == 1) cluster.RunUntilQuiet();
      }
      cluster.RunUntilQuiet();
      const auto left = [](const WorkerOutcome& outcome) {
        const auto* const trouble = std::get_if<ServerTrouble>(&outcome);
        return trouble != nullptr && trouble->left == Rank(2);
      };
      for (uint32_t w = 0; w < 2; ++w) {
        ASSERT_TRUE(cluster.Done(w, 1)->status.ok()) << "seed " << seed << ": " << cluster.Done(w, 1)->status;
        if (goes_on) {
          ASSERT_EQ(cluster.Done(w, 2), nullptr) << seed;
          ASSERT_TRUE(std::ranges::any_of(cluster.outcomes(w), left)) << seed;
        } else {
          ASSERT_NE(cluster.Done(w, 2), nullptr) << seed;
          EXPECT_TRUE(absl::IsAborted(cluster.Done(w, 2)->status)) << cluster.Done(w, 2)->status;
          EXPECT_THAT(std::string(cluster.Done(w, 2)->status.message()), testing::HasSubstr("does not call op 2"));
        }
      }
      if (!goes_on) continue;
      cluster.MoveGroupWithout(1, 2);
      cluster.RunUntilQuiet();
      const Bytes expected = Expected({contributions[1][0], contributions[1][1]}, kSum);
      for (uint32_t w = 0; w < 2; ++w) {
        ASSERT_NE(cluster.Done(w, 2), nullptr) << seed;
        ASSERT_TRUE(cluster.Done(w, 2)->status.ok()) << cluster.Done(w, 2)->status;
        EXPECT_EQ(tensors[1][w], expected) << seed;
      }
    }
  }
}

TEST(LostRanks, F23ARankThatIsNotInTheRosterIsKeptOut) {
  Cluster cluster({.workers = 3, .servers = 1, .min_ranks = 1});
  cluster.OpenGroup(1, 0);
  cluster.RunUntilQuiet();
  std::vector<Bytes> tensors = Tensors(3, DataType::kFloat32, kElements, 7);
  const std::vector<Bytes> contributions = tensors;
  for (uint32_t w = 0; w < 2; ++w) cluster.Submit(w, 0, 1, tensors[w], DataType::kFloat32, ReduceOp::kSum);
  cluster.RunUntilQuiet();
  // Rank 2 lives, and is taken for lost.
  cluster.MoveGroupWithout(1, 2);
  cluster.Submit(2, 0, 1, tensors[2], DataType::kFloat32, ReduceOp::kSum);
  cluster.RunUntilQuiet();
  const Bytes expected = Expected({contributions[0], contributions[1]}, kSum);
  for (uint32_t w = 0; w < 2; ++w) {
    ASSERT_NE(cluster.Done(w, 1), nullptr);
    ASSERT_TRUE(cluster.Done(w, 1)->status.ok()) << cluster.Done(w, 1)->status;
    EXPECT_EQ(tensors[w], expected);
  }
  ASSERT_NE(cluster.Done(2, 1), nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(cluster.Done(2, 1)->status)) << cluster.Done(2, 1)->status;
  EXPECT_THAT(std::string(cluster.Done(2, 1)->status.message()), testing::HasSubstr("was taken for lost"));
}

}  // namespace
}  // namespace shoal
