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

bool OperationsOnDevices::AllEnded() const {
  return std::ranges::all_of(operations_, [](const auto& operation) { return operation->complete(); });
}

std::exception_ptr OperationsOnDevices::Error() const {
  if (std::exception_ptr found = unheard_error_()) return found;
  for (const auto& operation : operations_) {
    shoal_error error = {};
    if (!operation->complete() || !operation->Wait(0, &error) || error.code == SHOAL_OK) continue;
    return MakeException(std::string("shoal: an all-reduce before the barrier failed: ") + error.message);
  }
  return nullptr;
}

void OperationsOnDevices::Await(std::optional<Clock::time_point> until) const {
  for (const auto& operation : operations_) {
    shoal_error error = {};
    const uint64_t wait_ms = until ? static_cast<uint64_t>(LeftUntil(*until).count()) : UINT64_MAX;
    TORCH_CHECK_WITH(DistBackendError, operation->Wait(wait_ms, &error),
                     "shoal: the barrier's time is over, and an all-reduce that was called before it is still open");
    TORCH_CHECK_WITH(DistBackendError, error.code == SHOAL_OK,
                     "shoal: an all-reduce before the barrier failed: ", error.message);
  }
  if (std::exception_ptr error = Error()) std::rethrow_exception(error);
}

BarrierWork::BarrierWork(int rank, OperationsOnDevices operations, c10::intrusive_ptr<c10d::Work> barrier,
                         std::optional<Clock::time_point> until)
    : Work(rank, c10d::OpType::BARRIER),
      operations_(std::move(operations)),
      barrier_(std::move(barrier)),
      until_(until) {}

bool BarrierWork::isCompleted() { return operations_.AllEnded() && barrier_->isCompleted(); }

bool BarrierWork::isSuccess() const { return exception() == nullptr && barrier_->isSuccess(); }

std::exception_ptr BarrierWork::exception() const {
  if (std::exception_ptr found = operations_.Error()) return found;
  return barrier_->exception();
}

bool BarrierWork::wait(std::chrono::milliseconds timeout) {
  std::optional<Clock::time_point> until = until_;
  if (timeout != kNoTimeout) until = Clock::now() + timeout;
  operations_.Await(until);
  return barrier_->wait(timeout == kNoTimeout ? kNoTimeout : LeftUntil(*until));
}

void BarrierWork::synchronize() { barrier_->synchronize(); }

void BarrierWork::abort() { barrier_->abort(); }

}  // namespace shoal::pytorch
