#include "pytorch/src/works.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "pytorch/src/all_reduce_work.h"

namespace shoal::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

// nullptr: it has not failed.
std::exception_ptr ErrorBeforeBarrier(const shoal_error& error) {
  if (error.code == SHOAL_OK) return nullptr;
  return MakeException(std::string("shoal: an all-reduce before the barrier failed: ") + error.message);
}

// Absent for kNoTimeout.
std::optional<Clock::time_point> DeadlineIn(std::chrono::milliseconds timeout) {
  return timeout == kNoTimeout ? std::nullopt : std::optional(Clock::now() + timeout);
}

// kNoTimeout without one.
std::chrono::milliseconds LeftUntil(std::optional<Clock::time_point> deadline) {
  return deadline ? std::chrono::milliseconds(MillisecondsUntil(*deadline)) : kNoTimeout;
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
  const std::optional<Clock::time_point> deadline = DeadlineIn(timeout);
  bool done = true;
  for (const auto& work : works_) done = work->wait(LeftUntil(deadline)) && done;
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
    if (!operation->complete() || !operation->Wait(0, &error)) continue;
    if (std::exception_ptr found = ErrorBeforeBarrier(error)) return found;
  }
  return nullptr;
}

void OperationsOnDevices::Await(std::optional<Clock::time_point> until) const {
  for (const auto& operation : operations_) {
    shoal_error error = {};
    TORCH_CHECK_WITH(DistBackendError, operation->Wait(until ? MillisecondsUntil(*until) : UINT64_MAX, &error),
                     "shoal: the barrier's time is over, and an all-reduce that was called before it is still open");
    if (std::exception_ptr found = ErrorBeforeBarrier(error)) std::rethrow_exception(found);
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
  const std::optional<Clock::time_point> deadline = DeadlineIn(timeout);
  operations_.Await(deadline ? deadline : until_);
  return barrier_->wait(LeftUntil(deadline));
}

void BarrierWork::synchronize() { barrier_->synchronize(); }

void BarrierWork::abort() { barrier_->abort(); }

}  // namespace shoal::pytorch
