#include "core/node_parts.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(NodeParts, PartsCoverTheTensorInOrderWithoutGapOrOverlap) {
  for (uint32_t parts = 1; parts <= 9; ++parts) {
    for (uint64_t elements = 0; elements < 2'000; elements = elements * 5 / 4 + 1) {
      uint64_t end = 0;
      for (uint32_t part = 0; part < parts; ++part) {
        const ElementRange range = NodePart(elements, parts, part);
        EXPECT_EQ(range.first, end);
        end = range.first + range.count;
      }
      EXPECT_EQ(end, elements) << parts << " parts";
    }
  }
}

TEST(NodeParts, PartsBeginAtCacheLinesAndNoneIsLongerThanTheFirst) {
  for (uint32_t parts = 1; parts <= 9; ++parts) {
    const uint64_t longest = NodePart(10'001, parts, 0).count;
    EXPECT_LT(longest, (10'001 + parts - 1) / parts + kPartAlignmentElements);
    for (uint32_t part = 0; part < parts; ++part) {
      const ElementRange range = NodePart(10'001, parts, part);
      EXPECT_TRUE(range.first % kPartAlignmentElements == 0 || range.count == 0);
      EXPECT_LE(range.count, longest);
    }
  }
}

TEST(NodeParts, FewElementsAreTheFirstPartsAlone) {
  EXPECT_EQ(NodePart(65, 4, 0), (ElementRange{.first = 0, .count = 64}));
  EXPECT_EQ(NodePart(65, 4, 1), (ElementRange{.first = 64, .count = 1}));
  EXPECT_EQ(NodePart(65, 4, 2).count, 0u);
  EXPECT_EQ(NodePart(65, 4, 3).count, 0u);
}

}  // namespace
}  // namespace shoal
