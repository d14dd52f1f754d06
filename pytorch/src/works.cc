#include "pytorch/src/works.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <utility>

#include "pytorch/src/all_reduce_work.h"

namespace shoal::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

// At least one millisecond: less would mean no timeout.
std::chrono::milliseconds LeftUntil(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

}  // namespace

Works::Works(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool Works::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
}

bool Works::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isSuccess(); });
}

std::exception_ptr Works::exception() const {
  for (const auto& work : works_) {
    if (std::exception_ptr found = work->exception()) return found;
  }
  return nullptr;
}

bool Works::wait(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  bool done = true;
  for (const auto& work : works_) done = work->wait(timeout == kNoTimeout ? kNoTimeout : LeftUntil(deadline)) && done;
  return done;
}

void Works::synchronize() {
  for (const auto& work : works_) work->synchronize();
}

void Works::abort() {
  for (const auto& work : works_) work->abort();
}

BarrierWork::BarrierWork(int rank, c10::intrusive_ptr<c10d::Work> barrier,
                         std::vector<std::shared_ptr<StartedOperation>> operations,
                         std::function<std::exception_ptr()> unheard_error)
    : Work(rank, c10d::OpType::BARRIER),
      barrier_(std::move(barrier)),
      operations_(std::move(operations)),
      unheard_error_(std::move(unheard_error)) {}

bool BarrierWork::isCompleted() {
  return std::ranges::all_of(operations_, [](const auto& operation) { return operation->complete(); }) &&
         barrier_->isCompleted();
}

bool BarrierWork::isSuccess() const { return exception() == nullptr && barrier_->isSuccess(); }

std::exception_ptr BarrierWork::exception() const {
  if (std::exception_ptr found = ErrorOfOperations()) return found;
  return barrier_->exception();
}

std::exception_ptr BarrierWork::ErrorOfOperations() const {
  for (const auto& operation : operations_) {
    shoal_error error = {};
    if (!operation->complete() || !operation->Wait(0, &error) || error.code == SHOAL_OK) continue;
    return MakeException(std::string("shoal: an all-reduce before the barrier failed: ") + error.message);
  }
  return unheard_error_();
}

bool BarrierWork::wait(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (const auto& operation : operations_) {
    const uint64_t wait_ms = timeout == kNoTimeout ? UINT64_MAX : static_cast<uint64_t>(LeftUntil(deadline).count());
    shoal_error error = {};
    TORCH_CHECK_WITH(DistBackendError, operation->Wait(wait_ms, &error), "shoal: the barrier waited for ",
                     timeout.count(), " ms, and an all-reduce that was called before it is still open");
  }
  if (std::exception_ptr error = ErrorOfOperations()) std::rethrow_exception(error);
  return barrier_->wait(timeout == kNoTimeout ? kNoTimeout : LeftUntil(deadline));
}

void BarrierWork::synchronize() { barrier_->synchronize(); }

void BarrierWork::abort() { barrier_->abort(); }

c10::intrusive_ptr<c10::ivalue::Future> BarrierWork::getFuture() { return barrier_->getFuture(); }

}  // namespace shoal::pytorch
