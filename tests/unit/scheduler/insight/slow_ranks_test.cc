// When a rank is called slow, why, and when no more.
#include "scheduler/insight/slow_ranks.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kSettleNs = kNsPerS;
constexpr Epoch kEpoch(7);

// A group of four ranks of the job on server 1, whose windows are a second long.
class SlowRanksTest : public ::testing::Test {
 protected:
  SlowRanksTest() { SetServers({1}); }

  void SetServers(const std::vector<uint64_t>& servers) {
    group_.id = GroupId(1);
    group_.epoch = kEpoch;
    group_.ranks = {JobRank(0), JobRank(1), JobRank(2), JobRank(3)};
    group_.shards.clear();
    for (const uint64_t server : servers) group_.shards.push_back({.server = ServerId(server)});
  }

  void Window(uint32_t rank, double waited, double began_late, LateWindow more = {}) {
    LateWindow window = more;
    window.group = group_.id;
    window.epoch = more.epoch == Epoch() ? kEpoch : more.epoch;
    window.rank = Rank(rank);
    window.server = more.server == ServerId() ? ServerId(1) : more.server;
    window.number = ++number_;
    window.times.length_ns = kNsPerS;
    window.times.end_ns = now_.monotonic_ns;
    window.ops = 20;
    window.late_ops = more.late_ops == 0 ? 20 : more.late_ops;
    window.waited_ns = static_cast<uint64_t>(waited * kNsPerS);
    window.began_late_ns = static_cast<uint64_t>(began_late * kNsPerS);
    ranks_.OnWindow(window);
  }
  // In two windows, one after the other.
  void Windows(uint32_t rank, double waited, double began_late, const LateWindow& more = {}) {
    Window(rank, waited, began_late, more);
    Pass(kNsPerS);
    Window(rank, waited, began_late, more);
  }
  void Pass(uint64_t ns) {
    now_.monotonic_ns += ns;
    now_.unix_ms += ns / kNsPerMs;
  }
  // From now on the ranks are away for these shares of the time, which are known at once.
  void Away(const std::vector<double>& shares) {
    Pass(kNsPerS);
    counted_ns_ += 10 * kNsPerS;
    for (uint32_t rank = 0; rank < shares.size(); ++rank) {
      if (away_ns_.size() <= rank) away_ns_.push_back(0);
      ranks_.away().OnHeartbeat(JobRank(rank), away_ns_[rank], counted_ns_, 0, now_);
      away_ns_[rank] += static_cast<uint64_t>(shares[rank] * 10 * kNsPerS);
    }
    counted_ns_ += 10 * kNsPerS;
    for (uint32_t rank = 0; rank < shares.size(); ++rank) {
      ranks_.away().OnHeartbeat(JobRank(rank), away_ns_[rank], counted_ns_, 0, now_);
    }
  }
  std::vector<SlowRanks::Change> JudgeAfter(uint64_t ns) {
    Pass(ns);
    return ranks_.Judge([this](GroupId id) { return id == group_.id ? &group_ : nullptr; }, on_one_node_, kSettleNs,
                        now_);
  }
  // Judges now, and when the cause has settled.
  std::vector<SlowRanks::Change> JudgeSettled() {
    EXPECT_THAT(JudgeAfter(0), IsEmpty()) << "the cause is not settled";
    return JudgeAfter(kSettleNs);
  }
  // One rank is slow, because of this.
  void ExpectSettled(SlowCause cause) {
    const auto changes = JudgeSettled();
    ASSERT_THAT(changes, SizeIs(1));
    EXPECT_EQ(changes[0].rank.cause, cause);
  }

  SlowRanks ranks_;
  GroupState group_;
  std::set<std::vector<JobRank>> on_one_node_;
  Now now_{.monotonic_ns = 100 * kNsPerS, .unix_ms = 1'700'000'000'000};
  uint64_t number_ = 0;
  uint64_t counted_ns_ = 0;
  std::vector<uint64_t> away_ns_;
};

TEST_F(SlowRanksTest, ComputesForLonger) {
  Away({0.1, 0.1, 0.4, 0.1});
  const uint64_t since_unix_ms = now_.unix_ms - 1000;
  Windows(2, 0.3, 0.3);
  const auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.rank, JobRank(2));
  EXPECT_FALSE(changes[0].is_over);
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kLateCompute);
  EXPECT_DOUBLE_EQ(changes[0].rank.waited_share, 0.3);
  EXPECT_EQ(changes[0].rank.waited_ns_per_op, 15'000'000u) << "20 ops in a window of a second";
  EXPECT_EQ(changes[0].rank.since_unix_ms, since_unix_ms) << "since its first late window began";
  EXPECT_THAT(ranks_.slow(), SizeIs(1));
  EXPECT_THAT(JudgeAfter(0), IsEmpty()) << "told once";
}

