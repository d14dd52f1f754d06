// The last events, and the streams that follow them. Part of the machine: pure, one thread.
#ifndef SHOAL_SCHEDULER_MACHINE_EVENT_JOURNAL_H_
#define SHOAL_SCHEDULER_MACHINE_EVENT_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>

#include "core/ids.h"
#include "scheduler/machine/scheduler_actions.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxEventsKept = 1024;
// Reserved at a time: a scheduler that follows another one leaves so many numbers out at most.
inline constexpr uint64_t kEventNumbersReserved = 1024;

// More than any scheduler gave out that did not save how many.
inline constexpr uint64_t kEventNumbersOfOlderReleases = uint64_t{1} << 20;

// Where there is no room for all, the oldest goes first; but while a job has more than a quarter of the room, the
// oldest of the one that has the most, so that a job whose groups never rest does not wash the others' events away.
// Events of no job count as one job's.
//
// Numbers grow by one from event to event of a scheduler, and are higher than those of all that led before it: which
// numbers they may have given out is part of the saved state.
class EventJournal {
 public:
  explicit EventJournal(uint64_t reserved) : next_sequence_(reserved + 1), expected_(reserved), reserved_(reserved) {}

  // One more event will be appended. True: for that, more numbers were reserved, which must be saved first.
  bool Expect();
  // All numbers up to this one may be given out.
  uint64_t reserved() const { return reserved_; }

  // Numbers the event and sends it to the log and to all followers.
  void Append(EventRecord event, SchedulerActions* actions);
  // With the number of the event before it: for one that can't wait until a number is saved. Who asks for what came
  // after that number is not told of it.
  void AppendUnnumbered(EventRecord event, SchedulerActions* actions);

  // When the newest of the events was that were appended and are not kept any more; 0: all are kept.
  uint64_t newest_forgotten_unix_ms() const { return newest_forgotten_unix_ms_; }

  // Sends the kept events after `request.after_sequence`; then closes the stream, or goes on with new events.
  void Open(const EventsOpened& request, SchedulerActions* actions);
  void Close(WatcherId watcher) { followers_.erase(watcher); }

 private:
  void Keep(EventRecord event, SchedulerActions* actions);
  void ForgetOne();

  std::deque<EventRecord> events_;
  std::map<JobId, size_t> kept_of_job_;  // how many of them; JobId(): of no job
  std::set<WatcherId> followers_;
  uint64_t next_sequence_;
  uint64_t expected_;  // the highest number once all that are expected were appended
  uint64_t reserved_;
  uint64_t newest_forgotten_unix_ms_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_EVENT_JOURNAL_H_
