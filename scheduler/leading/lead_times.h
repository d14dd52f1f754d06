// The times of an election: for how long a scheduler leads by its own clock, and how often it asks. The election
// against etcd and the simulator's share them. Pure constants and functions; any thread.
#ifndef SHOAL_SCHEDULER_LEADING_LEAD_TIMES_H_
#define SHOAL_SCHEDULER_LEADING_LEAD_TIMES_H_

#include <cstdint>

#include "core/now.h"

namespace shoal::scheduler {

// One that does not lead looks this often who does.
inline constexpr uint64_t kBetweenElectionsMs = 300;
// A call of an election, and the one that gives the lead up.
inline constexpr uint64_t kElectionCallTimeoutMs = 2000;
inline constexpr uint64_t kResignTimeoutMs = 500;

// By its own clock, when it asked for its lease, or for more of it, at `asked_ns`. A fifth of the lease is kept for
// clocks that run at different speeds and for writes that are in flight at its end.
constexpr uint64_t LeadsUntilNs(uint64_t asked_ns, uint64_t lease_ttl_ms) {
  return asked_ns + lease_ttl_ms * kNsPerMs / 5 * 4;
}

// After the answer to the last one, a leader asks for more of its lease, and waits so long for the answer.
constexpr uint64_t RenewPeriodMs(uint64_t lease_ttl_ms) { return lease_ttl_ms / 5; }
constexpr uint64_t RenewTimeoutMs(uint64_t lease_ttl_ms) { return lease_ttl_ms / 3; }

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LEADING_LEAD_TIMES_H_
