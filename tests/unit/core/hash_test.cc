#include "core/hash.h"

#include <bit>
#include <set>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(StableHash, GoldenVectors) {
  EXPECT_EQ(StableHash({}), 0xe220a8397b1dcdaf);
  EXPECT_EQ(StableHash({0}), 0x46b73e79f0c37c00);
  EXPECT_EQ(StableHash({1}), 0x778b1aa9c29bc868);
  EXPECT_EQ(StableHash({0, 0}), 0x3edfba9281257392);
  EXPECT_EQ(StableHash({1, 2}), 0x7f460aee79685363);
  EXPECT_EQ(StableHash({2, 1}), 0x927e63af52141271);
  EXPECT_EQ(StableHash({~uint64_t{0}, 7, 0x0123456789abcdef}), 0x630637e8350c56b8);
}

TEST(StableHash, OrderLengthAndEveryWordMatter) {
  std::set<uint64_t> seen;
  for (uint64_t a = 0; a < 50; ++a) {
    EXPECT_TRUE(seen.insert(StableHash({a})).second);
    for (uint64_t b = 0; b < 50; ++b) EXPECT_TRUE(seen.insert(StableHash({a, b})).second);
  }
}

TEST(StableHash, OneChangedBitChangesAboutHalfOfTheResult) {
  const uint64_t base = StableHash({1234, 5678});
  int changed = 0;
  for (int bit = 0; bit < 64; ++bit) {
    const int first = std::popcount(base ^ StableHash({1234 ^ uint64_t{1} << bit, 5678}));
    const int second = std::popcount(base ^ StableHash({1234, 5678 ^ uint64_t{1} << bit}));
    EXPECT_GT(first, 10);
    EXPECT_GT(second, 10);
    changed += first + second;
  }
  EXPECT_NEAR(changed / 128.0, 32.0, 3.0);
}

}  // namespace
}  // namespace shoal
