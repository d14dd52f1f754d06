#include "core/failure_detection.h"

#include "absl/strings/str_cat.h"

namespace shoal {

absl::Status CheckLeases(uint64_t lease_ttl_ns, uint64_t leader_lease_ns) {
  if (leader_lease_ns == 0) return absl::OkStatus();
  // A server hears the new leader with its next heartbeat.
  const uint64_t silent_ns = NextSchedulerAnswersWithinNs(leader_lease_ns) + HeartbeatPeriodNs(lease_ttl_ns);
  const uint64_t patience_ns = ServerPatienceNs(lease_ttl_ns, /*scheduler_is_colocated=*/false);
  if (silent_ns <= patience_ns) return absl::OkStatus();
  const uint64_t longest_ns = leader_lease_ns - (silent_ns - patience_ns);
  return absl::InvalidArgumentError(absl::StrCat(
      "--leader-lease ", leader_lease_ns / kNsPerMs, " does not fit --lease-ttl ", lease_ttl_ns / kNsPerMs,
      ": servers hear no scheduler for up to ", silent_ns / kNsPerMs,
      " ms when another one takes over, but declare a rank lost themselves after ", patience_ns / kNsPerMs,
      " ms without one; give --leader-lease ", longest_ns / kNsPerMs, " or less, or a longer --lease-ttl"));
}

}  // namespace shoal
