#include "scheduler/insight/recent_growth.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shoal::scheduler {
namespace {

TEST(RecentGrowthTest, SpansFiveToTenSecondsOnceItIsFull) {
  RecentGrowth<2> growth;
  Now now{.monotonic_ns = kNsPerS};
  for (uint64_t second = 0; second <= 100; ++second, now.monotonic_ns += kNsPerS) {
    growth.Note({3 * second, 7}, now);
    const auto lately = growth.Get();
    ASSERT_EQ(lately.has_value(), second > 0);
    if (second == 0) continue;
    EXPECT_DOUBLE_EQ(lately->PerSecond(0), 3) << second;
    EXPECT_DOUBLE_EQ(lately->PerSecond(1), 0) << second;
    EXPECT_LE(lately->seconds, 11);
    EXPECT_GE(lately->seconds, std::min<double>(static_cast<double>(second), 5));
  }
}

TEST(RecentGrowthTest, BeginsAnewWhereATotalFalls) {
  RecentGrowth<2> growth;
  growth.Note({5, 5}, {.monotonic_ns = 1 * kNsPerS});
  growth.Note({6, 6}, {.monotonic_ns = 2 * kNsPerS});
  growth.Note({100, 0}, {.monotonic_ns = 3 * kNsPerS});
  EXPECT_FALSE(growth.Get().has_value());
  growth.Note({104, 2}, {.monotonic_ns = 5 * kNsPerS});
  EXPECT_DOUBLE_EQ(growth.Get()->PerSecond(0), 2);
  EXPECT_DOUBLE_EQ(growth.Get()->PerSecond(1), 1);
}

TEST(RecentGrowthTest, TwoHeartbeatsOfOneMomentHaveNoRate) {
  RecentGrowth<1> growth;
  growth.Note({1}, {.monotonic_ns = kNsPerS});
  growth.Note({2}, {.monotonic_ns = kNsPerS});
  EXPECT_FALSE(growth.Get().has_value());
}

}  // namespace
}  // namespace shoal::scheduler
