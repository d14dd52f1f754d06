#include "scheduler/machine/node_reduce_decision.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the ranks 3, 4, 5, ... of a job say. `nullopt` among them: an older process.
class Ranks {
 public:
  explicit Ranks(size_t count) : requests_(count, NodeReduceRequest{.possible = true, .node_identity = "here"}) {}

  NodeReduceRequest& operator[](size_t index) { return *requests_[index]; }
  void MakeOlder(size_t index) { requests_[index].reset(); }
  void SetNode(const std::string& node) { node_of_last_ = node; }

  NodeReduceDecision Decide(std::optional<size_t> group_size = std::nullopt) const {
    std::vector<NodeReduceRank> members;
    for (size_t i = 0; i < requests_.size(); ++i) {
      const std::string& node = i + 1 == requests_.size() ? node_of_last_ : node_;
      members.push_back(
          {JobRank(static_cast<uint32_t>(3 + i)), node, requests_[i].has_value() ? &*requests_[i] : nullptr});
    }
    return DecideNodeReduce(group_size.value_or(members.size()), members);
  }

 private:
  std::vector<std::optional<NodeReduceRequest>> requests_;
  const std::string node_ = "node-a";
  std::string node_of_last_ = "node-a";
};

void ExpectFlat(const NodeReduceDecision& decision, const std::string& reason) {
  EXPECT_EQ(decision.mode, NodeReduceMode::kFlat);
  EXPECT_EQ(decision.reason, reason);
}

TEST(NodeReduceDecision, RanksOfOneNodeReduceThere) {
  EXPECT_EQ(Ranks(4).Decide().mode, NodeReduceMode::kNodeAlone);
  Ranks ranks(2);
  for (size_t i : {0, 1}) ranks[i].choice = static_cast<uint32_t>(NodeReduceChoice::kHost);
  EXPECT_EQ(ranks.Decide().mode, NodeReduceMode::kNodeAlone);
}

TEST(NodeReduceDecision, OneRankKeepsWhatItHas) { ExpectFlat(Ranks(1).Decide(), "it has one rank"); }

TEST(NodeReduceDecision, OffMeansFlat) {
  Ranks ranks(3);
  for (size_t i : {0, 1, 2}) ranks[i].choice = static_cast<uint32_t>(NodeReduceChoice::kOff);
  ExpectFlat(ranks.Decide(), "node_reduce is off");
}

TEST(NodeReduceDecision, AnOlderProcessOrOneThatCannotIsNamed) {
  Ranks older(3);
  older.MakeOlder(2);
  ExpectFlat(older.Decide(), "rank 5's process runs a version that cannot reduce within a node");
  Ranks unable(3);
  unable[1].possible = false;
  ExpectFlat(
      unable.Decide(),
      "rank 4's process can't reduce within its node: it may use the network alone (network_only, or a kernel or "
      "security profile that refuses shared memory, memfd_create), or has devices and no NCCL");
}

TEST(NodeReduceDecision, ARankElsewhereIsNamedWithBothNodes) {
  Ranks ranks(3);
  ranks.SetNode("node-b");
  ranks[2].node_identity = "there";
  ExpectFlat(
      ranks.Decide(),
      "rank 5 is on another node (node-b) than rank 3 (node-a), and rank 3's process can't reduce within several "
      "nodes of one group");
}

TEST(NodeReduceDecision, TheNodesNameDecidesNothing) {
  Ranks ranks(2);
  ranks.SetNode("node-b");
  EXPECT_EQ(ranks.Decide().mode, NodeReduceMode::kNodeAlone);
  Ranks apart(2);
  apart[1].node_identity = "another network namespace";
  EXPECT_EQ(apart.Decide().mode, NodeReduceMode::kFlat);
  EXPECT_THAT(apart.Decide().reason, HasSubstr("ranks 3 and 4 are both on node node-a but can't meet there"));
}

TEST(NodeReduceDecision, WhoDoesNotKnowWhereItIsIsWithNobody) {
  Ranks ranks(2);
  ranks[0].node_identity = "";
  ranks[1].node_identity = "";
  EXPECT_EQ(ranks.Decide().mode, NodeReduceMode::kFlat);
  EXPECT_THAT(ranks.Decide().reason, HasSubstr("rank 3's process (on node node-a) can't tell which node"));
}

TEST(NodeReduceDecision, WhileRanksAreMissingItHoldsForThoseThatAreThere) {
  EXPECT_EQ(Ranks(1).Decide(/*group_size=*/2).mode, NodeReduceMode::kNodeAlone);
  EXPECT_EQ(Ranks(0).Decide(/*group_size=*/2).mode, NodeReduceMode::kFlat);
}

