// Works of other works: of a coalescing block, and of a barrier.
//
// Threads: the c10d::Work contract. Ownership: intrusive; shares its works.
#ifndef SHOAL_PYTORCH_SRC_WORKS_H_
#define SHOAL_PYTORCH_SRC_WORKS_H_

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "pytorch/src/session.h"

namespace shoal::pytorch {

// Complete when all of them are.
class Works final : public c10d::Work {
 public:
  Works(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // `timeout` (kNoTimeout: each work's own) is for all of them together. Throws the first error.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void abort() override;

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

// The operations that a rank has on devices, whose errors the host has not heard: for a barrier behind them.
class OperationsOnDevices {
 public:
  // `unheard_error`: of an operation of the group that nobody looks after any more; may be called from any thread.
  OperationsOnDevices(std::vector<std::shared_ptr<StartedOperation>> operations,
                      std::function<std::exception_ptr()> unheard_error)
      : operations_(std::move(operations)), unheard_error_(std::move(unheard_error)) {}

  bool AllEnded() const;
  // Of one that has ended.
  std::exception_ptr Error() const;
  // Throws the error of one that has failed, or that `until` is over.
  void Await(std::optional<std::chrono::steady_clock::time_point> until) const;

 private:
  const std::vector<std::shared_ptr<StartedOperation>> operations_;
  const std::function<std::exception_ptr()> unheard_error_;
};

// A barrier behind operations on devices: wait() throws their errors, or that of the barrier.
class BarrierWork final : public c10d::Work {
 public:
  // `until`: when the barrier's own timeout is over, if it has one.
  BarrierWork(int rank, OperationsOnDevices operations, c10::intrusive_ptr<c10d::Work> barrier,
              std::optional<std::chrono::steady_clock::time_point> until);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // `timeout` (kNoTimeout: none but the barrier's own) is for all of it.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void abort() override;
  // Those of the barrier alone.
  std::vector<at::Tensor> result() override { return barrier_->result(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return barrier_->getFuture(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return barrier_->getFutureResult(); }
  float getDuration() const override { return barrier_->getDuration(); }
  uint64_t getSequencenumber() const override { return barrier_->getSequencenumber(); }
  // By it torch's flight recorder knows the work that has ended. Overrides where torch has it.
  uint64_t getCompletionKey() const { return CompletionKeyOf(*barrier_); }

 private:
  template <typename AnyWork>
  static uint64_t CompletionKeyOf(const AnyWork& work) {
    if constexpr (requires { work.getCompletionKey(); }) {
      return work.getCompletionKey();
    } else {
      return 0;
    }
  }

  const OperationsOnDevices operations_;
  const c10::intrusive_ptr<c10d::Work> barrier_;
  const std::optional<std::chrono::steady_clock::time_point> until_;
};

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_WORKS_H_
