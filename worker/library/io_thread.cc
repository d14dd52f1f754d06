#include "worker/library/io_thread.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/small_op.h"
#include "net/transport_limits.h"
#include "net/wake_up.h"
#include "process/clock.h"
#include "process/start_thread.h"
#include "worker/machine/group_words.h"

namespace shoal {
namespace {

constexpr uint64_t kOpenGraceMs = 5'000;
constexpr uint64_t kCountersTimeoutMs = 5'000;
// How long the I/O thread stands back before it sees whether a caller has run a round meanwhile: callers of small ops
// mostly come with the next at once.
constexpr uint64_t kStandBackNs = 1'000'000;

// How much longer than asked for a sleep of the I/O thread may last where there are devices. It is short while they
// copy (CudaStager::kPollWithinNs), and the system's usual 50 us, for waking threads together, would be most of it.
constexpr unsigned long kTimerSlackNs = 1'000;

// What the I/O thread does after a round.
enum class Rest : uint8_t { kNone, kStandBack, kYield, kSleep };

// A caller who waits for it does the loop's work meanwhile.
bool IsSmall(const CallerOp& op) { return op.bytes() <= kSmallOpBytes && op.device_op() == nullptr; }

WorkerMachineOptions With(WorkerMachineOptions options, const CudaStager* stager) {
  if (stager != nullptr) options.staging_arena = stager->arena();
  return options;
}

}  // namespace

static_assert(kMaxPayloadsOnTheirWay >= 4 * kMaxWorkerGroups * kMaxCreditChunks, "see net/transport_limits.h");

IoThread::IoThread(std::unique_ptr<Transport> transport, std::unique_ptr<LocalReduce> local_reduce,
                   std::unique_ptr<CudaStager> stager, const WorkerMachineOptions& options,
                   CompletionQueue* completions, MemberQueue* member, NoticeLog* notices, OnGroupFailed on_group_failed)
    : transport_(std::move(transport)),
      local_reduce_(std::move(local_reduce)),
      stager_(std::move(stager)),
      completions_(completions),
      member_(member),
      notices_(notices),
      on_group_failed_(std::move(on_group_failed)),
      queue_(transport_.get()),
      loop_(std::make_unique<WorkerLoop>(With(options, stager_.get()), transport_.get(), local_reduce_.get(),
                                         stager_.get())),
      groups_(kMaxWorkerGroups) {
  ready_tensors_->queue = &queue_;
}

absl::StatusOr<std::unique_ptr<IoThread>> IoThread::Start(std::unique_ptr<Transport> transport,
                                                          std::unique_ptr<LocalReduce> local_reduce,
                                                          std::unique_ptr<CudaStager> stager,
                                                          const WorkerMachineOptions& options,
                                                          CompletionQueue* completions, MemberQueue* member,
                                                          NoticeLog* notices, OnGroupFailed on_group_failed) {
  std::unique_ptr<IoThread> io(new IoThread(std::move(transport), std::move(local_reduce), std::move(stager), options,
                                            completions, member, notices, std::move(on_group_failed)));
  absl::StatusOr<std::thread> thread = StartThread("shoal-io", [raw = io.get()] { raw->Run(); });
  if (!thread.ok()) return thread.status();
  io->thread_ = *std::move(thread);
  return io;
}

IoThread::~IoThread() {
  Stop(0);
  const MutexLock lock(ready_tensors_->mutex);
  ready_tensors_->queue = nullptr;
}

absl::StatusOr<std::shared_ptr<CallerGroup>> IoThread::OpenGroup(std::shared_ptr<const GroupInfo> info,
                                                                 uint64_t deadline_ns,
                                                                 const std::optional<DeviceMeeting>& devices) {
  GroupHandle handle;
  {
    const MutexLock lock(mutex_);
    if (handles_in_use_.all()) {
      const std::string full =
          absl::StrCat("this worker has ", kMaxWorkerGroups, " groups open; close one before the next");
      // The other ranks would wait for this one.
      if (info->size() > 1) Tell(GroupFailure{.group = info->id, .reason = full});
      Tell(GroupEnded{info->id});
      return absl::ResourceExhaustedError(full);
    }
    uint16_t free = 0;
    while (handles_in_use_[free]) ++free;
    handles_in_use_.set(free);
    handle = GroupHandle(free);
  }
  auto group = std::make_shared<CallerGroup>(handle, info);
  const absl::Status taken = queue_.OpenGroup(
      {.group = handle, .info = std::move(info), .deadline_ns = deadline_ns, .devices = devices}, group);
  if (!taken.ok()) {
    const MutexLock lock(mutex_);
    handles_in_use_.reset(handle.value());
    return taken;
  }
  const absl::Status opened = group->WaitOpened(deadline_ns + kOpenGraceMs * kNsPerMs);
  if (!opened.ok()) return opened;
  return group;
}

LinkFacts IoThread::MeasureLink(const Shard& shard, uint64_t timeout_ms) {
  const auto measurement = std::make_shared<std::promise<LinkFacts>>();
  {
    const MutexLock lock(mutex_);
    measurement_ = measurement;
  }
  const absl::Status status = queue_.Post(MeasureLinkCommand{
      .server_name = shard.server_name, .address = shard.address, .deadline_ns = DeadlineIn(timeout_ms)});
  std::future<LinkFacts> future = measurement->get_future();
  // The machine answers in time unless the thread has ended.
  if (!status.ok() ||
      future.wait_for(std::chrono::milliseconds(timeout_ms + kOpenGraceMs)) != std::future_status::ready) {
    return {};
  }
  return future.get();
}

absl::StatusOr<WorkerCounters> IoThread::Counters() {
  auto request = std::make_shared<CountersRequest>();
  if (!queue_.Ask(request).ok()) {
    const MutexLock lock(mutex_);
    return last_counters_;
  }
  WorkerCounters counters;
  if (request->Wait(DeadlineIn(kCountersTimeoutMs), &counters)) return counters;
  return absl::UnavailableError("the worker's I/O thread does not answer; please report this");
}

void IoThread::Stop(uint64_t goodbye_ms) {
  queue_.Close({.deadline_ns = DeadlineIn(goodbye_ms)});
  const MutexLock lock(stop_mutex_);
  if (thread_.joinable()) thread_.join();
}

absl::Status IoThread::Submit(const SubmitCommand& command, const std::shared_ptr<CallerOp>& op) {
  if (WholeOps* const whole_ops = op->group().whole_ops(); whole_ops != nullptr) {
    const absl::StatusOr<bool> is_next = whole_ops->Begin(command, op);
    if (!is_next.ok()) return is_next.status();
    if (!*is_next) return absl::OkStatus();
  }
  const bool looked_after = IsSmall(*op);
  if (absl::Status status = queue_.Submit(command, op, looked_after); !status.ok()) return status;
  // So the op is on its way now, whenever its caller comes to wait for it. With large ops open the I/O thread is at
  // work, and a round may take long.
  if (looked_after && !has_large_ops_.load()) TryRound();
  return absl::OkStatus();
}

void IoThread::ReadyTensors::Post(WorkerCommand command) {
  const MutexLock lock(mutex);
  if (queue != nullptr) queue->Post(std::move(command)).IgnoreError();  // a worker that is closing has ended the op
}

absl::Status IoThread::OpenDevice(uint32_t ordinal) {
  return stager_ == nullptr ? NoDevicesError() : stager_->Open(ordinal);
}

absl::Status IoThread::SubmitOnDevice(const SubmitCommand& command, const std::shared_ptr<CallerOp>& op,
                                      const DeviceOpCall& call) {
  if (stager_ == nullptr) return NoDevicesError();
  const MutexLock lock(op->group().launch_mutex());
  if (absl::Status opened = stager_->Open(call.device); !opened.ok()) {
    // Also where the host's memory can't be locked, for which waiting for other ops is no help.
    if (!absl::IsInvalidArgument(opened)) FailGroup(&op->group(), std::string(opened.message()));
    return opened;
  }
  const auto is_over = [&op] { return op->group().failure(); };
  absl::StatusOr<std::shared_ptr<DeviceOp>> device_op = stager_->Prepare(call, is_over);
  // The device has failed or gives nothing back, or the stream is none of it.
  if (absl::IsInternal(device_op.status()) || absl::IsResourceExhausted(device_op.status()) ||
      absl::IsDeadlineExceeded(device_op.status())) {
    FailGroup(&op->group(), std::string(device_op.status().message()));
  }
  if (!device_op.ok()) return device_op.status();
  op->SetDeviceOp(*device_op);
  if (absl::Status status = queue_.Submit(command, op, /*looked_after=*/false); !status.ok()) {
    stager_->Drop(*device_op);
    return status;
  }
  // From here on the other ranks wait for this one: what goes wrong is to fail the group.
  const GroupHandle group = command.group;
  const uint64_t ticket = command.ticket;
  absl::Status launched;
  if (call.local.has_value()) {
    launched = stager_->Meet(**device_op, [&op] {
      if (absl::Status failure = op->group().failure(); !failure.ok()) return failure;
      return op->done() ? absl::AbortedError("the all-reduce has ended") : absl::OkStatus();
    });
  }
  if (launched.ok()) {
    launched = stager_->Launch(
        *device_op,
        [ready_tensors = ready_tensors_, group, ticket](const absl::Status& status) {
          ready_tensors->Post(TensorReadyCommand{.group = group, .ticket = ticket, .status = status});
        },
        [ready_tensors = ready_tensors_, group, ticket](const absl::Status& status) {
          ready_tensors->Post(DeviceDoneCommand{.group = group, .ticket = ticket, .status = status});
        });
  } else {
    stager_->GiveUp(*device_op, launched);
  }
  if (!launched.ok()) {
    // One of the two says so, whichever the group listens to.
    ready_tensors_->Post(TensorReadyCommand{.group = group, .ticket = ticket, .status = launched});
    if (call.local.has_value()) {
      ready_tensors_->Post(DeviceDoneCommand{.group = group, .ticket = ticket, .status = launched});
    }
  }
  return absl::OkStatus();
}

void IoThread::FailGroup(CallerGroup* group, const std::string& reason) {
  group->SetFailure(absl::CancelledError(absl::StrCat("the group was aborted: ", reason)));
  // A worker that is closed has ended the group already.
  queue_.Post(AbortGroupCommand{.group = group->handle(), .reason = reason}).IgnoreError();
}

void IoThread::GiveUp(const std::string& reason) { queue_.Post(GiveUpCommand{reason}).IgnoreError(); }

absl::Status IoThread::WaitOnStream(const CallerOp& op, DeviceStream stream) {
  return stager_->WaitOnStream(*op.device_op(), stream);
}

bool IoThread::Wait(CallerOp* op, uint64_t deadline_ns) {
  if (!op->done() && IsSmall(*op)) RunRoundsUntilDone(op, deadline_ns);
  return op->WaitUntil(deadline_ns);
}

void IoThread::RunRoundsUntilDone(CallerOp* op, uint64_t deadline_ns) {
  callers_looking_.fetch_add(1);
  uint64_t sleep_ns = deadline_ns;
  bool progress = true;  // before the round, which counts from its beginning
  // The op's submit ran a round just now, if no large ones are open: where ranks share a core, it is another one's
  // turn.
  bool yields = !has_large_ops_.load();
  while (!op->done()) {
    if (yields) sched_yield();
    yields = true;
    const Round round = TryRound();
    if (progress) sleep_ns = std::min(deadline_ns, round.at_ns + kSmallOpSpinNs);
    if (round.at_ns >= sleep_ns) break;
    progress = round.progress;
  }
  callers_looking_.fetch_sub(1);
  // Somebody has to see to what is open. With nothing open the I/O thread looks again when it has stood back long
  // enough.
  if (has_ops_.load()) queue_.ComeBack();
}

IoThread::Round IoThread::TryRound() {
  const Round none = {.at_ns = MonotonicNs(), .progress = false};
  if (!turn_.try_lock()) return none;
  Round round = none;
  if (!asleep_ && !shutdown_done_) {
    caller_ran_round_ = true;
    round = RunRound();
  }
  turn_.unlock();
  return round;
}

IoThread::Round IoThread::RunRound() noexcept {
  queue_.Take(&batch_);
  Register(&batch_);
  const Now now = ReadNowOfRound();
  if (std::exchange(progressed_, false)) progress_ns_ = now.monotonic_ns;
  progressed_ = loop_->RunOnce(now, batch_.commands, &outcomes_);
  Deliver(outcomes_);
  outcomes_.clear();
  for (const auto& request : batch_.counters_requests) request->Answer(loop_->counters());
  has_ops_.store(!ops_.empty());
  has_large_ops_.store(ops_.size() > small_ops_);
  return {.at_ns = now.monotonic_ns, .progress = progressed_};
}

void IoThread::Run() {
  if (stager_ != nullptr) prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  const int local_fd = local_reduce_ == nullptr ? -1 : local_reduce_->wake_fd();  // -1 is never readable
  bool is_called = true;
  while (true) {
    Rest rest = Rest::kNone;
    std::optional<int64_t> timeout_ns;
    {
      const MutexLock turn(turn_);
      asleep_ = false;
      const bool is_looked_after =
          std::exchange(caller_ran_round_, false) && !is_called && (ops_.empty() || callers_looking_.load() > 0);
      Round round;
      if (!is_looked_after && !shutdown_done_) round = RunRound();
      if (shutdown_done_) break;
      if (is_looked_after || callers_looking_.load() > 0) {
        rest = Rest::kStandBack;
      } else if (!round.progress && small_ops_ > 0 && round.at_ns - progress_ns_ < kSmallOpSpinNs) {
        rest = Rest::kYield;
      } else if (!round.progress && PrepareToSleep(&timeout_ns)) {
        asleep_ = true;
        rest = Rest::kSleep;
      }
    }
    is_called = rest != Rest::kStandBack || queue_.StandBack(kStandBackNs);
    if (rest == Rest::kYield) sched_yield();
    if (rest == Rest::kSleep) transport_->Sleep(timeout_ns, local_fd);
  }
  const MutexLock turn(turn_);
  EndWhatIsLeft();
}

bool IoThread::PrepareToSleep(std::optional<int64_t>* timeout_ns) {
  // The second look: a call between the first and Arm has woken a transport that was not armed yet.
  if (!queue_.PrepareToSleep()) return false;
  if (local_reduce_ != nullptr && !local_reduce_->Arm()) return false;
  if (!transport_->Arm() || !queue_.PrepareToSleep()) return false;
  const uint64_t deadline_ns = loop_->NextDeadlineNs();
  uint64_t within_ns = deadline_ns == kNoDeadline ? kNoDeadline : NsUntil(deadline_ns);
  if (stager_ != nullptr) within_ns = std::min(within_ns, stager_->PollWithinNs());
  if (within_ns != kNoDeadline) *timeout_ns = static_cast<int64_t>(within_ns);
  return true;
}

void IoThread::Register(SubmittedBatch* batch) {
  for (std::shared_ptr<CallerOp>& op : batch->ops) {
    const uint64_t ticket = op->ticket();
    small_ops_ += IsSmall(*op) ? 1 : 0;
    ops_[ticket] = std::move(op);
  }
  for (std::shared_ptr<CallerGroup>& group : batch->groups) {
    const uint16_t handle = group->handle().value();
    groups_[handle] = std::move(group);
  }
}

void IoThread::Deliver(const WorkerOutcomes& outcomes) {
  for (const WorkerOutcome& outcome : outcomes) {
    if (const auto* done = std::get_if<OpDone>(&outcome)) {
      Deliver(*done);
    } else if (const auto* opened = std::get_if<GroupOpened>(&outcome)) {
      Deliver(*opened);
    } else if (const auto* broken = std::get_if<GroupBroken>(&outcome)) {
      Deliver(*broken);
    } else if (const auto* closed = std::get_if<GroupClosed>(&outcome)) {
      Deliver(*closed);
    } else if (const auto* measured = std::get_if<LinkMeasured>(&outcome)) {
      Deliver(*measured);
    } else if (const auto* trouble = std::get_if<ServerTrouble>(&outcome)) {
      Tell(*trouble);
    } else if (const auto* failure = std::get_if<GroupFailure>(&outcome)) {
      Tell(*failure);
    } else if (const auto* waiting = std::get_if<WaitReported>(&outcome)) {
      notices_->Say(waiting->line);
    } else {
      shutdown_done_ = true;
    }
  }
}

void IoThread::Deliver(const GroupOpened& outcome) {
  const bool is_awaited = groups_[outcome.group.value()]->SetOpened(outcome.status, outcome.devices, outcome.failures);
  if (!outcome.status.ok()) return Deliver(GroupClosed{outcome.group});
  // Else the handle would never be free again.
  if (!is_awaited) queue_.Post(CloseGroupCommand{.group = outcome.group}).IgnoreError();
}

void IoThread::Deliver(const OpDone& outcome) {
  const auto found = ops_.find(outcome.ticket);
  if (found == ops_.end()) return;
  const std::shared_ptr<CallerOp> op = std::move(found->second);
  ops_.erase(found);
  // A failed op fails its group; arguments that can't be reduced were refused before they came here. Whoever has
  // synchronized with the device, which goes on from here, finds the failure.
  if (!outcome.status.ok() && op->group().SetFailure(outcome.status) && on_group_failed_ &&
      !absl::IsCancelled(outcome.status)) {
    on_group_failed_(op->group(), outcome.status);
  }
  if (op->device_op() != nullptr) stager_->EndOp(op->ticket(), outcome.status.ok());
  if (!outcome.status.ok()) AbortOnDevices(op->group());
  if (outcome.status.ok()) op->SetContributors(outcome.contributors);
  const bool has_whole_ops = op->group().whole_ops() != nullptr;
  if (has_whole_ops && IsRepeated(*op, outcome)) return;
  Complete(op, outcome.status, outcome.duration_ns);
  if (has_whole_ops) GoOn(&op->group(), outcome.status);
}

bool IoThread::IsRepeated(const CallerOp& op, const OpDone& outcome) {
  if (!outcome.status.ok()) return false;
  const std::optional<WholeOps::Pass> again = op.group().whole_ops()->Again(outcome.contributors);
  if (!again.has_value()) return false;
  small_ops_ -= IsSmall(op) ? 1 : 0;
  // A queue that is closed takes nothing more, and EndWhatIsLeft ends the op.
  queue_.Submit(again->command, again->op, /*looked_after=*/false).IgnoreError();
  return true;
}

void IoThread::GoOn(CallerGroup* group, const absl::Status& status) {
  WholeOps* const whole_ops = group->whole_ops();
  if (status.ok()) {
    const std::optional<WholeOps::Pass> next = whole_ops->Next();
    if (next.has_value()) queue_.Submit(next->command, next->op, /*looked_after=*/false).IgnoreError();
    return;
  }
  for (const std::shared_ptr<CallerOp>& op : whole_ops->End(status)) {
    if (!op->done() && op->Complete(status, 0)) completions_->Push(op);
  }
}

void IoThread::Deliver(const GroupBroken& outcome) {
  const std::shared_ptr<CallerGroup>& group = groups_[outcome.group.value()];
  if (group != nullptr) group->SetBroken(outcome.status);
}

void IoThread::AbortOnDevices(const CallerGroup& group) {
  if (const std::shared_ptr<LocalDevices> devices = group.local_devices()) devices->Abort();
}

void IoThread::Deliver(const GroupClosed& outcome) {
  std::shared_ptr<CallerGroup>& group = groups_[outcome.group.value()];
  if (group == nullptr) return;
  {
    const MutexLock lock(mutex_);
    handles_in_use_.reset(outcome.group.value());
  }
  Tell(GroupEnded{group->info().id, outcome.all_committed});
  group->SetClosed();
  group.reset();
}

void IoThread::Tell(MembershipCommand command) {
  member_->PushAlways(std::move(command)).IgnoreError();  // refused by a worker that has left its job
}

void IoThread::Deliver(const LinkMeasured& outcome) {
  const MutexLock lock(mutex_);
  if (measurement_ != nullptr) measurement_->set_value(outcome.link);
  measurement_ = nullptr;
}

void IoThread::Complete(const std::shared_ptr<CallerOp>& op, const absl::Status& status, uint64_t duration_ns) {
  small_ops_ -= IsSmall(*op) ? 1 : 0;
  if (op->Complete(status, duration_ns)) completions_->Push(op);
}

// The machine ended all it knew of. This is for calls that came after its last word, and for memory that the network
// gives back only with the transport.
void IoThread::EndWhatIsLeft() {
  queue_.Take(&batch_);
  Register(&batch_);
  const absl::Status closed = absl::CancelledError("the worker is closed");
  {
    const MutexLock lock(mutex_);
    last_counters_ = loop_->counters();
    for (const auto& request : batch_.counters_requests) request->Answer(last_counters_);
  }
  transport_.reset();
  local_reduce_.reset();
  loop_.reset();
  for (const auto& [ticket, op] : ops_) {
    op->group().SetFailure(closed);
    if (op->device_op() != nullptr) {
      stager_->EndOp(ticket, /*well=*/false);
      AbortOnDevices(op->group());
    }
    Complete(op, closed, 0);
  }
  ops_.clear();
  for (std::shared_ptr<CallerGroup>& group : groups_) {
    if (group == nullptr) continue;
    group->SetFailure(closed);
    if (group->whole_ops() != nullptr) GoOn(group.get(), closed);
    group->SetOpened(closed);
    group->SetClosed();
    group.reset();
  }
}

}  // namespace shoal
