// The scheduler's Store port under virtual time: saves take a while, may fail, and outlive the scheduler.
#ifndef SHOAL_SIM_SIM_STORE_H_
#define SHOAL_SIM_SIM_STORE_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/store.h"
#include "sim/world.h"

namespace shoal::sim {

class SimStore : public scheduler::Store {
 public:
  explicit SimStore(World* world) : world_(world) {}

  void FailUntil(uint64_t world_ns) { fail_until_ns_ = world_ns; }
  // The scheduler died: a save under way may or may not have happened.
  void Crash() {
    ++life_;
    saved_.reset();
    wake_ = [] {};
  }

  absl::StatusOr<std::optional<std::string>> Load() override { return state_; }

  void StartSave(uint64_t number, std::string state) override {
    const bool fails = world_->now_ns() < fail_until_ns_;
    if (!fails) state_ = std::move(state);
    world_->After(world_->random().Between(1'000, 3'000'000), [this, life = life_, number, fails] {
      if (life != life_) return;
      saved_ = Saved{number, fails ? absl::UnavailableError("the simulated disk is full") : absl::OkStatus()};
      wake_();
    });
  }

  std::optional<Saved> PollSaved() override { return std::exchange(saved_, std::nullopt); }
  void SetWake(std::function<void()> wake) override { wake_ = std::move(wake); }
  std::string Describe() const override { return "simulated"; }

 private:
  World* world_;
  uint64_t fail_until_ns_ = 0;
  uint64_t life_ = 0;
  std::optional<std::string> state_;
  std::optional<Saved> saved_;
  std::function<void()> wake_ = [] {};
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_STORE_H_
