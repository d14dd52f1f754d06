// The part of Cluster that lets faults of schedulers and of their store happen.
#include <algorithm>
#include <utility>

#include "core/failure_detection.h"
#include "sim/cluster.h"

namespace shoal::sim {
namespace {

// A worker asks again to join its job when it has heard nothing for that long.
constexpr uint64_t kJoinAttemptMs = 1000;
// Of a pause's target, by three: else it is a server's or a worker's.
constexpr uint32_t kPausesScheduler = 1;

}  // namespace

bool Cluster::HitsScheduler(const Fault& fault) {
  return fault.kind == FaultKind::kSchedulerOutage || fault.kind == FaultKind::kStoreFailures ||
         fault.kind == FaultKind::kStoreSlow || fault.kind == FaultKind::kSaveAnswersLost ||
         fault.kind == FaultKind::kLeaderCut || fault.kind == FaultKind::kLeaderChange ||
         fault.kind == FaultKind::kFollowerStop ||
         (fault.kind == FaultKind::kPause && fault.target % 3 == kPausesScheduler);
}

bool Cluster::HitStore(const Fault& fault, uint64_t end_ns) {
  switch (fault.kind) {
    case FaultKind::kStoreFailures:
      disk_.FailUntil(end_ns);
      return true;
    case FaultKind::kStoreSlow:
      disk_.BeSlowUntil(end_ns);
      return true;
    case FaultKind::kSaveAnswersLost:
      disk_.LoseAnswersUntil(end_ns);
      return true;
    default:
      return false;
  }
}

bool Cluster::HitCandidate(const Fault& fault, uint64_t end_ns) {
  const bool hits_leader = fault.kind != FaultKind::kFollowerStop;
  const size_t first = fault.target % candidates_.size();
  size_t index = candidates_.size();
  for (size_t i = candidates_.size(); i > 0; --i) {
    const size_t each = (first + i - 1) % candidates_.size();
    if (candidates_[each] != nullptr && candidates_[each]->leads() == hits_leader) index = each;
  }
  if (index == candidates_.size() || (fault.kind == FaultKind::kPause && fault.target % 3 != kPausesScheduler)) {
    return false;
  }
  SimCandidate& hit = *candidates_[index];
  switch (fault.kind) {
    case FaultKind::kPause:
      hit.PauseUntil(end_ns);
      return true;
    case FaultKind::kLeaderCut:
      hit.CutFromStoreUntil(end_ns);
      return true;
    case FaultKind::kFollowerStop:
      ExcuseJoinsUntil(end_ns);
      if (fault.target % 5 > 2) {
        hit.CutFromLeaderUntil(end_ns);
        return true;
      }
      if (fault.target % 5 > 0) {
        hit.PauseUntil(end_ns);
        return true;
      }
      break;
    case FaultKind::kLeaderChange:
      hit.GiveUpLead();
      break;
    case FaultKind::kSchedulerOutage:
      break;
    default:
      return false;
  }
  candidates_[index].reset();
  world_.At(end_ns, [this, index] { StartCandidate(index); });
  return true;
}

bool Cluster::HitScheduler(const Fault& fault, uint64_t end_ns) {
  victims_ = {kStore};
  if (HitStore(fault, end_ns)) return true;
  victims_ = {kScheduler};
  if (!candidates_.empty()) return HitCandidate(fault, end_ns);
  switch (fault.kind) {
    case FaultKind::kSchedulerOutage:
      scheduler_.reset();
      world_.At(end_ns, [this] { StartScheduler(); });
      return true;
    case FaultKind::kLeaderCut:
      if (scheduler_ == nullptr) return false;
      scheduler_->CutFromStoreUntil(end_ns);
      return true;
    case FaultKind::kLeaderChange:
    case FaultKind::kStaleLeader:
      if (scheduler_ == nullptr) return false;
      // A leader stops by its own clock before another can lead; only what it has sent is still on its way.
      if (fault.kind == FaultKind::kLeaderChange) scheduler_->PauseUntil(kNoDeadline);
      if (fault.kind == FaultKind::kStaleLeader) {
        ExcuseRunsFromHealing();
        for (uint32_t run = 0; run < runs_; ++run) {
          if (!IsOver(run)) checkers_.Excuse(ExcusableCheck::kIsolation, run);
        }
      }
      deposed_.push_back(std::move(scheduler_));
      world_.At(end_ns, [this, index = deposed_.size() - 1] { deposed_[index].reset(); });
      StartScheduler();
      return true;
    case FaultKind::kSchedulerAmnesia:
      if (scheduler_ == nullptr) return false;
      scheduler_.reset();
      for (std::unique_ptr<SchedulerProcess>& each : deposed_) each.reset();
      disk_.LoseState();
      ExcuseRunsFromHealing();
      ExcuseRunsOfLostState();
      world_.At(end_ns, [this] { StartScheduler(); });
      return true;
    case FaultKind::kPause:
      if (fault.target % 3 != kPausesScheduler || scheduler_ == nullptr) return false;
      scheduler_->PauseUntil(end_ns);
      return true;
    case FaultKind::kFollowerStop: {
      const size_t index = followers_.empty() ? 0 : fault.target % followers_.size();
      if (followers_.empty() || followers_[index] == nullptr) return false;
      ExcuseJoinsUntil(end_ns);
      if (fault.target % 5 > 2) {
        followers_[index]->CutFromLeaderUntil(end_ns);
        return true;
      }
      if (fault.target % 5 > 0) {
        followers_[index]->StandStillUntil(end_ns);
        return true;
      }
      followers_[index].reset();
      world_.At(end_ns, [this, index] { StartFollower(index); });
      return true;
    }
    default:
      return false;
  }
}

void Cluster::ExcuseRunsFromHealing() {
  for (uint32_t run = 0; run < runs_; ++run) checkers_.Excuse(ExcusableCheck::kHealing, run);
}

void Cluster::ExcuseRunsOfLostState() {
  for (const Worker& worker : workers_) {
    if (!worker.started || IsOver(worker.place.run)) continue;
    // With the servers that it has, a group goes on; it can't be given others.
    const bool can_go_on = worker.process != nullptr && worker.process->opened_all() && !profile_.moves();
    if (!can_go_on) checkers_.Excuse(ExcusableCheck::kIsolation, worker.place.run);
  }
}

// A rank that was heard, but not told so, does not know yet that it has a lease to renew: one that is not much longer
// than the time after which it asks again may run out. It renews it after a third; what takes less than half of it is
// no excuse.
void Cluster::ExcuseJoinsUntil(uint64_t end_ns) {
  const uint64_t until_ns = end_ns - std::min(end_ns, profile_.lease_ttl_ms * kNsPerMs / 2);
  if (profile_.lease_ttl_ms > kJoinAttemptMs || until_ns < world_.now_ns()) return;
  ExcuseRunsThatJoin(until_ns);
}

void Cluster::ExcuseRunsThatJoin(uint64_t until_ns) {
  joins_excused_until_ns_ = std::max(joins_excused_until_ns_, until_ns);
  for (const Worker& worker : workers_) {
    if (!worker.started || worker.process == nullptr || worker.process->joined()) continue;
    checkers_.Excuse(ExcusableCheck::kIsolation, worker.place.run);
  }
}

uint64_t Cluster::LeadIsBackNs(const Fault& fault) const {
  if (profile_.leader_lease_ms == 0 || !HitsScheduler(fault)) return 0;
  // The store here has no leader of its own that could end as well.
  return profile_.leader_lease_ms * kNsPerMs + kTakeOverOfSchedulerNs;
}

}  // namespace shoal::sim
