// For how long others wait for each rank, from made-up arrivals: late calls, slow links, two slow ranks at once.
#include "server/machine/lateness_book.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kMs = kNsPerMs;

// One group whose ops follow each other, with arrivals in milliseconds since an op's start. A chunk comes whole.
class Arrivals {
 public:
  explicit Arrivals(uint32_t ranks) : ranks_(ranks), roster_(ranks), book_(ranks, kSlots) {}

  // Each chunk's arrivals by rank; the op's step takes `step_ms`.
  void Op(const std::vector<std::vector<double>>& chunks, double step_ms) {
    ++op_;
    struct Arrival {
      double at_ms;
      uint32_t chunk;
      uint32_t rank;
    };
    std::vector<Arrival> arrivals;
    for (uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
      book_.OnGathering(chunk, OpNumber(op_), ChunkNumber(chunk), static_cast<uint32_t>(chunks.size()));
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        if (roster_.Has(Rank(rank))) arrivals.push_back({chunks[chunk][rank], chunk, rank});
      }
    }
    std::ranges::stable_sort(arrivals, {}, &Arrival::at_ms);
    std::vector<uint32_t> landed(chunks.size());
    for (const Arrival& arrival : arrivals) {
      const Now now = At(arrival.at_ms);
      const bool is_first = book_.OnOffered({.op = OpNumber(op_),
                                             .chunk = ChunkNumber(arrival.chunk),
                                             .rank = Rank(arrival.rank),
                                             .in_one_go = arrival.chunk < credit_},
                                            now);
      if (is_first && begins_fresh_) book_.OnFreshBeginning(ChunkNumber(arrival.chunk), Rank(arrival.rank));
      book_.OnLanding(Rank(arrival.rank));
      book_.OnLandingEnded(Rank(arrival.rank), came_with_last_.contains({arrival.rank, arrival.chunk}), now);
      book_.OnContribution(arrival.chunk, OpNumber(op_), Rank(arrival.rank), ++landed[arrival.chunk], now);
      if (landed[arrival.chunk] == roster_.count()) book_.OnGathered(arrival.chunk, now);
    }
    start_ns_ += static_cast<uint64_t>(step_ms * kMs);
  }
  void Ops(int count, const std::vector<std::vector<double>>& chunks, double step_ms) {
    for (int i = 0; i < count; ++i) Op(chunks, step_ms);
  }

  void GoOnWith(Roster roster) {
    roster_ = std::move(roster);
    book_.Restart(roster_);
  }
  // Twelve ops of so many chunks; of `ranks` ranks one after the other is late in each chunk.
  void OpsLateInTurns(uint32_t ranks, int chunks_of_op) {
    for (int i = 0; i < 12; ++i) {
      std::vector<std::vector<double>> chunks;
      for (int chunk = 0; chunk < chunks_of_op; ++chunk) {
        std::vector<double> by_rank(ranks_, chunk);
        by_rank[static_cast<size_t>(i + chunk) % ranks] = chunk + 8;
        chunks.push_back(by_rank);
      }
      Op(chunks, 100);
    }
  }

  // Ranks wait for results when they begin their ops.
  void FollowEachOther() { begins_fresh_ = false; }
  // So many chunks of an op are pushed before its first result is there.
  void SetCredit(uint32_t chunks) { credit_ = chunks; }
  // The rank's chunk of each op lay there when the server read the one before.
  void ComesWithLast(uint32_t rank, uint32_t chunk) { came_with_last_.emplace(rank, chunk); }

  LatenessBook& book() { return book_; }
  const LatenessWindow& window() const { return book_.last_window(); }
  double Share(uint64_t ns) const { return static_cast<double>(ns) / static_cast<double>(window().length_ns); }

 private:
  static constexpr uint32_t kSlots = 64;

  Now At(double ms) const { return {.monotonic_ns = start_ns_ + static_cast<uint64_t>(ms * kMs), .unix_ms = 0}; }

  const uint32_t ranks_;
  Roster roster_;
  LatenessBook book_;
  bool begins_fresh_ = true;
  std::set<std::pair<uint32_t, uint32_t>> came_with_last_;
  uint32_t credit_ = 2;
  uint64_t op_ = 0;
  uint64_t start_ns_ = kNsPerS;
};

