// The guard against NaN: a contribution with it is sent to nobody, and all ranks learn whose it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shoal/worker.h"
#include "tests/unit/worker/library/worker_cluster.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kTimeoutMs = 20'000;

double SquareSumOf(const TestRank& rank) {
  shoal_statistics statistics = {};
  EXPECT_EQ(shoal_worker_statistics(rank.worker(), &statistics), SHOAL_OK);
  return statistics.result_square_sum;
}

class WorkerCApiFiniteTest : public testing::TestWithParam<shoal_node_reduce> {};

TEST_P(WorkerCApiFiniteTest, AContributionThatIsNotFiniteEndsTheOpOnAllRanksWithItsRank) {
  Cluster cluster(2, GetParam());
  cluster.CheckFinite();
  const std::vector<std::pair<float, std::string>> cases = {{NAN, "NaN"},
                                                            {-std::numeric_limits<float>::infinity(), "infinity"}};
  for (const auto& [number, name] : cases) {
    std::barrier all(3);
    RunRanks(cluster, "bad-" + name, 3, [&](TestRank& rank) {
      std::vector<float> data(100'000, 1.0F);
      EXPECT_EQ(rank.AllReduce(&data, kTimeoutMs).code, SHOAL_OK);
      all.arrive_and_wait();  // an abort ends ops that other ranks are not done with
      const auto names_it = AllOf(HasSubstr("the contribution of rank 1 of the job to all-reduce 2 of group \"all\""),
                                  HasSubstr("(100000 float32) has " + name + " at element 70001"));
      if (rank.rank() == 1) {
        data[70'001] = number;
        Outcome refusal;
        EXPECT_EQ(rank.Start(&data, kTimeoutMs, &refusal), nullptr);
        EXPECT_EQ(refusal.code, SHOAL_INVALID_ARGUMENT);
        EXPECT_THAT(refusal.message, names_it);
        EXPECT_EQ(data[70'000], 3.0F) << "nothing was sent or changed";
        EXPECT_EQ(rank.Start(&data, kTimeoutMs, &refusal), nullptr) << "the group is broken";
        EXPECT_EQ(refusal.code, SHOAL_CANCELLED);
      } else {
        const Outcome outcome = rank.AllReduce(&data, kTimeoutMs);
        EXPECT_EQ(outcome.code, SHOAL_ABORTED);
        EXPECT_THAT(outcome.message, names_it);
      }
      all.arrive_and_wait();
    });
  }
}

TEST_P(WorkerCApiFiniteTest, TheSquaresOfResultsAreCountedOnce) {
  Cluster cluster(2, GetParam());
  cluster.CheckFinite();
  RunRanks(cluster, "squares", 2, [&](TestRank& rank) {
    std::vector<float> data(1000, 1.0F);
    EXPECT_EQ(SquareSumOf(rank), 0);
    EXPECT_EQ(rank.AllReduce(&data, kTimeoutMs).code, SHOAL_OK);
    EXPECT_EQ(SquareSumOf(rank), 1000 * 4.0);
    shoal_op* const op = rank.Start(&data, kTimeoutMs);
    shoal_error error = {};
    EXPECT_EQ(shoal_op_wait(op, UINT64_MAX, &error), SHOAL_OK);
    data.assign(1000, 7.0F);
    EXPECT_EQ(shoal_op_wait(op, UINT64_MAX, &error), SHOAL_OK);
    shoal_op_release(op);
    EXPECT_EQ(SquareSumOf(rank), 1000 * (4.0 + 16.0)) << "as it was when the op had ended";
  });
}

TEST_P(WorkerCApiFiniteTest, AResultIsLookedAtBeforeItsOpIsSaidToBeDone) {
  Cluster cluster(2, GetParam());
  cluster.CheckFinite();
  RunRanks(cluster, "polled", 2, [&](TestRank& rank) {
    std::vector<float> data(1000, 1.0F);
    shoal_op* const op = rank.Start(&data, kTimeoutMs);
    while (shoal_op_done(op) == 0) std::this_thread::yield();
    data.assign(1000, 7.0F);  // as its owner may from here on
    shoal_error error = {};
    EXPECT_EQ(shoal_op_wait(op, UINT64_MAX, &error), SHOAL_OK);
    shoal_op_release(op);
    EXPECT_EQ(SquareSumOf(rank), 1000 * 4.0);
  });
}

TEST_P(WorkerCApiFiniteTest, NoWaiterReturnsWhileTheResultIsStillLookedAt) {
  Cluster cluster(2, GetParam());
  cluster.CheckFinite();
  RunRanks(cluster, "two-waiters", 2, [&](TestRank& rank) {
    std::vector<float> data(2'000'000, 1.0F);
    double expected = 0;
    for (int round = 0; round < 5; ++round) {
      shoal_op* const op = rank.Start(&data, kTimeoutMs);
      const auto wait = [op] {
        shoal_error error = {};
        EXPECT_EQ(shoal_op_wait(op, UINT64_MAX, &error), SHOAL_OK);
      };
      std::thread other(wait);
      wait();
      data.assign(data.size(), 1.0F);  // as its owner may from here on
      other.join();
      shoal_op_release(op);
      expected += 4.0 * static_cast<double>(data.size());
      EXPECT_EQ(SquareSumOf(rank), expected);
    }
  });
}

TEST_P(WorkerCApiFiniteTest, AResultThatIsNotFiniteHidesNoneThatComesLater) {
  Cluster cluster(2, GetParam());
  cluster.CheckFinite();
  RunRanks(cluster, "overflow", 2, [&](TestRank& rank) {
    std::vector<float> data(10, std::numeric_limits<float>::max());
    EXPECT_EQ(rank.AllReduce(&data, kTimeoutMs).code, SHOAL_OK);
    EXPECT_TRUE(std::isinf(data[0]));
    EXPECT_EQ(SquareSumOf(rank), 0);
    data.assign(10, 1.0F);
    EXPECT_EQ(rank.AllReduce(&data, kTimeoutMs).code, SHOAL_OK);
    EXPECT_EQ(SquareSumOf(rank), 40);
  });
}

TEST_P(WorkerCApiFiniteTest, CompletionsThatAreFetchedCountAsWell) {
  Cluster cluster(2, GetParam());
  cluster.CheckFinite();
  RunRanks(cluster, "notified", 2, [&](TestRank& rank) {
    std::vector<double> data(500, 0.5);
    shoal_all_reduce_options options = {.dtype = SHOAL_FLOAT64, .op = SHOAL_SUM};
    shoal_error error = {};
    shoal_op* op = nullptr;
    ASSERT_EQ(shoal_all_reduce(rank.group(), data.data(), data.size(), &options, &op, &error), SHOAL_OK);
    ASSERT_EQ(shoal_op_notify(op, 1, &error), SHOAL_OK);
    shoal_op_release(op);
    shoal_completion completion = {};
    ASSERT_EQ(shoal_next_completion(rank.worker(), kTimeoutMs, &completion), SHOAL_OK);
    EXPECT_EQ(completion.result.code, SHOAL_OK) << completion.result.message;
    EXPECT_EQ(SquareSumOf(rank), 500);
  });
}

TEST_P(WorkerCApiFiniteTest, WithoutItNothingIsLookedAt) {
  Cluster cluster(2, GetParam());
  RunRanks(cluster, "unguarded", 2, [&](TestRank& rank) {
    std::vector<float> data(1000, rank.rank() == 1 ? NAN : 1.0F);
    const Outcome outcome = rank.AllReduce(&data, kTimeoutMs);
    EXPECT_EQ(outcome.code, SHOAL_OK) << outcome.message;
    EXPECT_TRUE(std::isnan(data[0]));
    EXPECT_EQ(SquareSumOf(rank), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, WorkerCApiFiniteTest,
                         testing::Values(SHOAL_NODE_REDUCE_OFF, SHOAL_NODE_REDUCE_HOST),
                         [](const auto& tested) { return tested.param == SHOAL_NODE_REDUCE_OFF ? "Servers" : "Node"; });

}  // namespace
}  // namespace shoal
