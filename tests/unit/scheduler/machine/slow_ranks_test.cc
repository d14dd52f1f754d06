// When a rank is called slow, why, and when no more.
#include "scheduler/machine/slow_ranks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kSettleNs = kNsPerS;

class SlowRanksTest : public ::testing::Test {
 protected:
  // A window of a second that has just ended.
  void Window(uint32_t rank, uint64_t server, double waited, double began_late, uint32_t late_ops = 20,
              size_t servers = 1) {
    ranks_.OnWindow(JobRank(rank), {.group = GroupId(1),
                                    .server = ServerId(server),
                                    .servers_of_group = servers,
                                    .number = ++number_,
                                    .length_ns = kNsPerS,
                                    .end_ns = now_.monotonic_ns,
                                    .ops = 20,
                                    .late_ops = late_ops,
                                    .waited_ns = static_cast<uint64_t>(waited * kNsPerS),
                                    .began_late_ns = static_cast<uint64_t>(began_late * kNsPerS),
                                    .spacing_ns = spacing_ns_,
                                    .median_spacing_ns = spacing_ns_ == 0 ? 0u : 1'000'000u});
  }
  void Away(std::vector<double> shares) {
    for (uint32_t rank = 0; rank < shares.size(); ++rank) ranks_.OnAwayShare(JobRank(rank), shares[rank]);
  }
  std::vector<SlowRanks::Change> JudgeAfter(uint64_t ns) {
    now_.monotonic_ns += ns;
    now_.unix_ms += ns / kNsPerMs;
    return ranks_.Judge(kSettleNs, now_);
  }
  // Judges now, and when the cause has settled.
  std::vector<SlowRanks::Change> JudgeSettled() {
    EXPECT_THAT(JudgeAfter(0), IsEmpty()) << "the cause is not settled";
    return JudgeAfter(kSettleNs);
  }

  SlowRanks ranks_;
  Now now_{.monotonic_ns = 100 * kNsPerS, .unix_ms = 1'700'000'000'000};
  uint64_t number_ = 0;
  uint64_t spacing_ns_ = 0;  // not known
};

TEST_F(SlowRanksTest, ComputesForLonger) {
  Away({0.1, 0.1, 0.4, 0.1});
  Window(2, 1, 0.3, 0.3);
  const auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.rank, JobRank(2));
  EXPECT_FALSE(changes[0].is_over);
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kLateCompute);
  EXPECT_DOUBLE_EQ(changes[0].rank.waited_share, 0.3);
  EXPECT_THAT(ranks_.slow(), SizeIs(1));
  EXPECT_THAT(JudgeAfter(0), IsEmpty()) << "told once";
}

TEST_F(SlowRanksTest, ReadsSlowly) {
  Away({0.1, 0.1, 0.1, 0.1});
  Window(2, 1, 0.3, 0.3);
  const auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kSlowReader);
}

TEST_F(SlowRanksTest, SendsSlowly) {
  Away({0.1, 0.1, 0.1, 0.1});
  Window(2, 1, 0.6, 0.05);
  const auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kSlowLink);
}

TEST_F(SlowRanksTest, HowFarApartChunksComeTellsTheLinkFromTheReader) {
  Away({0.1, 0.1, 0.1, 0.1});
  spacing_ns_ = 1'200'000;
  Window(2, 1, 0.6, 0.05);
  auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kSlowReader) << "it begins in time and sends as fast as others";
  spacing_ns_ = 2'000'000;
  Window(2, 1, 0.6, 0.5);
  JudgeAfter(0);
  changes = JudgeAfter(kSettleNs);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kSlowLink);
}

TEST_F(SlowRanksTest, WithoutHeartbeatsALateBeginningIsTakenForCompute) {
  Window(2, 1, 0.3, 0.3);
  const auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kLateCompute);
}

