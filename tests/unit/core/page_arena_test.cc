#include "core/page_arena.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace shoal {
namespace {

constexpr uint64_t kPage = PageArena::kPageBytes;

TEST(PageArena, TakesTheLowestRunThatFits) {
  PageArena arena(8 * kPage + 1);
  EXPECT_EQ(arena.capacity_bytes(), 8 * kPage);
  EXPECT_EQ(arena.Take(1), 0u);
  EXPECT_EQ(arena.Take(kPage + 1), kPage);
  EXPECT_EQ(arena.Take(kPage), 3 * kPage);
  arena.Give(kPage, kPage + 1);
  EXPECT_EQ(arena.Take(3 * kPage), 4 * kPage) << "two pages are too few for it";
  EXPECT_EQ(arena.Take(kPage), kPage);
  EXPECT_EQ(arena.Take(2 * kPage), std::nullopt);
  EXPECT_EQ(arena.Take(kPage), 2 * kPage);
  EXPECT_EQ(arena.Take(1), 7 * kPage);
  EXPECT_EQ(arena.Take(1), std::nullopt);
}

TEST(PageArena, RefusesWhatIsLargerThanItself) {
  PageArena arena(4 * kPage);
  EXPECT_EQ(arena.Take(4 * kPage + 1), std::nullopt);
  EXPECT_EQ(arena.Take(4 * kPage), 0u);
  EXPECT_EQ(PageArena(0).Take(1), std::nullopt);
}

TEST(PageArena, RunsNeverOverlapAndAllComesBack) {
  constexpr uint64_t kPages = 64;
  PageArena arena(kPages * kPage);
  std::mt19937_64 random(1);
  std::map<uint64_t, uint64_t> taken;  // bytes by offset
  uint64_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0 && !taken.empty()) {
      const auto any = std::next(taken.begin(), static_cast<ptrdiff_t>(random() % taken.size()));
      arena.Give(any->first, any->second);
      taken.erase(any);
      continue;
    }
    const uint64_t bytes = 1 + random() % (8 * kPage);
    const std::optional<uint64_t> offset = arena.Take(bytes);
    if (!offset.has_value()) {
      ++refused;
      continue;
    }
    ASSERT_EQ(*offset % kPage, 0u);
    ASSERT_LE(*offset + bytes, kPages * kPage);
    const auto next = taken.lower_bound(*offset);
    ASSERT_TRUE(next == taken.end() || *offset + bytes <= next->first);
    ASSERT_TRUE(next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= *offset);
    taken.emplace(*offset, bytes);
  }
  EXPECT_GT(refused, 0u);
  for (const auto& [offset, bytes] : taken) arena.Give(offset, bytes);
  EXPECT_EQ(arena.Take(kPages * kPage), 0u);
}

}  // namespace
}  // namespace shoal
