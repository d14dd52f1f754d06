#include "scheduler/insight/event_journal.h"

#include <algorithm>

namespace shoal::scheduler {
namespace {

// Of one job, before they make room for those of others that are younger.
constexpr size_t kMostOfAJob = kMaxEventsKept / 4;

}  // namespace

void EventJournal::Keep(const EventRecord& event, SchedulerActions* actions) {
  for (const WatcherId follower : followers_) actions->push_back(SendEvent{follower, event});
  ++kept_of_[Owner(event)];
  events_.push_back(event);
  if (events_.size() > kMaxEventsKept) ForgetOne();
}

void EventJournal::ForgetOne() {
  const auto has_fewer = [](const auto& one, const auto& other) { return one.second < other.second; };
  auto most = std::ranges::max_element(kept_of_, has_fewer);
  // Where no job has many, age alone counts: jobs that have ended must not take the room of newer ones.
  if (most->second <= kMostOfAJob) most = kept_of_.find(Owner(events_.front()));
  const auto oldest =
      std::ranges::find_if(events_, [&](const EventRecord& event) { return Owner(event) == most->first; });
  newest_forgotten_unix_ms_ = std::max(newest_forgotten_unix_ms_, oldest->at_unix_ms);
  events_.erase(oldest);
  if (--most->second == 0) kept_of_.erase(most);
}

void EventJournal::Open(const EventsOpened& request, SchedulerActions* actions) {
  for (const EventRecord& event : events_) {
    if (event.sequence > request.after_sequence) actions->push_back(SendEvent{request.watcher, event});
  }
  if (request.follow) {
    followers_.insert(request.watcher);
  } else {
    actions->push_back(CloseStream{request.watcher, absl::OkStatus()});
  }
}

}  // namespace shoal::scheduler
