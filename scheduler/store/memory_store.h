// A store that lasts as long as its object: for a scheduler without a state file, and for tests.
#ifndef SHOAL_SCHEDULER_STORE_MEMORY_STORE_H_
#define SHOAL_SCHEDULER_STORE_MEMORY_STORE_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/store/store.h"

namespace shoal::scheduler {

class MemoryStore : public Store {
 public:
  absl::StatusOr<std::optional<std::string>> Load() override { return state_; }

  void StartSave(uint64_t number, std::string state) override {
    state_ = std::move(state);
    saved_ = Saved{number, absl::OkStatus()};
    if (wake_) wake_();
  }

  std::optional<Saved> PollSaved() override { return std::exchange(saved_, std::nullopt); }
  void SetWake(std::function<void()> wake) override { wake_ = std::move(wake); }
  std::string Describe() const override { return "memory"; }

 private:
  std::optional<std::string> state_;
  std::optional<Saved> saved_;
  std::function<void()> wake_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_MEMORY_STORE_H_
