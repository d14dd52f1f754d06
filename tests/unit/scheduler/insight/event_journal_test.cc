// Which events are kept where there is no room for all.
#include "scheduler/insight/event_journal.h"

#include <map>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

TEST(EventJournalTest, AJobThatNeverRestsLeavesTheOthersTheirEvents) {
  EventJournal journal;
  SchedulerActions actions;
  uint64_t sequence = 0;
  const auto append = [&](uint64_t job) {
    journal.Keep({.sequence = ++sequence, .kind = EventKind::kGroupMoved, .ids = {.job = JobId(job)}}, &actions);
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

TEST(EventJournalTest, CallsWashNothingElseAway) {
  EventJournal journal;
  SchedulerActions actions;
  uint64_t sequence = 0;
  for (uint64_t job = 1; job <= 3; ++job) {
    journal.Keep({.sequence = ++sequence, .kind = EventKind::kJobStarted, .ids = {.job = JobId(job)}}, &actions);
  }
  const auto call = std::make_shared<const CallFacts>();
  for (size_t i = 0; i < 3 * kMaxEventsKept; ++i) {
    const JobId job(1 + i % 3);  // of any of them
    journal.Keep({.sequence = ++sequence, .kind = EventKind::kCallMade, .ids = {.job = job}, .call = call}, &actions);
  }
  actions.clear();
  journal.Open({}, &actions);
  std::vector<uint64_t> started;
  for (const SchedulerAction& action : actions) {
    const auto* const sent = std::get_if<SendEvent>(&action);
    if (sent != nullptr && sent->event.kind == EventKind::kJobStarted) started.push_back(sent->event.sequence);
  }
  EXPECT_EQ(started, (std::vector<uint64_t>{1, 2, 3}));
}

TEST(EventJournalTest, OfManyJobsTheNewestEventsAreKept) {
  EventJournal journal;
  SchedulerActions actions;
  uint64_t sequence = 0;
  for (uint64_t job = 1; job <= 2000; ++job) {
    for (int i = 0; i < 5; ++i) {
      journal.Keep({.sequence = ++sequence, .kind = EventKind::kJobStarted, .ids = {.job = JobId(job)}}, &actions);
    }
  }
  journal.Keep({.sequence = ++sequence, .kind = EventKind::kServerLost}, &actions);
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
  EventJournal journal;
  SchedulerActions actions;
  const auto append = [&](uint64_t job, uint64_t at_unix_ms) {
    journal.Keep({.at_unix_ms = at_unix_ms, .kind = EventKind::kGroupMoved, .ids = {.job = JobId(job)}}, &actions);
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
  EventJournal journal;
  SchedulerActions actions;
  for (const uint64_t at_unix_ms : {5000, 1000}) {
    journal.Keep({.at_unix_ms = at_unix_ms}, &actions);
  }
  for (size_t i = 0; i < kMaxEventsKept; ++i) {
    journal.Keep({.at_unix_ms = 6000}, &actions);
  }
  EXPECT_EQ(journal.newest_forgotten_unix_ms(), 5000u);
}

}  // namespace
}  // namespace shoal::scheduler