auto RankIs(uint32_t rank) { return Field(&LateRank::rank, Rank(rank)); }

TEST(LatenessBook, ARankThatCallsLateIsWaitedForAndBeganLate) {
  Arrivals arrivals(4);
  // 100 ms a step; rank 2 calls 20 ms later than the others.
  arrivals.Ops(12, {{1, 1.1, 21, 1.2}, {2, 2.1, 22, 2.2}}, 100);
  EXPECT_EQ(arrivals.window().number, 1u);
  EXPECT_EQ(arrivals.window().ops, 10u) << "a second is over when the 11th begins";
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(2)));
  const LateRank& late = arrivals.window().late_ranks[0];
  EXPECT_EQ(late.late_ops, 10u);
  EXPECT_NEAR(arrivals.Share(late.waited_ns), 0.2, 0.02) << "waits for both chunks at the same time count once";
  EXPECT_NEAR(arrivals.Share(late.began_late_ns), 0.2, 0.02);
}

TEST(LatenessBook, ARankWhoseLinkIsSlowIsWaitedForAndBeganInTime) {
  Arrivals arrivals(4);
  // Credit of two chunks: the fast ranks' third and later chunks come when the slow rank's have come.
  std::vector<std::vector<double>> chunks;
  for (int i = 0; i < 20; ++i) {
    const double slow = 4.0 * (i + 1);
    const double fast = i < 2 ? i + 1 : 4.0 * (i - 1) + 1;
    chunks.push_back({fast, slow, fast, fast});
  }
  arrivals.Ops(14, chunks, 100);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1)));
  const LateRank& late = arrivals.window().late_ranks[0];
  EXPECT_EQ(late.late_ops, arrivals.window().ops);
  EXPECT_GT(arrivals.Share(late.waited_ns), 0.7) << "nearly all of the 80 ms that the op takes";
  EXPECT_LT(arrivals.Share(late.began_late_ns), 0.05);
  EXPECT_EQ(late.spacing_ns, 4 * kMs) << "from its first chunk to its second";
  EXPECT_EQ(arrivals.window().median_spacing_ns, kMs);
}

// 80 KiB pass a link of any rate at once, and then which of four ranks' two chunks come closer together is chance.
TEST(LatenessBook, HowFarApartTheChunksOfABurstComeTellsNothingOfALink) {
  const auto first_chunks_apart = [](double apart_ms) {
    Arrivals arrivals(4);
    // Credit of two chunks: rank 1's third and later chunks wait for results that take 30 ms each.
    std::vector<std::vector<double>> chunks;
    for (int i = 0; i < 6; ++i) {
      const double waits = i < 2 ? 1 + i * apart_ms : 30.0 * (i - 1);
      const double fast = i < 2 ? 1 + i * 0.1 : waits - 25;
      chunks.push_back({fast, waits, fast, fast});
    }
    arrivals.Ops(9, chunks, 160);
    return arrivals.window();
  };
  const LatenessWindow burst = first_chunks_apart(2);
  ASSERT_THAT(burst.late_ranks, ElementsAre(RankIs(1)));
  EXPECT_EQ(burst.late_ranks[0].spacing_ns, 0u);
  EXPECT_NEAR(burst.median_spacing_ns, kMs / 10, 1);
  const LatenessWindow link = first_chunks_apart(8);
  ASSERT_THAT(link.late_ranks, ElementsAre(RankIs(1)));
  EXPECT_EQ(link.late_ranks[0].spacing_ns, 8 * kMs) << "a third of what lies between its chunks";
}

