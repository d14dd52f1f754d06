// The scheduler's Store port under virtual time: saves take a while, may fail, outlive the scheduler, and are refused
// once another scheduler has the lead, as etcd refuses them (scheduler/store/etcd_store.h).
#ifndef SHOAL_SIM_SIM_STORE_H_
#define SHOAL_SIM_SIM_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/store/store.h"
#include "sim/world.h"

namespace shoal::sim {

// Where the state lies. Outlives its users.
class SimDisk {
 public:
  explicit SimDisk(World* world) : world_(world) {}

  void FailUntil(uint64_t world_ns) { fail_until_ns_ = world_ns; }
  void LoseState() { state_.reset(); }
  const std::optional<std::string>& state() const { return state_; }
  // Called whenever a scheduler saves.
  void SetOnSave(std::function<void()> on_save) { on_save_ = std::move(on_save); }

 private:
  friend class SimStore;

  World* world_;
  uint64_t fail_until_ns_ = 0;
  uint64_t term_ = 0;  // of the newest user
  std::optional<std::string> state_;
  std::function<void()> on_save_ = [] {};
};

// One scheduler's access to the disk, for one term: making one takes the lead.
class SimStore : public scheduler::Store {
 public:
  explicit SimStore(SimDisk* disk) : disk_(disk), term_(++disk->term_), alive_(std::make_shared<bool>(true)) {}

  absl::StatusOr<std::optional<std::string>> Load() override { return disk_->state_; }

  // The state changes at some time between the start and the outcome, even if this scheduler is dead by then.
  void StartSave(uint64_t number, std::string state) override {
    World* const world = disk_->world_;
    disk_->on_save_();
    const uint64_t takes_ns = world->random().Between(1'000, 3'000'000);
    auto outcome = std::make_shared<absl::Status>();
    world->After(world->random().Below(takes_ns), [disk = disk_, term = term_, outcome, state = std::move(state)] {
      if (disk->world_->now_ns() < disk->fail_until_ns_) {
        *outcome = absl::UnavailableError("the simulated disk is full");
      } else if (disk->term_ != term) {
        *outcome = absl::FailedPreconditionError("another scheduler leads");
      } else {
        disk->state_ = state;
      }
    });
    world->After(takes_ns, [this, alive = std::weak_ptr<bool>(alive_), number, outcome] {
      if (alive.expired()) return;
      saved_ = Saved{number, *outcome};
      wake_();
    });
  }

  std::optional<Saved> PollSaved() override { return std::exchange(saved_, std::nullopt); }
  void SetWake(std::function<void()> wake) override { wake_ = std::move(wake); }
  std::string Describe() const override { return "simulated"; }

 private:
  SimDisk* disk_;
  const uint64_t term_;
  std::optional<Saved> saved_;
  std::function<void()> wake_ = [] {};
  std::shared_ptr<bool> alive_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_STORE_H_
