#include "pytorch/src/all_reduce_work.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace shoal::pytorch {
namespace {

c10::intrusive_ptr<c10::ivalue::Future> MakeTensorsFuture(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::Device> devices;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.device().is_cpu()) devices.push_back(tensor.device());  // the future removes duplicates
  }
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

c10d::WorkResult WorkResultOf(shoal_code code) {
  if (code == SHOAL_OK) return c10d::WorkResult::SUCCESS;
  return code == SHOAL_DEADLINE_EXCEEDED ? c10d::WorkResult::TIMEOUT : c10d::WorkResult::COMM_ERROR;
}

bool HasFailed(const c10::Device& device) {
  try {
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.queryStream(guard.getStream(device));
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

// Where a device has failed, torch ends the process of whoever frees memory there that several streams have used. The
// error belongs to the program, which gets it from its next call, and not to a thread of ours: nothing is let go of.
void KeepIfDeviceHasFailed(const StagedTensor& staged) {
  if (!staged.on_device() || !HasFailed(staged.device())) return;
  [[maybe_unused]] const auto* const kept = new StagedTensor(staged);
}

}  // namespace

std::string TextOf(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch == nullptr ? error.what() : of_torch->what_without_backtrace();
}

std::exception_ptr MakeException(const std::string& message) {
  return std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message));
}

AllReduceWork::AllReduceWork(int rank, c10d::OpType type, uint64_t sequence_number, std::vector<at::Tensor> tensors,
                             std::chrono::milliseconds timeout, std::shared_ptr<Group> group,
                             std::optional<c10::Stream> return_stream, bool blocking_wait, uint64_t completion_key,
                             OnEnd on_end)
    : Work(rank, type, "shoal:all_reduce", tensors),
      sequence_number_(sequence_number),
      tensors_(std::move(tensors)),
      timeout_(timeout),
      group_(std::move(group)),
      return_stream_(return_stream),
      blocking_wait_(blocking_wait),
      completion_key_(completion_key),
      on_end_(std::move(on_end)) {
  if (!tensors_.front().device().is_cpu()) tensors_future_ = MakeTensorsFuture(tensors_);
}

AllReduceWork::~AllReduceWork() {
  // Dropped while open. The library goes on with the memory, and the result still belongs into the tensors.
  struct Rest {
    const OnEnd on_end;
    std::atomic<size_t> open_parts;
    std::atomic<shoal_code> code;
  };
  if (open_parts_ == 0) return;
  const auto rest = std::make_shared<Rest>(on_end_, open_parts_, code_);
  for (Part& part : parts_) {
    if (part.started == nullptr || part.ended) continue;
    part.started->Notify([staged = part.staged, rest](const shoal_error& result, uint64_t duration_ns) mutable {
      shoal_code code = result.code;
      try {
        if (code == SHOAL_OK) staged.CopyBack();
      } catch (const std::exception& error) {
        TORCH_WARN("shoal: copying the result of an all-reduce that was dropped failed: ", TextOf(error));
        code = SHOAL_INTERNAL;
      }
      if (code != SHOAL_OK) {
        rest->code = code;
        KeepIfDeviceHasFailed(staged);
      }
      if (rest->open_parts.fetch_sub(1) == 1 && rest->on_end) rest->on_end(rest->code, duration_ns, nullptr);
    });
  }
}

void AllReduceWork::Start(const Operation& model) {
  Stage();
  {
    const MutexLock lock(parts_mutex_);
    open_parts_ = parts_.size();
  }
  if (parts_.empty()) {
    Complete();
    return;
  }
  Operation operation = model;
  if (return_stream_) {
    const c10::Device device = return_stream_->device();
    operation.device = static_cast<uint32_t>(device.index());
    operation.stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
  }
  bool all_enqueued = return_stream_.has_value();
  for (size_t index = 0; index < parts_.size(); ++index) {
    Part& part = parts_[index];
    operation.data = part.staged.data();
    operation.count = part.count;
    shoal_error error = {};
    part.started = group_->Start(operation, &error);
    if (part.started == nullptr) {
      all_enqueued = false;
      EndPart(index, error, 0);
      continue;
    }
    if (!return_stream_) continue;
    error = EnqueueReturn(part);
    if (error.code == SHOAL_OK) continue;
    all_enqueued = false;
    // The op goes on, but nothing can be ordered behind it.
    if (!GroupHasEnded(error.code)) group_->Abort("rank " + std::to_string(rank_) + ": " + error.message);
    MutexLock lock(parts_mutex_);
    NoteFailure(error.code, error.message);
  }
  if (!return_stream_) return;
  if (all_enqueued) {
    enqueued_.emplace(return_stream_->device_type());
    enqueued_->record(*return_stream_);
    if (FutureIsAhead()) Settle(*TensorsFuture(), Kind::kTensors);
  }
  CompleteByItself();
}

