// Events are numbered across schedulers, so that whoever follows them can go on at another one.
#include "scheduler/machine/event_numbers.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

TEST(EventNumbersTest, NumbersGoOnAndAreReservedBeforeTheyAreGivenOut) {
  EventNumbers numbers(5000);
  EXPECT_EQ(numbers.reserved(), 5000u);
  for (uint64_t number = 5001; number <= 5000 + 2 * kEventNumbersReserved + 1; ++number) {
    const bool first_of_block = (number - 5001) % kEventNumbersReserved == 0;
    EXPECT_EQ(numbers.Expect(), first_of_block) << number;
    EXPECT_GE(numbers.reserved(), number);
    EXPECT_EQ(numbers.Next(), number);
  }
}

TEST(EventNumbersTest, WhatCannotWaitHasTheNumberOfTheEventBeforeIt) {
  EventNumbers numbers(0);
  numbers.Expect();
  EXPECT_EQ(numbers.Next(), 1u);
  EXPECT_EQ(numbers.newest(), 1u);
  numbers.Expect();
  EXPECT_EQ(numbers.Next(), 2u);
  EXPECT_EQ(numbers.reserved(), kEventNumbersReserved);
}

TEST(EventNumbersTest, EventsThatWaitAreCountedAsWell) {
  EventNumbers numbers(0);
  for (uint64_t i = 0; i < 3 * kEventNumbersReserved; ++i) numbers.Expect();
  EXPECT_GE(numbers.reserved(), 3 * kEventNumbersReserved);
}

TEST(EventNumbersTest, AStateOfAReleaseThatDidNotCountThemIsFollowedByHighNumbers) {
  MachineHarness before;
  before.Ask<ServerRegistered>(Server("a", 1, 1));
  PersistedState old = *before.last_saved();
  old.reserved_event_numbers = 0;
  MachineHarness after(old);
  after.Ask<ServerRegistered>(Server("late", 9, 9));
  EXPECT_GT(after.events().back().sequence, kEventNumbersOfOlderReleases);
}

TEST(EventNumbersTest, TheNextSchedulerNumbersItsEventsHigher) {
  MachineHarness before;
  for (uint32_t i = 0; i < 5; ++i) before.Ask<ServerRegistered>(Server("s" + std::to_string(i), i + 1, i + 1));
  ASSERT_FALSE(before.events().empty());
  EXPECT_EQ(before.events().front().sequence, 1u);
  const uint64_t last = before.events().back().sequence;
  EXPECT_GE(before.last_saved()->reserved_event_numbers, last);
  MachineHarness after(before.last_saved());
  after.Ask<ServerRegistered>(Server("late", 9, 9));
  ASSERT_FALSE(after.events().empty());
  EXPECT_GT(after.events().front().sequence, last);
  EXPECT_GE(after.last_saved()->reserved_event_numbers, after.events().back().sequence);
}

}  // namespace
}  // namespace shoal::scheduler