TEST_F(SlowRanksTest, TwoAtOnceEachHaveTheirCause) {
  Away({0.1, 0.4, 0.1, 0.1});
  Window(1, 1, 0.3, 0.3);
  Window(3, 1, 0.5, 0.02);
  const auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(2));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kLateCompute);
  EXPECT_EQ(changes[1].rank.cause, SlowCause::kSlowLink);
}

TEST_F(SlowRanksTest, ADoubtfulWindowNeedsASecond) {
  Window(2, 1, 0.06, 0.06, /*late_ops=*/17);
  JudgeAfter(0);
  EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty());
  Window(2, 1, 0.06, 0.06, /*late_ops=*/17);
  EXPECT_THAT(JudgeSettled(), SizeIs(1));
}

TEST_F(SlowRanksTest, DoubtfulWindowsFarApartAreNotInARow) {
  for (int i = 0; i < 10; ++i) {
    Window(2, 1, 0.06, 0.06, /*late_ops=*/17);
    EXPECT_THAT(JudgeAfter(4 * kNsPerS + 1), IsEmpty());
  }
}

TEST_F(SlowRanksTest, LateNowAndThenIsNotSlow) {
  for (int i = 0; i < 10; ++i) {
    Window(i % 4, 1, 0.3, 0.3, /*late_ops=*/12);
    EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty());
  }
}

TEST_F(SlowRanksTest, ShortWaitsDoNotMatter) {
  for (int i = 0; i < 10; ++i) {
    Window(2, 1, 0.04, 0.04);
    EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty());
  }
}

TEST_F(SlowRanksTest, OneServerOfSeveralIsNoProof) {
  Window(2, 1, 0.3, 0.3, 20, /*servers=*/2);
  JudgeAfter(0);
  EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty())
      << "a rank that is not on that server's node comes later than one that is";
  Window(2, 2, 0.3, 0.3, 20, /*servers=*/2);
  EXPECT_THAT(JudgeSettled(), SizeIs(1));
}

TEST_F(SlowRanksTest, ACauseOfTheTimeBeforeIsNotTold) {
  Away({0.1, 0.1, 0.1, 0.1});
  Window(2, 1, 0.3, 0.3);
  JudgeAfter(0);
  Away({0.1, 0.1, 0.5, 0.1});  // the first heartbeat that has all of it
  EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty());
  Window(2, 1, 0.3, 0.3);
  const auto changes = JudgeAfter(kSettleNs);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kLateCompute);
}

TEST_F(SlowRanksTest, AnotherCauseIsTold) {
  Away({0.1, 0.1, 0.4, 0.1});
  Window(2, 1, 0.3, 0.3);
  const auto first = JudgeSettled();
  ASSERT_THAT(first, SizeIs(1));
  Away({0.1, 0.1, 0.1, 0.1});
  Window(2, 1, 0.6, 0.01);
  JudgeAfter(0);
  const auto changes = JudgeAfter(kSettleNs);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kSlowLink);
  EXPECT_EQ(changes[0].rank.since_unix_ms, first[0].rank.since_unix_ms);
}

TEST_F(SlowRanksTest, IsOverWhenNobodySaysSoAnyMore) {
  Window(2, 1, 0.3, 0.3);
  ASSERT_THAT(JudgeSettled(), SizeIs(1));
  EXPECT_THAT(JudgeAfter(kNsPerS), IsEmpty());
  const auto changes = JudgeAfter(SlowRanks::kStaleNs);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_TRUE(changes[0].is_over);
  EXPECT_THAT(ranks_.slow(), IsEmpty());
}

TEST_F(SlowRanksTest, ARankThatLeftIsForgotten) {
  Window(2, 1, 0.3, 0.3);
  ASSERT_THAT(JudgeSettled(), SizeIs(1));
  ranks_.Forget(JobRank(2));
  EXPECT_THAT(ranks_.slow(), IsEmpty());
  EXPECT_THAT(JudgeAfter(0), IsEmpty());
}

}  // namespace
}  // namespace shoal::scheduler
