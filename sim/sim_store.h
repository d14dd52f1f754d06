// The scheduler's Store port under virtual time, and what several schedulers need of an etcd besides: leases and the
// leader's key (scheduler/leading/etcd_election.h).
//
// Saves take a while, outlive the scheduler, and are refused once the scheduler's term is over, as etcd refuses them
// (scheduler/store/etcd_store.h). They may fail, take seconds, or take place while the scheduler hears that they
// failed; a scheduler may be cut off from the store. One thread (the world's).
#ifndef SHOAL_SIM_SIM_STORE_H_
#define SHOAL_SIM_SIM_STORE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/store/store.h"
#include "sim/world.h"

namespace shoal::sim {

// A process's way to the store.
class StoreWay {
 public:
  void CutUntil(uint64_t world_ns) { cut_until_ns_ = std::max(cut_until_ns_, world_ns); }
  // When something gets through that would without a cut at `at_ns`.
  uint64_t ThroughNs(uint64_t at_ns) const { return std::max(at_ns, cut_until_ns_); }

 private:
  uint64_t cut_until_ns_ = 0;
};

// Where the state lies. Outlives its users.
class SimDisk {
 public:
  // Who has the lead; term 0: nobody.
  struct Leader {
    uint64_t term = 0;
    uint64_t holder = 0;
    uint64_t lease = 0;
  };

  explicit SimDisk(World* world) : world_(world) {}

  void FailUntil(uint64_t world_ns) { fail_until_ns_ = world_ns; }
  // What begins to be saved before then may take until then.
  void BeSlowUntil(uint64_t world_ns) { slow_until_ns_ = std::max(slow_until_ns_, world_ns); }
  // What is asked of it until then is done, and the answer is lost.
  void LoseAnswersUntil(uint64_t world_ns) { lose_answers_until_ns_ = std::max(lose_answers_until_ns_, world_ns); }
  void LoseState() { state_.reset(); }
  const std::optional<std::string>& state() const { return state_; }
  // Called whenever a scheduler saves.
  void SetOnSave(std::function<void()> on_save) { on_save_ = std::move(on_save); }

  // A call that takes `takes_ns` both ways: `arrived` at the store, then `ended` at the caller, who is told whether
  // there was an answer. Without one it ends at the deadline. While the way is cut, what is said waits.
  void Call(const std::shared_ptr<StoreWay>& way, uint64_t takes_ns, uint64_t timeout_ns, std::function<void()> arrived,
            std::function<void(bool answered)> ended);

  // ---- as etcd, by its own clock ----
  uint64_t GrantLease(uint64_t ttl_ns);
  // False: it has ended.
  bool RenewLease(uint64_t lease, uint64_t ttl_ns);
  void RevokeLease(uint64_t lease) { leases_.erase(lease); }
  // Unless somebody has the lead. Returns who has it then.
  Leader TakeLead(uint64_t holder, uint64_t lease);
  Leader leader() const;
  // Whoever had it: the only scheduler there is has started.
  uint64_t TakeLeadForEver();

  // A scheduler's newest save has failed, and it has not made that good yet.
  bool has_unsaved() const { return unsaved_ != nullptr; }
  // Saves that were refused because the scheduler's term was over.
  uint64_t refused_saves() const { return refused_saves_; }
  // Saves whose scheduler was told, or had to conclude, that they had failed.
  uint64_t saves_unheard() const { return saves_unheard_; }

 private:
  friend class SimStore;

  World* world_;
  uint64_t fail_until_ns_ = 0;
  uint64_t slow_until_ns_ = 0;
  uint64_t lose_answers_until_ns_ = 0;
  uint64_t revision_ = 0;
  Leader leader_;
  std::map<uint64_t, uint64_t> leases_;  // when each ends
  std::optional<std::string> state_;
  std::function<void()> on_save_ = [] {};
  const scheduler::Store* unsaved_ = nullptr;
  uint64_t refused_saves_ = 0;
  uint64_t saves_unheard_ = 0;
};

// One scheduler's access to the disk, for one term.
class SimStore : public scheduler::Store {
 public:
  // Takes the lead.
  explicit SimStore(SimDisk* disk) : SimStore(disk, disk->TakeLeadForEver(), std::make_shared<StoreWay>()) {}
  // Has taken it.
  SimStore(SimDisk* disk, uint64_t term, std::shared_ptr<StoreWay> way)
      : disk_(disk), term_(term), way_(std::move(way)), alive_(std::make_shared<bool>(true)) {}

  ~SimStore() override { NoteSaved(/*is_saved=*/true); }

  absl::StatusOr<std::optional<std::string>> Load() override { return disk_->state_; }
  // The state changes at some time between the start and the outcome, even if this scheduler is dead by then.
  void StartSave(uint64_t number, std::string state) override;
  std::optional<Saved> PollSaved() override { return std::exchange(saved_, std::nullopt); }
  void SetWake(std::function<void()> wake) override { wake_ = std::move(wake); }
  std::string Describe() const override { return "simulated"; }

  // A save was refused.
  bool term_is_over() const { return term_is_over_; }
  StoreWay& way() { return *way_; }

 private:
  void NoteSaved(bool is_saved) {
    if (!is_saved) {
      disk_->unsaved_ = this;
    } else if (disk_->unsaved_ == this) {
      disk_->unsaved_ = nullptr;
    }
  }

  SimDisk* disk_;
  const uint64_t term_;
  const std::shared_ptr<StoreWay> way_;
  bool term_is_over_ = false;
  std::optional<Saved> saved_;
  std::function<void()> wake_ = [] {};
  std::shared_ptr<bool> alive_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_STORE_H_
