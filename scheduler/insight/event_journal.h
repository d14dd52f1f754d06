// The last events, and the streams that follow them. Pure; one thread.
#ifndef SHOAL_SCHEDULER_INSIGHT_EVENT_JOURNAL_H_
#define SHOAL_SCHEDULER_INSIGHT_EVENT_JOURNAL_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>

#include "core/ids.h"
#include "scheduler/machine/scheduler_actions.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxEventsKept = 1024;

// Where there is no room for all, the oldest goes first; but while a job has more than a quarter of the room, the
// oldest of the one that has the most, so that a job whose groups never rest does not wash the others' events away.
// Events of no job count as one job's, and so do calls: members make many, and what follows from them has its own
// event.
class EventJournal {
 public:
  // Keeps the event, and sends it to all followers.
  void Keep(const EventRecord& event, SchedulerActions* actions);

  // When the newest of the events was that were appended and are not kept any more; 0: all are kept.
  uint64_t newest_forgotten_unix_ms() const { return newest_forgotten_unix_ms_; }

  // Sends the kept events after `request.after_sequence`; then closes the stream, or goes on with new events.
  void Open(const EventsOpened& request, SchedulerActions* actions);
  void Close(WatcherId watcher) { followers_.erase(watcher); }

 private:
  void ForgetOne();

  std::deque<EventRecord> events_;
  // Whose room an event takes.
  struct Owner {
    bool is_call = false;
    JobId job;  // JobId(): of no job, or a call

    explicit Owner(const EventRecord& event) : is_call(event.call != nullptr), job(is_call ? JobId() : event.ids.job) {}
    friend auto operator<=>(const Owner&, const Owner&) = default;
  };

  std::map<Owner, size_t> kept_of_;  // how many of them
  std::set<WatcherId> followers_;
  uint64_t newest_forgotten_unix_ms_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_EVENT_JOURNAL_H_
