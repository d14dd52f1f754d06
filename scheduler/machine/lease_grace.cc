#include "scheduler/machine/lease_grace.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"
#include "core/failure_detection.h"
#include "scheduler/machine/node_place.h"

namespace shoal::scheduler {
namespace {

// How long nobody may find a scheduler that was started again: its name and routes to it get about within seconds.
constexpr uint64_t kLeasesToFindScheduler = 10;

}  // namespace

LeaseGrace::RunOut LeaseGrace::Judge(bool is_rank_awaited, Now now) {
  const uint64_t due_ns = std::min(servers_.next_expiry_ns(), jobs_.next_expiry_ns());
  if (due_ns == kNoDeadline || now.monotonic_ns < due_ns) return RunOut::kEverybodys;
  if (decisions_.last_save_failed()) return JudgeUnsaved(due_ns, now);
  if (now.monotonic_ns >= due_ns + HeartbeatPeriodNs(lease_ttl_ns_)) {
    RenewAll(now);
    decisions_.Record(EventKind::kSchedulerStalled, absl::StrCat("cluster ", cluster_id_),
                      absl::StrCat("the scheduler did not run for at least ", Seconds(now.monotonic_ns - due_ns),
                                   ", so no lease could be renewed; all leases start anew"),
                      now);
    return RunOut::kNobodys;
  }
  const uint64_t silence_ns = SilenceOfAllNs(is_rank_awaited, now);
  if (!ExcuseAfter(silence_ns, now)) return RunOut::kEverybodys;
  if (!std::exchange(cut_off_, true)) {
    const std::string why =
        has_heard_any_ ? absl::StrCat("no heartbeat from any node for ", Seconds(silence_ns),
                                      "; assuming this node's network is down; no member is marked lost; check this "
                                      "node's network")
                       : absl::StrCat("no member has been heard since this scheduler began ", Seconds(silence_ns),
                                      " ago; assuming that they can't reach it yet; no member is marked lost; check "
                                      "this node's network, and that the members' name for the scheduler leads here");
    decisions_.Record(EventKind::kSchedulerCutOff, absl::StrCat("cluster ", cluster_id_), why, now);
  }
  return RunOut::kNobodys;
}

// No process can be told that it is a member while the store fails, so none is lost for not renewing, and a loss could
// not be saved. But a server that waits to be let in would ask again if it were still there: nothing that anybody knows
// of is taken back with it.
LeaseGrace::RunOut LeaseGrace::JudgeUnsaved(uint64_t due_ns, Now now) {
  jobs_.RenewLeases(/*ends_processes=*/false, now);
  if (now.monotonic_ns < due_ns + HeartbeatPeriodNs(lease_ttl_ns_)) {
    servers_.RenewThoseThatAreSaved(now);
    return RunOut::kServers;
  }
  servers_.RenewAll(now);
  return RunOut::kNobodys;
}

// When several nodes fall silent at the same moment, the cause is far more likely this node's network than theirs.
uint64_t LeaseGrace::SilenceOfAllNs(bool is_rank_awaited, Now now) const {
  if (is_rank_awaited) return 0;
  // Each heartbeat asks, and to walk through all members takes long where there are many.
  const uint64_t silence_ns = now.monotonic_ns - heard_at_ns_;
  if (!has_heard_any_ && silence_ns >= kLeasesToFindScheduler * lease_ttl_ns_) return 0;
  if (silence_ns < LeastSilenceNs()) return 0;
  std::vector<NodePlace> places;
  servers_.AddLivePlaces(&places);
  jobs_.AddLivePlaces(&places);
  return NodeNumbering(places).count() > 1 ? silence_ns : 0;
}

// Every member sends a heartbeat in a period, and a quarter of a period is what one may come late.
uint64_t LeaseGrace::LeastSilenceNs() const { return HeartbeatPeriodNs(lease_ttl_ns_) * 5 / 4; }

// If no heartbeat came from any member, the fault is more likely here than with all. A longer threshold would come too
// late: a member whose last heartbeat came a period before the silence would lose its lease before it has connected
// again. But the only one that is left may be late as well, again and again: so a short silence excuses a member once.
bool LeaseGrace::ExcuseAfter(uint64_t silence_ns, Now now) {
  if (silence_ns >= 2 * HeartbeatPeriodNs(lease_ttl_ns_)) {
    RenewAll(now);
    return true;
  }
  if (silence_ns >= LeastSilenceNs()) {
    servers_.ExtendLeasesOnce(now);
    jobs_.ExtendLeasesOnce(now);
  }
  return false;
}

void LeaseGrace::RenewAll(Now now) {
  servers_.RenewAll(now);
  jobs_.RenewAll(now);
}

void LeaseGrace::OnMemberHeard(bool is_rank_awaited, Now now) {
  // The other members reconnect as soon as they notice that they can, each after a different time.
  ExcuseAfter(SilenceOfAllNs(is_rank_awaited, now), now);
  if (std::exchange(cut_off_, false)) {
    decisions_.Record(EventKind::kSchedulerReached, absl::StrCat("cluster ", cluster_id_),
                      "heartbeats of members arrive again", now);
  }
  heard_at_ns_ = now.monotonic_ns;
  has_heard_any_ = true;
}

}  // namespace shoal::scheduler
