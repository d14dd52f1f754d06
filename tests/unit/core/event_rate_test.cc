#include "core/event_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace shoal {
namespace {

constexpr EventKind kFlood = EventKind::kMessageRefused;

TEST(EventRateTest, TakesABurstThenSoManyASecondAndCountsTheRest) {
  EventRate rate;
  uint64_t taken = 0;
  for (uint64_t i = 0; i < 10 * kEventBurst; ++i) taken += rate.Admit(kFlood, kNsPerS) ? 1 : 0;
  EXPECT_EQ(taken, kEventBurst);
  EXPECT_EQ(rate.TakeLeftOut(kFlood, kNsPerS), 9 * kEventBurst);
  EXPECT_EQ(rate.TakeLeftOut(kFlood, kNsPerS), 0u) << "told once";
  taken = 0;
  for (uint64_t ms = 0; ms < 2000; ++ms) taken += rate.Admit(kFlood, kNsPerS + ms * kNsPerMs) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(taken), 2 * kEventsPerS, 1);
}

TEST(EventRateTest, AFloodOfOneKindTakesNothingFromTheOthers) {
  EventRate rate;
  while (rate.Admit(kFlood, 0)) {
  }
  EXPECT_TRUE(rate.BeginsToLeaveOut(kFlood, 0));
  EXPECT_FALSE(rate.Admit(kFlood, 0));
  EXPECT_FALSE(rate.BeginsToLeaveOut(kFlood, 0)) << "the second one";
  EXPECT_EQ(rate.TakeLeftOut(kFlood, 9 * kNsPerS), 0u) << "too early";
  EXPECT_EQ(rate.TakeLeftOut(kFlood, 10 * kNsPerS), 2u);
  EXPECT_TRUE(rate.Admit(EventKind::kShardGroupFailed, 0));
}

TEST(EventRateTest, ABurstIsTakenAgainAfterAQuietTime) {
  EventRate rate;
  while (rate.Admit(kFlood, 0)) {
  }
  const uint64_t later_ns = kNsPerS * kEventBurst / kEventsPerS;
  for (uint64_t i = 0; i < kEventBurst; ++i) EXPECT_TRUE(rate.Admit(kFlood, later_ns)) << i;
  EXPECT_FALSE(rate.Admit(kFlood, later_ns));
}

TEST(LogEventTest, KeysAreDistinctAndEveryKindHasAComponent) {
  std::set<std::string> keys;
  for (size_t kind = 0; kind < kEventKindCount; ++kind) {
    keys.insert(std::string(EventKey(static_cast<EventKind>(kind))));
    EXPECT_FALSE(ComponentOf(static_cast<EventKind>(kind)).empty()) << kind;
  }
  EXPECT_EQ(keys.size(), kEventKindCount);
}

}  // namespace
}  // namespace shoal
