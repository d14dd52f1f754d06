// The port on which a server talks to the scheduler: server/rpc has it over gRPC, sim/ under virtual time.
//
// Thread: one at a time, but `wake` is called from any. Nothing blocks but the destructor.
//
// What every implementation keeps (tests/conformance/control_link/control_link_suite.h):
//   - Each call that was started has exactly one answer, which comes from Poll, within its timeout.
//   - Errors of every call. Unavailable: the scheduler can't be reached. DeadlineExceeded: no answer in time. Both say
//     so in a few words ("Connection refused"); try again. Cancelled: Cancel or Stop. The scheduler's own refusals
//     arrive with their code and text.
#ifndef SHOAL_SERVER_LEASE_CONTROL_LINK_H_
#define SHOAL_SERVER_LEASE_CONTROL_LINK_H_

#include <functional>
#include <optional>

#include "server/lease/lease_actions.h"
#include "server/lease/lease_events.h"
#include "server/machine/server_counters.h"

namespace shoal {

class ControlLink {
 public:
  virtual ~ControlLink() = default;  // stops; answers that were not polled are dropped

  // FailedPrecondition: the scheduler speaks another control version. InvalidArgument: it refuses a value.
  // AlreadyExists: another server has the name's place or an address. Unimplemented: what answers is not a scheduler of
  // Shoal.
  virtual void Start(const RegisterCall& call) = 0;
  // NotFound: register again. Aborted: another process took this server's place, or an operator evicted it.
  virtual void Start(const RenewCall& call, const ServerCounters& load) = 0;
  // NotFound: the scheduler does not know the server any more; there is nothing to do.
  virtual void Start(const DeregisterCall& call) = 0;

  // Ends a call with Cancelled, unless its answer is there already. The scheduler may have done what it asked for.
  virtual void Cancel(LeaseCallId call) = 0;
  // Cancels all open calls, and all that are started from now on.
  virtual void Stop() = 0;

  // The next answer, in the order in which they came; nullopt: there is none now.
  virtual std::optional<LeaseAnswer> Poll() = 0;
  // `wake` is called when Poll may have something. Set it before the first call.
  virtual void SetWake(std::function<void()> wake) = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LEASE_CONTROL_LINK_H_
