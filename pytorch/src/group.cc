// Group and StartedOperation of session.h: keep the order of the calls.
#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

#include "pytorch/src/session.h"

namespace shoal::pytorch {
namespace {

// How long to wait before a full submit queue is tried again when none of this group's operations ends meanwhile.
constexpr std::chrono::milliseconds kRetryWhenFull{5};

// How long devices may take to give back what an operation had that has ended.
constexpr std::chrono::seconds kDevicesGiveBack{1};

// How long a group that is destroyed waits for its operations on devices. Where that was in vain, groups that are
// destroyed as soon again afterwards don't wait: a program destroys all of its groups one after the other.
constexpr std::chrono::seconds kDevicesEnd{3};

// A timeout that is longer is none, and would be too long for a clock to count.
constexpr uint64_t kLongestTimeoutMs = 365ull * 24 * 3600 * 1000;

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

shoal_all_reduce_options OptionsOf(const Operation& operation) {
  shoal_all_reduce_options options = {};
  options.struct_size = sizeof(options);
  options.dtype = operation.dtype;
  options.op = operation.op;
  options.premul_factor = operation.premul_factor;
  options.timeout_ms = operation.timeout_ms;
  options.on_device = operation.device.has_value() ? 1 : 0;
  options.device = operation.device.value_or(0);
  options.stream = operation.stream;
  return options;
}

Group::Group(std::shared_ptr<Session> session, shoal_group* group)
    : session_(std::move(session)),
      takes_devices_(session_->library().shoal_group_takes_devices(group)),
      group_(group) {}

Group::~Group() {
  if (session_->forked()) {  // threads exist in the parent only
    if (feeder_.joinable()) feeder_.detach();
    ready_waits_.Leave();
    return;
  }
  if (const std::string left_behind = Close(); !left_behind.empty()) {
    std::fprintf(stderr, "shoal: %s\n", left_behind.c_str());
  }
}

void Group::Submit(Operation operation) {
  session_->ThrowIfForked();
  shoal_error error = {};
  {
    std::lock_guard lock(mutex_);
    Outcome outcome = Outcome::kFull;
    if (closing_) {
      outcome = Outcome::kFailed;
      error = MakeError(SHOAL_CANCELLED, "the process group is destroyed or aborted");
    } else if (pending_.empty() && !operation.wait_until_ready) {
      outcome = TrySubmit(operation, error);
    }
    if (outcome == Outcome::kAccepted) return;
    if (outcome == Outcome::kFull && !StartFeeder(&error)) {
      outcome = Outcome::kFailed;
      AbortIfOthersGoOn(error);
    }
    if (outcome == Outcome::kFull) {
      const uint64_t timeout_ms = operation.timeout_ms == 0 ? kLongestTimeoutMs : operation.timeout_ms;
      const auto deadline =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(std::min(timeout_ms, kLongestTimeoutMs));
      pending_.push_back({.operation = std::move(operation), .deadline = deadline});
      changed_.notify_all();
      return;
    }
  }
  operation.done(error, 0);
}

bool Group::StartFeeder(shoal_error* error) {
  if (feeder_.joinable()) return true;
  try {
    feeder_ = std::thread([self = shared_from_this()] {
      self->Feed();
      std::lock_guard lock(self->mutex_);
      self->feeder_runs_ = false;
      self->changed_.notify_all();
    });
    feeder_runs_ = true;
    return true;
  } catch (const std::system_error& failure) {
    *error = MakeError(SHOAL_INTERNAL, std::string("no thread could be started that waits until the all-reduce can "
                                                   "begin: ") +
                                           failure.what());
    return false;
  }
}

Group::Outcome Group::TryStart(const Operation& operation, std::shared_ptr<StartedOperation>* started,
                               shoal_error* error) {
  session_->ThrowIfForked();
  std::unique_lock lock(mutex_);
  if (closing_) {
    *error = MakeError(SHOAL_CANCELLED, "the process group is destroyed or aborted");
    return Outcome::kFailed;
  }
  if (!pending_.empty()) return Outcome::kFull;  // they were called earlier
  const shoal_all_reduce_options options = OptionsOf(operation);
  shoal_op* op = nullptr;
  // The first operation on devices of a node may wait for the other ranks: who aborts the group is not to wait for
  // that.
  const bool may_wait = operation.device.has_value();
  if (may_wait) {
    ++starting_;
    lock.unlock();
  }
  const shoal_code code =
      session_->library().shoal_all_reduce(group_, operation.data, operation.count, &options, &op, error);
  if (may_wait) {
    lock.lock();
    --starting_;
    changed_.notify_all();
  }
  if (code == SHOAL_RESOURCE_EXHAUSTED) return Outcome::kFull;
  error->code = code;
  if (code != SHOAL_OK) {
    AbortIfOthersGoOn(*error);
    return Outcome::kFailed;
  }
  *started = std::make_shared<StartedOperation>(shared_from_this(), op, may_wait);
  started_.emplace(started->get(), *started);
  return Outcome::kAccepted;
}

bool Group::StartOnDevice(const Operation& operation, std::shared_ptr<StartedOperation>* started, shoal_error* error) {
  // Full of what? Of operations that end, or the message says what there is too little of.
  const auto begin = std::chrono::steady_clock::now();
  auto give_up_at = begin + kDevicesGiveBack;
  for (;;) {
    const Outcome outcome = TryStart(operation, started, error);
    if (outcome != Outcome::kFull) return outcome == Outcome::kAccepted;
    const auto now = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    if (!pending_.empty() || session_->HasOpenOperations()) give_up_at = now + kDevicesGiveBack;
    const bool is_late = operation.timeout_ms != 0 && now - begin > std::chrono::milliseconds(operation.timeout_ms);
    if (!is_late && now <= give_up_at) {
      changed_.wait_for(lock, kRetryWhenFull);
      continue;
    }
    error->code = SHOAL_RESOURCE_EXHAUSTED;
    if (is_late && !pending_.empty()) {
      *error = MakeError(SHOAL_DEADLINE_EXCEEDED, "earlier all-reduces of the group have not left this rank's device");
    }
    AbortIfOthersGoOn(*error);
    return false;
  }
}

Group::Outcome Group::TrySubmit(Operation& operation, shoal_error& error) {
  auto done = std::move(operation.done);
  operation.done = [self = shared_from_this(), done](const shoal_error& result, uint64_t duration_ns) {
    {
      std::lock_guard lock(self->mutex_);
      --self->open_;
      self->changed_.notify_all();
    }
    done(result, duration_ns);
  };
  ++open_;
  const shoal_code code = session_->Start(group_, operation, error);
  if (code == SHOAL_OK) return Outcome::kAccepted;
  --open_;
  operation.done = std::move(done);
  if (code == SHOAL_RESOURCE_EXHAUSTED) return Outcome::kFull;
  error.code = code;
  AbortIfOthersGoOn(error);
  return Outcome::kFailed;
}

shoal_error Group::AwaitReady(std::function<void()> wait, std::chrono::steady_clock::time_point deadline) {
  if (std::chrono::steady_clock::now() >= deadline) {
    return MakeError(SHOAL_DEADLINE_EXCEEDED, "earlier all-reduces of the group have left no time for it");
  }
  const std::optional<std::string> failure = ready_waits_.Run(std::move(wait), deadline);
  if (!failure.has_value() && std::chrono::steady_clock::now() >= deadline) {
    return MakeError(SHOAL_DEADLINE_EXCEEDED,
                     "the tensor's device has not done in time what its stream was to do before the all-reduce");
  }
  if (!failure.has_value()) return MakeError(SHOAL_CANCELLED, "the process group was aborted or destroyed");
  if (failure->empty()) return MakeError(SHOAL_OK, "");
  return MakeError(SHOAL_INTERNAL, "copying the tensor from the device failed: " + *failure);
}

void Group::Feed() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !pending_.empty(); });
    if (closing_) return;
    Operation& next = pending_.front().operation;  // stays in the queue, so that no later call overtakes it
    shoal_error error = {};
    Outcome outcome = Outcome::kFailed;
    const auto deadline = pending_.front().deadline;
    if (next.wait_until_ready) {
      auto wait = std::exchange(next.wait_until_ready, nullptr);
      lock.unlock();
      error = AwaitReady(std::move(wait), deadline);
      lock.lock();
    }
    if (closing_) return;
    if (error.code == SHOAL_OK) {
      if (next.timeout_ms != 0) next.timeout_ms = MillisecondsUntil(deadline);
      outcome = TrySubmit(next, error);
    } else {
      AbortIfOthersGoOn(error);
    }
    if (outcome == Outcome::kFull) {
      changed_.wait_for(lock, kRetryWhenFull);
      continue;
    }
    Operation operation = std::move(pending_.front().operation);
    pending_.pop_front();
    if (outcome == Outcome::kFailed) {
      lock.unlock();
      operation.done(error, 0);
      operation = {};
      lock.lock();
    }
  }
}