// It begins 20 ms late in each 260 ms, and what it has to send then takes 40 ms.
TEST_F(SlowRanksTest, ComputesForALittleLongerThanOthersWhoseOpsTakeLong) {
  Away({0.76, 0.76, 0.84, 0.76});
  Windows(2, 0.21, 0.076);
  ExpectSettled(SlowCause::kLateCompute);
}

// Results reach it late in each 260 ms, so that it begins the next op late; it does not compute for longer.
TEST_F(SlowRanksTest, ReadsSlowlyWhereOpsTakeLong) {
  Away({0.76, 0.76, 0.78, 0.76});
  Windows(2, 0.21, 0.076);
  ExpectSettled(SlowCause::kSlowReader);
}

TEST_F(SlowRanksTest, ReadsSlowly) {
  Away({0.1, 0.1, 0.1, 0.1});
  Windows(2, 0.3, 0.3);
  ExpectSettled(SlowCause::kSlowReader);
}

TEST_F(SlowRanksTest, WithoutSpacingsNothingTellsTheWayThereFromTheWayBack) {
  Away({0.1, 0.1, 0.1, 0.1});
  Windows(2, 0.6, 0.05);
  ExpectSettled(SlowCause::kSlowReader);
}

TEST_F(SlowRanksTest, SendsSlowly) {
  Away({0.1, 0.1, 0.1, 0.1});
  Windows(2, 0.6, 0.05, {.spacing_ns = 2'000'000, .median_spacing_ns = 1'000'000});
  ExpectSettled(SlowCause::kSlowLink);
}

TEST_F(SlowRanksTest, HowFarApartChunksComeTellsTheLinkFromTheReader) {
  Away({0.1, 0.1, 0.1, 0.1});
  Windows(2, 0.6, 0.05, {.spacing_ns = 1'200'000, .median_spacing_ns = 1'000'000});
  auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kSlowReader) << "it begins in time and sends as fast as others";
  Away({0.1, 0.1, 0.1, 0.1});
  Windows(2, 0.6, 0.5, {.spacing_ns = 2'000'000, .median_spacing_ns = 1'000'000});
  JudgeAfter(0);
  EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty()) << "another cause so soon";
  for (int i = 0; i < 4; ++i) {
    Away({0.1, 0.1, 0.1, 0.1});
    Windows(2, 0.6, 0.5, {.spacing_ns = 2'000'000, .median_spacing_ns = 1'000'000});
  }
  changes = JudgeAfter(kSettleNs);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kSlowLink);
}

TEST_F(SlowRanksTest, MostServersSayHowFarApartChunksCome) {
  SetServers({1, 2, 3});
  Away({0.1, 0.1, 0.1, 0.1});
  for (int i = 0; i < 2; ++i) {
    Window(2, 0.6, 0.3, {.server = ServerId(1), .spacing_ns = 1'000'000, .median_spacing_ns = 1'000'000});
    Window(2, 0.5, 0.3, {.server = ServerId(2), .spacing_ns = 2'000'000, .median_spacing_ns = 1'000'000});
    Window(2, 0.5, 0.3, {.server = ServerId(3), .spacing_ns = 2'000'000, .median_spacing_ns = 1'000'000});
    Pass(kNsPerS);
  }
  ExpectSettled(SlowCause::kSlowLink);
}

TEST_F(SlowRanksTest, WithoutHeartbeatsALateBeginningIsTakenForCompute) {
  Windows(2, 0.3, 0.3);
  ExpectSettled(SlowCause::kLateCompute);
}

TEST_F(SlowRanksTest, RanksOfOtherGroupsThatAreAwayForLongerDoNotCount) {
  for (uint32_t rank = 10; rank < 20; ++rank) {
    ranks_.away().OnHeartbeat(JobRank(rank), 0, kNsPerS, 0, now_);
    ranks_.away().OnHeartbeat(JobRank(rank), 9 * kNsPerS, 10 * kNsPerS, 0, now_);
  }
  Away({0.1, 0.1, 0.4, 0.1});
  Windows(2, 0.3, 0.3);
  ExpectSettled(SlowCause::kLateCompute);
}

