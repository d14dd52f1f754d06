#include "worker/device/cuda_stager.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/node_parts.h"
#include "process/clock.h"
#include "process/mutex.h"

namespace shoal {
namespace {

// How long devices may take to give back what ops use that have ended, and how often they are asked meanwhile.
constexpr uint64_t kGiveBackNs = 1'000 * kNsPerMs;
constexpr auto kAskEvery = std::chrono::milliseconds(1);
constexpr auto kPatienceWithKernels = std::chrono::milliseconds(500);

constexpr uint64_t WholePages(uint64_t bytes) {
  return (bytes + PageArena::kPageBytes - 1) / PageArena::kPageBytes * PageArena::kPageBytes;
}

constexpr uint64_t kControlBytes = WholePages(CudaStager::kMaxOps * sizeof(device::OpControl));

device::Uint64 AddressOf(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

bool HasExited(const device::OpControl& control) {
  return std::all_of(std::begin(control.exited), std::end(control.exited),
                     [](const device::Uint64& block) { return device::LoadAcquire(&block) != 0; });
}

device::CopyCommand CommandOf(const DeviceCopy& copy) {
  device::CopyCommand command{.tensor = AddressOf(copy.tensor),
                              .host = AddressOf(copy.place),
                              .count = copy.elements,
                              .to_device = copy.to_device() ? 1u : 0u};
  switch (copy.codec.format()) {
    case WireFormat::kAsIs:
      command.count = copy.codec.TensorBytes(copy.elements);
      break;
    case WireFormat::kFloat16:
      command.type = device::CopyType::kFloat16;
      break;
    case WireFormat::kBfloat16:
      command.type = device::CopyType::kBfloat16;
      break;
    case WireFormat::kInt8:
    case WireFormat::kFloat8:
      break;  // Start refuses them
  }
  return command;
}

void EndKernel(device::OpControl* control, device::OpEnd end) {
  device::StoreRelease(&control->end, static_cast<device::Uint64>(end));
}

// What of the tensor goes over the network.
struct CopiedPart {
  std::byte* start;
  uint64_t bytes;
};

CopiedPart CopiedPartOf(const DeviceOpCall& call) {
  if (!call.local.has_value()) return {.start = call.tensor, .bytes = call.bytes};
  if (!call.local->other_nodes) return {.start = call.tensor, .bytes = 0};
  const DeviceComm::Place& place = call.local->devices->place();
  const ElementRange part = NodePart(call.local->element_count, place.size, place.rank);
  const uint64_t element_bytes = DataTypeSize(call.local->dtype);
  return {.start = call.tensor + part.first * element_bytes, .bytes = part.count * element_bytes};
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStager>> CudaStager::Make(const CudaStagerOptions& options) {
  absl::StatusOr<std::unique_ptr<const cuda::Api>> api = cuda::Api::Load(options.library);
  if (!api.ok()) return api.status();
  const absl::StatusOr<LockedRegion> region = LockedRegion::Take(kControlBytes + WholePages(options.arena_bytes));
  if (!region.ok()) return region.status();
  return std::unique_ptr<CudaStager>(new CudaStager(*std::move(api), *region));
}

CudaStager::CudaStager(std::shared_ptr<const cuda::Api> api, const LockedRegion& region)
    : api_(std::move(api)),
      region_(region),
      controls_(reinterpret_cast<device::OpControl*>(region.memory.data()), kMaxOps),
      arena_(std::make_shared<StagingArena>(region.memory.subspan(kControlBytes))) {
  for (device::OpControl& control : controls_) free_controls_.push_back(&control);
}

CudaStager::~CudaStager() {
  for (const auto* ops : {&ops_, &begun_}) {
    for (const auto& [ticket, op] : *ops) {
      EndKernel(op->control_, device::OpEnd::kFailed);
      ended_.push_back(op);
    }
  }
  const auto give_up_at = std::chrono::steady_clock::now() + kPatienceWithKernels;
  TakeBackExited();
  while (!ended_.empty() && std::chrono::steady_clock::now() < give_up_at) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    TakeBackExited();
  }
  if (ended_.empty()) {
    KeepForOthers();
    LockedRegion::GiveBack(region_);
    return;
  }
  // Kernels that are still to run will look into their controls, and write to the arena: these stay as long as the
  // process.
  static Mutex mutex;
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory for it, it is right that the process ends.
  static auto* const left = new std::vector<std::shared_ptr<DeviceOp>>();
  const MutexLock lock(mutex);
  left->insert(left->end(), std::make_move_iterator(ended_.begin()), std::make_move_iterator(ended_.end()));
}

void CudaStager::KeepForOthers() {
  const MutexLock driver_lock(driver_mutex_);
  const MutexLock lock(mutex_);
  for (const auto& [ordinal, device] : devices_) {
    for (const cuda::Event event : free_events_[ordinal]) device->KeepEvent(event);
    for (const std::vector<cuda::Stream>& streams : free_streams_[ordinal]) {
      for (const cuda::Stream stream : streams) device->Keep(stream);
    }
  }
}

// ---- callers ----

absl::Status CudaStager::Open(uint32_t ordinal) {
  {
    const MutexLock driver_lock(driver_mutex_);
    if (devices_.contains(ordinal)) return absl::OkStatus();
  }
  // Without the lock: to load the kernel waits for what runs on the device, and that may wait for an op on another one.
  absl::StatusOr<std::unique_ptr<CudaDevice>> device = CudaDevice::Open(api_, ordinal);
  if (!device.ok()) return device.status();
  const MutexLock driver_lock(driver_mutex_);
  // With a device at hand: no program should have a context on one that it does not use.
  if (!region_.is_registered) {
    if (absl::Status status = (*device)->Register(region_.memory); !status.ok()) return status;
    region_.is_registered = true;
  }
  devices_.emplace(ordinal, *std::move(device));  // unless another thread was first
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<DeviceOp>> CudaStager::Prepare(const DeviceOpCall& call,
                                                              const std::function<absl::Status()>& is_over) {
  if (absl::Status opened = Open(call.device); !opened.ok()) return opened;
  device::OpControl* control = nullptr;
  device::OpControl* last_control = nullptr;
  {
    MutexLock lock(mutex_);
    const size_t count = call.local.has_value() ? 2 : 1;
    if (absl::Status free = AwaitControls(count, call.deadline_ns, is_over, &lock); !free.ok()) return free;
    control = TakeControl();
    if (call.local.has_value()) last_control = TakeControl();
  }
  const auto give_back = [&](absl::Status status) {
    const MutexLock lock(mutex_);
    free_controls_.push_back(control);
    if (last_control != nullptr) free_controls_.push_back(last_control);
    return status;
  };
  const MutexLock driver_lock(driver_mutex_);
  CudaDevice* const device = devices_.at(call.device).get();
  const auto caller = static_cast<cuda::Stream>(call.stream);
  if (absl::Status status = device->CheckNotCapturing(caller); !status.ok()) return give_back(std::move(status));
  const absl::StatusOr<cuda::Event> produced = TakeEvent(device, call.device);
  if (!produced.ok()) return give_back(produced.status());
  const absl::Status recorded = device->Record(*produced, caller);
  auto op = std::make_shared<DeviceOp>(call, control, last_control, *produced);
  if (!recorded.ok()) {
    Drop(op);
    return recorded;
  }
  const MutexLock lock(mutex_);
  begun_.emplace(call.ticket, op);
  return op;
}

absl::Status CudaStager::AwaitControls(size_t count, uint64_t deadline_ns, const std::function<absl::Status()>& is_over,
                                       MutexLock* lock) {
  uint64_t give_up_at_ns = kNoDeadline;  // with no op under way that could still end
  while (free_controls_.size() < count) {
    TakeBackExited();
    if (free_controls_.size() >= count) break;
    if (absl::Status over = is_over(); !over.ok()) return over;
    const uint64_t now_ns = MonotonicNs();
    size_t held_by_ended = 0;
    for (const auto& op : ended_) held_by_ended += op->last_control_ == nullptr ? 1 : 2;
    if (held_by_ended + free_controls_.size() < kMaxOps) {
      give_up_at_ns = kNoDeadline;
    } else if (give_up_at_ns == kNoDeadline) {
      give_up_at_ns = now_ns + kGiveBackNs;
    }
    if (now_ns >= give_up_at_ns) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kMaxOps,
                       " all-reduces of tensors on devices have ended, and their devices have not given back "
                       "what they use: a device is stuck"));
    }
    if (now_ns >= deadline_ns) {
      return absl::DeadlineExceededError(
          absl::StrCat(kMaxOps, " all-reduces of tensors on devices are under way, and none has ended in time"));
    }
    op_ended_.wait_for(*lock, kAskEvery);
  }
  return absl::OkStatus();
}

device::OpControl* CudaStager::TakeControl() {
  device::OpControl* const control = free_controls_.back();
  free_controls_.pop_back();
  std::memset(static_cast<void*>(control), 0, offsetof(device::OpControl, commands));
  return control;
}

void CudaStager::Drop(const std::shared_ptr<DeviceOp>& op) {
  const MutexLock lock(mutex_);
  begun_.erase(op->call_.ticket);
  op->launch_over_ = true;
  op->exited_ = true;
  free_controls_.push_back(op->control_);
  if (op->last_control_ != nullptr) free_controls_.push_back(op->last_control_);
  free_events_[op->call_.device].push_back(op->produced_);
}

void CudaStager::GiveUp(const std::shared_ptr<DeviceOp>& op, const absl::Status& why) {
  const MutexLock lock(mutex_);
  op->launched_ = why;
  op->launch_over_ = true;
  if (op->call_.local.has_value()) op->call_.local->devices.reset();
  free_events_[op->call_.device].push_back(op->produced_);
}

absl::Status CudaStager::Meet(const DeviceOp& op, const std::function<absl::Status()>& is_over) {
  const DeviceOpCall& call = op.call_;
  const CudaDevice* device = nullptr;
  {
    // Not while it waits: the first calls of two groups may come in another order on another rank.
    const MutexLock driver_lock(driver_mutex_);
    device = devices_.at(call.device).get();
  }
  return device->InContext([&] { return call.local->devices->Meet(api_, is_over); });
}

absl::Status CudaStager::Launch(const std::shared_ptr<DeviceOp>& op,
                                std::function<void(const absl::Status&)> when_ready,
                                std::function<void(const absl::Status&)> when_done) {
  MutexLock driver_lock(driver_mutex_);
  const absl::Status launched = Enqueue(op, std::move(when_ready), std::move(when_done));
  const MutexLock lock(mutex_);
  op->launched_ = launched;
  op->launch_over_ = true;
  if (op->call_.local.has_value()) op->call_.local->devices.reset();  // the group lets go of it last
  free_events_[op->call_.device].push_back(op->produced_);  // a stream that waits for it waits for what it was then
  return launched;
}

absl::Status CudaStager::Enqueue(const std::shared_ptr<DeviceOp>& op,
                                 std::function<void(const absl::Status&)> when_ready,
                                 std::function<void(const absl::Status&)> when_done) {
  const DeviceOpCall& call = op->call_;
  CudaDevice* const device = devices_.at(call.device).get();
  const absl::StatusOr<Turn> turn = TakeTurn(device, op.get());
  if (!turn.ok()) return turn.status();
  const absl::StatusOr<cuda::Event> done = TakeEvent(device, call.device);
  if (!done.ok()) return done.status();
  const CopiedPart part = CopiedPartOf(call);
  absl::Status status = device->Wait(turn->stream, op->produced_);
  if (status.ok() && call.local.has_value()) {
    // NCCL may wait for the other ranks here, whose first calls of two groups may come in another order.
    driver_mutex_.unlock();
    status = ReduceOnNode(*device, *turn, call);
    driver_mutex_.lock();
  }
  if (status.ok()) status = device->CallBack(turn->stream, std::move(when_ready));
  if (status.ok() && part.bytes > 0) {
    status = device->LaunchCopyKernel(turn->stream, op->control_, part.start, part.bytes);
  }
  const bool runs = status.ok() && part.bytes > 0;
  if (status.ok() && call.local.has_value()) {
    driver_mutex_.unlock();
    status = GatherOnNode(*device, *turn, call);
    driver_mutex_.lock();
    if (status.ok()) status = EnqueueLast(device, *turn, op, std::move(when_done));
  }
  const bool last_runs = status.ok() && call.local.has_value();
  const bool in_part = !status.ok();
  // Where the driver refuses this too, its streams and what it holds are never used again.
  if (in_part) {
    device->CallBack(turn->stream, [op](const absl::Status&) { op->stream_passed_.store(true); }).IgnoreError();
  }
  // Also behind what was put there of an op that could not be launched as a whole.
  const absl::Status recorded = device->Record(*done, turn->stream);
  if (status.ok()) status = recorded;
  const MutexLock lock(mutex_);
  op->runs_ = runs;
  op->last_runs_ = last_runs;
  op->in_part_ = in_part;
  if (recorded.ok()) {
    op->done_ = *done;
  } else {
    free_events_[op->call_.device].push_back(*done);
  }
  return status;
}

absl::Status CudaStager::ReduceOnNode(const CudaDevice& device, const Turn& turn, const DeviceOpCall& call) {
  const LocalReduction& local = *call.local;
  return device.InContext([&] {
    return local.devices->Comm(turn.number)
        .Reduce(turn.stream, call.tensor, local.element_count, local.dtype, local.reduce_op, local.premul_factor,
                /*all=*/!local.other_nodes);
  });
}

absl::Status CudaStager::GatherOnNode(const CudaDevice& device, const Turn& turn, const DeviceOpCall& call) {
  const LocalReduction& local = *call.local;
  return device.InContext([&] {
    return local.devices->Comm(turn.number).Gather(turn.stream, call.tensor, local.element_count, local.dtype);
  });
}

absl::Status CudaStager::EnqueueLast(CudaDevice* device, const Turn& turn, const std::shared_ptr<DeviceOp>& op,
                                     std::function<void(const absl::Status&)> when_done) {
  // The stream goes on from here, before the loop has heard of it.
  const auto end_last = [op, verdict = op->call_.local->devices->verdict(),
                         when_done = std::move(when_done)](const absl::Status& done) {
    const bool well = done.ok() && verdict->Counts();
    EndKernel(op->last_control_, well ? device::OpEnd::kWell : device::OpEnd::kFailed);
    when_done(done.ok() && !well ? absl::AbortedError("a rank of the node has failed") : done);
  };
  if (absl::Status status = device->CallBack(turn.stream, end_last); !status.ok()) return status;
  return device->LaunchCopyKernel(turn.stream, op->last_control_, op->call_.tensor, op->call_.bytes);
}

absl::Status CudaStager::WaitOnStream(const DeviceOp& op, DeviceStream stream) {
  // The op's event is not recorded anew while this lock is held.
  const MutexLock driver_lock(driver_mutex_);
  cuda::Event done = nullptr;
  {
    const MutexLock lock(mutex_);
    if (op.exited_ || op.done_ == nullptr) return op.launched_;
    done = op.done_;
  }
  CudaDevice* const device = devices_.at(op.call_.device).get();
  const auto waiting = static_cast<cuda::Stream>(stream);
  if (absl::Status status = device->CheckNotCapturing(waiting); !status.ok()) return status;
  if (absl::Status status = device->Wait(waiting, done); !status.ok()) return status;
  const MutexLock lock(mutex_);
  return op.launched_;
}

// ---- devices, streams and events ----

absl::StatusOr<cuda::Event> CudaStager::TakeEvent(CudaDevice* device, uint32_t ordinal) {
  {
    const MutexLock lock(mutex_);
    std::vector<cuda::Event>& free = free_events_[ordinal];
    if (!free.empty()) {
      const cuda::Event event = free.back();
      free.pop_back();
      return event;
    }
  }
  return device->MakeEvent();
}

absl::StatusOr<CudaStager::Turn> CudaStager::TakeTurn(CudaDevice* device, DeviceOp* op) {
  // Communicators go with streams, and ranks have to choose alike, whenever a lane ends here and begins anew.
  const auto next_of = [op](Lane& lane) {
    const size_t number =
        op->call_.local.has_value() ? op->call_.local->devices->TakeTurn() : lane.launched++ % kStreamsOfGroup;
    return Turn{.stream = lane.streams[number], .number = number};
  };
  const LaneKey key(op->call_.device, op->call_.group_id);
  std::vector<cuda::Stream> streams;
  {
    const MutexLock lock(mutex_);
    Lane& lane = lanes_[key];
    ++lane.open;
    op->has_lane_ = true;
    std::vector<std::vector<cuda::Stream>>& free = free_streams_[op->call_.device];
    if (lane.streams.empty() && !free.empty()) {
      lane.streams = std::move(free.back());
      free.pop_back();
    }
    if (!lane.streams.empty()) return next_of(lane);
  }
  while (streams.size() < kStreamsOfGroup) {
    const absl::StatusOr<cuda::Stream> made = device->MakeStream();
    if (!made.ok()) return made.status();
    streams.push_back(*made);
  }
  const MutexLock lock(mutex_);
  Lane& lane = lanes_[key];
  lane.streams = std::move(streams);
  return next_of(lane);
}

void CudaStager::LeaveLane(DeviceOp* op) {
  if (!op->has_lane_) return;
  const auto lane = lanes_.find(LaneKey(op->call_.device, op->call_.group_id));
  if (--lane->second.open > 0) return;
  if (!lane->second.streams.empty()) free_streams_[op->call_.device].push_back(std::move(lane->second.streams));
  lanes_.erase(lane);
}

void CudaStager::TakeBackExited() {
  std::erase_if(ended_, [this](const std::shared_ptr<DeviceOp>& op) SHOAL_REQUIRES(mutex_) {
    if (!op->launch_over_ || (op->runs_ && !HasExited(*op->control_)) ||
        (op->last_runs_ && !HasExited(*op->last_control_)) || (op->in_part_ && !op->stream_passed_.load())) {
      return false;
    }
    op->exited_ = true;
    given_up_.insert(given_up_.end(), std::make_move_iterator(op->given_up_.begin()),
                     std::make_move_iterator(op->given_up_.end()));
    op->given_up_.clear();
    free_controls_.push_back(op->control_);
    if (op->last_control_ != nullptr) free_controls_.push_back(op->last_control_);
    if (op->done_ != nullptr) free_events_[op->call_.device].push_back(op->done_);
    LeaveLane(op.get());
    return true;
  });
}

// ---- the loop ----

DeviceOp* CudaStager::FindOp(uint64_t ticket) {
  if (const auto found = ops_.find(ticket); found != ops_.end()) return found->second.get();
  const MutexLock lock(mutex_);
  auto begun = begun_.extract(ticket);
  if (begun.empty()) return nullptr;
  DeviceOp* const op = begun.mapped().get();
  ops_.insert(std::move(begun));
  return op;
}

void CudaStager::Start(DeviceCopy copy) {
  DeviceOp* const op = FindOp(copy.ticket);
  if (op == nullptr || op->abandoned_) {
    next_.push_back({.token = copy.token, .status = absl::AbortedError("the all-reduce is not on its device")});
    return;
  }
  // Nothing gets here unless a caller was not asked (CheckTakesDevices).
  if (copy.codec.is_in_blocks()) {
    next_.push_back({.token = copy.token, .status = absl::UnimplementedError("devices can't convert to blocks")});
    return;
  }
  ++copies_under_way_;
  if (!op->waiting_.empty() || !Publish(op, copy)) op->waiting_.push_back(std::move(copy));
}

bool CudaStager::Publish(DeviceOp* op, const DeviceCopy& copy) {
  if (op->published_ - op->first_ == device::kCommands) return false;
  op->control_->commands[op->published_ % device::kCommands] = CommandOf(copy);
  ++op->published_;
  device::StoreRelease(&op->control_->published, op->published_);
  op->under_way_.push_back({.token = copy.token, .staging = copy.staging});
  return true;
}

void CudaStager::TakeDone(DeviceOp* op) {
  for (uint64_t i = 0; i < op->under_way_.size(); ++i) {
    const uint64_t number = op->first_ + i;
    DeviceOp::UnderWay& copy = op->under_way_[i];
    if (copy.staging == nullptr) continue;  // it was done before an older one
    if (device::LoadAcquire(&op->control_->done[number % device::kCommands]) != number + 1) continue;
    next_.push_back({.token = copy.token, .status = absl::OkStatus()});
    copy.staging.reset();
    --copies_under_way_;
  }
  while (!op->under_way_.empty() && op->under_way_.front().staging == nullptr) {
    op->under_way_.pop_front();
    ++op->first_;
  }
  while (!op->waiting_.empty() && Publish(op, op->waiting_.front())) op->waiting_.pop_front();
}

std::span<const DeviceCopyEnded> CudaStager::Poll() {
  if (copies_under_way_ > 0) {
    for (const auto& [ticket, op] : ops_) TakeDone(op.get());
  }
  polled_.clear();
  std::swap(polled_, next_);
  if (may_hold_given_up_) {
    // The arena is the loop's.
    std::vector<std::shared_ptr<const StagingMemory>> let_go;
    const MutexLock lock(mutex_);
    TakeBackExited();
    let_go.swap(given_up_);
    may_hold_given_up_ = std::any_of(ended_.begin(), ended_.end(), [](const auto& op) { return op->abandoned_; }) ||
                         std::any_of(ops_.begin(), ops_.end(), [](const auto& op) { return op.second->abandoned_; });
  }
  return polled_;
}

void CudaStager::EndCopies(uint64_t ticket) {
  if (DeviceOp* const op = FindOp(ticket)) EndKernel(op->control_, device::OpEnd::kWell);
}

void CudaStager::EndOp(uint64_t ticket, bool well) {
  DeviceOp* const op = FindOp(ticket);
  if (op == nullptr) return;
  EndKernel(op->control_, well ? device::OpEnd::kWell : device::OpEnd::kFailed);
  const auto found = ops_.find(ticket);
  const MutexLock lock(mutex_);
  ended_.push_back(std::move(found->second));
  ops_.erase(found);
  TakeBackExited();
  op_ended_.notify_all();
}

void CudaStager::Abandon(GroupHandle group) {
  for (const auto& [ticket, op] : ops_) {
    if (op->call_.group != group) continue;
    TakeDone(op.get());
    op->abandoned_ = true;
    may_hold_given_up_ = true;
    const absl::Status stuck = absl::AbortedError("the device did not end a copy in time");
    for (DeviceOp::UnderWay& copy : op->under_way_) {
      if (copy.staging == nullptr) continue;
      next_.push_back({.token = copy.token, .status = stuck});
      op->given_up_.push_back(std::move(copy.staging));
      --copies_under_way_;
    }
    for (const DeviceCopy& copy : op->waiting_) {
      next_.push_back({.token = copy.token, .status = stuck});
      --copies_under_way_;
    }
    op->under_way_.clear();
    op->waiting_.clear();
    op->first_ = op->published_;
  }
}

}  // namespace shoal
