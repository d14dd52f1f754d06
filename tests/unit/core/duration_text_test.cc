#include "core/duration_text.h"

#include "core/now.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(DurationText, ATenthIsWrittenOnlyWhereThereIsOneAndNothingIsRoundedUp) {
  EXPECT_EQ(Seconds(0), "0 s");
  EXPECT_EQ(Seconds(12 * kNsPerS), "12 s");
  EXPECT_EQ(Seconds(12 * kNsPerS + 399 * kNsPerMs), "12.3 s");
  EXPECT_EQ(Seconds(99 * kNsPerMs), "0 s");
  EXPECT_EQ(Seconds(86'400 * kNsPerS), "86400 s");
}

}  // namespace
}  // namespace shoal