TEST_F(SlowRanksTest, TwoAtOnceEachHaveTheirCause) {
  Away({0.1, 0.4, 0.1, 0.1});
  Window(1, 0.3, 0.3);
  Window(3, 0.5, 0.02, {.spacing_ns = 2'000'000, .median_spacing_ns = 1'000'000});
  Pass(kNsPerS);
  Window(1, 0.3, 0.3);
  Window(3, 0.5, 0.02, {.spacing_ns = 2'000'000, .median_spacing_ns = 1'000'000});
  const auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(2));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kLateCompute);
  EXPECT_EQ(changes[1].rank.cause, SlowCause::kSlowLink);
}

TEST_F(SlowRanksTest, OneWindowIsNotEnough) {
  Window(2, 0.9, 0.9);
  JudgeAfter(0);
  EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty());
}

TEST_F(SlowRanksTest, TheSameWindowAgainIsNotASecondOne) {
  const LateWindow window{.group = group_.id,
                          .epoch = kEpoch,
                          .rank = Rank(2),
                          .server = ServerId(1),
                          .number = 5,
                          .times = {.end_ns = now_.monotonic_ns, .length_ns = kNsPerS},
                          .ops = 20,
                          .late_ops = 20,
                          .waited_ns = kNsPerS / 2};
  for (int i = 0; i < 3; ++i) {
    ranks_.OnWindow(window);
    EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty());
  }
}

TEST_F(SlowRanksTest, IoThreadsOfAServerHaveWindowsOfTheirOwn) {
  for (int i = 0; i < 3; ++i) {
    Window(2, 0.01, 0, {.io_thread = 0});
    Window(2, 0.5, 0.5, {.io_thread = 1});
    Pass(kNsPerS);
  }
  EXPECT_THAT(JudgeSettled(), SizeIs(1)) << "late at one of them is late at the server";
}

TEST_F(SlowRanksTest, WindowsFarApartAreNotInARow) {
  for (int i = 0; i < 10; ++i) {
    Window(2, 0.3, 0.3);
    EXPECT_THAT(JudgeAfter(5 * kNsPerS), IsEmpty());
  }
}

TEST_F(SlowRanksTest, LateNowAndThenIsNotSlow) {
  for (int i = 0; i < 10; ++i) {
    Window(static_cast<uint32_t>(i % 4), 0.3, 0.3, {.late_ops = 12});
    EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty());
  }
}

TEST_F(SlowRanksTest, ShortWaitsDoNotMatter) {
  for (int i = 0; i < 10; ++i) {
    Window(2, 0.04, 0.04);
    EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty());
  }
}

TEST_F(SlowRanksTest, ARankThatWasToldStaysSoAtHalfOfTheThresholds) {
  Windows(2, 0.3, 0.3);
  ASSERT_THAT(JudgeSettled(), SizeIs(1));
  for (int i = 0; i < 10; ++i) {
    Window(2, 0.04, 0.04, {.late_ops = 10});
    EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty()) << "neither over nor told again";
  }
}

TEST_F(SlowRanksTest, OneServerOfSeveralIsNoProof) {
  SetServers({1, 2});
  Windows(2, 0.3, 0.3);
  JudgeAfter(0);
  EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty()) << "a rank off that server's node comes later than one on it";
  Window(2, 0.3, 0.3);
  Window(2, 0.3, 0.3, {.server = ServerId(2)});
  Pass(kNsPerS);
  Window(2, 0.3, 0.3);
  Window(2, 0.3, 0.3, {.server = ServerId(2)});
  EXPECT_THAT(JudgeSettled(), SizeIs(1));
}

TEST_F(SlowRanksTest, ARankThatAloneComesByTheNetworkIsSlowByItsCallsOnly) {
  Away({0.1, 0.1, 0.1, 0.1});
  Windows(2, 0.6, 0.1, {.alone_by_network = true});
  JudgeAfter(0);
  EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty());
  Away({0.1, 0.1, 0.6, 0.1});
  Windows(2, 0.6, 0.6, {.alone_by_network = true});
  EXPECT_THAT(JudgeSettled(), SizeIs(1));
}

TEST_F(SlowRanksTest, ACauseOfTheTimeBeforeIsNotTold) {
  Away({0.1, 0.1, 0.1, 0.1});
  Windows(2, 0.3, 0.3);
  JudgeAfter(0);
  Away({0.1, 0.1, 0.5, 0.1});  // the first heartbeat that has all of it
  EXPECT_THAT(JudgeAfter(0), IsEmpty());
  Windows(2, 0.3, 0.3);
  const auto changes = JudgeAfter(kSettleNs);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kLateCompute);
}

TEST_F(SlowRanksTest, IsOverWhenNobodySaysSoAnyMore) {
  Windows(2, 0.3, 0.3);
  ASSERT_THAT(JudgeSettled(), SizeIs(1));
  EXPECT_THAT(JudgeAfter(kNsPerS), IsEmpty());
  const auto changes = JudgeAfter(kStaleNs);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_TRUE(changes[0].is_over);
  EXPECT_THAT(ranks_.slow(), IsEmpty());
}

