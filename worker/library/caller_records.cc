#include "worker/library/caller_records.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "process/clock.h"

namespace shoal {

bool CallerGroup::SetOpened(const absl::Status& status, const std::optional<DeviceMeeting>& devices,
                            std::shared_ptr<const NodeFailures> failures) {
  const MutexLock lock(mutex_);
  if (opened_) return !given_up_;
  opened_ = true;
  opened_status_ = status;
  device_meeting_ = devices;
  node_failures_ = std::move(failures);
  changed_.notify_all();
  return !given_up_;
}

absl::Status CallerGroup::WaitOpened(uint64_t deadline_ns) {
  MutexLock lock(mutex_);
  if (changed_.wait_until(lock, AsTimePoint(deadline_ns), [this]() SHOAL_REQUIRES(mutex_) { return opened_; }))
    return opened_status_;
  given_up_ = true;
  return absl::InternalError(
      absl::StrCat("group \"", info_->name, "\": the I/O thread does not answer; please report this"));
}

std::optional<DeviceMeeting> CallerGroup::device_meeting() const {
  const MutexLock lock(mutex_);
  return device_meeting_;
}

std::shared_ptr<const NodeFailures> CallerGroup::node_failures() const {
  const MutexLock lock(mutex_);
  return node_failures_;
}

void CallerGroup::SetLocalDevices(std::shared_ptr<LocalDevices> devices) {
  const MutexLock lock(mutex_);
  local_devices_ = std::move(devices);
}

std::shared_ptr<LocalDevices> CallerGroup::local_devices() const {
  const MutexLock lock(mutex_);
  return local_devices_;
}

std::shared_ptr<LocalDevices> CallerGroup::TakeLocalDevices() {
  const MutexLock lock(mutex_);
  return std::exchange(local_devices_, nullptr);
}

void CallerGroup::SetClosed() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool CallerGroup::WaitClosed(uint64_t deadline_ns) {
  MutexLock lock(mutex_);
  return changed_.wait_until(lock, AsTimePoint(deadline_ns), [this]() SHOAL_REQUIRES(mutex_) { return closed_; });
}

bool CallerGroup::SetFailure(const absl::Status& why) {
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return false;
  failure_ = why;
  has_failure_.store(true, std::memory_order_release);
  return true;
}

absl::Status CallerGroup::failure() const {
  if (!has_failure_.load(std::memory_order_acquire)) return absl::OkStatus();
  const MutexLock lock(mutex_);
  return failure_;
}

void CallerGroup::SetBroken(const absl::Status& why) {
  const MutexLock lock(mutex_);
  if (break_.ok()) break_ = why;
}

absl::Status CallerGroup::failure_or_break() const {
  const MutexLock lock(mutex_);
  return failure_.ok() ? break_ : failure_;
}

uint64_t CallerOp::user_data() const {
  const MutexLock lock(mutex_);
  return user_data_.value_or(0);
}

void CallerOp::CountTensorOnce(const std::function<void(const HostTensor&)>& count) {
  const MutexLock lock(count_mutex_);
  if (const auto tensor = std::exchange(counted_tensor_, std::nullopt)) count(*tensor);
}

absl::StatusOr<bool> CallerOp::Notify(uint64_t user_data) {
  const MutexLock lock(mutex_);
  if (user_data_.has_value()) return absl::FailedPreconditionError("the all-reduce's completion was asked for before");
  user_data_ = user_data;
  return done();
}

bool CallerOp::Complete(absl::Status status, uint64_t duration_ns) {
  const MutexLock lock(mutex_);
  status_ = std::move(status);
  duration_ns_ = duration_ns;
  done_.store(true, std::memory_order_release);
  completed_.notify_all();
  return user_data_.has_value();
}

bool CallerOp::WaitUntil(uint64_t deadline_ns) {
  if (done()) return true;
  MutexLock lock(mutex_);
  return completed_.wait_until(lock, AsTimePoint(deadline_ns), [this] { return done(); });
}

void CompletionQueue::Push(std::shared_ptr<CallerOp> op) {
  const MutexLock lock(mutex_);
  ops_.push_back(std::move(op));
  changed_.notify_one();
}

absl::StatusOr<std::shared_ptr<CallerOp>> CompletionQueue::Pop(uint64_t deadline_ns) {
  MutexLock lock(mutex_);
  const bool changed = changed_.wait_until(lock, AsTimePoint(deadline_ns),
                                           [this]() SHOAL_REQUIRES(mutex_) { return closed_ || !ops_.empty(); });
  if (!changed) return absl::DeadlineExceededError("no op completed in that time");
  if (ops_.empty()) return absl::CancelledError("the worker is closed, no more completions will come");
  std::shared_ptr<CallerOp> op = std::move(ops_.front());
  ops_.pop_front();
  return op;
}

void CompletionQueue::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void CountersRequest::Answer(WorkerCounters counters) {
  if (on_answer_) on_answer_(counters);
  const MutexLock lock(mutex_);
  counters_ = std::move(counters);
  answered_ = true;
  changed_.notify_all();
}

bool CountersRequest::Wait(uint64_t deadline_ns, WorkerCounters* counters) {
  MutexLock lock(mutex_);
  if (!changed_.wait_until(lock, AsTimePoint(deadline_ns), [this]() SHOAL_REQUIRES(mutex_) { return answered_; }))
    return false;
  *counters = std::move(counters_);
  return true;
}

}  // namespace shoal