// By the letters of their nodes, in group order; all can have rails.
NodeReduceDecision DecideFor(const std::string& nodes, const std::string& unable = "") {
  std::vector<NodeReduceRequest> requests;
  std::vector<std::string> names;
  for (size_t i = 0; i < nodes.size(); ++i) {
    names.push_back(std::string("node-") + nodes[i]);
    requests.push_back({.possible = true,
                        .node_identity = std::string("boot of ") + nodes[i],
                        .can_rails = unable.find(std::to_string(i)) == std::string::npos});
  }
  std::vector<NodeReduceRank> members;
  for (size_t i = 0; i < nodes.size(); ++i)
    members.push_back({JobRank(static_cast<uint32_t>(i)), names[i], &requests[i]});
  return DecideNodeReduce(members.size(), members);
}

TEST(NodeReduceDecision, NodesWithAsManyRanksEachMakeUpRails) {
  const NodeReduceDecision decision = DecideFor("aabb");
  EXPECT_EQ(decision.mode, NodeReduceMode::kRails);
  EXPECT_EQ(decision.rails.ranks_per_node, 2u);
  EXPECT_EQ(decision.rails.node_count(), 2u);
  EXPECT_TRUE(decision.rails.IsOf(4));
  EXPECT_THAT(decision.rails.RanksOfNode(0), ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(decision.rails.RanksOfNode(1), ElementsAre(Rank(2), Rank(3)));
  EXPECT_THAT(decision.rails.RanksOfRail(0), ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(decision.rails.RanksOfRail(1), ElementsAre(Rank(1), Rank(3)));
}

TEST(NodeReduceDecision, NodesComeInTheOrderOfTheirFirstRanksAndRanksInGroupOrder) {
  const RailLayout rails = DecideFor("cabbca").rails;
  EXPECT_THAT(rails.RanksOfNode(0), ElementsAre(Rank(0), Rank(4)));
  EXPECT_THAT(rails.RanksOfNode(1), ElementsAre(Rank(1), Rank(5)));
  EXPECT_THAT(rails.RanksOfNode(2), ElementsAre(Rank(2), Rank(3)));
  EXPECT_THAT(rails.RanksOfRail(0), ElementsAre(Rank(0), Rank(1), Rank(2)));
  EXPECT_THAT(rails.RanksOfRail(1), ElementsAre(Rank(4), Rank(5), Rank(3)));
}

TEST(NodeReduceDecision, WithoutRailsTheReasonNamesWhoseNodesAreUnequal) {
  ExpectFlat(DecideFor("aaabb"),
             "rank 3 is on another node (node-b) than rank 0 (node-a), and the group has 3 ranks where rank 0 is (node "
             "node-a) and 2 ranks where rank 3 is (node node-b)");
  ExpectFlat(DecideFor("aabcc"),
             "rank 2 is on another node (node-b) than rank 0 (node-a), and the group has 2 ranks where rank 0 is (node "
             "node-a) and 1 rank where rank 2 is (node node-b)");
}

TEST(NodeReduceDecision, OneRankOnEachNodeIsFlat) {
  ExpectFlat(DecideFor("abc"),
             "rank 1 is on another node (node-b) than rank 0 (node-a), and no node has two of its ranks");
}

TEST(NodeReduceDecision, OneProcessThatCannotHaveRailsMakesAllFlatUnlessTheyAreOnOneNode) {
  ExpectFlat(
      DecideFor("aabb", "3"),
      "rank 2 is on another node (node-b) than rank 0 (node-a), and rank 3's process can't reduce within several "
      "nodes of one group");
  EXPECT_EQ(DecideFor("aaaa", "3").mode, NodeReduceMode::kNodeAlone);
}

TEST(RailLayout, OnlyTwoNodesOrMoreWithEachRankOnceAreALayout) {
  const auto is_of = [](uint32_t ranks_per_node, const std::vector<uint32_t>& by_node, size_t size) {
    return RailLayout{ranks_per_node, std::vector<Rank>(by_node.begin(), by_node.end())}.IsOf(size);
  };
  EXPECT_TRUE(is_of(2, {3, 0, 1, 2}, 4));
  EXPECT_FALSE(is_of(2, {3, 0, 1, 2}, 5));
  EXPECT_FALSE(is_of(2, {3, 0, 1, 1}, 4));
  EXPECT_FALSE(is_of(2, {3, 0, 1, 4}, 4));
  EXPECT_FALSE(is_of(4, {0, 1, 2, 3}, 4)) << "one node";
  EXPECT_FALSE(is_of(1, {0, 1, 2, 3}, 4)) << "one rail";
  EXPECT_FALSE(is_of(3, {0, 1, 2, 3}, 4));
  EXPECT_FALSE(is_of(0, {}, 0));
}

}  // namespace
}  // namespace shoal::scheduler
