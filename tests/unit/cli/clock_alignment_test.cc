#include "cli/clock_alignment.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::cli {
namespace {

// Members whose clocks show so much more than the true time.
class Clocks {
 public:
  explicit Clocks(std::vector<int64_t> ahead_ns) : ahead_ns_(std::move(ahead_ns)) {}

  void Frame(size_t from, size_t to, int64_t true_ns, int64_t delay_ns) {
    frames_.push_back({from, to, true_ns + ahead_ns_[from], true_ns + delay_ns + ahead_ns_[to]});
  }
  std::vector<AlignedClock> Align() const { return AlignClocks(ahead_ns_.size(), frames_); }
  // How wrong the member's times are after they were put on the reference's clock.
  int64_t Error(const AlignedClock& clock, size_t member) const {
    return clock.offset_ns + ahead_ns_[member] - ahead_ns_[clock.reference];
  }

 private:
  const std::vector<int64_t> ahead_ns_;
  std::vector<SeenFrame> frames_;
};

TEST(ClockAlignment, TheFastestFrameOfEachWayBoundsTheError) {
  Clocks clocks({0, 5'000'000'000});
  clocks.Frame(0, 1, 1'000'000, 900'000);
  clocks.Frame(0, 1, 2'000'000, 30'000);
  clocks.Frame(1, 0, 3'000'000, 700'000);
  clocks.Frame(1, 0, 4'000'000, 10'000);
  const std::vector<AlignedClock> aligned = clocks.Align();
  EXPECT_EQ(aligned[0].reference, aligned[1].reference);
  EXPECT_NEAR(static_cast<double>(aligned[1].error_ns), 20'000, 100) << "half of the best round trip, and some drift";
  EXPECT_EQ(std::abs(clocks.Error(aligned[1], 1)), 10'000) << "the ways are not equally fast";
}

TEST(ClockAlignment, ClocksThatMoveApartAreWithinTheErrorAllTheTime) {
  constexpr int64_t kMinuteNs = 60'000'000'000;
  constexpr int64_t kDelayNs = 30'000;
  // The second clock runs fast by 10 ppm.
  const auto shown_ns = [](int64_t true_ns) { return true_ns + true_ns / 100'000; };
  std::vector<SeenFrame> frames;
  for (int64_t at_ns = 0; at_ns <= kMinuteNs; at_ns += kMinuteNs / 10) {
    frames.push_back({0, 1, at_ns, shown_ns(at_ns + kDelayNs)});
    frames.push_back({1, 0, shown_ns(at_ns), at_ns + kDelayNs});
  }
  const std::vector<AlignedClock> aligned = AlignClocks(2, frames);
  for (const int64_t at_ns : {int64_t{0}, kMinuteNs}) {
    EXPECT_LE(std::abs(shown_ns(at_ns) + aligned[1].offset_ns - at_ns), aligned[1].error_ns);
  }
}

TEST(ClockAlignment, MembersThatSentEachOtherNothingAreComparedThroughTheBestOfOthers) {
  // Ranks 0 and 1 both talk to servers 2 and 3, of which 3 is far away.
  Clocks clocks({100, -7'000'000, 40'000'000, 0});
  for (const size_t rank : {0, 1}) {
    for (const size_t server : {2, 3}) {
      const int64_t delay_ns = server == 2 ? 5'000 : 400'000;
      clocks.Frame(rank, server, 1'000'000, delay_ns);
      clocks.Frame(server, rank, 2'000'000, delay_ns);
    }
  }
  for (const AlignedClock& clock : clocks.Align()) EXPECT_EQ(clock.reference, 0u) << "the first of the most connected";
  const std::vector<AlignedClock> aligned = clocks.Align();
  EXPECT_NEAR(static_cast<double>(aligned[1].error_ns), 10'000, 200) << "through server 2";
  EXPECT_NEAR(static_cast<double>(aligned[3].error_ns), 400'000, 100);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(clocks.Error(aligned[i], i), 0) << i << ": both ways are equally fast";
}

TEST(ClockAlignment, WhatWentOneWayAloneComparesNothing) {
  Clocks clocks({0, 50, 0});
  clocks.Frame(0, 1, 0, 10);
  const std::vector<AlignedClock> aligned = clocks.Align();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(aligned[i].reference, i);
    EXPECT_EQ(aligned[i].offset_ns, 0);
  }
}

TEST(ClockAlignment, AFrameThatCameBeforeItWasSentIsNoNegativeError) {
  Clocks clocks({0, 0});
  clocks.Frame(0, 1, 0, -40);
  clocks.Frame(1, 0, 100, 10);
  const std::vector<AlignedClock> aligned = clocks.Align();
  EXPECT_EQ(aligned[1].reference, aligned[0].reference);
  EXPECT_EQ(aligned[1].error_ns, 0) << "times are rounded";
}

}  // namespace
}  // namespace shoal::cli
