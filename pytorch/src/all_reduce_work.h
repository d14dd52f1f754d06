// The c10d::Work of an all-reduce (or of several at once) on the servers.
//
// It keeps the tensors alive, completes when the last part has ended, and reports the first error. Its future holds the
// tensors as a TensorList, which is what DDP and its hooks take; for CUDA the future and wait() are ordered by stream.
//
// For CUDA tensors the host waits for nothing: the call puts all into streams, the future is complete when it returns,
// and wait() makes the caller's streams wait. Of an op that fails later the tensors are
// filled with ones, which are NaN, and the work has the error, as have the group's next all-reduce and barrier. wait()
// with a timeout blocks until the op has ended and throws its error; so do, with blocking_wait, wait() and the future.
//
// Who looks after it: a work of CPU tensors belongs to whoever waits for it or asks whether it is complete, and no
// other thread is woken. When somebody wants to be told (getFuture, a hook) or it is dropped, the session's threads
// take over.
//
// Threads: the c10d::Work contract; EndPart runs on the waiting thread or on the session's. Ownership: intrusive,
// shared by the caller and the parts that the session looks after.
#ifndef SHOAL_PYTORCH_SRC_ALL_REDUCE_WORK_H_
#define SHOAL_PYTORCH_SRC_ALL_REDUCE_WORK_H_

#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "process/mutex.h"
#include "pytorch/src/session.h"
#include "pytorch/src/staged_tensor.h"

namespace shoal::pytorch {

// Without the stack trace that c10 appends.
std::string TextOf(const std::exception& error);
// A DistBackendError.
std::exception_ptr MakeException(const std::string& message);

class AllReduceWork : public c10d::Work {
 public:
  // How it ended: SHOAL_OK or the first error, and how long it took. `unheard`: the error, if it ended the group and
  // the host may not have waited for the op. Called once, before the work completes.
  using OnEnd = std::function<void(shoal_code code, uint64_t duration_ns, const std::exception_ptr& unheard)>;

  // `group` is nullptr for work that needs no servers. `return_stream`: where results of CUDA tensors come back.
  AllReduceWork(int rank, c10d::OpType type, uint64_t sequence_number, std::vector<at::Tensor> tensors,
                std::chrono::milliseconds timeout, std::shared_ptr<Group> group,
                std::optional<c10::Stream> return_stream, bool blocking_wait, uint64_t completion_key, OnEnd on_end);
  ~AllReduceWork() override;

  // Stages all tensors, then starts one operation a tensor. If a tensor can't be staged, fails the group and throws.
  void Start(const Operation& model);
  // Completes at once (for a group of one rank, or without a tensor).
  void CompleteNow();
  // Has the session's threads look after what is open: it completes though nobody waits.
  void CompleteByItself();

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  // In milliseconds, from the call to the result; of a work that is complete.
  float getDuration() const override;
  uint64_t getSequencenumber() const override { return sequence_number_; }
  std::chrono::milliseconds getTimeout() const { return timeout_; }  // overrides where torch has it
  uint64_t getCompletionKey() const { return completion_key_; }      // likewise
  // Of its results, of a work that is complete; absent where it has failed or no servers reduced it.
  std::optional<Contributors> contributors() const;
  // Makes the caller's current streams wait for the results.
  void synchronize() override;
  // Likewise, where torch has it; without CUDA tensors, what torch does then.
  void blockCurrentStream();
  void abort() override;

 private:
  struct Part {
    StagedTensor staged;
    uint64_t count = 0;
    std::shared_ptr<StartedOperation> started;  // nullptr: it did not begin, and has ended
    bool ended = false;                         // under parts_mutex_
  };
  enum class Kind { kTensors, kWorkResult };

  void Stage();
  // Puts what follows the result of a part on a device into the return stream.
  shoal_error EnqueueReturn(Part& part);
  // Waits for all parts, and ends them. False: the time is over. kNoTimeout: all of it.
  bool EndParts(std::chrono::milliseconds timeout);
  void EndCompleteParts();
  void EndPart(size_t index, const shoal_error& result, uint64_t duration_ns);
  void NoteFailure(shoal_code code, const std::string& message) SHOAL_REQUIRES(parts_mutex_);
  void Complete();
  // The tensors' future is complete when the call returns, before the op has ended.
  bool FutureIsAhead() const { return enqueued_.has_value() && !blocking_wait_; }
  c10::intrusive_ptr<c10::ivalue::Future> FutureOf(Kind kind);
  c10::intrusive_ptr<c10::ivalue::Future> TensorsFuture();  // nullptr: nobody has asked for one
  // What its callbacks throw is reported by a warning: nobody waits here who could be told.
  void Settle(c10::ivalue::Future& future, Kind kind) const;
  void SettleOrThrow(c10::ivalue::Future& future, Kind kind) const;

  const uint64_t sequence_number_;
  const std::vector<at::Tensor> tensors_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<Group> group_;
  const std::optional<c10::Stream> return_stream_;
  const bool blocking_wait_;
  const uint64_t completion_key_;
  const OnEnd on_end_;

  std::vector<Part> parts_;
  std::optional<c10::Event> enqueued_;  // on a device: behind all results. Absent: not all parts could be enqueued
  std::atomic<bool> completes_by_itself_{false};
  Mutex parts_mutex_;
  size_t open_parts_ SHOAL_GUARDED_BY(parts_mutex_) = 0;
  std::exception_ptr error_;    // the first; final when settled_
  shoal_code code_ = SHOAL_OK;  // likewise
  uint64_t duration_ns_ = 0;    // of the slowest part; likewise
  std::atomic<bool> settled_{false};

  Mutex futures_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> tensors_future_
      SHOAL_GUARDED_BY(futures_mutex_);  // made when asked for, for CUDA tensors at once
  c10::intrusive_ptr<c10::ivalue::Future> work_result_future_ SHOAL_GUARDED_BY(futures_mutex_);  // made when asked for
};

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_ALL_REDUCE_WORK_H_
