// Events are numbered across schedulers, so that whoever follows them can go on at another one.
#include "scheduler/machine/event_journal.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

TEST(EventJournalTest, NumbersGoOnAndAreReservedBeforeTheyAreGivenOut) {
  EventJournal journal(5000);
  SchedulerActions actions;
  EXPECT_EQ(journal.reserved(), 5000u);
  for (uint64_t number = 5001; number <= 5000 + 2 * kEventNumbersReserved + 1; ++number) {
    const bool first_of_block = (number - 5001) % kEventNumbersReserved == 0;
    EXPECT_EQ(journal.Expect(), first_of_block) << number;
    EXPECT_GE(journal.reserved(), number);
    journal.Append({}, &actions);
    EXPECT_EQ(std::get<EventRecorded>(actions.back()).event.sequence, number);
  }
}

TEST(EventJournalTest, WhatCannotWaitHasTheNumberOfTheEventBeforeIt) {
  EventJournal journal(0);
  SchedulerActions actions;
  journal.Expect();
  journal.Append({}, &actions);
  for (int i = 0; i < 3; ++i) {
    journal.AppendUnnumbered({.kind = EventKind::kSaveFailed}, &actions);
    EXPECT_EQ(std::get<EventRecorded>(actions.back()).event.sequence, 1u);
  }
  journal.Expect();
  journal.Append({}, &actions);
  EXPECT_EQ(std::get<EventRecorded>(actions.back()).event.sequence, 2u);
  EXPECT_EQ(journal.reserved(), kEventNumbersReserved);
}

TEST(EventJournalTest, AJobThatNeverRestsLeavesTheOthersTheirEvents) {
  EventJournal journal(0);
  SchedulerActions actions;
  const auto append = [&](uint64_t job) {
    journal.Expect();
    journal.Append({.kind = EventKind::kGroupMoved, .ids = {.job = JobId(job)}}, &actions);
  };
  for (int i = 0; i < 3; ++i) append(7);
  for (int i = 0; i < 2; ++i) append(0);
  for (size_t i = 0; i < 3 * kMaxEventsKept; ++i) append(8);
  const auto kept = [&] {
    actions.clear();
    journal.Open({}, &actions);
    std::map<JobId, std::vector<uint64_t>> numbers;
    for (const SchedulerAction& action : actions) {
      if (const auto* sent = std::get_if<SendEvent>(&action); sent != nullptr) {
        numbers[sent->event.ids.job].push_back(sent->event.sequence);
      }
    }
    return numbers;
  };
  EXPECT_EQ(kept()[JobId(7)], (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(kept()[JobId()], (std::vector<uint64_t>{4, 5}));
  ASSERT_EQ(kept()[JobId(8)].size(), kMaxEventsKept - 5);
  EXPECT_EQ(kept()[JobId(8)].back(), 5 + 3 * kMaxEventsKept) << "the newest are kept";
  // Two that never rest share the room.
  for (size_t i = 0; i < 3 * kMaxEventsKept; ++i) append(9);
  EXPECT_LE(kept()[JobId(9)].size(), kept()[JobId(8)].size() + 1);
  EXPECT_EQ(kept()[JobId(7)].size(), 3u);
}

TEST(EventJournalTest, OfManyJobsTheNewestEventsAreKept) {
  EventJournal journal(0);
  SchedulerActions actions;
  for (uint64_t job = 1; job <= 2000; ++job) {
    for (int i = 0; i < 5; ++i) {
      journal.Expect();
      journal.Append({.kind = EventKind::kJobStarted, .ids = {.job = JobId(job)}}, &actions);
    }
  }
  journal.Expect();
  journal.Append({.kind = EventKind::kServerLost}, &actions);
  actions.clear();
  journal.Open({}, &actions);
  std::vector<EventRecord> kept;
  for (const SchedulerAction& action : actions) {
    if (const auto* sent = std::get_if<SendEvent>(&action); sent != nullptr) kept.push_back(sent->event);
  }
  ASSERT_EQ(kept.size(), kMaxEventsKept);
  EXPECT_EQ(kept.back().kind, EventKind::kServerLost);
  EXPECT_EQ(kept.front().sequence, kept.back().sequence - kMaxEventsKept + 1);
}

TEST(EventJournalTest, ItKnowsWhenTheNewestEventWasThatItHasForgotten) {
  EventJournal journal(0);
  SchedulerActions actions;
  const auto append = [&](uint64_t job, uint64_t at_unix_ms) {
    journal.Expect();
    journal.Append({.at_unix_ms = at_unix_ms, .kind = EventKind::kGroupMoved, .ids = {.job = JobId(job)}}, &actions);
  };
  append(7, 1000);
  for (size_t i = 1; i < kMaxEventsKept; ++i) append(8, 2000 + i);
  EXPECT_EQ(journal.newest_forgotten_unix_ms(), 0u);
  append(8, 9000);
  EXPECT_EQ(journal.newest_forgotten_unix_ms(), 2001u) << "not that of the quiet job, which is older and kept";
  append(8, 9001);
  EXPECT_EQ(journal.newest_forgotten_unix_ms(), 2002u);
}

TEST(EventJournalTest, AClockThatIsPutBackDoesNotHideWhatWasForgotten) {
  EventJournal journal(0);
  SchedulerActions actions;
  for (const uint64_t at_unix_ms : {5000, 1000}) {
    journal.Expect();
    journal.Append({.at_unix_ms = at_unix_ms}, &actions);
  }
  for (size_t i = 0; i < kMaxEventsKept; ++i) {
    journal.Expect();
    journal.Append({.at_unix_ms = 6000}, &actions);
  }
  EXPECT_EQ(journal.newest_forgotten_unix_ms(), 5000u);
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

TEST(EventJournalTest, EventsThatWaitAreCountedAsWell) {
  EventJournal journal(0);
  for (uint64_t i = 0; i < 3 * kEventNumbersReserved; ++i) journal.Expect();
  EXPECT_GE(journal.reserved(), 3 * kEventNumbersReserved);
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
