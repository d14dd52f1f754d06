#include "worker/machine/staging_arena.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr uint64_t kPage = PageArena::kPageBytes;

TEST(StagingArena, WhatIsGivenBackIsOnePieceAgain) {
  std::vector<std::byte> region(8 * kPage);
  StagingArena arena(region);
  std::byte* const first = arena.Take(2 * kPage);
  std::byte* const second = arena.Take(3 * kPage);
  std::byte* const third = arena.Take(3 * kPage);
  EXPECT_EQ(arena.Take(kPage), nullptr);
  EXPECT_EQ(arena.taken_bytes(), 8 * kPage);
  arena.GiveBack(first, 2 * kPage);
  arena.GiveBack(third, 3 * kPage);
  EXPECT_EQ(arena.Take(4 * kPage), nullptr) << "5 pages are free, in two pieces";
  arena.GiveBack(second, 3 * kPage);
  EXPECT_EQ(arena.Take(8 * kPage), region.data());
  EXPECT_EQ(arena.most_taken_bytes(), 8 * kPage);
}

TEST(StagingArena, PiecesNeverOverlapAndNothingIsLost) {
  std::vector<std::byte> region(64 * kPage);
  StagingArena arena(region);
  std::mt19937 random(7);
  std::vector<std::pair<std::byte*, uint64_t>> taken;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      const uint64_t bytes = (1 + random() % 9) * kPage;
      std::byte* const start = arena.Take(bytes);
      if (start == nullptr) continue;
      ASSERT_GE(start, region.data());
      ASSERT_LE(start + bytes, region.data() + region.size());
      for (const auto& [other, other_bytes] : taken)
        ASSERT_TRUE(start + bytes <= other || other + other_bytes <= start);
      taken.emplace_back(start, bytes);
    } else if (!taken.empty()) {
      const size_t index = random() % taken.size();
      arena.GiveBack(taken[index].first, taken[index].second);
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
  for (const auto& [start, bytes] : taken) arena.GiveBack(start, bytes);
  EXPECT_EQ(arena.taken_bytes(), 0u);
  EXPECT_EQ(arena.Take(64 * kPage), region.data());
}

}  // namespace
}  // namespace shoal
