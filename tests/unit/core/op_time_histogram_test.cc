#include "core/op_time_histogram.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace shoal {
namespace {

TEST(OpTimeHistogramTest, AnOpIsInTheFirstBucketWhoseBoundItDoesNotExceed) {
  OpTimeHistogram histogram;
  for (const uint64_t bound_ns : kOpTimeBoundsNs) histogram.Count(bound_ns);
  for (size_t i = 0; i < kOpTimeBoundsNs.size(); ++i) EXPECT_EQ(histogram.counts[i], 1u) << i;
  EXPECT_EQ(histogram.counts.back(), 0u);
  histogram.Count(0);
  EXPECT_EQ(histogram.counts.front(), 2u);
  histogram.Count(kOpTimeBoundsNs.front() + 1);
  EXPECT_EQ(histogram.counts[1], 2u);
  histogram.Count(kOpTimeBoundsNs.back() + 1);
  histogram.Count(UINT64_MAX);
  EXPECT_EQ(histogram.counts.back(), 2u);
  EXPECT_EQ(histogram.Total(), kOpTimeBoundsNs.size() + 4);
}

TEST(OpTimeHistogramTest, BoundsGrowFromTensOfMicrosecondsToTensOfSeconds) {
  EXPECT_EQ(kOpTimeBoundsNs.front(), 20'000u);
  EXPECT_EQ(kOpTimeBoundsNs.back(), 50'000'000'000u);
  for (size_t i = 1; i < kOpTimeBoundsNs.size(); ++i) {
    EXPECT_GE(kOpTimeBoundsNs[i], 2 * kOpTimeBoundsNs[i - 1]);
    EXPECT_LE(2 * kOpTimeBoundsNs[i], 5 * kOpTimeBoundsNs[i - 1]);
  }
}

TEST(OpTimeHistogramTest, AQuantileLiesInTheBucketOfItsOp) {
  OpTimeHistogram histogram;
  EXPECT_EQ(histogram.QuantileNs(0.5), 0u) << "no op";
  for (int i = 0; i < 98; ++i) histogram.Count(1'500'000);   // of 1 to 2 ms
  for (int i = 0; i < 2; ++i) histogram.Count(700'000'000);  // of 500 ms to 1 s
  EXPECT_EQ(histogram.QuantileNs(0.49), 1'500'000u) << "half of the bucket";
  EXPECT_EQ(histogram.QuantileNs(0.99), 750'000'000u);
  EXPECT_EQ(histogram.QuantileNs(1), 1'000'000'000u);
}

TEST(OpTimeHistogramTest, AQuantileBeyondAllBoundsIsTheHighest) {
  OpTimeHistogram histogram;
  histogram.Count(UINT64_MAX);
  EXPECT_EQ(histogram.QuantileNs(0.5), kOpTimeBoundsNs.back());
}

TEST(OpTimeHistogramTest, AnyOtherNumberOfCountsIsNone) {
  std::vector<uint64_t> counts(kOpTimeBuckets, 3);
  EXPECT_EQ(OpTimeHistogramOf(counts).Total(), 3 * kOpTimeBuckets);
  counts.push_back(3);
  EXPECT_EQ(OpTimeHistogramOf(counts), OpTimeHistogram());
  counts.resize(kOpTimeBuckets - 1);
  EXPECT_EQ(OpTimeHistogramOf(counts), OpTimeHistogram());
  EXPECT_EQ(OpTimeHistogramOf(std::vector<uint64_t>()), OpTimeHistogram());
}

}  // namespace
}  // namespace shoal
