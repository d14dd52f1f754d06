// The port on which servers, workers and operators reach the scheduler.
//
// Threads: all functions from the loop's thread, but `wake` is called from any. Nothing blocks. Every RequestArrived
// gets exactly one Reply, unless RequestCancelled came first; replies to handles and sends to streams that are gone are
// ignored. Every stream that was opened gets one StreamClosed, whoever ends it. A call or stream that comes while
// kMaxQueuedEvents wait for Poll is refused with OverloadedError, and Poll says nothing of it. A host that is destroyed
// ends open calls and streams with UNAVAILABLE. (tests/conformance/control_host)
#ifndef SHOAL_SCHEDULER_RPC_CONTROL_HOST_H_
#define SHOAL_SCHEDULER_RPC_CONTROL_HOST_H_

#include <cstddef>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_events.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxQueuedEvents = 8192;        // that wait for Poll
inline constexpr size_t kMaxQueuedStreamEvents = 4096;  // that wait for one reader of events

inline absl::Status OverloadedError() {
  return absl::ResourceExhaustedError("the scheduler is overloaded; try again in a second");
}
inline absl::Status ReaderTooSlowError() {
  return absl::ResourceExhaustedError(
      "this reader is too slow for the events; ask again from the last one that it got");
}

class ControlHost {
 public:
  virtual ~ControlHost() = default;

  // The next thing that a peer did, oldest first; nullopt: there is none now.
  virtual std::optional<SchedulerEvent> Poll() = 0;

  virtual void Execute(const Reply& reply) = 0;
  // A watcher that reads slowly gets the newest map only; lost ranks are never dropped.
  virtual void Execute(const SendWatch& update) = 0;
  // A reader of events gets them in order and without a gap. One that lets more than kMaxQueuedStreamEvents wait loses
  // those, and its stream ends with ReaderTooSlowError.
  virtual void Execute(const SendEvent& event) = 0;
  // The reader gets what was sent before, then the status.
  virtual void Execute(const CloseStream& close) = 0;

  // `wake` is called when Poll may have something.
  virtual void SetWake(std::function<void()> wake) = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_RPC_CONTROL_HOST_H_
