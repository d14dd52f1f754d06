// Who may declare a rank lost, after what time, and how the times of all sides fit each other: the one rule
// (docs/failover.md, F5 and F11; docs/adr/0019), with the constants that the product and the simulator share.
//
//   1. A broken connection ends nothing by itself. The rank tries the server again for kReachPatienceNs and reports
//      to the scheduler, which moves the group. The server keeps the group, waits, and names the absent rank to the
//      scheduler.
//   2. The scheduler alone declares a rank lost: when its lease has run out, or when its process has ended. It has
//      ended if the rank's Watch stream was closed, a server says that it lost the rank's connection in the same
//      moment, and no new stream came within kProcessEndedPatienceNs (kOpenJobPatienceNs). Another process that joins
//      as this rank takes its place when no new stream came within kTakeOverPatienceNs.
//   3. A server declares a rank lost only as the last resort: when the rank has been absent and no scheduler was heard
//      for ServerPatienceNs, which is longer than all that the others may need. Where the scheduler runs inside a
//      worker, its end is that of a rank: then a lease is enough.
//
// Pure constants and functions; any thread.
#ifndef SHOAL_CORE_FAILURE_DETECTION_H_
#define SHOAL_CORE_FAILURE_DETECTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/now.h"

namespace shoal {

// ---- leases ----

inline constexpr uint64_t kDefaultLeaseTtlNs = 5 * kNsPerS;
// So two heartbeats may be refused before the lease is over, or one remain without an answer.
inline constexpr uint64_t kHeartbeatsPerLease = 3;
constexpr uint64_t HeartbeatPeriodNs(uint64_t lease_ttl_ns) { return lease_ttl_ns / kHeartbeatsPerLease; }

// gRPC's timers wait by the wall clock: where that is set back, deadlines come late by as much. A call to a scheduler
// that is open so much longer than its deadline is ended by its caller's own clock.
inline constexpr uint64_t kCallOverdueNs = 100 * kNsPerMs;

// A scheduler that passes its callers' calls on asks the leader this often whether it is there. When it has not
// answered for so long, neither that nor a call that was passed on meanwhile, calls are refused: within a third of a
// member's lease, so that the member has the time to ask the other schedulers.
constexpr uint64_t LeaderProbePeriodNs(uint64_t lease_ttl_ns) { return lease_ttl_ns / 12; }
constexpr uint64_t LeaderProbeTimeoutNs(uint64_t lease_ttl_ns) {
  // Below that, a leader that is only busy would be taken for silent.
  constexpr uint64_t kLeastNs = 250 * kNsPerMs;
  return lease_ttl_ns / 6 > kLeastNs ? lease_ttl_ns / 6 : kLeastNs;
}

// ---- a path that falls silent ----

// The kernels of two nodes probe an idle connection. The side that made it (the rank) asks this often, the side that
// listens (the server) less often; a connection ends when that many questions in a row found no answer.
inline constexpr uint64_t kRankProbePeriodNs = kNsPerS;
inline constexpr uint64_t kServerProbePeriodNs = 3 * kNsPerS;
inline constexpr uint64_t kUnansweredProbes = 3;
// The kernel repeats an attempt to connect this many times, the first time after a second and then after pauses that
// double; then the attempt has failed, and the rank begins another one. (Left to the kernel, attempts come ever more
// rarely: that a path that was silent for 18 s works again would be noticed up to 16 s late.)
inline constexpr uint64_t kConnectRepeats = 1;
// A rank notices a silent path within this time; an idle server's kernel later.
inline constexpr uint64_t kRankNoticesWithinNs = (1 + kUnansweredProbes) * kRankProbePeriodNs;
inline constexpr uint64_t kServerNoticesWithinNs = (1 + kUnansweredProbes) * kServerProbePeriodNs;
// A scheduler asks an idle connection this often, and closes it and its streams when there was no answer for so long.
inline constexpr uint64_t kControlProbePeriodNs = 20 * kNsPerS;
inline constexpr uint64_t kControlProbeTimeoutNs = 10 * kNsPerS;

// ---- what a rank does about it ----

// A rank whose connection to a server broke tries to reach it again for this time, and then reports that it can't.
inline constexpr uint64_t kReachPatienceNs = 2 * kNsPerS;
// What a report may take; it is repeated until it is answered.
inline constexpr uint64_t kReportTimeoutNs = 2 * kNsPerS;
// From the scheduler's decision to the first message in the new epoch.
inline constexpr uint64_t kMoveNs = kNsPerS;
// So long after a path broke, a rank that lives and its scheduler have moved the group.
inline constexpr uint64_t kGroupMovesWithinNs = kRankNoticesWithinNs + kReachPatienceNs + kReportTimeoutNs + kMoveNs;

// ---- what the scheduler does about it ----

inline constexpr uint64_t kProcessEndedPatienceNs = kNsPerS;
// In an open job a false alarm costs one rank its place, and not the job.
inline constexpr uint64_t kOpenJobPatienceNs = 100 * kNsPerMs;
inline constexpr uint64_t kTakeOverPatienceNs = 250 * kNsPerMs;
// The stream to the scheduler and the connection to a server ended together if no more time was between the two: a
// packet that says so may have to be sent again.
inline constexpr uint64_t kSameMomentNs = kNsPerS;
// A heartbeat that a process sent before it ended may come this much later than the end of its stream. One that lives
// opens another stream soon after.
inline constexpr uint64_t kHeartbeatUnderWayNs = 100 * kNsPerMs;
// The end of a stream says that the peer closed it only if the rank was heard within this time before: else silence
// may have ended it.
inline constexpr uint64_t kStreamOfLivingNs = kControlProbePeriodNs + kControlProbeTimeoutNs - kNsPerS;

// ---- the last resort ----

// So long a server has heard no scheduler, and no connection of the rank, before it declares the rank lost itself. A
// rank's lease has run out by then, and where another scheduler takes over (CheckLeases), that one has decided.
constexpr uint64_t ServerPatienceNs(uint64_t lease_ttl_ns, bool scheduler_is_colocated) {
  return scheduler_is_colocated ? lease_ttl_ns : lease_ttl_ns + kGroupMovesWithinNs;
}

// From the end of the leader's lease until the next scheduler has taken over and answers: etcd looks every 500 ms for
// leases that are over, schedulers look every 300 ms who leads, and the next one reads the state.
inline constexpr uint64_t kTakeOverOfSchedulerNs = kNsPerS;
// etcd's members have a leader of their own. When it ends together with the leading scheduler, the others wait for one
// to two of its election timeouts before they elect the next one. That one begins each lease anew, and gives it an
// election timeout on top. (This is --election-timeout of etcd, unless it is set.)
inline constexpr uint64_t kEtcdElectionTimeoutNs = kNsPerS;
inline constexpr uint64_t kEtcdBeginsLeasesAnewWithinNs = 3 * kEtcdElectionTimeoutNs;
// From the leading scheduler's last sign until the next one answers, whoever ended together with it.
constexpr uint64_t NextSchedulerAnswersWithinNs(uint64_t leader_lease_ns) {
  return leader_lease_ns + kEtcdBeginsLeasesAnewWithinNs + kTakeOverOfSchedulerNs;
}

// Whether servers leave all decisions to schedulers that are configured like this. `leader_lease_ns` 0: there is only
// one scheduler. InvalidArgument: the leases don't fit each other; the text names the options and says what to give.
absl::Status CheckLeases(uint64_t lease_ttl_ns, uint64_t leader_lease_ns);

static_assert(kRankNoticesWithinNs + kReachPatienceNs < kUnansweredProbes * kServerProbePeriodNs,
              "on an idle connection the rank notices first, so that its report comes before the server's question");
static_assert(kTakeOverPatienceNs < kProcessEndedPatienceNs,
              "a process that comes for a rank is evidence that its holder has ended");
static_assert(kStreamOfLivingNs < kControlProbePeriodNs + kControlProbeTimeoutNs,
              "a stream that the probes' timeout closed must not be taken for one whose process has ended");

}  // namespace shoal

#endif  // SHOAL_CORE_FAILURE_DETECTION_H_
