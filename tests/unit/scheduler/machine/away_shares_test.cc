// Shares of the time away, from counters that move once a cycle.
#include "scheduler/machine/away_shares.h"

#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

constexpr JobRank kRank(3);

Now At(uint64_t seconds) { return {.monotonic_ns = (1000 + seconds) * kNsPerS, .unix_ms = 0}; }

TEST(AwaySharesTest, NothingIsKnownBeforeTwoCounts) {
  AwayShares shares;
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(0)), std::nullopt);
  shares.OnHeartbeat(kRank, 0, 0, At(0));
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(0)), std::nullopt);
  shares.OnHeartbeat(kRank, 3 * kNsPerS, 10 * kNsPerS, At(10));
  EXPECT_DOUBLE_EQ(*shares.Of(kRank, kNsPerS, At(10)), 0.3);
}

TEST(AwaySharesTest, CyclesThatAreLongerThanHeartbeatsCountWhole) {
  AwayShares shares;
  // Steps of 10 s of which 6 are away; a heartbeat each second finds the counters as they were most of the time.
  for (uint64_t second = 0; second <= 40; ++second) {
    const uint64_t cycles = second / 10;
    shares.OnHeartbeat(kRank, 6 * cycles * kNsPerS, 10 * cycles * kNsPerS, At(second));
    if (second < 10) continue;
    const std::optional<double> share = shares.Of(kRank, 20 * kNsPerS, At(second));
    ASSERT_TRUE(share.has_value()) << second;
    EXPECT_DOUBLE_EQ(*share, 0.6) << second;
  }
}

TEST(AwaySharesTest, TheNewestCountsDecide) {
  AwayShares shares;
  for (uint64_t second = 0; second <= 20; ++second) {
    const uint64_t away_ns = second <= 10 ? 0 : (second - 10) * kNsPerS / 2;
    shares.OnHeartbeat(kRank, away_ns, second * kNsPerS, At(second));
  }
  EXPECT_DOUBLE_EQ(*shares.Of(kRank, 2 * kNsPerS, At(20)), 0.5);
  EXPECT_DOUBLE_EQ(*shares.Of(kRank, 100 * kNsPerS, At(20)), 0.25);
}

TEST(AwaySharesTest, OldCountsAndThoseOfAnotherProcessAreForgotten) {
  AwayShares shares;
  shares.OnHeartbeat(kRank, 0, kNsPerS, At(0));
  shares.OnHeartbeat(kRank, kNsPerS, 2 * kNsPerS, At(1));
  EXPECT_TRUE(shares.Of(kRank, kNsPerS, At(2)).has_value());
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(13)), std::nullopt) << "its ops have overlapped ever since";
  shares.OnHeartbeat(kRank, 0, kNsPerS, At(14));
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(14)), std::nullopt) << "it counts anew";
  shares.OnHeartbeat(kRank, 9 * kNsPerS, 3 * kNsPerS, At(15));
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(15)), std::nullopt) << "away for longer than there was time";
}

}  // namespace
}  // namespace shoal::scheduler
