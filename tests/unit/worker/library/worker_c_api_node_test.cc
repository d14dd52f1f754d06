// Groups whose ranks are on one node, through the C ABI: a scheduler, and no server at all.
#include <atomic>
#include <barrier>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/library/worker_cluster.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kRanks = 4;

using WorkerCApiNodeTest = ClusterTest<0, SHOAL_NODE_REDUCE_HOST>;

TEST_F(WorkerCApiNodeTest, RanksOfOneNodeNeedNoServers) {
  RunRanks(*cluster, "no-servers", kRanks, [](TestRank& rank) {
    uint64_t bytes = 0;
    for (const size_t elements : {size_t{1}, size_t{1000}, size_t{200'000}}) {
      std::vector<float> data(elements, static_cast<float>(rank.rank() + 1));
      const Outcome outcome = rank.AllReduce(&data, 60'000);
      ASSERT_EQ(outcome.code, SHOAL_OK) << outcome.message;
      EXPECT_EQ(data, std::vector<float>(elements, 10.0f));
      bytes += elements * sizeof(float);
    }
    shoal_statistics statistics = {};
    ASSERT_EQ(shoal_worker_statistics(rank.worker(), &statistics), SHOAL_OK);
    EXPECT_EQ(statistics.ops_completed, 3u);
    EXPECT_EQ(statistics.bytes_on_node, bytes);
    EXPECT_EQ(statistics.bytes_pushed, 0u);
    EXPECT_EQ(statistics.server_count, 0u);
    shoal_plan plan = {};
    shoal_error error = {};
    ASSERT_EQ(shoal_group_plan(rank.group(), 1000, SHOAL_FLOAT32, &plan, &error), SHOAL_OK) << error.message;
    EXPECT_EQ(plan.chunk_count, 0u);
  });
}

TEST_F(WorkerCApiNodeTest, SubGroupsOfANodeReduceInTheirOwnOrder) {
  RunRanks(*cluster, "node-sub-groups", kRanks, [](TestRank& rank) {
    const bool even = rank.rank() % 2 == 0;
    const uint32_t members[2] = {even ? 2u : 3u, even ? 0u : 1u};
    shoal_group* const group = rank.MakeGroup({.name = even ? "even" : "odd", .ranks = members, .rank_count = 2});
    std::vector<float> data(100, static_cast<float>(rank.rank()));
    shoal_op* const op = TestRank::StartIn(group, SHOAL_SUM, &data, 60'000);
    const Outcome outcome = TestRank::Finish(op);
    EXPECT_EQ(outcome.code, SHOAL_OK) << outcome.message;
    EXPECT_EQ(data, std::vector<float>(100, even ? 2.0f : 4.0f));
    shoal_group_close(group);
  });
}

TEST_F(WorkerCApiNodeTest, I8ARankThatClosesItsWorkerIsNamedToTheOthers) {
  std::barrier all_done(kRanks);  // whoever still waits for its result when another rank fails, loses it
  RunRanks(*cluster, "node-closing", kRanks, [&](TestRank& rank) {
    std::vector<float> data(1000, 1.0f);
    EXPECT_EQ(rank.AllReduce(&data, 60'000).code, SHOAL_OK);
    all_done.arrive_and_wait();
    if (rank.rank() == 2) return rank.Close();
    const Outcome outcome = rank.AllReduce(&data, 60'000);
    EXPECT_EQ(outcome.code, SHOAL_ABORTED) << outcome.message;
    EXPECT_THAT(outcome.message, HasSubstr("rank 2 of the job on node-2"));
  });
}

TEST_F(WorkerCApiNodeTest, RanksThatDisagreeHearWhatEachHasSaid) {
  RunRanks(*cluster, "node-disagreement", 2, [](TestRank& rank) {
    std::vector<float> data(rank.rank() == 0 ? 100 : 200, 1.0f);
    const Outcome outcome = rank.AllReduce(&data, 60'000);
    EXPECT_EQ(outcome.code, SHOAL_ABORTED) << outcome.message;
    EXPECT_THAT(outcome.message, AllOf(HasSubstr("100"), HasSubstr("200")));
    Outcome refusal;
    EXPECT_EQ(rank.Start(&data, 60'000, &refusal), nullptr);
    EXPECT_EQ(refusal.code, SHOAL_ABORTED) << refusal.message;
  });
}

TEST_F(WorkerCApiNodeTest, AnAbortEndsTheOpsOfAllRanks) {
  RunRanks(*cluster, "node-abort", 2, [](TestRank& rank) {
    std::vector<float> data(1000, 1.0f);
    if (rank.rank() == 0) {
      shoal_group_abort(rank.group(), "enough");
      return;
    }
    const Outcome outcome = rank.AllReduce(&data, 60'000);
    EXPECT_EQ(outcome.code, SHOAL_ABORTED) << outcome.message;
    EXPECT_THAT(outcome.message, HasSubstr("enough"));
  });
}

TEST_F(WorkerCApiNodeTest, ADeadlineNamesTheRankThatMadeNoCall) {
  std::barrier both_done(2);
  RunRanks(*cluster, "node-deadline", 2, [&](TestRank& rank) {
    std::vector<float> data(1000, 1.0f);
    if (rank.rank() == 0) {
      const Outcome outcome = rank.AllReduce(&data, 300);
      EXPECT_EQ(outcome.code, SHOAL_DEADLINE_EXCEEDED) << outcome.message;
      EXPECT_THAT(outcome.message, HasSubstr("it waits for rank 1 on node-1, which made fewer calls"));
    }
    both_done.arrive_and_wait();
  });
}

}  // namespace
}  // namespace shoal
