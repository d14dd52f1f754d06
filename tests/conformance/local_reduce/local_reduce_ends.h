// Clauses of worker/local_reduce/local_reduce.h: groups that are failed, closed, or lose a rank (L1, L4).
#ifndef SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_ENDS_H_
#define SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_ENDS_H_

#include "tests/conformance/local_reduce/local_reduce_clauses.h"

namespace shoal {

// Ranks with some open ops, at a random stage of them, one of which is about to end the group.
class LocalGroupEnds : public LocalReduceSuite {
 protected:
  void RunUpTo(uint64_t seed) {
    ops_.clear();
    ranks_ = std::make_unique<RanksUnderTest>(node_.get(), 2 + static_cast<uint32_t>(seed % 3), seed);
    const std::string name = RanksUnderTest::MeetingName(0);
    // Every third time before all have met.
    const bool is_late = seed % 3 == 0;
    for (uint32_t rank = is_late ? 1 : 0; rank < ranks_->size(); ++rank) ranks_->Open(kGroup, name, rank);
    if (!is_late) {
      ASSERT_TRUE(ranks_->PollUntilAll([](RankUnderTest& rank) { return rank.HasMet(kGroup); }));
    }
    culprit_ = ranks_->size() - 1;
    if (is_late) ranks_->PollForAWhile();
    for (uint64_t ticket = 0; ticket < 3; ++ticket) {
      LocalOp op = Op(ticket, 1 + ranks_->random()() % 400'000);
      op.other_nodes = ticket == 1;
      ops_.emplace_back(ranks_.get(), op);
      for (uint32_t rank = is_late ? 1 : 0; rank < ranks_->size(); ++rank) {
        ops_.back().StartAt(rank);
        // Each rank ends on its own; from then on its memory is used for something else.
        (*ranks_)[rank].on_op_ended = [this, rank](const LocalOpEnded& event) {
          OpUnderTest& ended = ops_[event.ticket];
          if (event.status.ok()) {
            EXPECT_TRUE(ended.tensor(rank).content() == ended.expected());
          }
          std::memset(ended.tensor(rank).data(), 0x3c, ended.expected().size());
        };
      }
    }
    for (uint64_t polls = ranks_->random()() % 60; polls > 0; --polls) ranks_->PollSome();
    if (is_late) ranks_->Open(kGroup, name, 0);
  }

  // Every rank but those that died hears of the failure, and all its ops are over.
  void ExpectEndsEverywhere(absl::StatusCode code, const std::string& text) {
    ASSERT_TRUE(ranks_->PollUntilAll(
        [](RankUnderTest& rank) { return rank.failure(kGroup).has_value() && !rank.HasOpenOps(kGroup); }));
    ranks_->PollForAWhile();
    for (uint32_t rank = 0; rank < ranks_->size(); ++rank) {
      if (!(*ranks_)[rank].is_alive()) continue;
      const LocalGroupFailed& failure = *(*ranks_)[rank].failure(kGroup);
      EXPECT_EQ(failure.status.code(), code) << failure.status;
      EXPECT_THAT(std::string(failure.status.message()), testing::HasSubstr(text));
      EXPECT_EQ(failure.culprit, LocalRank(culprit_)) << "at rank " << rank;
      for (OpUnderTest& op : ops_) {
        if ((*ranks_)[rank].EndOf(kGroup, op.op().ticket) == nullptr) continue;  // it never started that one
        EXPECT_TRUE(op.tensor(rank).content() == Bytes(op.expected().size(), std::byte{0x3c}));
      }
      // What is started from now on ends with the same.
      (*ranks_)[rank].on_op_ended = [](const LocalOpEnded&) {};
      OpUnderTest late(ranks_.get(), Op(100, 10));
      late.StartAt(rank);
      (*ranks_)[rank].Poll();
      ASSERT_NE((*ranks_)[rank].EndOf(kGroup, 100), nullptr);
      EXPECT_EQ(*(*ranks_)[rank].EndOf(kGroup, 100), failure.status);
      EXPECT_TRUE((*ranks_)[rank].port().Missing(kGroup).empty());
      (*ranks_)[rank].port().Close(kGroup);
    }
  }

  std::unique_ptr<RanksUnderTest> ranks_;
  std::deque<OpUnderTest> ops_;
  uint32_t culprit_ = 0;
};

TEST_P(LocalGroupEnds, L4ARankThatFailsTheGroupEndsItEverywhereWithItsReason) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ASSERT_NO_FATAL_FAILURE(RunUpTo(seed));
    (*ranks_)[culprit_].port().Fail(kGroup, absl::DeadlineExceededError("op 7 of 'world' took longer than 3 s"));
    // A second reason changes nothing.
    (*ranks_)[culprit_].port().Fail(kGroup, absl::AbortedError("something else"));
    ASSERT_NO_FATAL_FAILURE(
        ExpectEndsEverywhere(absl::StatusCode::kDeadlineExceeded, "op 7 of 'world' took longer than 3 s"));
    if (HasFailure()) return;
  }
}

