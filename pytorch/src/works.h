// Works of other works: of a coalescing block, and of a barrier.
//
// Threads: the c10d::Work contract. Ownership: intrusive; shares its works.
#ifndef SHOAL_PYTORCH_SRC_WORKS_H_
#define SHOAL_PYTORCH_SRC_WORKS_H_

#include <exception>
#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
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

// A barrier behind the operations that this rank has on devices, whose errors the host has not heard: wait() throws the
// first of them, or that of the barrier.
class BarrierWork final : public c10d::Work {
 public:
  // `unheard_error`: of an operation of the group that nobody looks after any more; may be called from any thread.
  BarrierWork(int rank, c10::intrusive_ptr<c10d::Work> barrier,
              std::vector<std::shared_ptr<StartedOperation>> operations,
              std::function<std::exception_ptr()> unheard_error);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // `timeout` (kNoTimeout: the operations' and the barrier's own) is for all of it.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void abort() override;
  // The barrier's alone.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  // Of the operations that have ended.
  std::exception_ptr ErrorOfOperations() const;

  const c10::intrusive_ptr<c10d::Work> barrier_;
  const std::vector<std::shared_ptr<StartedOperation>> operations_;
  const std::function<std::exception_ptr()> unheard_error_;
};

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_WORKS_H_
