// Shares of the time away, from counters that move once a cycle.
#include "scheduler/insight/away_shares.h"

#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

constexpr JobRank kRank(3);

Now At(uint64_t seconds) { return {.monotonic_ns = (1000 + seconds) * kNsPerS, .unix_ms = 0}; }

TEST(AwaySharesTest, NothingIsKnownBeforeTwoCounts) {
  AwayShares shares;
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(0)), std::nullopt);
  shares.OnHeartbeat(kRank, 0, 0, 0, At(0));
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(0)), std::nullopt);
  shares.OnHeartbeat(kRank, 3 * kNsPerS, 10 * kNsPerS, 0, At(10));
  EXPECT_DOUBLE_EQ(*shares.Of(kRank, kNsPerS, At(10)), 0.3);
}

TEST(AwaySharesTest, CyclesThatAreLongerThanHeartbeatsCountWhole) {
  AwayShares shares;
  // Steps of 10 s of which 6 are away; a heartbeat each second finds the counters as they were most of the time.
  for (uint64_t second = 0; second <= 40; ++second) {
    const uint64_t cycles = second / 10;
    shares.OnHeartbeat(kRank, 6 * cycles * kNsPerS, 10 * cycles * kNsPerS, 0, At(second));
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
    shares.OnHeartbeat(kRank, away_ns, second * kNsPerS, 0, At(second));
  }
  EXPECT_DOUBLE_EQ(*shares.Of(kRank, 2 * kNsPerS, At(20)), 0.5);
  EXPECT_DOUBLE_EQ(*shares.Of(kRank, 100 * kNsPerS, At(20)), 0.25);
}

TEST(AwaySharesTest, TheNewestTwoSpansFollowEachOther) {
  AwayShares shares;
  uint64_t away_ns = 0;
  for (uint64_t second = 0; second <= 10; ++second) {
    // Away for a tenth of the time, and from 6 s to 8 s for half of it.
    if (second > 0) away_ns += second > 6 && second <= 8 ? kNsPerS / 2 : kNsPerS / 10;
    shares.OnHeartbeat(kRank, away_ns, second * kNsPerS, 7 * second, At(second));
    EXPECT_EQ(shares.NewestTwo(kRank, 2 * kNsPerS, kNsPerS, At(second)).has_value(), second >= 4) << second;
  }
  const auto spans = shares.NewestTwo(kRank, 2 * kNsPerS, kNsPerS, At(10));
  ASSERT_TRUE(spans.has_value());
  const auto& [newest, before] = *spans;
  EXPECT_DOUBLE_EQ(newest.Share(), 0.1);
  EXPECT_DOUBLE_EQ(before.Share(), 0.5);
  EXPECT_EQ(newest.ops, 14u);
  EXPECT_EQ(newest.began_ns, At(8).monotonic_ns);
  EXPECT_EQ(before.began_ns, At(6).monotonic_ns);
}

TEST(AwaySharesTest, SpansOfLongCyclesCountUntilTheNextCycleIsOver) {
  AwayShares shares;
  // Heartbeats each second, of cycles of 20 s.
  for (uint64_t second = 0; second <= 100; ++second) {
    const uint64_t cycles = second / 20;
    shares.OnHeartbeat(kRank, 6 * cycles * kNsPerS, 20 * cycles * kNsPerS, cycles, At(second));
    EXPECT_EQ(shares.NewestTwo(kRank, 2 * kNsPerS, kNsPerS, At(second)).has_value(), second >= 40) << second;
  }
  EXPECT_TRUE(shares.NewestTwo(kRank, 2 * kNsPerS, kNsPerS, At(132)).has_value());
  EXPECT_FALSE(shares.NewestTwo(kRank, 2 * kNsPerS, kNsPerS, At(133)).has_value()) << "it makes no more ops";
}

TEST(AwaySharesTest, FrequentHeartbeatsLeaveRoomForTwoSpans) {
  AwayShares shares;
  for (uint64_t beat = 0; beat <= 1000; ++beat) {
    const uint64_t ns = beat * 20 * kNsPerMs;
    shares.OnHeartbeat(kRank, ns / 10, ns, beat, {.monotonic_ns = ns, .unix_ms = 0});
  }
  EXPECT_TRUE(shares.NewestTwo(kRank, 2 * kNsPerS, kNsPerS, {.monotonic_ns = 20 * kNsPerS, .unix_ms = 0}).has_value());
}

TEST(AwaySharesTest, OldCountsAndThoseOfAnotherProcessAreForgotten) {
  AwayShares shares;
  shares.OnHeartbeat(kRank, 0, kNsPerS, 0, At(0));
  shares.OnHeartbeat(kRank, kNsPerS, 2 * kNsPerS, 0, At(1));
  EXPECT_TRUE(shares.Of(kRank, kNsPerS, At(2)).has_value());
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(13)), std::nullopt) << "its ops have overlapped ever since";
  shares.OnHeartbeat(kRank, 0, kNsPerS, 0, At(14));
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(14)), std::nullopt) << "it counts anew";
  shares.OnHeartbeat(kRank, 9 * kNsPerS, 3 * kNsPerS, 0, At(15));
  EXPECT_EQ(shares.Of(kRank, kNsPerS, At(15)), std::nullopt) << "away for longer than there was time";
}

}  // namespace
}  // namespace shoal::scheduler