// Chunks of queued ops come as far apart as the slowest rank lets them: that says nothing of what was seen before.
TEST(LatenessBook, ASpacingIsNoBurstsWhereOpsFollowEachOther) {
  Arrivals arrivals(4);
  arrivals.Ops(9, {{1, 1, 1, 1}, {2, 9, 2, 2}, {31, 60, 31, 31}}, 160);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1)));
  ASSERT_EQ(arrivals.window().late_ranks[0].spacing_ns, 8 * kMs);
  arrivals.FollowEachOther();
  arrivals.Ops(18, {{1, 30, 1, 1}, {2, 150, 2, 2}}, 160);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1)));
  EXPECT_EQ(arrivals.window().late_ranks[0].spacing_ns, 8 * kMs);
}

TEST(LatenessBook, ARankThatGetsResultsLateSendsItsFirstChunksAsOthersDo) {
  Arrivals arrivals(4);
  // Credit of two chunks: rank 1's third and later chunks wait for results that take 4 ms each.
  std::vector<std::vector<double>> chunks;
  for (int i = 0; i < 20; ++i) {
    const double slow = i < 2 ? i + 1 : 4.0 * i + 1;
    const double fast = i < 2 ? i + 1 : 4.0 * (i - 1) + 1;
    chunks.push_back({fast, slow, fast, fast});
  }
  arrivals.Ops(14, chunks, 100);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1)));
  EXPECT_EQ(arrivals.window().late_ranks[0].spacing_ns, kMs);
  EXPECT_EQ(arrivals.window().median_spacing_ns, kMs);
}

TEST(LatenessBook, ABurstThatPassesAtOnceDoesNotHideASlowLink) {
  Arrivals arrivals(4);
  // Credit of four chunks, of which a link that was idle lets two through at once.
  arrivals.SetCredit(4);
  arrivals.Ops(14, {{1, 1, 1, 1}, {1.1, 1.1, 1.1, 1.2}, {3, 5, 3, 3}, {5, 9, 5, 5}, {12, 20, 12, 12}}, 100);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1)));
  EXPECT_NEAR(arrivals.window().late_ranks[0].spacing_ns, 8 * kMs / 3, 1) << "from its first chunk to its fourth";
  EXPECT_NEAR(arrivals.window().median_spacing_ns, 4 * kMs / 3, 1);
}

TEST(LatenessBook, ChunksOfOpsThatFollowEachOtherTellNoSpacing) {
  Arrivals arrivals(4);
  arrivals.FollowEachOther();
  arrivals.Ops(200, {{1, 4, 1, 1}, {2, 8, 2, 2}}, 8);
  EXPECT_EQ(arrivals.window().late_ranks[0].spacing_ns, 0u);
  EXPECT_EQ(arrivals.window().median_spacing_ns, 0u);
}

TEST(LatenessBook, WhatEarlierOpsToldOfALinkCountsUntilOthersTellIt) {
  Arrivals arrivals(4);
  arrivals.Op({{1, 3, 1, 1}, {2, 6, 2, 2}}, 100);
  arrivals.FollowEachOther();
  arrivals.Ops(400, {{1, 4, 1, 1}, {2, 8, 2, 2}}, 8);
  ASSERT_EQ(arrivals.window().number, 3u);
  EXPECT_EQ(arrivals.window().late_ranks[0].spacing_ns, 3 * kMs);
  EXPECT_EQ(arrivals.window().median_spacing_ns, kMs);
}