// As on a node that has too much to do: for some seconds it is late, then it is not, and the cause is now this and now
// that.
TEST_F(SlowRanksTest, ARankThatIsSlowNowAndThenIsToldLessAndLessOften) {
  size_t told = 0;
  for (int turn = 0; turn < 10; ++turn) {
    Away({0.1, 0.1, turn % 2 == 0 ? 0.4 : 0.1, 0.1});
    for (int second = 0; second < 4; ++second) {
      Window(2, 0.3, 0.3, {.spacing_ns = 100, .median_spacing_ns = 100});
      told += JudgeAfter(kNsPerS).size();
    }
    Window(2, 0, 0);
    for (int second = 0; second < 4; ++second) told += JudgeAfter(kNsPerS).size();
  }
  EXPECT_GE(told, 3u);
  EXPECT_LE(told, 7u) << "of ten times that it was slow, in 90 seconds";
  for (int second = 0; second < 80; ++second) told += JudgeAfter(kNsPerS).size();
  EXPECT_THAT(ranks_.slow(), IsEmpty());
}

TEST_F(SlowRanksTest, AnotherEpochOfTheGroupBeginsAnew) {
  Windows(2, 0.3, 0.3);
  ASSERT_THAT(JudgeSettled(), SizeIs(1));
  group_.epoch = Epoch(8);
  EXPECT_TRUE(JudgeAfter(0).at(0).is_over) << "what its old servers said does not count";
  Window(2, 0.3, 0.3, {.epoch = Epoch(8)});
  JudgeAfter(0);
  EXPECT_THAT(JudgeAfter(kSettleNs), IsEmpty()) << "one window of this epoch";
}

TEST_F(SlowRanksTest, AClosedGroupSaysNothing) {
  Windows(2, 0.3, 0.3);
  ASSERT_THAT(JudgeSettled(), SizeIs(1));
  group_.id = GroupId(2);
  EXPECT_TRUE(JudgeAfter(0).at(0).is_over);
}

TEST_F(SlowRanksTest, ARankThatLeftIsForgotten) {
  Windows(2, 0.3, 0.3);
  ASSERT_THAT(JudgeSettled(), SizeIs(1));
  ranks_.Forget(JobRank(2));
  EXPECT_THAT(ranks_.slow(), IsEmpty());
}

// Two nodes of two ranks each: ranks 0, 1 and 2, 3. Rail 0 has ranks 0 and 2, rail 1 ranks 1 and 3.
class SlowRailTest : public SlowRanksTest {
 protected:
  SlowRailTest() {
    group_.ranks = {JobRank(0), JobRank(2)};
    group_.rail = RailState{.first_rail = group_.id,
                            .index = 0,
                            .group_ranks = {JobRank(0), JobRank(1), JobRank(2), JobRank(3)},
                            .layout = {.ranks_per_node = 2, .by_node = {Rank(0), Rank(1), Rank(2), Rank(3)}}};
  }
};

TEST_F(SlowRailTest, TheRankOfTheNodeThatWasAwayForLongerIsNamed) {
  Away({0.1, 0.1, 0.1, 0.5});
  Windows(1, 0.4, 0.4);  // the rail's rank 1 is rank 2 of the job
  const auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.rank, JobRank(3));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kLateCompute);
}

TEST_F(SlowRailTest, OtherwiseTheRailsOwnIsNamed) {
  Away({0.1, 0.1, 0.1, 0.1});
  Windows(1, 0.4, 0.0, {.spacing_ns = 2'000'000, .median_spacing_ns = 1'000'000});
  const auto changes = JudgeSettled();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.rank, JobRank(2));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kSlowLink);
}

TEST_F(SlowRailTest, BlameThatMovesBeforeItIsToldNamesNobodyElse) {
  Away({0.1, 0.1, 0.1, 0.1});
  Windows(1, 0.4, 0.4);
  EXPECT_THAT(JudgeAfter(0), IsEmpty());
  Away({0.1, 0.1, 0.1, 0.5});
  Windows(1, 0.4, 0.4);
  std::set<JobRank> told;
  for (const uint64_t ns : {uint64_t{0}, kSettleNs}) {
    for (const SlowRanks::Change& change : JudgeAfter(ns)) told.insert(change.rank.rank);
  }
  EXPECT_EQ(told, std::set<JobRank>{JobRank(3)});
}

