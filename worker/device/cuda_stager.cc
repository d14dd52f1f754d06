#include "worker/device/cuda_stager.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <thread>

#include "absl/strings/str_cat.h"
#include "worker/device/copy_kernel_ptx.h"

namespace shoal {
namespace {

// All-reduces under way on devices at the same time, at most.
constexpr size_t kControls = 1024;
constexpr uint64_t kPageBytes = 4096;
constexpr auto kPatienceWithKernels = std::chrono::milliseconds(500);

constexpr uint64_t ControlBytes() {
  return (kControls * sizeof(device::OpControl) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

device::Uint64 AddressOf(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

template <typename Word>
uint64_t LoadAcquire(const Word& word) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(&word), __ATOMIC_ACQUIRE);
}

template <typename Word>
void StoreRelease(Word* word, uint64_t value) {
  __atomic_store_n(reinterpret_cast<uint64_t*>(word), value, __ATOMIC_RELEASE);
}

bool HasExited(const device::OpControl& control) {
  return std::all_of(std::begin(control.exited), std::end(control.exited),
                     [](const device::Uint64& block) { return LoadAcquire(block) != 0; });
}

device::CopyCommand CommandOf(const DeviceCopy& copy) {
  device::CopyCommand command{.tensor = AddressOf(copy.tensor),
                              .host = AddressOf(copy.place),
                              .count = copy.elements,
                              .to_device = copy.to_device() ? 1u : 0u};
  if (copy.tensor_type == copy.place_type) {
    command.count *= DataTypeSize(copy.tensor_type);
  } else {
    command.type = copy.place_type == DataType::kBfloat16 ? device::CopyType::kBfloat16 : device::CopyType::kFloat16;
  }
  return command;
}

// What a callback of the driver calls.
struct WhenReady {
  std::shared_ptr<const cuda::Api> api;
  std::function<void(const absl::Status&)> function;
};

void OnReady(cuda::Stream /*stream*/, cuda::Result result, void* user_data) {
  const std::unique_ptr<WhenReady> when(static_cast<WhenReady*>(user_data));
  when->function(when->api->Check(result, "work of the stream before the all-reduce"));
}

}  // namespace

// A device's context is the thread's current one for as long.
struct CudaStager::ContextGuard {
  ContextGuard(const cuda::Api& driver, const DeviceState& device)
      : api(driver), status(api.Check(api.context_push(device.context), "cuCtxPushCurrent")) {}
  ~ContextGuard() {
    cuda::Context popped = nullptr;
    if (status.ok()) api.context_pop(&popped);
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

  const cuda::Api& api;
  const absl::Status status;
};

absl::StatusOr<std::unique_ptr<CudaStager>> CudaStager::Make(const CudaStagerOptions& options) {
  absl::StatusOr<std::unique_ptr<const cuda::Api>> api = cuda::Api::Load(options.library);
  if (!api.ok()) return api.status();
  const uint64_t arena_bytes = (options.arena_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uint64_t bytes = ControlBytes() + arena_bytes;
  void* const region = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes >> 20, " MiB that devices can reach: ",
                                                     std::strerror(errno), "; set device_memory_bytes to less"));
  }
  return std::unique_ptr<CudaStager>(
      new CudaStager(*std::move(api), {static_cast<std::byte*>(region), static_cast<size_t>(bytes)}));
}

CudaStager::CudaStager(std::shared_ptr<const cuda::Api> api, std::span<std::byte> region)
    : api_(std::move(api)),
      region_(region),
      controls_(reinterpret_cast<device::OpControl*>(region.data()), kControls),
      arena_(std::make_shared<StagingArena>(region.subspan(ControlBytes()))) {
  for (device::OpControl& control : controls_) free_controls_.push_back(&control);
}

CudaStager::~CudaStager() {
  for (const auto& [ticket, op] : ops_) {
    StoreRelease(&op->control_->end, static_cast<uint64_t>(device::OpEnd::kFailed));
    ended_.push_back(op);
  }
  for (const auto& [ticket, op] : launched_) {
    StoreRelease(&op->control_->end, static_cast<uint64_t>(device::OpEnd::kFailed));
    ended_.push_back(op);
  }
  const auto give_up_at = std::chrono::steady_clock::now() + kPatienceWithKernels;
  TakeBackExited();
  while (!ended_.empty() && std::chrono::steady_clock::now() < give_up_at) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    TakeBackExited();
  }
  if (!ended_.empty()) {
    // Kernels that are still to run will look into their controls, and write to the arena.
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory for it, it is right that the process ends.
    new std::vector<std::shared_ptr<DeviceOp>>(std::move(ended_));
    return;
  }
  if (region_registered_) {
    const ContextGuard current(*api_, *devices_.begin()->second);
    if (current.status.ok()) api_->host_unregister(region_.data());
  }
  munmap(region_.data(), region_.size());
}

