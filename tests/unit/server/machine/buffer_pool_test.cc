#include "server/machine/buffer_pool.h"

#include <map>
#include <random>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(BufferPool, DealsOutAndTakesBack) {
  BufferPool pool(16384);
  EXPECT_EQ(pool.Allocate(1), 0u);
  EXPECT_EQ(pool.Allocate(4097), 4096u);
  EXPECT_EQ(pool.used_bytes(), 12288u);
  EXPECT_EQ(pool.largest_free_bytes(), 4096u);
  EXPECT_EQ(pool.Allocate(4097), std::nullopt);
  EXPECT_EQ(pool.Allocate(4096), 12288u);
  EXPECT_EQ(pool.Allocate(1), std::nullopt);
  pool.Free(4096);
  EXPECT_EQ(pool.Allocate(8192), 4096u);
}

TEST(BufferPool, MergesNeighboursOnBothSides) {
  BufferPool pool(3 * 4096);
  for (uint64_t i = 0; i < 3; ++i) pool.Allocate(4096);
  pool.Free(0);
  pool.Free(8192);
  EXPECT_EQ(pool.largest_free_bytes(), 4096u);
  pool.Free(4096);
  EXPECT_EQ(pool.largest_free_bytes(), 3 * 4096u);
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(BufferPool, AnEmptyPoolHasNothing) {
  BufferPool pool(0);
  EXPECT_EQ(pool.Allocate(1), std::nullopt);
  EXPECT_EQ(pool.largest_free_bytes(), 0u);
}

TEST(BufferPool, RegionsNeverOverlapAndAllOfItComesBack) {
  constexpr uint64_t kCapacity = 1 << 20;
  BufferPool pool(kCapacity);
  std::mt19937_64 random(2);
  std::map<uint64_t, uint64_t> used;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % 60'000;
      const std::optional<uint64_t> offset = pool.Allocate(bytes);
      if (!offset.has_value()) continue;
      ASSERT_EQ(*offset % BufferPool::kAlignmentBytes, 0u);
      ASSERT_LE(*offset + bytes, kCapacity);
      const auto next = used.lower_bound(*offset);
      if (next != used.end()) {
        ASSERT_LE(*offset + bytes, next->first);
      }
      if (next != used.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *offset);
      }
      used[*offset] = bytes;
    } else if (!used.empty()) {
      const auto it = std::next(used.begin(), static_cast<int64_t>(random() % used.size()));
      pool.Free(it->first);
      used.erase(it);
    }
  }
  for (const auto& [offset, bytes] : used) pool.Free(offset);
  EXPECT_EQ(pool.used_bytes(), 0u);
  EXPECT_EQ(pool.largest_free_bytes(), kCapacity);
}

}  // namespace
}  // namespace shoal
