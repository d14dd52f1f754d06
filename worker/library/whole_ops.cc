#include "worker/library/whole_ops.h"

#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "process/clock.h"

namespace shoal {

absl::StatusOr<bool> WholeOps::Begin(const SubmitCommand& command, std::shared_ptr<CallerOp> op) {
  const uint64_t bytes = command.layout.TensorBytes();
  std::unique_ptr<std::byte[]> contribution(new (std::nothrow) std::byte[bytes]);
  if (contribution == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("there is no memory for a copy of the tensor (", bytes,
                                                     " bytes), which an all-reduce of one roster takes"));
  }
  if (bytes > 0) std::memcpy(contribution.get(), command.data, bytes);
  const MutexLock lock(mutex_);
  if (!end_.ok()) return end_;
  ops_.push_back({.pass = {command, std::move(op)}, .contribution = std::move(contribution)});
  return ops_.size() == 1;
}

std::optional<WholeOps::Pass> WholeOps::Again(Contributors contributors) {
  if (contributors.least == contributors.most) return std::nullopt;
  const MutexLock lock(mutex_);
  const Waiting& current = ops_.front();
  const SubmitCommand& command = current.pass.command;
  std::memcpy(command.data, current.contribution.get(), command.layout.TensorBytes());
  return current.pass;
}

std::optional<WholeOps::Pass> WholeOps::Next() {
  const MutexLock lock(mutex_);
  ops_.pop_front();
  if (!ops_.empty()) return ops_.front().pass;
  changed_.notify_all();
  return std::nullopt;
}

std::vector<std::shared_ptr<CallerOp>> WholeOps::End(const absl::Status& why) {
  std::vector<std::shared_ptr<CallerOp>> waiting;
  const MutexLock lock(mutex_);
  if (end_.ok()) end_ = why;
  for (Waiting& each : ops_) waiting.push_back(std::move(each.pass.op));
  ops_.clear();
  changed_.notify_all();
  return waiting;
}

bool WholeOps::WaitUntilIdle(uint64_t deadline_ns) {
  MutexLock lock(mutex_);
  return changed_.wait_until(lock, AsTimePoint(deadline_ns), [this]() SHOAL_REQUIRES(mutex_) { return ops_.empty(); });
}

}  // namespace shoal