// Four ranks of a group on one node, without servers. Each has 50 ops a second, and a heartbeat of each comes every
// second.
class SlowOnOneNodeTest : public SlowRanksTest {
 protected:
  SlowOnOneNodeTest() {
    SetServers({});
    on_one_node_ = {group_.ranks};
  }

  // So many seconds in which the ranks are away for these shares of the time. What changed meanwhile.
  std::vector<SlowRanks::Change> Seconds(int seconds, const std::vector<double>& shares, uint64_t ops = 50) {
    std::vector<SlowRanks::Change> changes;
    away_ns_.resize(shares.size());
    for (int i = 0; i < seconds; ++i) {
      counted_ns_ += kNsPerS;
      ops_ += ops;
      for (uint32_t rank = 0; rank < shares.size(); ++rank) {
        away_ns_[rank] += static_cast<uint64_t>(shares[rank] * kNsPerS);
        ranks_.away().OnHeartbeat(JobRank(rank), away_ns_[rank], counted_ns_, ops_, now_);
      }
      for (const SlowRanks::Change& change : JudgeAfter(kNsPerS)) changes.push_back(change);
    }
    return changes;
  }

  uint64_t ops_ = 0;
};

TEST_F(SlowOnOneNodeTest, TheRankThatIsAwayForLongerIsNamed) {
  const auto changes = Seconds(7, {0.1, 0.1, 0.3, 0.12});
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.rank, JobRank(2));
  EXPECT_EQ(changes[0].rank.cause, SlowCause::kLateCompute);
  EXPECT_NEAR(changes[0].rank.waited_share, 0.2, 1e-6);
  EXPECT_NEAR(static_cast<double>(changes[0].rank.waited_ns_per_op), 4e6, 1e3) << "200 ms of each second with 50 ops";
}

TEST_F(SlowOnOneNodeTest, OfTwoRanksTheOneThatIsAwayForLongerIsNamed) {
  on_one_node_ = {{JobRank(0), JobRank(1)}};
  const auto changes = Seconds(7, {0.3, 0.1});
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.rank, JobRank(0));
}

TEST_F(SlowOnOneNodeTest, TheEndIsToldAndHalfOfTheThresholdIsNotTheEnd) {
  ASSERT_THAT(Seconds(7, {0.1, 0.1, 0.3, 0.1}), SizeIs(1));
  EXPECT_THAT(Seconds(10, {0.1, 0.1, 0.13, 0.1}), IsEmpty());
  const auto changes = Seconds(10, {0.1, 0.1, 0.1, 0.1});
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_TRUE(changes[0].is_over);
}

TEST_F(SlowOnOneNodeTest, APauseIsNotSlow) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Seconds(8, {0.1, 0.1, 0.1, 0.1}), IsEmpty());
    EXPECT_THAT(Seconds(2, {0.1, 0.1, 0.9, 0.1}), IsEmpty());
  }
}

TEST_F(SlowOnOneNodeTest, WhereStepsTakeTwentySecondsTheRankIsNamedOnceAndForAll) {
  // Heartbeats come every second, each rank's at a time of its own; a step ends at the same time for all.
  std::vector<SlowRanks::Change> changes;
  for (uint64_t tick = 0; tick < 4 * 400; ++tick) {
    const auto rank = static_cast<uint32_t>(tick % 4);
    const uint64_t steps = tick / 4 / 20;
    const uint64_t away_s = rank == 2 ? 12 : 8;
    ranks_.away().OnHeartbeat(JobRank(rank), steps * away_s * kNsPerS, steps * 20 * kNsPerS, steps * 10, now_);
    for (const SlowRanks::Change& change : JudgeAfter(kNsPerS / 4)) changes.push_back(change);
  }
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].rank.rank, JobRank(2));
  EXPECT_NEAR(changes[0].rank.waited_share, 0.2, 1e-6);
}

TEST_F(SlowOnOneNodeTest, WhatDiffersLittleByOpIsNotSlow) {
  EXPECT_THAT(Seconds(20, {0.1, 0.1, 0.3, 0.1}, /*ops=*/5000), IsEmpty()) << "40 us an op";
}

TEST_F(SlowOnOneNodeTest, NobodyIsNamedBeforeAllHaveTold) {
  EXPECT_THAT(Seconds(20, {0.1, 0.3, 0.1}), IsEmpty()) << "nothing is known of rank 3";
}

TEST_F(SlowOnOneNodeTest, OtherRanksAreNotCompared) {
  on_one_node_.clear();
  EXPECT_THAT(Seconds(20, {0.1, 0.1, 0.5, 0.1}), IsEmpty());
}

}  // namespace
}  // namespace shoal::scheduler
