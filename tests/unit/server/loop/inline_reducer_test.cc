// How the server's thread divides its time between sums: counted in bytes, so that these figures hold on any machine.
#include "server/loop/inline_reducer.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace shoal {
namespace {

// A job over `ranks` arrays of whole numbers, with memory of its own.
class Sum {
 public:
  Sum(uint32_t group, uint64_t token, uint32_t ranks, uint32_t elements)
      : arrays_(ranks, std::vector<float>(elements)), output_(elements) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      for (uint32_t i = 0; i < elements; ++i) arrays_[rank][i] = static_cast<float>(rank + i % 1000);
      inputs_.push_back(reinterpret_cast<const std::byte*>(arrays_[rank].data()));
    }
    job_ = {.spec = {.op = ReduceOp::kSum},
            .inputs = inputs_,
            .output = reinterpret_cast<std::byte*>(output_.data()),
            .elements = elements,
            .group = group,
            .token = token};
  }
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;

  const ReduceJob& job() const { return job_; }
  uint64_t bytes() const { return arrays_.size() * output_.size() * sizeof(float); }
  bool IsRight() const {
    std::vector<float> expected(output_.size());
    Reduce(job_.spec, inputs_, reinterpret_cast<std::byte*>(expected.data()), expected.size());
    return output_ == expected;
  }

 private:
  std::vector<std::vector<float>> arrays_;
  std::vector<float> output_;
  std::vector<const std::byte*> inputs_;
  ReduceJob job_;
};

std::vector<uint64_t> WorkRound(InlineReducer* reducer, uint64_t budget_bytes) {
  reducer->Work(&budget_bytes);
  const std::span<const uint64_t> done = reducer->Poll();
  return {done.begin(), done.end()};
}

constexpr uint64_t kTurn = InlineReducer::kTurnBytes;

TEST(InlineReducer, ReadsNoMoreInARoundThanItsBudgetAndATurn) {
  InlineReducer reducer;
  const Sum large(1, 7, 8, 16 << 10);
  reducer.Start(large.job());
  const uint64_t rounds = large.bytes() / (2 * kTurn);
  ASSERT_GT(rounds, 1u);
  for (uint64_t round = 1; round <= rounds; ++round) {
    EXPECT_TRUE(reducer.HasWork());
    EXPECT_EQ(WorkRound(&reducer, 2 * kTurn), round < rounds ? std::vector<uint64_t>() : std::vector<uint64_t>{7});
  }
  EXPECT_FALSE(reducer.HasWork());
  EXPECT_TRUE(large.IsRight());
}

TEST(InlineReducer, ASmallSumGoesBeforeTheNextTurnOfALargeOne) {
  InlineReducer reducer;
  const Sum first(1, 1, 8, 128 << 10);
  const Sum second(2, 2, 8, 128 << 10);
  const Sum small(9, 4, 8, 128);
  const Sum small_again(9, 5, 8, 128);
  for (const Sum* sum : {&first, &second}) reducer.Start(sum->job());
  WorkRound(&reducer, kTurn);
  reducer.Start(small.job());
  EXPECT_EQ(WorkRound(&reducer, small.bytes()), std::vector<uint64_t>{4});
  reducer.Start(small_again.job());
  EXPECT_EQ(WorkRound(&reducer, kTurn + small.bytes()), std::vector<uint64_t>{5}) << "after a turn of the other group";
  EXPECT_TRUE(small.IsRight() && small_again.IsRight());
}

TEST(InlineReducer, WorkEndsWithASumThatIsDone) {
  InlineReducer reducer;
  const Sum large(1, 1, 8, 128 << 10);
  const Sum small(2, 2, 8, 128);
  for (const Sum* sum : {&large, &small}) reducer.Start(sum->job());
  uint64_t budget_bytes = 2 * kTurn;
  reducer.Work(&budget_bytes);
  EXPECT_EQ(budget_bytes, 2 * kTurn - small.bytes()) << "its result can go before the large sum is continued";
  EXPECT_EQ(reducer.Poll().size(), 1u);
}

