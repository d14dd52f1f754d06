#include "scheduler/machine/node_place.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(NodePlaceTest, BootIdsCountWhereBothAreKnownAndElseNames) {
  EXPECT_TRUE(AreOnOneNode({"a", "boot 1"}, {"a", "boot 1"}));
  EXPECT_TRUE(AreOnOneNode({"pod-1", "boot 1"}, {"pod-2", "boot 1"}));
  EXPECT_FALSE(AreOnOneNode({"localhost", "boot 1"}, {"localhost", "boot 2"}));
  EXPECT_TRUE(AreOnOneNode({"a", ""}, {"a", "boot 1"}));
  EXPECT_FALSE(AreOnOneNode({"a", "boot 1"}, {"b", ""}));
  EXPECT_TRUE(AreOnOneNode({"a", ""}, {"a", ""}));
  EXPECT_FALSE(AreOnOneNode({"a", ""}, {"b", ""}));
}

std::vector<uint32_t> NumbersOf(const std::vector<NodePlace>& members) {
  const NodeNumbering nodes(members);
  std::vector<uint32_t> numbers;
  for (const NodePlace& member : members) numbers.push_back(nodes.Find(member).value_or(UINT32_MAX));
  return numbers;
}

TEST(NodeNumberingTest, EveryMemberIsOnOneNode) {
  EXPECT_THAT(NumbersOf({{"a", ""}, {"b", ""}, {"a", ""}}), ElementsAre(0, 1, 0));
  EXPECT_THAT(NumbersOf({{"localhost", "boot 1"}, {"localhost", "boot 2"}, {"localhost", "boot 1"}}),
              ElementsAre(0, 1, 0));
  EXPECT_THAT(NumbersOf({{"pod-1", "boot 1"}, {"pod-2", "boot 1"}, {"pod-3", "boot 2"}}), ElementsAre(0, 0, 1));
}

TEST(NodeNumberingTest, WhoTellsNoBootIdIsOnTheFirstNodeOfTheName) {
  EXPECT_THAT(NumbersOf({{"a", ""}, {"a", "boot 1"}, {"a", "boot 2"}}), ElementsAre(0, 0, 1));
  EXPECT_THAT(NumbersOf({{"b", ""}, {"a", "boot 1"}, {"b", ""}}), ElementsAre(1, 0, 1));
  EXPECT_EQ(NodeNumbering(std::vector<NodePlace>{{"a", ""}, {"a", "boot 1"}, {"a", "boot 2"}}).count(), 2u);
}

TEST(NodeNumberingTest, OthersAreFoundByTheSameRule) {
  const std::vector<NodePlace> members = {{"a", "boot 1"}, {"a", ""}, {"b", ""}};
  const NodeNumbering nodes(members);
  EXPECT_THAT(nodes.Find({"c", "boot 1"}), Optional(0u));
  EXPECT_EQ(nodes.Find({"a", "boot 2"}), std::nullopt) << "the node named a is another one";
  EXPECT_THAT(nodes.Find({"b", "boot 2"}), Optional(1u)) << "nothing is known against it";
  EXPECT_EQ(nodes.Find({"c", "boot 2"}), std::nullopt);
  EXPECT_EQ(nodes.Find({"c", ""}), std::nullopt);
}

}  // namespace
}  // namespace shoal::scheduler