void AllReduceWork::Stage() {
  try {
    // Also an empty one, which is a call: the next one must not meet those of ranks whose tensor has elements.
    for (const at::Tensor& tensor : tensors_) {
      parts_.push_back({.staged = StagedTensor::Stage(tensor, return_stream_),
                        .count = static_cast<uint64_t>(tensor.numel()),
                        .started = nullptr});
    }
  } catch (const std::exception& error) {
    // The other ranks have made this call. If this one went on, its next tensor would be summed with theirs of now.
    group_->Abort("rank " + std::to_string(rank_) + " could not start all-reduce " + std::to_string(sequence_number_) +
                  ": " + TextOf(error));
    if (on_end_) on_end_(SHOAL_CANCELLED, 0, nullptr);
    throw;
  }
}

shoal_error AllReduceWork::EnqueueReturn(Part& part) {
  shoal_error error = part.started->WaitOnStream(return_stream_->native_handle());
  try {
    part.staged.CopyBack();  // also of what was put there in part: the memory stays until that is over
  } catch (const std::exception& exception) {
    if (error.code == SHOAL_OK) {
      error = MakeError(SHOAL_INTERNAL, "copying the result into the tensor failed: " + TextOf(exception));
    }
  }
  return error;
}

void AllReduceWork::CompleteByItself() {
  if (completes_by_itself_.exchange(true)) return;
  const auto self = c10::intrusive_ptr<AllReduceWork>::reclaim_copy(this);
  for (size_t index = 0; index < parts_.size(); ++index) {
    {
      MutexLock lock(parts_mutex_);
      if (parts_[index].started == nullptr || parts_[index].ended) continue;
    }
    parts_[index].started->Notify(
        [self, index](const shoal_error& result, uint64_t ns) { self->EndPart(index, result, ns); });
  }
}

bool AllReduceWork::EndParts(std::chrono::milliseconds timeout) {
  const bool forever = timeout == kNoTimeout;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (size_t index = 0; index < parts_.size(); ++index) {
    const std::shared_ptr<StartedOperation>& started = parts_[index].started;
    if (started == nullptr) continue;
    uint64_t wait_ms = UINT64_MAX;
    if (!forever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      wait_ms = static_cast<uint64_t>(std::max<int64_t>(left.count(), 0));
    }
    shoal_error result = {};
    if (!started->Wait(wait_ms, &result)) return false;
    EndPart(index, result, started->duration_ns());
  }
  return true;
}

void AllReduceWork::EndCompleteParts() {
  for (size_t index = 0; index < parts_.size(); ++index) {
    const std::shared_ptr<StartedOperation>& started = parts_[index].started;
    shoal_error result = {};
    // torch's flight recorder asks at each collective. A wait that gives up would call the I/O thread.
    if (started == nullptr || !started->complete() || !started->Wait(0, &result)) continue;
    EndPart(index, result, started->duration_ns());
  }
}

bool AllReduceWork::isCompleted() {
  if (!settled_ && !completes_by_itself_) EndCompleteParts();
  return Work::isCompleted();
}

bool AllReduceWork::wait(std::chrono::milliseconds timeout) {
  if (enqueued_ && !settled_ && !blocking_wait_ && timeout == kNoTimeout) {
    synchronize();
    return true;
  }
  if (!settled_ && !completes_by_itself_) {
    if (!EndParts(timeout)) timeout = std::chrono::milliseconds(1);  // it is over
  }
  return Work::wait(timeout);
}

void AllReduceWork::EndPart(size_t index, const shoal_error& result, uint64_t duration_ns) {
  {
    MutexLock lock(parts_mutex_);
    if (std::exchange(parts_[index].ended, true)) return;  // two threads waited for it
  }
  shoal_code code = result.code;
  std::string message = result.message;
  if (code == SHOAL_OK && !return_stream_) {
    try {
      parts_[index].staged.CopyBack();
    } catch (const std::exception& error) {
      code = SHOAL_INTERNAL;
      message = "copying the result into the tensor failed: " + TextOf(error);
    }
  }
  bool last = false;
  {
    MutexLock lock(parts_mutex_);
    if (code != SHOAL_OK) NoteFailure(code, message);
    duration_ns_ = std::max(duration_ns_, duration_ns);
    last = --open_parts_ == 0;
  }
  if (last) Complete();
}

std::optional<Contributors> AllReduceWork::contributors() const {
  if (!settled_ || code_ != SHOAL_OK) return std::nullopt;
  std::optional<Contributors> found;
  for (const Part& part : parts_) {
    if (part.started == nullptr) continue;
    const Contributors of_part = part.started->contributors();
    if (of_part.least == 0) return std::nullopt;
    if (!found) found = of_part;
    found->least = std::min(found->least, of_part.least);
    found->most = std::max(found->most, of_part.most);
  }
  return found;
}

