// The c10d::Work of an all-reduce (or of several at once) on the servers.
//
// It keeps the tensors alive, completes when the last part has ended, and reports the first error. Its future holds the
// tensors as a TensorList, which is what DDP and its hooks take; for CUDA the future and wait() are ordered by stream.
//
// Threads: the c10d::Work contract; EndPart runs on the session's threads. Ownership: intrusive, shared by the caller
// and the parts that are still open.
#ifndef SHOAL_PYTORCH_SRC_ALL_REDUCE_WORK_H_
#define SHOAL_PYTORCH_SRC_ALL_REDUCE_WORK_H_

#include <ATen/core/ivalue.h>

#include <atomic>
#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "pytorch/src/session.h"
#include "pytorch/src/staged_tensor.h"

namespace shoal::pytorch {

class AllReduceWork : public c10d::Work {
 public:
  // `on_error` is called with the first error before the work completes. `group` is nullptr for work that needs no
  // servers.
  AllReduceWork(int rank, c10d::OpType type, uint64_t sequence_number, std::vector<at::Tensor> tensors,
                std::chrono::milliseconds timeout, std::shared_ptr<Group> group,
                std::function<void(shoal_code)> on_error);

  // Stages all tensors, then submits one operation a tensor.
  static void Start(const c10::intrusive_ptr<AllReduceWork>& work, const Operation& model);
  // Completes at once (for a group of one rank, or if all tensors are empty).
  void CompleteNow();

  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return sequence_number_; }
  std::chrono::milliseconds getTimeout() const { return timeout_; }  // overrides where torch has it
  // Makes the caller's current streams wait for the results.
  void synchronize() override;
  void abort() override;

 private:
  void EndPart(size_t index, const shoal_error& result);
  void Complete();

  const uint64_t sequence_number_;
  const std::vector<at::Tensor> tensors_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<Group> group_;
  const std::function<void(shoal_code)> on_error_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;

  std::vector<StagedTensor> parts_;
  std::atomic<size_t> open_parts_{0};
  std::mutex error_mutex_;
  std::exception_ptr first_error_;
};

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_ALL_REDUCE_WORK_H_
