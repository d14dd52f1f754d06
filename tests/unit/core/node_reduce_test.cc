#include "core/node_reduce.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(NodeReduce, NamesAndNumbersComeBack) {
  for (const auto choice :
       {NodeReduceChoice::kAuto, NodeReduceChoice::kOff, NodeReduceChoice::kHost, NodeReduceChoice::kNccl}) {
    EXPECT_EQ(NodeReduceChoiceFromName(NodeReduceChoiceName(choice)), choice);
    EXPECT_EQ(NodeReduceChoiceFromNumber(static_cast<uint32_t>(choice)), choice);
  }
  for (const auto mode : {NodeReduceMode::kFlat, NodeReduceMode::kNodeAlone, NodeReduceMode::kRails}) {
    EXPECT_EQ(NodeReduceModeFromNumber(static_cast<uint32_t>(mode)), mode);
  }
  EXPECT_EQ(NodeReduceModeName(NodeReduceMode::kNodeAlone), "node alone");
  EXPECT_EQ(NodeReduceChoiceName(NodeReduceChoice::kHost), "host");
  EXPECT_EQ(static_cast<int>(NodeReduceMode::kNodeAlone), 1) << "numbers are frozen";
  EXPECT_EQ(static_cast<int>(NodeReduceMode::kRails), 2);
  EXPECT_EQ(static_cast<int>(NodeReduceChoice::kOff), 1);
  EXPECT_EQ(static_cast<int>(NodeReduceChoice::kHost), 2);
  EXPECT_EQ(static_cast<int>(NodeReduceChoice::kNccl), 3);
}

TEST(NodeReduce, WhatIsUnknownIsNone) {
  for (const uint32_t number : {3u, 256u, 258u, UINT32_MAX}) EXPECT_FALSE(NodeReduceModeFromNumber(number)) << number;
  for (const uint32_t number : {4u, 256u, 258u, UINT32_MAX}) EXPECT_FALSE(NodeReduceChoiceFromNumber(number)) << number;
  for (const char* name : {"", "ring", "AUTO", "on", "host "}) EXPECT_FALSE(NodeReduceChoiceFromName(name)) << name;
}

}  // namespace
}  // namespace shoal