// ---- callers ----

absl::StatusOr<std::shared_ptr<DeviceOp>> CudaStager::Prepare(const DeviceOpCall& call) {
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<DeviceState*> device = FindDevice(call.device);
  if (!device.ok()) return device.status();
  if (absl::Status status = CheckNotCapturing(**device, call.stream); !status.ok()) return status;
  if (free_controls_.empty()) TakeBackExited();
  if (free_controls_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kControls, " all-reduces of tensors on devices are under way; wait for one before the next"));
  }
  device::OpControl* const control = free_controls_.back();
  free_controls_.pop_back();
  std::memset(static_cast<void*>(control), 0, offsetof(device::OpControl, commands));
  return std::make_shared<DeviceOp>(call, control);
}

absl::Status CudaStager::CheckNotCapturing(const DeviceState& device, DeviceStream stream) const {
  const ContextGuard current(*api_, device);
  if (!current.status.ok()) return current.status;
  int is_capturing = 0;
  absl::Status status =
      api_->Check(api_->stream_is_capturing(static_cast<cuda::Stream>(stream), &is_capturing), "cuStreamIsCapturing");
  if (!status.ok() || is_capturing == 0) return status;
  return absl::FailedPreconditionError(
      "the stream is being captured into a graph, which can't contain an all-reduce through reduction servers: leave "
      "it "
      "outside of the capture");
}

void CudaStager::Drop(const std::shared_ptr<DeviceOp>& op) {
  const std::lock_guard lock(mutex_);
  launched_.erase(op->call_.ticket);
  if (op->runs_) {
    StoreRelease(&op->control_->end, static_cast<uint64_t>(device::OpEnd::kFailed));
    ended_.push_back(op);
  } else {
    free_controls_.push_back(op->control_);
  }
}

absl::Status CudaStager::Launch(const std::shared_ptr<DeviceOp>& op,
                                std::function<void(const absl::Status&)> when_ready) {
  const std::lock_guard lock(mutex_);
  // First, so that EndOp finds it whatever happens.
  launched_.emplace(op->call_.ticket, op);
  const absl::StatusOr<DeviceState*> device = FindDevice(op->call_.device);
  if (!device.ok()) return device.status();
  const ContextGuard current(*api_, **device);
  if (!current.status.ok()) return current.status;
  return Enqueue(*device, op.get(), std::move(when_ready));
}

absl::Status CudaStager::Enqueue(DeviceState* device, DeviceOp* op,
                                 std::function<void(const absl::Status&)> when_ready) {
  const absl::StatusOr<cuda::Stream> stream = StreamOf(device, *op);
  if (!stream.ok()) return stream.status();
  absl::Status status = EnqueueBehindCaller(*device, *op, *stream, std::move(when_ready));
  return status.ok() ? LaunchKernel(device, op, *stream) : status;
}

absl::Status CudaStager::EnqueueBehindCaller(const DeviceState& device, const DeviceOp& op, cuda::Stream stream,
                                             std::function<void(const absl::Status&)> when_ready) {
  const auto caller = static_cast<cuda::Stream>(op.call_.stream);
  absl::Status status = api_->Check(api_->event_record(device.produced, caller), "cuEventRecord");
  if (!status.ok()) return status;
  status = api_->Check(api_->stream_wait_event(stream, device.produced, 0), "cuStreamWaitEvent");
  if (!status.ok()) return status;
  auto when = std::make_unique<WhenReady>(WhenReady{.api = api_, .function = std::move(when_ready)});
  status = api_->Check(api_->stream_add_callback(stream, &OnReady, when.get(), 0), "cuStreamAddCallback");
  if (!status.ok()) return status;
  [[maybe_unused]] const WhenReady* const of_callback = when.release();
  return absl::OkStatus();
}

