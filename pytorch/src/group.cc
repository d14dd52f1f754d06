// Group and StartedOperation of session.h.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "pytorch/src/session.h"

namespace shoal::pytorch {
namespace {

// How long a group that is destroyed waits for its operations on devices. Where that was in vain, groups that are
// destroyed as soon again afterwards don't wait: a program destroys all of its groups one after the other.
constexpr std::chrono::seconds kDevicesEnd{3};

}  // namespace

shoal_error MakeError(shoal_code code, const std::string& message) {
  shoal_error error = {};
  error.code = code;
  message.copy(error.message, sizeof(error.message) - 1);
  return error;
}

uint64_t MillisecondsUntil(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<uint64_t>(std::max<int64_t>(left.count(), 1));
}

bool GroupHasEnded(shoal_code code) { return code == SHOAL_CANCELLED || code == SHOAL_ABORTED; }

bool IsRefusal(shoal_code code) { return code == SHOAL_INVALID_ARGUMENT || code == SHOAL_UNIMPLEMENTED; }

Group::Group(std::shared_ptr<Session> session, shoal_group* group, uint32_t rank_count)
    : session_(std::move(session)),
      rank_count_(rank_count),
      takes_devices_(session_->library().shoal_group_takes_devices(group)),
      group_(group) {}

Group::~Group() {
  if (session_->forked()) return;
  if (const std::string left_behind = Close(); !left_behind.empty()) {
    std::fprintf(stderr, "shoal: %s\n", left_behind.c_str());
  }
}

std::shared_ptr<StartedOperation> Group::Start(const Operation& operation, shoal_error* error) {
  session_->ThrowIfForked();
  shoal_group* group = nullptr;
  {
    MutexLock lock(mutex_);
    if (closing_) {
      *error = MakeError(SHOAL_CANCELLED, "the process group is destroyed or aborted");
      return nullptr;
    }
    group = group_;
    ++starting_;
  }
  const shoal_all_reduce_options options = {
      .dtype = operation.dtype,
      .op = operation.op,
      .premul_factor = operation.premul_factor,
      .timeout_ms = operation.timeout_ms,
      .on_device = operation.device.has_value() ? 1 : 0,
      .device = operation.device.value_or(0),
      .stream = operation.stream,
  };
  shoal_op* op = nullptr;
  error->code = session_->library().shoal_all_reduce(group, operation.data, operation.count, &options, &op, error);
  MutexLock lock(mutex_);
  --starting_;
  if (closing_) changed_.notify_all();
  if (error->code != SHOAL_OK) {
    AbortIfOthersGoOn(*error);
    return nullptr;
  }
  auto started = std::make_shared<StartedOperation>(shared_from_this(), op, operation.device.has_value());
  started_.emplace(started.get(), started);
  return started;
}

std::string Group::SumBytes(std::string bytes, uint64_t timeout_ms) {
  shoal_error error = {};
  const Operation operation{
      .data = bytes.data(), .count = bytes.size(), .dtype = SHOAL_UINT8, .op = SHOAL_SUM, .timeout_ms = timeout_ms};
  const std::shared_ptr<StartedOperation> started = Start(operation, &error);
  if (started != nullptr) started->Wait(UINT64_MAX, &error);
  const std::string what = "the ranks of a process group can't tell each other where they are";
  session_->library().Check(error.code, error, what);
  if (const Contributors from = started->contributors(); from.most > 0 && from.least < rank_count_) {
    throw ShoalError(SHOAL_ABORTED, what + ": one of " + std::to_string(rank_count_) + " was lost meanwhile");
  }
  return bytes;
}

// ---- StartedOperation ----

StartedOperation::StartedOperation(std::shared_ptr<Group> group, shoal_op* op, bool on_device)
    : group_(std::move(group)), op_(op), on_device_(on_device) {}

StartedOperation::~StartedOperation() {
  if (!group_->session_->forked()) {
    MutexLock lock(group_->mutex_);
    group_->started_.erase(this);
  }
  group_->session_->library().shoal_op_release(op_);
}

bool StartedOperation::Wait(uint64_t timeout_ms, shoal_error* result) {
  const shoal_code code = group_->session_->library().shoal_op_wait(op_, timeout_ms, result);
  if (code == SHOAL_DEADLINE_EXCEEDED && timeout_ms != UINT64_MAX && !complete()) return false;
  result->code = code;
  return true;
}

bool StartedOperation::complete() const { return group_->session_->library().shoal_op_done(op_) != 0; }

shoal_error StartedOperation::WaitOnStream(void* stream) {
  shoal_error error = {};
  error.code = group_->session_->library().shoal_op_wait_on_stream(op_, stream, &error);
  return error;
}

uint64_t StartedOperation::duration_ns() const { return group_->session_->library().shoal_op_duration_ns(op_); }

Contributors StartedOperation::contributors() const {
  Contributors found;
  group_->session_->library().shoal_op_contributors(op_, &found.least, &found.most);
  return found;
}

void StartedOperation::Notify(Done done) {
  if (group_->session_->forked()) return;  // it is the parent's
  if (group_->session_->Notify(op_, done)) return;
  // The session is closed, which has ended every operation; or it has no thread, and this one waits.
  shoal_error result = {};
  Wait(UINT64_MAX, &result);
  done(result, duration_ns());
}

// ---- Group ----

void Group::Abort(const std::string& reason) {
  session_->ThrowIfForked();
  MutexLock lock(mutex_);
  if (group_ != nullptr) session_->library().shoal_group_abort(group_, reason.c_str());
}

shoal_error Group::failure() {
  session_->ThrowIfForked();
  MutexLock lock(mutex_);
  return group_ == nullptr ? last_failure_ : FailureInLibrary();
}

shoal_error Group::ReadFeedback(uint32_t index, float* values, uint64_t* count) {
  session_->ThrowIfForked();
  MutexLock lock(mutex_);
  if (group_ == nullptr) return MakeError(SHOAL_CANCELLED, "the process group is destroyed");
  shoal_error error = {};
  error.code = session_->library().shoal_group_read_feedback(group_, index, values, count, &error);
  return error;
}

shoal_error Group::AddFeedback(const float* values, uint64_t count) {
  session_->ThrowIfForked();
  MutexLock lock(mutex_);
  if (group_ == nullptr) return MakeError(SHOAL_CANCELLED, "the process group is destroyed");
  shoal_error error = {};
  error.code = session_->library().shoal_group_add_feedback(group_, values, count, &error);
  return error;
}

shoal_error Group::FailureInLibrary() const {
  shoal_error error = {};
  error.code = session_->library().shoal_group_failure(group_, &error);
  return error;
}

void Group::AbortIfOthersGoOn(const shoal_error& error) {
  // Whether ranks reduce among their devices may differ from node to node.
  const bool all_are_refused = IsRefusal(error.code) && (error.code != SHOAL_UNIMPLEMENTED || takes_devices_ != 0);
  if (group_ == nullptr || GroupHasEnded(error.code) || all_are_refused) return;
  session_->library().shoal_group_abort(group_, error.message);
}

std::chrono::steady_clock::time_point Group::DevicesEndBy() const {
  const auto now = std::chrono::steady_clock::now();
  return now < session_->devices_stuck_until_.load() ? now : now + kDevicesEnd;
}

std::vector<std::shared_ptr<StartedOperation>> Group::StartedOnDevices() {
  std::vector<std::shared_ptr<StartedOperation>> found;
  MutexLock lock(mutex_);
  for (const auto& [operation, owner] : started_) {
    if (!operation->on_device()) continue;
    if (auto held = owner.lock()) found.push_back(std::move(held));
  }
  return found;
}

void Group::AwaitDevices(std::chrono::steady_clock::time_point until) {
  bool all_ended = true;
  for (const auto& operation : StartedOnDevices()) {
    if (operation->complete()) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    shoal_error error = {};
    all_ended = operation->Wait(static_cast<uint64_t>(std::max<int64_t>(left.count(), 0)), &error) && all_ended;
  }
  if (!all_ended) session_->devices_stuck_until_ = std::chrono::steady_clock::now() + kDevicesEnd;
}

std::string Group::Close() {
  AwaitDevices(DevicesEndBy());
  shoal_group* group = nullptr;
  {
    MutexLock lock(mutex_);
    if (closing_) return "";
    closing_ = true;
    last_failure_ = FailureInLibrary();
    if (starting_ > 0) {
      session_->library().shoal_group_abort(group_, "the process group was destroyed while an all-reduce began");
      if (!changed_.wait_for(lock, session_->others_end_, [this]() SHOAL_REQUIRES(mutex_) { return starting_ == 0; })) {
        group_ = nullptr;  // it stays as long as the process: the call has it
        return "a call that starts an all-reduce has not returned " + std::to_string(session_->others_end_.count()) +
               " ms after its group was closed";
      }
    }
    group = std::exchange(group_, nullptr);
    const auto open = std::ranges::count_if(started_, [](const auto& each) { return !each.first->complete(); });
    if (open > 0) {
      const std::string reason = "the process group was destroyed with " + std::to_string(open) + " all-reduce(s) open";
      session_->library().shoal_group_abort(group, reason.c_str());
    }
  }
  session_->library().shoal_group_close(group);
  return "";
}

}  // namespace shoal::pytorch