TEST_P(LocalGroupEnds, L4ARankThatDiesEndsTheGroupEverywhereAndIsNamed) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ASSERT_NO_FATAL_FAILURE(RunUpTo(seed));
    // One that dies before a late rank has come was never met by that one; the others tell it.
    (*ranks_)[culprit_].Die();
    if (seed % 3 == 0 && ranks_->size() == 2) continue;  // there are no others
    ASSERT_NO_FATAL_FAILURE(ExpectEndsEverywhere(absl::StatusCode::kUnavailable, "local rank"));
    if (HasFailure()) return;
  }
}

TEST_P(LocalGroupEnds, L4ADeathInOneGroupLeavesOtherGroupsAlone) {
  RanksUnderTest ranks = MakeRanks(3);
  const std::string name = RanksUnderTest::MeetingName(0);
  ranks.OpenAll(kGroup);
  // A smaller one, of the first two ranks.
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks[rank].port().Open({.group = kOtherGroup, .meeting_name = name, .rank = LocalRank(rank), .size = 2});
  }
  ASSERT_TRUE(ranks.PollUntilAll([](RankUnderTest& rank) { return rank.HasMet(kGroup); }));
  ranks[2].Die();
  ASSERT_TRUE(ranks.PollUntilAll([](RankUnderTest& rank) { return rank.failure(kGroup).has_value(); }));
  std::array<Bytes, 2> tensors = {Bytes(4000, std::byte{1}), Bytes(4000, std::byte{2})};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks[rank].Start({.group = kOtherGroup,
                       .ticket = 1,
                       .data = tensors[rank].data(),
                       .element_count = 4000,
                       .codec = WireCodec(DataType::kUint8)});
  }
  ASSERT_TRUE(ranks.PollUntilAll([](RankUnderTest& rank) { return rank.EndOf(kOtherGroup, 1) != nullptr; }));
  EXPECT_EQ(tensors[0], Bytes(4000, std::byte{3}));
  EXPECT_EQ(tensors[1], Bytes(4000, std::byte{3}));
}

TEST_P(LocalGroupEnds, ARankThatClosesFirstLeavesTheOthersOpsWhole) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    RanksUnderTest ranks = MakeRanks(3, seed);
    ranks.OpenAll(kGroup);
    std::deque<OpUnderTest> ops;
    for (uint64_t ticket = 0; ticket < 5; ++ticket) {
      ops.emplace_back(&ranks, Op(ticket, 1 + ranks.random()() % 200'000)).StartAll();
    }
    std::array<bool, 3> closed{};
    ASSERT_TRUE(ranks.PollUntil([&] {
      for (uint32_t rank = 0; rank < 3; ++rank) {
        if (closed[rank] || ranks[rank].ended_count(kGroup) < ops.size()) continue;
        closed[rank] = true;
        ranks[rank].port().Close(kGroup);
      }
      return closed[0] && closed[1] && closed[2];
    }));
    for (OpUnderTest& op : ops) op.ExpectResults();
    for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_FALSE(ranks[rank].failure(kGroup).has_value());
  }
}

TEST_P(LocalGroupEnds, L4AnOpThatARankNeverStartedFailsWhenThatRankCloses) {
  RanksUnderTest ranks = MakeRanks(3);
  ranks.OpenAll(kGroup);
  ReduceOne(&ranks, Op(1, 1'000));
  OpUnderTest op(&ranks, Op(2, 1'000));
  op.StartAt(0);
  ranks.PollForAWhile();
  EXPECT_THAT(ranks[0].port().Missing(kGroup), testing::ElementsAre(LocalRank(1), LocalRank(2)));
  ranks[2].port().Close(kGroup);
  ASSERT_TRUE(ranks.PollUntil([&] { return ranks[0].failure(kGroup).has_value() && ranks[1].failure(kGroup); }));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const LocalGroupFailed& failure = *ranks[rank].failure(kGroup);
    EXPECT_TRUE(absl::IsUnavailable(failure.status)) << failure.status;
    EXPECT_EQ(failure.culprit, LocalRank(2));
  }
}

TEST_P(LocalGroupEnds, AMeetingNameAndAHandleServeAgainAfterAllHaveClosed) {
  RanksUnderTest ranks = MakeRanks(4);
  const std::string name = RanksUnderTest::MeetingName(0);
  for (uint64_t round = 0; round < 10; ++round) {
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) ranks.Open(kGroup, name, rank);
    ReduceOne(&ranks, Op(round, 1 + 70'000 * (round % 2)));
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].port().Close(kGroup);
      ranks[rank].ForgetMeeting(kGroup);
    }
  }
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_ENDS_H_
