#include "scheduler/machine/node_reduce_decision.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

// What the ranks 3, 4, 5, ... of a job say. `nullopt` among them: an older process.
class Ranks {
 public:
  explicit Ranks(size_t count) : requests_(count, NodeReduceRequest{.possible = true, .node_identity = "here"}) {}

  NodeReduceRequest& operator[](size_t index) { return *requests_[index]; }
  void MakeOlder(size_t index) { requests_[index].reset(); }
  void SetNode(const std::string& node) { node_of_last_ = node; }

  NodeReduceDecision Decide(std::optional<size_t> group_size = std::nullopt) const {
    std::vector<NodeReduceMember> members;
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
  ExpectFlat(older.Decide(), "rank 5's process is older than that");
  Ranks unable(3);
  unable[1].possible = false;
  ExpectFlat(unable.Decide(), "rank 4's process can't");
}

TEST(NodeReduceDecision, ARankElsewhereIsNamedWithBothNodes) {
  Ranks ranks(3);
  ranks.SetNode("node-b");
  ranks[2].node_identity = "there";
  ExpectFlat(ranks.Decide(), "rank 5 is on another node (node-b) than rank 3 (node-a)");
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
  EXPECT_THAT(ranks.Decide().reason, HasSubstr("rank 3's process (on node node-a) does not know"));
}

TEST(NodeReduceDecision, WhileRanksAreMissingItHoldsForThoseThatAreThere) {
  EXPECT_EQ(Ranks(1).Decide(/*group_size=*/2).mode, NodeReduceMode::kNodeAlone);
  EXPECT_EQ(Ranks(0).Decide(/*group_size=*/2).mode, NodeReduceMode::kFlat);
}

}  // namespace
}  // namespace shoal::scheduler
