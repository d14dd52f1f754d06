#include "worker/device/cuda_device.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "process/mutex.h"
#include "worker/device/copy_kernel_ptx.h"

namespace shoal {
namespace {

// What a callback of the driver calls.
struct OnDone {
  std::shared_ptr<const cuda::Api> api;
  std::function<void(const absl::Status&)> function;
};

void CallOnDone(cuda::Stream /*stream*/, cuda::Result result, void* user_data) {
  const std::unique_ptr<OnDone> done(static_cast<OnDone*>(user_data));
  done->function(done->api->Check(result, "work of the stream before the all-reduce"));
}

// The newest of them; nullptr: there is none.
template <typename T>
T TakeLast(std::vector<T>* all) {
  if (all->empty()) return nullptr;
  T last = all->back();
  all->pop_back();
  return last;
}

}  // namespace

// What a process has of a device. Nothing of it is ever destroyed.
struct CudaDevice::Shared {
  Mutex mutex;
  // Set with the mutex, once; an open device reads them without it.
  cuda::Context context = nullptr;  // nullptr: not opened yet
  cuda::Function kernel = nullptr;
  int priority = 0;
  std::vector<cuda::Stream> streams SHOAL_GUARDED_BY(mutex);  // not in use
  std::vector<cuda::Event> events SHOAL_GUARDED_BY(mutex);    // likewise
};

CudaDevice::Shared* CudaDevice::FindShared(const cuda::Api& api, uint32_t ordinal) {
  static Mutex mutex;
  // By the driver, of which a test has another one, and ordinal.
  static auto* const devices = new std::map<std::pair<void*, uint32_t>, Shared>();
  const MutexLock lock(mutex);
  return &(*devices)[{reinterpret_cast<void*>(api.event_create), ordinal}];
}

// The device's context is the thread's current one for as long.
class CudaDevice::Current {
 public:
  explicit Current(const CudaDevice& device)
      : api_(*device.api_), status_(api_.Check(api_.context_push(device.shared_.context), "cuCtxPushCurrent")) {}
  ~Current() {
    cuda::Context popped = nullptr;
    if (status_.ok()) api_.context_pop(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  const absl::Status& status() const { return status_; }

  // Calls the driver, if the context could be made the current one.
  template <typename Call>
  absl::Status Try(const char* what, Call call) const {
    return status_.ok() ? api_.Check(call(), what) : status_;
  }

 private:
  const cuda::Api& api_;
  const absl::Status status_;
};

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(std::shared_ptr<const cuda::Api> api, uint32_t ordinal) {
  int count = 0;
  if (absl::Status status = api->Check(api->device_get_count(&count), "cuDeviceGetCount"); !status.ok()) return status;
  if (ordinal >= static_cast<uint32_t>(count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no CUDA device ", ordinal, ": this process sees ", count, " of them, counted from 0"));
  }
  Shared* const shared = FindShared(*api, ordinal);
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(api), shared));
  const MutexLock lock(shared->mutex);
  if (shared->kernel != nullptr) return device;
  cuda::Device handle = 0;
  absl::Status status =
      device->api_->Check(device->api_->device_get(&handle, static_cast<int>(ordinal)), "cuDeviceGet");
  if (!status.ok()) return status;
  if (shared->context == nullptr) {
    cuda::Context context = nullptr;
    status = device->api_->Check(device->api_->primary_context_retain(&context, handle), "cuDevicePrimaryCtxRetain");
    if (!status.ok()) return status;
    shared->context = context;
  }
  if (status = device->LoadKernel(); !status.ok()) return status;
  return device;
}

absl::Status CudaDevice::LoadKernel() {
  const Current current(*this);
  int least = 0;
  cuda::Module module = nullptr;
  absl::Status status = current.Try("cuCtxGetStreamPriorityRange",
                                    [&] { return api_->context_stream_priorities(&least, &shared_.priority); });
  if (status.ok()) {
    status = current.Try("cuModuleLoadData", [&] { return api_->module_load_data(&module, kCopyKernelPtx); });
  }
  if (status.ok()) {
    status = current.Try("cuModuleGetFunction",
                         [&] { return api_->module_get_function(&shared_.kernel, module, "shoal_copy"); });
  }
  return status;
}

absl::Status CudaDevice::Register(std::span<std::byte> memory) {
  const absl::Status status = Current(*this).Try("cuMemHostRegister", [&] {
    return api_->host_register(memory.data(), memory.size(), cuda::kHostRegisterPortable | cuda::kHostRegisterMapped);
  });
  if (status.ok()) return status;
  return absl::ResourceExhaustedError(absl::StrCat(status.message(), ": ", memory.size() >> 20,
                                                   " MiB are to be locked in memory; set device_memory_bytes to less "
                                                   "(SHOAL_DEVICE_MEMORY), or raise the limit of locked memory, "
                                                   "ulimit -l"));
}

void CudaDevice::Keep(cuda::Stream stream) {
  const MutexLock lock(shared_.mutex);
  shared_.streams.push_back(stream);
}

void CudaDevice::KeepEvent(cuda::Event event) {
  const MutexLock lock(shared_.mutex);
  shared_.events.push_back(event);
}

absl::StatusOr<cuda::Stream> CudaDevice::MakeStream() {
  const MutexLock lock(shared_.mutex);
  if (cuda::Stream kept = TakeLast(&shared_.streams); kept != nullptr) return kept;
  cuda::Stream made = nullptr;
  // Its kernels are few and small; others wait for them, on this device and elsewhere.
  const absl::Status status = Current(*this).Try("cuStreamCreateWithPriority", [&] {
    return api_->stream_create(&made, cuda::kStreamNonBlocking, shared_.priority);
  });
  if (!status.ok()) return status;
  return made;
}

absl::StatusOr<cuda::Event> CudaDevice::MakeEvent() {
  const MutexLock lock(shared_.mutex);
  if (cuda::Event kept = TakeLast(&shared_.events); kept != nullptr) return kept;
  cuda::Event made = nullptr;
  const absl::Status status =
      Current(*this).Try("cuEventCreate", [&] { return api_->event_create(&made, cuda::kEventDisableTiming); });
  if (!status.ok()) return status;
  return made;
}

absl::Status CudaDevice::InContext(const std::function<absl::Status()>& call) const {
  const Current current(*this);
  return current.status().ok() ? call() : current.status();
}

absl::Status CudaDevice::CheckNotCapturing(cuda::Stream stream) {
  int is_capturing = 0;
  absl::Status status =
      Current(*this).Try("cuStreamIsCapturing", [&] { return api_->stream_is_capturing(stream, &is_capturing); });
  if (!status.ok() || is_capturing == 0) return status;
  return absl::FailedPreconditionError(
      "the stream is being captured into a graph, which can't contain an all-reduce through reduction servers: leave "
      "it outside of the capture");
}

absl::Status CudaDevice::Record(cuda::Event event, cuda::Stream stream) {
  return Current(*this).Try("cuEventRecord", [&] { return api_->event_record(event, stream); });
}

absl::Status CudaDevice::Wait(cuda::Stream stream, cuda::Event event) {
  return Current(*this).Try("cuStreamWaitEvent", [&] { return api_->stream_wait_event(stream, event, 0); });
}

absl::Status CudaDevice::CallBack(cuda::Stream stream, std::function<void(const absl::Status&)> callback) {
  auto done = std::make_unique<OnDone>(OnDone{.api = api_, .function = std::move(callback)});
  absl::Status status = Current(*this).Try(
      "cuStreamAddCallback", [&] { return api_->stream_add_callback(stream, &CallOnDone, done.get(), 0); });
  if (!status.ok()) return status;
  [[maybe_unused]] const OnDone* const of_callback = done.release();
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): CallOnDone, which the driver calls, deletes it.
  return status;
}

absl::Status CudaDevice::LaunchCopyKernel(cuda::Stream stream, device::OpControl* control, std::byte* tensor,
                                          uint64_t bytes) {
  auto control_address = static_cast<device::Uint64>(reinterpret_cast<uintptr_t>(control));
  auto tensor_address = static_cast<device::Uint64>(reinterpret_cast<uintptr_t>(tensor));
  device::Uint64 tensor_bytes = bytes;
  void* parameters[] = {&control_address, &tensor_address, &tensor_bytes};
  return Current(*this).Try("cuLaunchKernel", [&] {
    return api_->launch_kernel(shared_.kernel, device::kBlocks, 1, 1, device::kThreads, 1, 1, 0, stream, parameters,
                               nullptr);
  });
}

}  // namespace shoal