TEST(LatenessBook, OneOpThatTellsOfALinkDoesNotOutweighThoseBefore) {
  Arrivals arrivals(4);
  arrivals.Ops(11, {{1, 4, 1, 1}, {2, 8, 2, 2}}, 100);
  ASSERT_EQ(arrivals.window().number, 1u);
  ASSERT_EQ(arrivals.window().late_ranks[0].spacing_ns, 4 * kMs);
  // In the next window two ops begin fresh, of which the first has closed the one before; in the second a pause has
  // brought the two chunks of the slow rank together.
  arrivals.Op({{1, 7.5, 1, 1}, {2, 8, 2, 2}}, 100);
  arrivals.FollowEachOther();
  arrivals.Ops(200, {{1, 4, 1, 1}, {2, 8, 2, 2}}, 8);
  ASSERT_EQ(arrivals.window().number, 2u);
  // Two of 4 ms and of 0.5 ms, with five of 4 ms before.
  EXPECT_NEAR(static_cast<double>(arrivals.window().late_ranks[0].spacing_ns) / kMs, (6 * 4 + 0.5) / 7, 0.01);
}

TEST(LatenessBook, ChunksThatCameTogetherTellNotHowSlowALinkIs) {
  Arrivals arrivals(4);
  // The server was late, and read the two chunks of the slow rank and of a fast one in no time.
  arrivals.ComesWithLast(1, 1);
  arrivals.ComesWithLast(2, 1);
  arrivals.Ops(12, {{1, 41, 1, 1}, {2, 41.01, 1.01, 2}}, 100);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1)));
  EXPECT_EQ(arrivals.window().late_ranks[0].spacing_ns, 0u);
  EXPECT_NEAR(static_cast<double>(arrivals.window().median_spacing_ns), 0.01 * kMs, 10)
      << "it counts among all, as less than it was";
}

// It comes as late as the slowest rank lets it, from all ranks alike.
TEST(LatenessBook, AChunkThatWaitedForAResultTellsNoSpacing) {
  Arrivals arrivals(4);
  arrivals.SetCredit(1);
  // Rank 1 calls 40 ms late, rank 2 has a slow link; its second chunk waits for rank 1 as all others' do.
  arrivals.Ops(14, {{1, 41, 8, 1}, {42, 43, 50, 42}}, 100);
  EXPECT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1), RankIs(2)));
  for (const LateRank& late : arrivals.window().late_ranks) EXPECT_EQ(late.spacing_ns, 0u);
  EXPECT_EQ(arrivals.window().median_spacing_ns, 0u);
}

TEST(LatenessBook, AnOpThatFollowsOnASlowLinkDidNotBeginLate) {
  Arrivals arrivals(4);
  // Ops of two chunks each, one after the other: rank 1's next op begins when its last chunk has come, 4 ms later.
  arrivals.Ops(200, {{1, 4, 1, 1}, {2, 8, 2, 2}}, 8);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1)));
  const LateRank& late = arrivals.window().late_ranks[0];
  EXPECT_GT(arrivals.Share(late.waited_ns), 0.7);
  EXPECT_LT(late.began_late_ns * 2, late.waited_ns) << "it was sending until the op before had come";
}

TEST(LatenessBook, TwoSlowRanksAreBothNamed) {
  Arrivals arrivals(4);
  arrivals.Ops(12, {{1, 21, 1, 11}}, 100);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1), RankIs(3))) << "the longest waits first";
  EXPECT_NEAR(arrivals.Share(arrivals.window().late_ranks[0].waited_ns), 0.2, 0.02);
  EXPECT_NEAR(arrivals.Share(arrivals.window().late_ranks[1].waited_ns), 0.1, 0.02);
}

// The last of the three that are in time is always the same one, as on a busy machine whose processes are woken in
// turn.
TEST(LatenessBook, ARankIsNotNamedBehindWhichAnotherIsWaitedForManyTimesAsLong) {
  Arrivals arrivals(4);
  arrivals.Ops(60, {{1, 1.1, 16, 3}}, 20);
  EXPECT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(2)));
  // Without the other one it matters.
  arrivals.Ops(120, {{1, 1.1, 1, 3}}, 20);
  EXPECT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(3)));
}

