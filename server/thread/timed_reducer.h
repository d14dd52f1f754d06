// A reducer whose time is measured, for what a server tells of its work. One thread, as the reducer that it wraps.
#ifndef SHOAL_SERVER_THREAD_TIMED_REDUCER_H_
#define SHOAL_SERVER_THREAD_TIMED_REDUCER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "process/clock.h"
#include "server/loop/reducer.h"

namespace shoal {

class TimedReducer : public Reducer {
 public:
  explicit TimedReducer(std::unique_ptr<Reducer> reducer) : reducer_(std::move(reducer)) {}

  void Start(const ReduceJob& job) override { reducer_->Start(job); }
  void Work(uint64_t* budget_bytes) override {
    // A loop asks in each of its rounds, and there is nothing to do in most of them.
    if (!reducer_->HasWork()) return reducer_->Work(budget_bytes);
    const uint64_t begun_ns = MonotonicNs();
    reducer_->Work(budget_bytes);
    work_ns_ += MonotonicNs() - begun_ns;
  }
  bool HasWork() const override { return reducer_->HasWork(); }
  std::span<const uint64_t> Poll() override { return reducer_->Poll(); }

  // For which it has been at work.
  uint64_t work_ns() const { return work_ns_; }

 private:
  const std::unique_ptr<Reducer> reducer_;
  uint64_t work_ns_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_THREAD_TIMED_REDUCER_H_
