#include "core/credit_window.h"

#include <algorithm>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(CreditWindow, IsClosedUntilItIsOpened) {
  CreditWindow window;
  EXPECT_FALSE(window.CanPush());
  EXPECT_TRUE(window.Empty());
  window.Open(2);
  EXPECT_EQ(window.Push(), 0u);
  EXPECT_EQ(window.Push(), 1u);
  EXPECT_FALSE(window.CanPush());
}

TEST(CreditWindow, ALateOldestChunkHoldsTheWindow) {
  CreditWindow window;
  window.Open(3);
  for (int i = 0; i < 3; ++i) window.Push();
  window.Finish(1);
  window.Finish(2);
  EXPECT_FALSE(window.CanPush()) << "position 0 is not finished: position 3 would leave it outside";
  window.Finish(0);
  EXPECT_TRUE(window.Empty());
  EXPECT_EQ(window.Push(), 3u);
}

// Against a model that keeps the set of open positions.
TEST(CreditWindow, KeepsItsPropertiesUnderRandomUse) {
  std::mt19937_64 random(11);
  for (uint32_t credit = 1; credit <= 17; ++credit) {
    CreditWindow window;
    window.Open(credit);
    EXPECT_EQ(window.credit(), credit);
    std::set<uint64_t> open;
    uint64_t next = 0;
    for (int step = 0; step < 4000; ++step) {
      const uint64_t oldest = open.empty() ? next : *open.begin();
      ASSERT_EQ(window.CanPush(), next < oldest + credit);
      ASSERT_EQ(window.Empty(), open.empty());
      ASSERT_EQ(window.in_flight(), next - oldest);
      if (window.CanPush() && random() % 2 == 0) {
        const uint64_t position = window.Push();
        ASSERT_EQ(position, next);
        for (uint64_t other : open) ASSERT_NE(other % credit, position % credit) << "two open chunks share a cell";
        open.insert(next++);
      } else if (!open.empty()) {
        auto it = open.begin();
        std::advance(it, static_cast<int64_t>(random() % open.size()));
        window.Finish(*it);
        open.erase(it);
      }
    }
  }
}

}  // namespace
}  // namespace shoal
