// What happens to a RegistrationMachine: answers of the scheduler, and commands of the process. Plain values.
#ifndef SHOAL_SERVER_LEASE_LEASE_EVENTS_H_
#define SHOAL_SERVER_LEASE_LEASE_EVENTS_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "server/lease/server_lease.h"

namespace shoal {

// Names a call to the scheduler; the machine numbers its calls 1, 2, 3, ...
using LeaseCallId = StrongId<struct LeaseCallIdTag, uint64_t>;

// ---- answers: one for each call (control_link.h says with which errors) ----

struct RegisterAnswered {
  LeaseCallId call;
  absl::StatusOr<ServerLease> lease;
};
struct RenewAnswered {
  LeaseCallId call;
  absl::StatusOr<LeaseRenewal> renewal;
};
struct DeregisterAnswered {
  LeaseCallId call;
  absl::Status status;
};
using LeaseAnswer = std::variant<RegisterAnswered, RenewAnswered, DeregisterAnswered>;

// ---- commands ----

// Leave the cluster now.
struct LeaveRequested {
  std::string reason;
};
// After DrainAsked: no group is open any more.
struct GroupsEnded {};
// The connection of a rank broke that others wait for: the scheduler is to hear of it at once, with the counters.
struct RankBecameAbsent {};
using LeaseCommand = std::variant<LeaveRequested, GroupsEnded, RankBecameAbsent>;

}  // namespace shoal

#endif  // SHOAL_SERVER_LEASE_LEASE_EVENTS_H_