absl::Status CudaStager::LaunchKernel(DeviceState* device, DeviceOp* op, cuda::Stream stream) {
  if (device->free_events.empty()) {
    cuda::Event made = nullptr;
    const absl::Status status = api_->Check(api_->event_create(&made, cuda::kEventDisableTiming), "cuEventCreate");
    if (!status.ok()) return status;
    device->free_events.push_back(made);
  }
  device::Uint64 control = AddressOf(op->control_);
  device::Uint64 tensor = AddressOf(op->call_.tensor);
  device::Uint64 bytes = op->call_.bytes;
  void* parameters[] = {&control, &tensor, &bytes};
  absl::Status status = api_->Check(api_->launch_kernel(device->kernel, device::kBlocks, 1, 1, device::kThreads, 1, 1,
                                                        0, stream, parameters, nullptr),
                                    "cuLaunchKernel");
  if (!status.ok()) return status;
  op->runs_ = true;
  ++ops_of_group_[op->call_.group.value()];
  status = api_->Check(api_->event_record(device->free_events.back(), stream), "cuEventRecord");
  if (!status.ok()) return status;
  op->done_ = device->free_events.back();
  device->free_events.pop_back();
  return absl::OkStatus();
}

absl::Status CudaStager::WaitOnStream(const DeviceOp& op, DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  if (op.exited_) return absl::OkStatus();
  const absl::StatusOr<DeviceState*> device = FindDevice(op.call_.device);
  if (!device.ok()) return device.status();
  const ContextGuard current(*api_, **device);
  if (!current.status.ok()) return current.status;
  return api_->Check(api_->stream_wait_event(static_cast<cuda::Stream>(stream), op.done_, 0), "cuStreamWaitEvent");
}

// ---- devices ----

absl::StatusOr<CudaStager::DeviceState*> CudaStager::FindDevice(uint32_t ordinal) {
  std::unique_ptr<DeviceState>& device = devices_[ordinal];
  if (device != nullptr) return device.get();
  auto made = std::make_unique<DeviceState>();
  made->ordinal = ordinal;
  const absl::Status opened = OpenDevice(made.get());
  if (!opened.ok()) {
    devices_.erase(ordinal);
    return opened;
  }
  device = std::move(made);
  return device.get();
}

absl::Status CudaStager::OpenDevice(DeviceState* device) {
  int count = 0;
  if (absl::Status status = api_->Check(api_->device_get_count(&count), "cuDeviceGetCount"); !status.ok()) {
    return status;
  }
  if (device->ordinal >= static_cast<uint32_t>(count)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no CUDA device ", device->ordinal, ": this process sees ",
                                                   count, " of them, counted from 0"));
  }
  cuda::Device handle = 0;
  absl::Status status = api_->Check(api_->device_get(&handle, static_cast<int>(device->ordinal)), "cuDeviceGet");
  if (!status.ok()) return status;
  status = api_->Check(api_->primary_context_retain(&device->context, handle), "cuDevicePrimaryCtxRetain");
  if (!status.ok()) return status;
  const ContextGuard current(*api_, *device);
  if (!current.status.ok()) return current.status;
  if (status = RegisterRegion(); !status.ok()) return status;
  int least = 0;
  status = api_->Check(api_->context_stream_priorities(&least, &device->priority), "cuCtxGetStreamPriorityRange");
  if (!status.ok()) return status;
  cuda::Module module = nullptr;
  status = api_->Check(api_->module_load_data(&module, kCopyKernelPtx), "cuModuleLoadData");
  if (!status.ok()) return status;
  status = api_->Check(api_->module_get_function(&device->kernel, module, "shoal_copy"), "cuModuleGetFunction");
  if (!status.ok()) return status;
  return api_->Check(api_->event_create(&device->produced, cuda::kEventDisableTiming), "cuEventCreate");
}

