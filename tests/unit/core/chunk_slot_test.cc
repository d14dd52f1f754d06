#include "core/chunk_slot.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

using State = ChunkSlot::State;

ChunkSlot Started(uint32_t size) {
  ChunkSlot slot;
  slot.Size(size);
  slot.Start(OpNumber(4), ChunkNumber(7), 1000);
  return slot;
}

TEST(ChunkSlot, GoesRoundOnce) {
  ChunkSlot slot = Started(2);
  EXPECT_EQ(slot.state(), State::kGathering);
  EXPECT_EQ(slot.op(), OpNumber(4));
  EXPECT_EQ(slot.chunk(), ChunkNumber(7));
  EXPECT_EQ(slot.gathering_since_ns(), 1000u);
  EXPECT_EQ(slot.Offer(Rank(1)), Refusal::kNone);
  EXPECT_EQ(slot.Offer(Rank(0)), Refusal::kNone);
  EXPECT_EQ(slot.busy(), 2u);
  EXPECT_FALSE(slot.Landed(Rank(0), true));
  EXPECT_TRUE(slot.Has(Rank(0)));
  EXPECT_FALSE(slot.Has(Rank(1)));
  EXPECT_TRUE(slot.Landed(Rank(1), true));
  EXPECT_EQ(slot.state(), State::kReducing);
  slot.StartReplies(2);
  EXPECT_EQ(slot.state(), State::kReplying);
  EXPECT_FALSE(slot.ReplySent());
  EXPECT_TRUE(slot.ReplySent());
  EXPECT_EQ(slot.state(), State::kFree);
  slot.Start(OpNumber(5), ChunkNumber(0), 2000);
  EXPECT_FALSE(slot.Has(Rank(0)));
  EXPECT_FALSE(slot.Has(Rank(1)));
}

TEST(ChunkSlot, ASecondContributionIsRefusedInEveryState) {
  ChunkSlot slot = Started(2);
  EXPECT_EQ(slot.Offer(Rank(0)), Refusal::kNone);
  EXPECT_EQ(slot.Offer(Rank(0)), Refusal::kDuplicate) << "while the first lands";
  slot.Landed(Rank(0), true);
  EXPECT_EQ(slot.Offer(Rank(0)), Refusal::kDuplicate) << "after the first landed";
  EXPECT_EQ(slot.Offer(Rank(1)), Refusal::kNone);
  EXPECT_TRUE(slot.Landed(Rank(1), true));
  EXPECT_EQ(slot.Offer(Rank(1)), Refusal::kDuplicate) << "while it is reduced";
  slot.StartReplies(1);
  EXPECT_EQ(slot.Offer(Rank(1)), Refusal::kDuplicate) << "while it is replied";
  EXPECT_TRUE(slot.ReplySent());
  EXPECT_EQ(slot.busy(), 0u) << "what was refused is not waited for";
}

TEST(ChunkSlot, AContributionThatDidNotLandMayComeAgain) {
  ChunkSlot slot = Started(1);
  EXPECT_EQ(slot.Offer(Rank(0)), Refusal::kNone);
  EXPECT_FALSE(slot.Landed(Rank(0), false));
  EXPECT_EQ(slot.busy(), 0u);
  EXPECT_EQ(slot.Offer(Rank(0)), Refusal::kNone);
  EXPECT_TRUE(slot.Landed(Rank(0), true));
}

TEST(ChunkSlot, GivenUpItIsFreeOnlyWhenTheNetworkIsDoneWithItsMemory) {
  ChunkSlot slot = Started(3);
  slot.Offer(Rank(0));
  slot.Offer(Rank(1));
  slot.Abandon();
  EXPECT_NE(slot.state(), State::kFree);
  EXPECT_FALSE(slot.Landed(Rank(0), true));
  EXPECT_NE(slot.state(), State::kFree);
  EXPECT_FALSE(slot.Landed(Rank(1), false));
  EXPECT_EQ(slot.state(), State::kFree);

  slot.Start(OpNumber(9), ChunkNumber(1), 0);
  slot.Abandon();
  EXPECT_EQ(slot.state(), State::kFree) << "nothing was under way";
}

TEST(ChunkSlot, GivenUpWhileItIsReducedItWaitsForTheReducer) {
  ChunkSlot slot = Started(1);
  slot.Offer(Rank(0));
  ASSERT_TRUE(slot.Landed(Rank(0), true));
  slot.Abandon();
  EXPECT_EQ(slot.state(), State::kReducing);
  EXPECT_EQ(slot.busy(), 1u);
  slot.StartReplies(0);
  EXPECT_EQ(slot.state(), State::kFree);
}

TEST(ChunkSlot, GivenUpWhileItRepliesItWaitsForTheReplies) {
  ChunkSlot slot = Started(1);
  slot.Offer(Rank(0));
  slot.Landed(Rank(0), true);
  slot.StartReplies(2);
  slot.Abandon();
  EXPECT_FALSE(slot.ReplySent());
  EXPECT_EQ(slot.state(), State::kReplying);
  EXPECT_TRUE(slot.ReplySent());
  EXPECT_EQ(slot.state(), State::kFree);
}

}  // namespace
}  // namespace shoal
