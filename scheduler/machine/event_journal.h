// The last events, for people, and who follows them. Part of the machine: pure, one thread.
#ifndef SHOAL_SCHEDULER_MACHINE_EVENT_JOURNAL_H_
#define SHOAL_SCHEDULER_MACHINE_EVENT_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "scheduler/machine/scheduler_events.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxEventsKept = 1024;

class EventJournal {
 public:
  // Numbers the event (1, 2, 3, ... since the start of this scheduler) and gives it to the log and all followers.
  void Append(EventRecord event, std::vector<Action>* actions);

  // Sends what is kept after `request.after_sequence`, then closes the stream or goes on following.
  void Open(const EventsOpened& request, std::vector<Action>* actions);
  void Close(WatcherId watcher) { followers_.erase(watcher); }

 private:
  std::deque<EventRecord> events_;
  std::set<WatcherId> followers_;
  uint64_t next_sequence_ = 1;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_EVENT_JOURNAL_H_
