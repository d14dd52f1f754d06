// The last events, and the streams that follow them. Part of the machine: pure, one thread.
#ifndef SHOAL_SCHEDULER_MACHINE_EVENT_JOURNAL_H_
#define SHOAL_SCHEDULER_MACHINE_EVENT_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>

#include "scheduler/machine/scheduler_actions.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxEventsKept = 1024;

class EventJournal {
 public:
  // Numbers the event (1, 2, 3, ... since this scheduler started) and sends it to the log and to all followers.
  void Append(EventRecord event, SchedulerActions* actions);

  // Sends the kept events after `request.after_sequence`; then closes the stream, or goes on with new events.
  void Open(const EventsOpened& request, SchedulerActions* actions);
  void Close(WatcherId watcher) { followers_.erase(watcher); }

 private:
  std::deque<EventRecord> events_;
  std::set<WatcherId> followers_;
  uint64_t next_sequence_ = 1;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_EVENT_JOURNAL_H_
