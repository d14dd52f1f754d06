#include "pytorch/src/all_reduce_work.h"

#include <c10/util/Exception.h>

#include <utility>

namespace shoal::pytorch {
namespace {

c10::intrusive_ptr<c10::ivalue::Future> MakeFuture(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::Device> devices;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.device().is_cpu()) devices.push_back(tensor.device());  // the future removes duplicates
  }
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

// Without the stack trace that c10 appends.
std::string TextOf(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch == nullptr ? error.what() : of_torch->what_without_backtrace();
}

std::exception_ptr MakeException(const std::string& message) {
  return std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message));
}

}  // namespace

AllReduceWork::AllReduceWork(int rank, c10d::OpType type, uint64_t sequence_number, std::vector<at::Tensor> tensors,
                             std::chrono::milliseconds timeout, std::shared_ptr<Group> group,
                             std::function<void(shoal_code)> on_error)
    : Work(rank, type, "shoal:all_reduce", tensors),
      sequence_number_(sequence_number),
      tensors_(std::move(tensors)),
      timeout_(timeout),
      group_(std::move(group)),
      on_error_(std::move(on_error)),
      future_(MakeFuture(tensors_)) {}

void AllReduceWork::Start(const c10::intrusive_ptr<AllReduceWork>& work, const Operation& model) {
  std::vector<uint64_t> counts;
  try {
    for (const at::Tensor& tensor : work->tensors_) {
      if (tensor.numel() == 0) continue;
      work->parts_.push_back(StagedTensor::Stage(tensor));
      counts.push_back(static_cast<uint64_t>(tensor.numel()));
    }
  } catch (const std::exception& error) {
    // The other ranks have made this call. If this one went on, its next tensor would be summed with theirs of now.
    work->group_->Abort("rank " + std::to_string(work->rank_) + " could not start all-reduce " +
                        std::to_string(work->sequence_number_) + ": " + TextOf(error));
    throw;
  }
  work->open_parts_ = counts.size();
  if (counts.empty()) {
    work->CompleteNow();
    return;
  }
  for (size_t index = 0; index < counts.size(); ++index) {
    Operation operation = model;
    operation.data = work->parts_[index].host_data();
    operation.count = counts[index];
    if (work->parts_[index].on_device()) {
      operation.wait_until_ready = [work, index] { work->parts_[index].WaitUntilStaged(); };
    }
    operation.done = [work, index](const shoal_error& result) { work->EndPart(index, result); };
    work->group_->Submit(std::move(operation));
  }
}

void AllReduceWork::EndPart(size_t index, const shoal_error& result) {
  shoal_code code = result.code;
  std::string message = result.message;
  if (code == SHOAL_OK) {
    try {
      parts_[index].CopyBack();
    } catch (const std::exception& error) {
      code = SHOAL_INTERNAL;
      message = "copying the result into the tensor failed: " + TextOf(error);
    }
  }
  if (code != SHOAL_OK) {
    std::lock_guard lock(error_mutex_);
    if (!first_error_) {
      first_error_ = MakeException("shoal: all-reduce " + std::to_string(sequence_number_) + " of rank " +
                                   std::to_string(rank_) + " failed: " + message);
      if (on_error_) on_error_(code);
    }
  }
  if (open_parts_.fetch_sub(1) == 1) Complete();
}

void AllReduceWork::Complete() {
  std::exception_ptr error;
  {
    std::lock_guard lock(error_mutex_);
    error = first_error_;
  }
  // The work first: a callback of the future may wait for it.
  finish(error);
  if (error) {
    future_->setError(error);
    return;
  }
  // The future records its events on the stream that is current here (all parts are on one device, behind whose copies
  // back they belong), and runs its callbacks with the device that is.
  c10::OptionalStreamGuard behind_the_copies;
  if (parts_.front().return_stream()) behind_the_copies.reset_stream(*parts_.front().return_stream());
  future_->markCompleted(c10::IValue(tensors_));
}

void AllReduceWork::CompleteNow() {
  finish();
  future_->markCompleted(c10::IValue(tensors_));
}

void AllReduceWork::synchronize() {
  if (!future_->devices().empty()) future_->wait();
}

void AllReduceWork::abort() {
  if (group_) group_->Abort("the all-reduce was aborted by its process");
}

}  // namespace shoal::pytorch
