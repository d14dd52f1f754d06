// Which ranks share a node, and in which order their contributions are summed; what the result of that is.
#include "sim/node_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "sim/op_truth.h"

namespace shoal::sim {
namespace {

using ::testing::ElementsAre;

using Ranks = std::vector<uint32_t>;

Ranks NodesOf(const NodeLayout& layout, uint32_t ranks) {
  Ranks nodes;
  for (uint32_t rank = 0; rank < ranks; ++rank) nodes.push_back(layout.NodeOf(rank, ranks));
  return nodes;
}

TEST(NodeLayout, RanksAreNeighboursOrDealtInTurn) {
  EXPECT_THAT(NodesOf({}, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(NodesOf({.ranks_per_node = 2}, 5), ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(NodesOf({.ranks_per_node = 2, .dealt = true}, 5), ElementsAre(0, 1, 2, 0, 1));
}

TEST(NodeLayout, EqualNodesHaveRails) {
  const SumOrder blocks = OrderOfSum({.ranks_per_node = 2}, 4, {0, 1, 2, 3});
  EXPECT_EQ(blocks.mode, NodeReduceMode::kRails);
  EXPECT_THAT(blocks.sums, ElementsAre(Ranks{0, 1}, Ranks{2, 3}));
  const SumOrder dealt = OrderOfSum({.ranks_per_node = 2, .dealt = true}, 4, {0, 1, 2, 3});
  EXPECT_EQ(dealt.mode, NodeReduceMode::kRails);
  EXPECT_THAT(dealt.sums, ElementsAre(Ranks{0, 2}, Ranks{1, 3}));
}

TEST(NodeLayout, OneNodeNeedsNoServer) {
  const SumOrder order = OrderOfSum({.ranks_per_node = 3}, 3, {0, 1, 2});
  EXPECT_EQ(order.mode, NodeReduceMode::kNodeAlone);
  EXPECT_THAT(order.sums, ElementsAre(Ranks{0, 1, 2}));
}

TEST(NodeLayout, AGroupIsFlatWhereNodesAreUnequalOrHaveOneRankEachOrNobodyWantsIt) {
  for (const NodeLayout& layout : {NodeLayout{.ranks_per_node = 3}, NodeLayout{}, NodeLayout{.ranks_per_node = 1},
                                   NodeLayout{.ranks_per_node = 4, .choice = NodeReduceChoice::kOff}}) {
    const SumOrder order = OrderOfSum(layout, 4, {0, 1, 2, 3});
    EXPECT_EQ(order.mode, NodeReduceMode::kFlat) << layout.ranks_per_node;
    EXPECT_THAT(order.sums, ElementsAre(Ranks{0, 1, 2, 3})) << layout.ranks_per_node;
  }
}

// The ranks are those of the group; where they are follows from the job.
TEST(NodeLayout, ASubgroupHasItsOwnOrder) {
  const SumOrder rails = OrderOfSum({.ranks_per_node = 4}, 8, {0, 2, 4, 6});
  EXPECT_EQ(rails.mode, NodeReduceMode::kRails);
  EXPECT_THAT(rails.sums, ElementsAre(Ranks{0, 1}, Ranks{2, 3}));
  EXPECT_EQ(OrderOfSum({.ranks_per_node = 2}, 4, {0, 2}).mode, NodeReduceMode::kFlat);
  EXPECT_EQ(OrderOfSum({.ranks_per_node = 2, .dealt = true}, 4, {0, 2}).mode, NodeReduceMode::kNodeAlone);
}

std::vector<float> Floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(OpTruth, SumsNodeByNode) {
  const OpPlan plan{.elements = 100, .order_matters = true, .base = 7};
  const SumOrder order = OrderOfSum({.ranks_per_node = 2, .dealt = true}, 4, {0, 1, 2, 3});
  std::vector<std::vector<float>> x;
  for (uint32_t rank = 0; rank < 4; ++rank) x.push_back(Floats(Contribution(plan, rank)));
  const std::vector<float> sums = Floats(ExpectedResult(plan, order));
  for (size_t i = 0; i < sums.size(); ++i) {
    const float first = x[0][i] + x[2][i];
    const float second = x[1][i] + x[3][i];
    EXPECT_EQ(sums[i], first + second) << i;
  }
  EXPECT_NE(ExpectedResult(plan, order), ExpectedResult(plan, OrderOfSum({}, 4, {0, 1, 2, 3})));
}

// Integers of any bits, which wrap around, and small floating numbers: their sums are exact.
TEST(OpTruth, AnAverageOverRailsIsDividedByAllRanks) {
  OpPlan plan{.elements = 50, .base = 3};
  const SumOrder rails = OrderOfSum({.ranks_per_node = 2}, 6, {0, 1, 2, 3, 4, 5});
  const SumOrder flat = OrderOfSum({}, 6, {0, 1, 2, 3, 4, 5});
  ASSERT_EQ(rails.sums.size(), 3u);
  for (const ReduceOp reduce_op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum, ReduceOp::kMin}) {
    const bool has_factor = reduce_op == ReduceOp::kPremulSum;
    plan.reduce_op = reduce_op;
    plan.dtype = has_factor ? DataType::kFloat64 : DataType::kInt64;
    plan.any_bits = !has_factor;
    plan.premul_factor = has_factor ? 0.5 : 1;
    EXPECT_EQ(ExpectedResult(plan, rails), ExpectedResult(plan, flat)) << ReduceOpName(reduce_op);
  }
}

}  // namespace
}  // namespace shoal::sim