TEST(LatenessBook, OfTwoRanksTheLaterOneIsNamed) {
  Arrivals arrivals(2);
  arrivals.Ops(12, {{31, 1}}, 100);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(0)));
}

TEST(LatenessBook, WhereAllAreLateInTurnsNobodyStandsOut) {
  Arrivals arrivals(4);
  arrivals.OpsLateInTurns(4, 8);
  EXPECT_EQ(arrivals.window().number, 1u);
  EXPECT_THAT(arrivals.window().late_ranks, IsEmpty()) << "each is late in every op, and none more than others";
}

TEST(LatenessBook, WaitsThatDoNotMatterAreLeftOut) {
  Arrivals arrivals(4);
  arrivals.Ops(12, {{1, 1.1, 1.2, 1.5}}, 100);
  EXPECT_EQ(arrivals.window().ops, 10u);
  EXPECT_THAT(arrivals.window().late_ranks, IsEmpty());
}

TEST(LatenessBook, AWindowHasSomeOps) {
  Arrivals arrivals(2);
  arrivals.Ops(5, {{1, 900}}, 1000);
  EXPECT_EQ(arrivals.window().number, 0u) << "four are over";
  arrivals.Op({{1, 900}}, 1000);
  EXPECT_EQ(arrivals.window().number, 1u);
  EXPECT_EQ(arrivals.window().ops, 5u);
  EXPECT_EQ(arrivals.window().late_ranks[0].late_ops, 5u);
}

TEST(LatenessBook, OneOpThatWaitedForLongIsNoSign) {
  Arrivals arrivals(4);
  arrivals.Ops(4, {{1, 1.1, 1, 1}}, 100);
  arrivals.Op({{1, 601, 1, 1}}, 700);  // as after a checkpoint
  arrivals.Ops(12, {{1, 1.1, 1, 1}}, 100);
  EXPECT_GE(arrivals.window().number, 1u);
  EXPECT_THAT(arrivals.window().late_ranks, IsEmpty());
}

TEST(LatenessBook, AStallInTheMiddleOfManyOpsIsOneWait) {
  Arrivals arrivals(4);
  // A step of 25 buckets, for all of which the others are there when rank 1 comes half a second late.
  for (int step = 0; step < 3; ++step) {
    for (int bucket = 0; bucket < 25; ++bucket) {
      const double at = bucket == 0 && step == 1 ? 501 : 1;
      arrivals.Op({{1, at, 1, 1}}, bucket == 0 && step == 1 ? 502 : 20);
    }
  }
  EXPECT_GE(arrivals.window().number, 1u);
  EXPECT_THAT(arrivals.window().late_ranks, IsEmpty());
}

TEST(LatenessBook, AWindowHasItsOwnWaitsAlone) {
  Arrivals arrivals(2);
  arrivals.Ops(11, {{1, 51}}, 100);
  ASSERT_THAT(arrivals.window().late_ranks, ElementsAre(RankIs(1)));
  EXPECT_LE(arrivals.window().late_ranks[0].waited_ns, arrivals.window().length_ns);
  arrivals.Ops(10, {{1, 1.01}}, 100);
  EXPECT_EQ(arrivals.window().number, 2u);
  EXPECT_THAT(arrivals.window().late_ranks, IsEmpty());
}

TEST(LatenessBook, NothingOfAnOldEpochCounts) {
  Arrivals arrivals(4);
  arrivals.Ops(5, {{1, 51, 1, 1}}, 100);
  arrivals.book().OnLanding(Rank(3));
  arrivals.book().Restart(Roster(4));
  arrivals.book().OnLandingEnded(Rank(3), false, {.monotonic_ns = 2 * kNsPerS, .unix_ms = 0});  // of the old epoch
  arrivals.Ops(14, {{1, 1, 1, 1}}, 100);
  EXPECT_EQ(arrivals.window().number, 1u);
  EXPECT_THAT(arrivals.window().late_ranks, IsEmpty());
}

