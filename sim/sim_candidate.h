// One of several simulated schedulers that share a store: it stands for election again and again, leads for a term, and
// passes calls on to the leader otherwise.
//
// Does under virtual time what scheduler/leading does with threads and an etcd (EtcdElection, SchedulerRoles,
// SchedulerTerm), which block and can't be driven here: the same calls in the same order, with the product's times
// (lead_times.h). What it leads with is the product's own loop and machine. One thread (the world's).
#ifndef SHOAL_SIM_SIM_CANDIDATE_H_
#define SHOAL_SIM_SIM_CANDIDATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sim/profile.h"
#include "sim/scheduler_process.h"
#include "sim/sim_control.h"
#include "sim/sim_process.h"
#include "sim/sim_store.h"

namespace shoal::sim {

class SimCandidate : public SimProcess {
 public:
  using StartTerm = std::function<std::unique_ptr<SchedulerProcess>(SchedulerProcess::Lead lead)>;
  // The number of a candidate's host (SimControlHost), if it leads; else 0.
  using HostOf = std::function<uint64_t(uint64_t candidate)>;

  // `number`: from 1 on. All outlive it.
  SimCandidate(World* world, const Profile& profile, uint64_t number, SimControl* control, SimDisk* disk,
               StartTerm start_term, HostOf host_of);
  // The process dies: its lease ends by itself.
  ~SimCandidate() override = default;

  // As the end of a process that was told to end: the lead is given up. Destroy it then.
  void GiveUpLead();
  // Its connections stay.
  void PauseUntil(uint64_t world_ns);
  void CutFromStoreUntil(uint64_t world_ns) { way_->CutUntil(world_ns); }

  // Nothing gets through between it, if it does not lead, and the leader.
  void CutFromLeaderUntil(uint64_t world_ns);
  bool leads() const { return term_ != nullptr; }
  bool HoldsLead() const;
  // It would answer now, as far as it knows: nothing has ended its term.
  bool MayAnswer() const { return term_ != nullptr && !IsPaused() && HoldsLead(); }
  uint64_t host_number() const { return term_ == nullptr ? 0 : term_->host_number(); }
  // It passes calls on to that host, or is it; one that stands still does not matter.
  bool IsSettledOn(uint64_t host) const {
    return IsPaused() || (term_ != nullptr ? host_number() : follower_->leader()) == host;
  }

 protected:
  uint64_t Run(Now now) override;

 private:
  // One call to the store; `ended` does not run if this process is gone.
  void Call(uint64_t timeout_ms, std::function<void()> arrived, std::function<void(bool answered)> ended);
  // ---- an election: each step asks the store, and the next one follows its answer ----
  void Stand();
  void LookWhoLeads();
  void AskForLease();
  void TryToLead(uint64_t asked_ns);
  void Follow(uint64_t leader);  // 0: nobody leads
  void EndElection();            // whoever led before may still lead
  void Lead(uint64_t term, uint64_t asked_ns);
  void RenewLease();
  void EndTerm();

  SimControl* const control_;
  SimDisk* const disk_;
  const uint64_t number_;
  const uint64_t member_lease_ns_;
  const uint64_t lease_ttl_ms_;  // of the leader
  const StartTerm start_term_;
  const HostOf host_of_;
  const std::shared_ptr<StoreWay> way_ = std::make_shared<StoreWay>();
  std::unique_ptr<SimFollower> follower_;  // null while it leads
  std::unique_ptr<SchedulerProcess> term_;
  uint64_t lease_ = 0;  // at the store; 0: none
  bool stands_ = false;
  bool renews_ = false;
  uint64_t next_stand_ns_ = 0;
  uint64_t next_renewal_ns_ = 0;
  uint64_t leads_until_ns_ = 0;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_CANDIDATE_H_
