#include "worker/submit_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {

void SubmittedBatch::Clear() {
  commands.clear();
  ops.clear();
  groups.clear();
  counters_requests.clear();
}

absl::Status SubmitQueue::CheckOpen() const {
  return closed_ ? absl::CancelledError("the worker is closed") : absl::OkStatus();
}

void SubmitQueue::WakeIfAsleep() {
  if (std::exchange(sleeps_, false)) transport_->Wake();
}

absl::Status SubmitQueue::Submit(const SubmitCommand& command, std::shared_ptr<CallerOp> op) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (waiting_.ops.size() >= kMaxQueuedOps) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMaxQueuedOps, " ops wait for the worker's I/O thread; wait for one before the next"));
  }
  waiting_.ops.push_back(std::move(op));
  waiting_.commands.emplace_back(command);
  WakeIfAsleep();
  return absl::OkStatus();
}

absl::Status SubmitQueue::OpenGroup(OpenGroupCommand command, std::shared_ptr<CallerGroup> group) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  waiting_.groups.push_back(std::move(group));
  waiting_.commands.emplace_back(std::move(command));
  WakeIfAsleep();
  return absl::OkStatus();
}

absl::Status SubmitQueue::Post(WorkerCommand command) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  waiting_.commands.push_back(std::move(command));
  WakeIfAsleep();
  return absl::OkStatus();
}

absl::Status SubmitQueue::Ask(std::shared_ptr<CountersRequest> request) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  waiting_.counters_requests.push_back(std::move(request));
  WakeIfAsleep();
  return absl::OkStatus();
}

void SubmitQueue::Close(const ShutdownCommand& last) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  waiting_.commands.emplace_back(last);
  WakeIfAsleep();
}

void SubmitQueue::Take(SubmittedBatch* batch) {
  batch->Clear();
  const std::lock_guard lock(mutex_);
  sleeps_ = false;
  std::swap(*batch, waiting_);
}

bool SubmitQueue::PrepareToSleep() {
  const std::lock_guard lock(mutex_);
  if (!waiting_.commands.empty() || !waiting_.counters_requests.empty()) return false;
  sleeps_ = true;
  return true;
}

}  // namespace shoal
