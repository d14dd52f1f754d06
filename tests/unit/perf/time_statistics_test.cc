#include "perf/time_statistics.h"

#include <numeric>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(TimeStatistics, PercentilesAreMeasuredTimes) {
  std::vector<double> times(200);
  std::iota(times.rbegin(), times.rend(), 1.0);  // 200 .. 1
  const TimeStatistics statistics = Summarize(times);
  EXPECT_EQ(statistics.min, 1.0);
  EXPECT_EQ(statistics.p50, 100.0);
  EXPECT_EQ(statistics.p99, 198.0);
  EXPECT_EQ(statistics.max, 200.0);
}

TEST(TimeStatistics, FewTimes) {
  EXPECT_EQ(Summarize({}), (TimeStatistics{0, 0, 0, 0}));
  EXPECT_EQ(Summarize({3}), (TimeStatistics{3, 3, 3, 3}));
  EXPECT_EQ(Summarize({4, 2}), (TimeStatistics{2, 2, 4, 4}));
  EXPECT_EQ(Summarize({9, 1, 5}), (TimeStatistics{1, 5, 9, 9}));
}

TEST(TimeStatistics, BusBandwidthFactorOfAllReduce) {
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(0), 0.0);
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(1), 0.0);
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(2), 1.0);
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(4), 1.5);
  EXPECT_DOUBLE_EQ(BusBandwidthFactor(8), 1.75);
}

}  // namespace
}  // namespace shoal
