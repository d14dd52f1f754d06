// The way from callers' threads to the loop, and what wakes the I/O thread for it.
//
// Thread: the functions under "callers" from any thread, those under "the loop" from whoever has its turn, those under
// "the I/O thread" from that one. The lock is taken once per op and once per round of the loop that has something to
// take, never per chunk; the I/O thread is woken only if it sleeps or stands back.
#ifndef SHOAL_WORKER_LIBRARY_SUBMIT_QUEUE_H_
#define SHOAL_WORKER_LIBRARY_SUBMIT_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "net/transport.h"
#include "process/mutex.h"
#include "worker/library/caller_records.h"
#include "worker/machine/worker_commands.h"

namespace shoal {

struct SubmittedBatch {
  std::vector<WorkerCommand> commands;               // in the order of the calls
  std::vector<std::shared_ptr<CallerOp>> ops;        // of the SubmitCommands among them
  std::vector<std::shared_ptr<CallerGroup>> groups;  // of the OpenGroupCommands
  std::vector<std::shared_ptr<CountersRequest>> counters_requests;

  void Clear();
  void Swap(SubmittedBatch* other);
};

class SubmitQueue {
 public:
  // `transport` outlives the queue's use.
  explicit SubmitQueue(Transport* transport) : transport_(transport) {}

  // ---- callers ---- Cancelled: the queue is closed, nothing was taken.

  // `looked_after`: the caller sees to this op itself while the I/O thread stands back.
  absl::Status Submit(const SubmitCommand& command, std::shared_ptr<CallerOp> op, bool looked_after);
  absl::Status OpenGroup(OpenGroupCommand command, std::shared_ptr<CallerGroup> group);
  absl::Status Post(WorkerCommand command);
  absl::Status Ask(std::shared_ptr<CountersRequest> request);
  // Takes a last command; all later ones are refused.
  void Close(const ShutdownCommand& last);
  // Ends StandBack, also the next one if the I/O thread is not there yet.
  void ComeBack();

  // ---- the loop ----

  // Takes all that came since the last time, in exchange for an empty batch.
  void Take(SubmittedBatch* batch);

  // ---- the I/O thread ----

  // From now on callers wake the transport. False if something waits already: take it first.
  bool PrepareToSleep();
  // Blocks until something waits that no caller looks after, ComeBack, or for `ns`. False: nothing waits.
  bool StandBack(uint64_t ns);

 private:
  // OK unless the queue is closed.
  absl::Status CheckOpen() const SHOAL_REQUIRES(mutex_);
  // With the lock, so nobody is still at the transport when Close has returned.
  void WakeUp() SHOAL_REQUIRES(mutex_);

  Transport* const transport_;
  Mutex mutex_;
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
  bool sleeps_ SHOAL_GUARDED_BY(mutex_) = false;
  bool come_back_ SHOAL_GUARDED_BY(mutex_) = false;
  std::condition_variable came_back_;
  SubmittedBatch waiting_ SHOAL_GUARDED_BY(mutex_);
  // False: Take would find nothing to do. Set under the lock, and read without it, as most rounds have nothing to take.
  std::atomic<bool> something_to_take_{false};
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_SUBMIT_QUEUE_H_
