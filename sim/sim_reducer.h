// The Reducer port under virtual time: a sum takes a while, is computed at its end, and jobs may finish in any order.
#ifndef SHOAL_SIM_SIM_REDUCER_H_
#define SHOAL_SIM_SIM_REDUCER_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "server/loop/reducer.h"
#include "sim/profile.h"
#include "sim/world.h"

namespace shoal::sim {

class SimReducer : public Reducer {
 public:
  SimReducer(World* world, uint64_t max_ns, Sabotage sabotage, std::function<void()> wake)
      : world_(world),
        max_ns_(max_ns),
        sabotage_(sabotage),
        wake_(std::move(wake)),
        alive_(std::make_shared<bool>(true)) {}

  void Start(const ReduceJob& asked) override {
    ReduceJob job = asked;
    if (sabotage_ == Sabotage::kLoseSum && world_->random().Chance(50'000)) return;
    if (sabotage_ == Sabotage::kLoseContribution && job.inputs.size() > 1 && world_->random().Chance(50'000)) {
      job.inputs = job.inputs.first(job.inputs.size() - 1);
    }
    world_->After(world_->random().Below(max_ns_ + 1), [this, job, alive = std::weak_ptr<bool>(alive_)] {
      if (alive.expired()) return;
      Reduce(job.spec, job.inputs, job.output, job.elements);
      if (sabotage_ == Sabotage::kWriteInput && job.inputs.size() > 1) {
        *const_cast<std::byte*>(job.inputs.back()) ^= std::byte{1};
      }
      done_.push_back(job.token);
      wake_();
    });
  }

  // The jobs end by themselves.
  void Work(uint64_t* /*budget_bytes*/) override {}
  bool HasWork() const override { return false; }

  std::span<const uint64_t> Poll() override {
    polled_.clear();
    std::swap(polled_, done_);
    return polled_;
  }

 private:
  World* world_;
  uint64_t max_ns_;
  Sabotage sabotage_;
  std::function<void()> wake_;
  std::shared_ptr<bool> alive_;
  std::vector<uint64_t> done_;
  std::vector<uint64_t> polled_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_REDUCER_H_