// Nobody waits for a rank that is not there, which says nothing of how late the others are.
TEST(LatenessBook, LostRanksAreNoMeasureOfThoseThatAreLeft) {
  Arrivals arrivals(6);
  arrivals.GoOnWith(Roster(6, {Rank(3), Rank(4), Rank(5)}));
  arrivals.OpsLateInTurns(3, 6);
  EXPECT_EQ(arrivals.window().number, 1u);
  EXPECT_THAT(arrivals.window().late_ranks, IsEmpty()) << "each is late in turns, and none more than others";
}

TEST(LatenessBook, ListsTheLatestOnly) {
  Arrivals arrivals(64);
  std::vector<double> chunk(64, 1);
  for (uint32_t rank = 0; rank < 30; ++rank) chunk[rank] = 10 + rank;
  arrivals.Ops(12, {chunk}, 100);
  ASSERT_THAT(arrivals.window().late_ranks, SizeIs(kMaxLateRanksListed));
  EXPECT_EQ(arrivals.window().late_ranks[0].rank, Rank(29));
}

TEST(LatenessBook, AWindowOfAnOldEpochIsNotShownInTheNext) {
  Arrivals arrivals(4);
  arrivals.Ops(14, {{1, 51, 1, 1}}, 100);
  ASSERT_THAT(arrivals.window().late_ranks, SizeIs(1));
  arrivals.book().Restart(Roster(4));
  EXPECT_THAT(arrivals.window().late_ranks, IsEmpty());
}

TEST(LatenessBook, TheSameChunkAgainIsNoSecondOne) {
  LatenessBook book(2, 2);
  const auto at = [](uint64_t ms) { return Now{.monotonic_ns = kNsPerS + ms * kMs, .unix_ms = 0}; };
  for (uint64_t op = 1; op <= 7; ++op) {
    for (const uint32_t rank : {0u, 1u}) {
      const PushedChunk pushed = {.op = OpNumber(op), .chunk = ChunkNumber(3), .rank = Rank(rank), .in_one_go = true};
      EXPECT_TRUE(book.OnOffered(pushed, at(op * 200)));
      book.OnFreshBeginning(ChunkNumber(3), Rank(rank));
      EXPECT_FALSE(book.OnOffered(pushed, at(op * 200 + 9)));
    }
  }
  EXPECT_EQ(book.last_window().number, 1u);
  EXPECT_EQ(book.last_window().median_spacing_ns, 0u);
}

// Sockets offer a chunk when its first bytes are there, and UCX when all of it is.
TEST(LatenessBook, ChunksAreAsFarApartAsTheyLandWheneverTheyAreOffered) {
  for (const uint64_t offered_before_ms : {uint64_t{0}, uint64_t{20}}) {
    LatenessBook book(2, 2);
    const auto at = [](uint64_t ms) { return Now{.monotonic_ns = kNsPerS + ms * kMs, .unix_ms = 0}; };
    for (uint64_t op = 1; op <= 7; ++op) {
      for (const uint32_t rank : {0u, 1u}) {
        for (uint32_t chunk = 0; chunk < 2; ++chunk) {
          const uint64_t landed_ms = op * 200 + 50 + (chunk == 0 ? 0 : 30);
          const bool is_first =
              book.OnOffered({.op = OpNumber(op), .chunk = ChunkNumber(chunk), .rank = Rank(rank), .in_one_go = true},
                             at(landed_ms - offered_before_ms));
          if (is_first) book.OnFreshBeginning(ChunkNumber(chunk), Rank(rank));
          book.OnLanding(Rank(rank));
          book.OnLandingEnded(Rank(rank), false, at(landed_ms));
        }
      }
    }
    EXPECT_EQ(book.last_window().number, 1u);
    EXPECT_EQ(book.last_window().median_spacing_ns, 30 * kMs) << offered_before_ms;
  }
}

}  // namespace
}  // namespace shoal
