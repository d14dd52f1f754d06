// The port through which a worker reaches the scheduler: worker/rpc has it over gRPC, sim/ under virtual time.
//
// Thread: one at a time. Nothing blocks. How the owner of a port sleeps until Poll has something to say, and how others
// wake it, is a matter of the implementation. tests/conformance/scheduler_port/scheduler_port_suite.h holds both to
// this contract.
#ifndef SHOAL_WORKER_MEMBERSHIP_SCHEDULER_PORT_H_
#define SHOAL_WORKER_MEMBERSHIP_SCHEDULER_PORT_H_

#include <cstdint>
#include <span>

#include "worker/membership/scheduler_calls.h"

namespace shoal {

class SchedulerPort {
 public:
  // Calls and streams that are still open are dropped; no event of them follows.
  virtual ~SchedulerPort() = default;

  // Starts a call under an id that was never used before. Exactly one CallEnded follows, with the answer or
  //   - Unavailable, kNoAnswer: none came by the deadline (on the owner's monotonic clock);
  //   - Unavailable, another text: no scheduler can be reached, the connection broke, or nobody leads; try again;
  //   - Cancelled: CancelCall;
  //   - FailedPrecondition: what answers there is not a scheduler of this version;
  //   - Internal: the answer makes no sense;
  //   - any other code: that of the scheduler, with its words.
  virtual void StartCall(CallId call, const SchedulerCall& what, uint64_t deadline_ns) = 0;

  // Ends a call with Cancelled, unless its answer is there already. No effect on a call that has ended. The scheduler
  // may have done what the call asked for.
  virtual void CancelCall(CallId call) = 0;

  // Follows what happens to the member's job. The first news are the present state; later ones come in the order in
  // which they happened. It lasts until WatchEnded (at once if no scheduler can be reached) or CloseWatch.
  virtual void OpenWatch(WatchId watch, const MemberId& member) = 0;

  // No event of the stream comes after this. No effect on a stream that has ended.
  virtual void CloseWatch(WatchId watch) = 0;

  // Calls and streams that start from now on use new connections, to schedulers that answer now; those under way stay
  // where they are. Use this to leave a connection to a node that has disappeared.
  virtual void UseNewConnections() = 0;

  // What happened since the last call, in order. Valid until the next call.
  virtual std::span<const SchedulerPortEvent> Poll() = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_SCHEDULER_PORT_H_