// Each of the small sums' groups comes anew as soon as its sum is done.
TEST(InlineReducer, SmallSumsThatComeAgainAndAgainKeepNobodyWaiting) {
  InlineReducer reducer;
  const Sum large(1, 1, 8, 128 << 10);
  std::vector<std::unique_ptr<Sum>> small;
  for (uint32_t group = 2; group < 12; ++group) small.push_back(std::make_unique<Sum>(group, group, 8, 1 << 10));
  reducer.Start(large.job());
  for (const auto& sum : small) reducer.Start(sum->job());
  uint64_t small_bytes = 0;
  for (bool done = false; !done;) {
    for (const uint64_t token : WorkRound(&reducer, kTurn)) {
      done = done || token == 1;
      if (token == 1) continue;
      small_bytes += small[token - 2]->bytes();
      reducer.Start(small[token - 2]->job());
    }
  }
  EXPECT_LE(small_bytes, small.size() * (large.bytes() + kTurn)) << "no group got more than the large sum's";
  EXPECT_GE(small_bytes, small.size() * (large.bytes() - kTurn)) << "nor less";
}

TEST(InlineReducer, AGroupThatWasAloneOwesNothingForIt) {
  InlineReducer reducer;
  const Sum alone(1, 1, 8, 512 << 10);
  reducer.Start(alone.job());
  EXPECT_EQ(WorkRound(&reducer, UINT64_MAX).size(), 1u);
  const Sum first(1, 2, 8, 128 << 10);
  const Sum second(2, 3, 8, 128 << 10);
  for (const Sum* sum : {&first, &second}) reducer.Start(sum->job());
  std::vector<uint64_t> order;
  uint64_t rounds = 0;
  for (; order.empty(); ++rounds) order = WorkRound(&reducer, kTurn);
  EXPECT_GE(rounds, 2 * second.bytes() / kTurn - 1) << "turn by turn";
}

TEST(InlineReducer, TheOldestSumOfAGroupIsFirst) {
  InlineReducer reducer;
  const Sum old_one(3, 1, 2, 64 << 10);
  const Sum new_one(3, 2, 2, 64);
  const Sum other(4, 3, 2, 64 << 10);
  for (const Sum* sum : {&old_one, &new_one, &other}) reducer.Start(sum->job());
  std::vector<uint64_t> order;
  while (reducer.HasWork()) {
    for (const uint64_t token : WorkRound(&reducer, kTurn)) order.push_back(token);
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 3, 2}));
  EXPECT_TRUE(old_one.IsRight() && new_one.IsRight() && other.IsRight());
}

TEST(InlineReducer, ManySmallSumsOfAGroupAreOneTurn) {
  InlineReducer reducer;
  std::vector<std::unique_ptr<Sum>> many;
  const uint64_t per_turn = kTurn / Sum(1, 0, 2, 64).bytes();
  for (uint64_t token = 0; token < 4 * per_turn; ++token) {
    many.push_back(std::make_unique<Sum>(1, token, 2, 64));
    reducer.Start(many.back()->job());
  }
  const Sum other(2, 1'000'000, 2, 64);
  reducer.Start(other.job());
  EXPECT_EQ(WorkRound(&reducer, kTurn), std::vector<uint64_t>{1'000'000});
  reducer.Start(other.job());
  EXPECT_EQ(WorkRound(&reducer, kTurn).size(), per_turn);
  EXPECT_EQ(WorkRound(&reducer, kTurn), std::vector<uint64_t>{1'000'000});
  while (reducer.HasWork()) WorkRound(&reducer, kTurn);
  for (const auto& sum : many) EXPECT_TRUE(sum->IsRight());
}

// Odd lengths, and ranks of which one row is more than a turn.
TEST(Invariant, I1TurnsDoNotChangeTheBitsOfASum) {
  InlineReducer reducer;
  std::vector<std::unique_ptr<Sum>> sums;
  for (const uint32_t ranks : {1u, 3u, 600u, 2000u}) {
    for (const uint32_t elements : {1u, 63u, 65u, 5001u}) {
      const auto number = static_cast<uint32_t>(sums.size());
      sums.push_back(std::make_unique<Sum>(number % 5, number, ranks, elements));
      reducer.Start(sums.back()->job());
    }
  }
  size_t done = 0;
  while (reducer.HasWork()) done += WorkRound(&reducer, 1).size();
  EXPECT_EQ(done, sums.size());
  for (const auto& sum : sums) EXPECT_TRUE(sum->IsRight());
}

}  // namespace
}  // namespace shoal
