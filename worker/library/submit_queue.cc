#include "worker/library/submit_queue.h"

#include <chrono>
#include <utility>

namespace shoal {

void SubmittedBatch::Clear() {
  commands.clear();
  ops.clear();
  groups.clear();
  counters_requests.clear();
}

void SubmittedBatch::Swap(SubmittedBatch* other) {
  commands.swap(other->commands);
  ops.swap(other->ops);
  groups.swap(other->groups);
  counters_requests.swap(other->counters_requests);
}

absl::Status SubmitQueue::CheckOpen() const {
  return closed_ ? absl::CancelledError("the worker is closed") : absl::OkStatus();
}

void SubmitQueue::WakeUp() {
  something_to_take_.store(true);
  if (std::exchange(sleeps_, false)) transport_->Wake();
  come_back_ = true;
  came_back_.notify_one();
}

absl::Status SubmitQueue::Submit(const SubmitCommand& command, std::shared_ptr<CallerOp> op, bool looked_after) {
  const MutexLock lock(mutex_);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  waiting_.ops.push_back(std::move(op));
  waiting_.commands.emplace_back(command);
  something_to_take_.store(true);
  if (sleeps_ || !looked_after) WakeUp();
  return absl::OkStatus();
}

absl::Status SubmitQueue::OpenGroup(OpenGroupCommand command, std::shared_ptr<CallerGroup> group) {
  const MutexLock lock(mutex_);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  waiting_.groups.push_back(std::move(group));
  waiting_.commands.emplace_back(std::move(command));
  WakeUp();
  return absl::OkStatus();
}

absl::Status SubmitQueue::Post(WorkerCommand command) {
  const MutexLock lock(mutex_);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  waiting_.commands.push_back(std::move(command));
  WakeUp();
  return absl::OkStatus();
}

absl::Status SubmitQueue::Ask(std::shared_ptr<CountersRequest> request) {
  const MutexLock lock(mutex_);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  waiting_.counters_requests.push_back(std::move(request));
  WakeUp();
  return absl::OkStatus();
}

void SubmitQueue::Close(const ShutdownCommand& last) {
  const MutexLock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  waiting_.commands.emplace_back(last);
  WakeUp();
}

void SubmitQueue::ComeBack() {
  const MutexLock lock(mutex_);
  come_back_ = true;
  came_back_.notify_one();
}

void SubmitQueue::Take(SubmittedBatch* batch) {
  batch->Clear();
  if (!something_to_take_.load()) return;
  const MutexLock lock(mutex_);
  something_to_take_.store(false);
  sleeps_ = false;
  batch->Swap(&waiting_);
}

bool SubmitQueue::PrepareToSleep() {
  const MutexLock lock(mutex_);
  if (!waiting_.commands.empty() || !waiting_.counters_requests.empty()) return false;
  sleeps_ = true;
  something_to_take_.store(true);  // Take has to end the sleep
  return true;
}

bool SubmitQueue::StandBack(uint64_t ns) {
  MutexLock lock(mutex_);
  came_back_.wait_for(lock, std::chrono::nanoseconds(ns), [this]() SHOAL_REQUIRES(mutex_) { return come_back_; });
  return std::exchange(come_back_, false) || !waiting_.commands.empty();
}

}  // namespace shoal