// With a device's context current: the driver wants one, and no program has one on a device that it does not use.
absl::Status CudaStager::RegisterRegion() {
  if (region_registered_) return absl::OkStatus();
  const cuda::Result result =
      api_->host_register(region_.data(), region_.size(), cuda::kHostRegisterPortable | cuda::kHostRegisterMapped);
  const absl::Status status = api_->Check(result, "cuMemHostRegister");
  if (!status.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(status.message(), ": ", region_.size() >> 20,
                     " MiB are to be locked in memory; set device_memory_bytes to less"));
  }
  region_registered_ = true;
  return absl::OkStatus();
}

absl::StatusOr<cuda::Stream> CudaStager::StreamOf(DeviceState* device, const DeviceOp& op) {
  std::vector<cuda::Stream>& streams = device->streams[op.call_.group.value()];
  while (streams.size() < kStreamsOfGroup) {
    cuda::Stream made = nullptr;
    // Its kernels are few and small; others wait for them, on this device and elsewhere.
    const absl::Status status = api_->Check(api_->stream_create(&made, cuda::kStreamNonBlocking, device->priority),
                                            "cuStreamCreateWithPriority");
    if (!status.ok()) return status;
    streams.push_back(made);
  }
  return streams[ops_of_group_[op.call_.group.value()] % kStreamsOfGroup];
}

void CudaStager::TakeBackExited() {
  std::erase_if(ended_, [this](const std::shared_ptr<DeviceOp>& op) {
    if (op->runs_ && !HasExited(*op->control_)) return false;
    op->exited_ = true;
    op->given_up_.clear();
    free_controls_.push_back(op->control_);
    if (op->done_ != nullptr) devices_[op->call_.device]->free_events.push_back(op->done_);
    return true;
  });
}

// ---- the loop ----

DeviceOp* CudaStager::FindOp(uint64_t ticket) {
  if (const auto found = ops_.find(ticket); found != ops_.end()) return found->second.get();
  const std::lock_guard lock(mutex_);
  auto launched = launched_.extract(ticket);
  if (launched.empty()) return nullptr;
  DeviceOp* const op = launched.mapped().get();
  ops_.insert(std::move(launched));
  return op;
}

void CudaStager::Start(DeviceCopy copy) {
  DeviceOp* const op = FindOp(copy.ticket);
  if (op == nullptr || op->abandoned_) {
    next_.push_back({.token = copy.token, .status = absl::AbortedError("the all-reduce is not on its device")});
    return;
  }
  ++copies_under_way_;
  if (!op->waiting_.empty() || !Publish(op, copy)) op->waiting_.push_back(std::move(copy));
}

bool CudaStager::Publish(DeviceOp* op, const DeviceCopy& copy) {
  if (op->published_ - op->first_ == device::kCommands) return false;
  op->control_->commands[op->published_ % device::kCommands] = CommandOf(copy);
  ++op->published_;
  StoreRelease(&op->control_->published, op->published_);
  op->under_way_.push_back({.token = copy.token, .staging = copy.staging});
  return true;
}

void CudaStager::Flush() {}

void CudaStager::TakeDone(DeviceOp* op) {
  for (uint64_t i = 0; i < op->under_way_.size(); ++i) {
    const uint64_t number = op->first_ + i;
    DeviceOp::UnderWay& copy = op->under_way_[i];
    if (copy.staging == nullptr) continue;  // it was done before an older one
    if (LoadAcquire(op->control_->done[number % device::kCommands]) != number + 1) continue;
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
  return polled_;
}

void CudaStager::EndOp(uint64_t ticket, bool well) {
  DeviceOp* const op = FindOp(ticket);
  if (op == nullptr) return;
  StoreRelease(&op->control_->end, static_cast<uint64_t>(well ? device::OpEnd::kWell : device::OpEnd::kFailed));
  const auto found = ops_.find(ticket);
  const std::lock_guard lock(mutex_);
  ended_.push_back(std::move(found->second));
  ops_.erase(found);
  TakeBackExited();
}

void CudaStager::Abandon(GroupHandle group) {
  for (const auto& [ticket, op] : ops_) {
    if (op->call_.group != group) continue;
    TakeDone(op.get());
    op->abandoned_ = true;
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