// ---- StartedOperation ----

StartedOperation::StartedOperation(std::shared_ptr<Group> group, shoal_op* op, bool on_device)
    : group_(std::move(group)), op_(op), on_device_(on_device) {}

StartedOperation::~StartedOperation() {
  if (!group_->session_->forked()) {
    std::lock_guard lock(group_->mutex_);
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
  std::lock_guard lock(mutex_);
  if (group_ != nullptr) session_->library().shoal_group_abort(group_, reason.c_str());
  ready_waits_.EndBy(std::chrono::steady_clock::now());
}

void Group::AbortIfOthersGoOn(const shoal_error& error) {
  if (group_ == nullptr || GroupHasEnded(error.code) || IsRefusal(error.code)) return;
  session_->library().shoal_group_abort(group_, error.message);
}

std::chrono::steady_clock::time_point Group::DevicesEndBy() const {
  const auto now = std::chrono::steady_clock::now();
  return now < session_->devices_stuck_until_.load() ? now : now + kDevicesEnd;
}

std::vector<std::shared_ptr<StartedOperation>> Group::StartedOnDevices() {
  std::vector<std::shared_ptr<StartedOperation>> found;
  std::lock_guard lock(mutex_);
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
  if (!all_ended) NoteDevicesStuck();
}

void Group::NoteDevicesStuck() { session_->devices_stuck_until_ = std::chrono::steady_clock::now() + kDevicesEnd; }

std::string Group::Close() {
  const auto until = DevicesEndBy();
  AwaitDevices(until);
  bool is_in_use = false;  // by a call that we can't end
  {
    std::unique_lock lock(mutex_);
    if (closing_) return "";
    closing_ = true;
    changed_.notify_all();
    ready_waits_.EndBy(until);
    if (starting_ > 0) {
      session_->library().shoal_group_abort(group_, "the process group was destroyed while an all-reduce began");
      is_in_use = !changed_.wait_for(lock, session_->others_end_, [this] { return starting_ == 0; });
    }
  }
  const bool feeder_has_ended = EndFeeder(until + session_->others_end_);
  if (!ready_waits_.Stop()) NoteDevicesStuck();
  std::deque<Pending> pending;
  shoal_group* group = nullptr;
  {
    std::lock_guard lock(mutex_);
    pending.swap(pending_);
    group = std::exchange(group_, nullptr);
    uint64_t open = open_;
    for (const auto& [operation, owner] : started_) open += operation->complete() ? 0 : 1;
    if (open > 0) {
      const std::string reason = "the process group was destroyed with " + std::to_string(open) + " all-reduce(s) open";
      session_->library().shoal_group_abort(group, reason.c_str());
    }
  }
  for (Pending& each : pending) {
    each.operation.done(MakeError(SHOAL_CANCELLED, "the process group was destroyed before the all-reduce was started"),
                        0);
  }
  if (!is_in_use) session_->library().shoal_group_close(group);
  const std::string when = " " + std::to_string(session_->others_end_.count()) + " ms after its group was closed";
  if (is_in_use) return "a call that starts an all-reduce on a device has not returned" + when;
  return feeder_has_ended ? "" : "a callback or hook of an all-reduce has not returned" + when;
}

bool Group::EndFeeder(std::chrono::steady_clock::time_point until) {
  if (!feeder_.joinable()) return true;
  bool has_ended = true;
  if (feeder_.get_id() != std::this_thread::get_id()) {  // otherwise Close was called by a `done`
    std::unique_lock lock(mutex_);
    has_ended = changed_.wait_until(lock, until, [this] { return !feeder_runs_; });
  }
  if (has_ended && feeder_.get_id() != std::this_thread::get_id()) {
    feeder_.join();
  } else {
    feeder_.detach();
  }
  return has_ended;
}

}  // namespace shoal::pytorch
