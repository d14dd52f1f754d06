// What a RegistrationMachine wants done: calls to the scheduler, and outcomes for the process. Plain values.
#ifndef SHOAL_SERVER_LEASE_LEASE_ACTIONS_H_
#define SHOAL_SERVER_LEASE_LEASE_ACTIONS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/ids.h"
#include "core/log_event.h"
#include "server/lease/lease_events.h"
#include "server/lease/server_lease.h"

namespace shoal {

// ---- calls to the scheduler: make them, and hand in the answer ----

struct RegisterCall {
  LeaseCallId call;
  ServerRegistration registration;
  uint64_t timeout_ms = 0;
};
// The server's counters go with it.
struct RenewCall {
  LeaseCallId call;
  ServerId server;
  Incarnation incarnation;
  uint64_t asked_at_ns = 0;  // on the monotonic clock, on which the counters' times are
  uint64_t timeout_ms = 0;
};
struct DeregisterCall {
  LeaseCallId call;
  ServerId server;
  Incarnation incarnation;
  std::string reason;
  uint64_t timeout_ms = 0;
};
// Cancel this call: its answer is wanted at once.
struct CancelLeaseCall {
  LeaseCallId call;
};

// ---- outcomes for the process ----

// An event for the log.
struct LeaseReport {
  EventKind kind = EventKind::kLeaseMissing;
  std::string text;
};
// The server is registered, for the first time or again.
struct LeaseGranted {
  ServerLease lease;
  bool token_key_changed = false;  // always true the first time
};
// The scheduler has renewed the lease.
struct LeaseRenewed {
  uint64_t ttl_ms = 0;
  uint64_t key_period = 0;
  bool scheduler_is_colocated = false;
};
// An operator traces a job of the server; said again by each renewal until the trace has ended.
struct ServerTraceAsked {
  ServerId server;
  TraceRequest trace;
};
// An operator wants the server to leave: it is to open no new group, and GroupsEnded is to come when none is open.
struct DrainAsked {};
// After DrainAsked, and before GroupsEnded: an operator wants the server to stay after all.
struct DrainWithdrawn {};
// The server has no place in the cluster, and the machine does not try to get one any more. FailedPrecondition and
// others: the scheduler refused the first registration. DeadlineExceeded: it did not answer in time at the start (the
// text says what happened instead). Aborted: another process took this server's place, or an operator evicted it.
struct LeaseGivenUp {
  absl::Status why;
};
// The server has left the cluster; nothing follows.
struct LeftCluster {};

using LeaseOutcome = std::variant<LeaseReport, LeaseGranted, LeaseRenewed, ServerTraceAsked, DrainAsked, DrainWithdrawn,
                                  LeaseGivenUp, LeftCluster>;
using LeaseOutcomes = std::vector<LeaseOutcome>;

using RegistrationAction =
    std::variant<RegisterCall, RenewCall, DeregisterCall, CancelLeaseCall, LeaseReport, LeaseGranted, LeaseRenewed,
                 ServerTraceAsked, DrainAsked, DrainWithdrawn, LeaseGivenUp, LeftCluster>;
using RegistrationActions = std::vector<RegistrationAction>;

}  // namespace shoal

#endif  // SHOAL_SERVER_LEASE_LEASE_ACTIONS_H_