void AllReduceWork::NoteFailure(shoal_code code, const std::string& message) {
  if (code_ != SHOAL_OK) return;
  code_ = code;
  error_ = MakeException("shoal: all-reduce " + std::to_string(sequence_number_) + " of rank " + std::to_string(rank_) +
                         " failed: " + message);
}

void AllReduceWork::Complete() {
  if (code_ != SHOAL_OK) {
    for (const Part& part : parts_) KeepIfDeviceHasFailed(part.staged);
  }
  if (on_end_) on_end_(code_, duration_ns_, return_stream_ && !IsRefusal(code_) ? error_ : nullptr);
  c10::intrusive_ptr<c10::ivalue::Future> tensors_future;
  c10::intrusive_ptr<c10::ivalue::Future> work_result_future;
  {
    MutexLock lock(futures_mutex_);
    settled_ = true;  // a future that is made from now on is settled by its maker
    if (!FutureIsAhead()) tensors_future = tensors_future_;
    work_result_future = work_result_future_;
  }
  // The work first: a callback of a future may wait for it.
  finish(error_);
  if (tensors_future) Settle(*tensors_future, Kind::kTensors);
  if (work_result_future) Settle(*work_result_future, Kind::kWorkResult);
}

void AllReduceWork::CompleteNow() { Complete(); }

c10::intrusive_ptr<c10::ivalue::Future> AllReduceWork::getFuture() { return FutureOf(Kind::kTensors); }

c10::intrusive_ptr<c10::ivalue::Future> AllReduceWork::getFutureResult() { return FutureOf(Kind::kWorkResult); }

c10::intrusive_ptr<c10::ivalue::Future> AllReduceWork::TensorsFuture() {
  const MutexLock lock(futures_mutex_);
  return tensors_future_;
}

c10::intrusive_ptr<c10::ivalue::Future> AllReduceWork::FutureOf(Kind kind) {
  const bool of_tensors = kind == Kind::kTensors;
  bool settled = false;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    MutexLock lock(futures_mutex_);
    c10::intrusive_ptr<c10::ivalue::Future>& kept = of_tensors ? tensors_future_ : work_result_future_;
    if (kept) return kept;
    kept = of_tensors ? MakeTensorsFuture(tensors_) : c10::make_intrusive<c10::ivalue::Future>(c10::AnyEnumType::get());
    future = kept;
    settled = settled_;
  }
  if (settled) {
    Settle(*future, kind);
  } else {
    CompleteByItself();
  }
  return future;
}

void AllReduceWork::Settle(c10::ivalue::Future& future, Kind kind) const {
  try {
    SettleOrThrow(future, kind);
  } catch (const std::exception& error) {
    TORCH_WARN("shoal: the future of all-reduce ", sequence_number_, " of rank ", rank_,
               " was completed by somebody else, or one of its callbacks raised: ", TextOf(error));
  }
}

void AllReduceWork::SettleOrThrow(c10::ivalue::Future& future, Kind kind) const {
  if (kind == Kind::kWorkResult) {
    future.markCompleted(c10::IValue(static_cast<uint8_t>(WorkResultOf(code_))));
    return;
  }
  if (error_) {
    future.setError(error_);
    return;
  }
  // The future records its events on the stream that is current here (all parts are on one device, behind whose copies
  // back they belong), and runs its callbacks with the device that is.
  c10::OptionalStreamGuard behind_the_copies;
  if (return_stream_) {
    behind_the_copies.reset_stream(*return_stream_);
    try {
      // If the device has failed, what markCompleted records would leave the future half complete.
      if (settled_) c10::Event(return_stream_->device_type()).record(*return_stream_);
    } catch (const std::exception& error) {
      future.setError(MakeException("shoal: all-reduce " + std::to_string(sequence_number_) + " of rank " +
                                    std::to_string(rank_) + ": its device has failed: " + TextOf(error)));
      return;
    }
  }
  future.markCompleted(c10::IValue(tensors_));
}

float AllReduceWork::getDuration() const {
  TORCH_CHECK(settled_, "shoal: the duration of an all-reduce is known when it is complete");
  return static_cast<float>(duration_ns_) * 1e-6F;
}

void AllReduceWork::synchronize() {
  if (enqueued_) {
    const c10::Device device = return_stream_->device();
    enqueued_->block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    return;
  }
  if (const auto future = TensorsFuture(); future && !future->devices().empty()) future->wait();
}

template <typename AnyWork>
void BlockCurrentStream(AnyWork& work) {
  if constexpr (requires { work.AnyWork::blockCurrentStream(); }) work.AnyWork::blockCurrentStream();
}

void AllReduceWork::blockCurrentStream() {
  if (enqueued_) {
    synchronize();
  } else {
    BlockCurrentStream<c10d::Work>(*this);
  }
}

void AllReduceWork::abort() {
  if (group_) group_->Abort("the all-reduce was aborted by its process");
}

}  // namespace shoal::pytorch
