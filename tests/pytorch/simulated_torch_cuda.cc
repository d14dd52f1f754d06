// torch's CUDA devices on the simulated driver (tests/simulated_cuda), for processes without a GPU: the plugin's paths
// for tensors on devices, from there and by way of host memory, run as they are, on tensors that torch takes for
// CUDA's.
//
// What torch's own CUDA library does is done here, as far as tests need it: current devices and streams, events, an
// allocator that reuses memory at once unless a stream is recorded for it, and kernels to make, copy, fill and scale
// tensors, which run in the simulated streams. Python's torch.cuda stays without devices.
//
// Threads: any. Nothing is unloaded.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "process/mutex.h"

namespace {

constexpr c10::DeviceType kCuda = c10::DeviceType::CUDA;
constexpr int kDevices = 2;

// ---- the driver ----

void* driver_library = nullptr;

void* Find(const char* name) {
  void* const function = driver_library == nullptr ? nullptr : dlsym(driver_library, name);
  if (function == nullptr) throw std::runtime_error(std::string(name) + " is not in the simulated driver");
  return function;
}

template <typename... Arguments>
int Try(const char* name, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(Find(name))(arguments...);
}

template <typename... Arguments>
void Call(const char* name, Arguments... arguments) {
  const int result = Try(name, arguments...);
  TORCH_CHECK(result == 0, name, " gave ", result);
}

// ---- devices and streams ----

thread_local int current_device = 0;
thread_local int entered_device = -1;
thread_local std::array<c10::StreamId, kDevices> current_streams = {};

// The driver's current context is that of the device.
void Enter(int device) {
  if (entered_device == device) return;
  void* context = nullptr;
  Call<void**, int>("cuDevicePrimaryCtxRetain", &context, device);
  Call<void*>("cuCtxPushCurrent_v2", context);
  entered_device = device;
}

class Streams {
 public:
  c10::StreamId Make(int device) {
    Enter(device);
    void* stream = nullptr;
    Call<void**, unsigned int, int>("cuStreamCreateWithPriority", &stream, 1u, 0);
    const shoal::MutexLock lock(mutex_);
    handles_.push_back(stream);
    return static_cast<c10::StreamId>(handles_.size());
  }
  // nullptr: the default stream.
  void* Handle(c10::StreamId id) {
    const shoal::MutexLock lock(mutex_);
    return id == 0 ? nullptr : handles_[static_cast<size_t>(id) - 1];
  }

 private:
  shoal::Mutex mutex_;
  std::vector<void*> handles_ SHOAL_GUARDED_BY(mutex_);
};

Streams& AllStreams() {
  static auto* const streams = new Streams;
  return *streams;
}

void* HandleOf(const c10::Stream& stream) {
  Enter(stream.device_index());  // the default stream is the current context's
  return AllStreams().Handle(stream.id());
}

// -1: the current device, as torch has it.
c10::Stream CurrentStream(int device) {
  if (device < 0) device = current_device;
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kCuda, static_cast<c10::DeviceIndex>(device)),
                     current_streams[static_cast<size_t>(device)]);
}

// nullptr: the device has failed.
void* RecordedEvent(const c10::Stream& stream) {
  void* const handle = HandleOf(stream);  // first: an event is of the current context's device
  void* event = nullptr;
  Call<void**, unsigned int>("cuEventCreate", &event, 2u);
  return Try<void*, void*>("cuEventRecord", event, handle) == 0 ? event : nullptr;
}

// ---- memory ----

// Freed memory is at once that of the next tensor of this size, as in torch's allocator: it trusts the order of the
// stream. Where other streams were recorded it waits for those. The driver gets nothing back: it would wait for all
// that runs on the device.
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    GiveBack();
    void* const start = TakeFree({current_device, bytes});
    return {start, start, &Free, c10::Device(kCuda, static_cast<c10::DeviceIndex>(current_device))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {
    TORCH_CHECK(false, "not simulated");
  }

  void Record(void* start, const c10::Stream& stream) {
    const shoal::MutexLock lock(mutex_);
    recorded_[start].push_back(stream);
  }

 private:
  struct Waiting {
    void* start;
    std::vector<void*> events;
  };

  using Kind = std::pair<int, size_t>;  // device, bytes

  static void Free(void* start);
  void FreeOrWait(void* start) {
    std::vector<c10::Stream> streams;
    {
      const shoal::MutexLock lock(mutex_);
      if (auto entry = recorded_.extract(start)) streams = std::move(entry.mapped());
    }
    Waiting waiting{start, {}};
    for (const c10::Stream& stream : streams) {
      void* const event = RecordedEvent(stream);
      if (event == nullptr) {
        std::fputs("memory that several streams have used was freed on a device that has failed: torch ends here\n",
                   stderr);
        std::abort();
      }
      waiting.events.push_back(event);
    }
    const shoal::MutexLock lock(mutex_);
    waiting_.push_back(std::move(waiting));
  }
  void GiveBack() {
    const shoal::MutexLock lock(mutex_);
    std::erase_if(waiting_, [this](const Waiting& waiting) SHOAL_REQUIRES(mutex_) {
      for (void* const event : waiting.events) {
        if (Try<void*>("cuEventQuery", event) != 0) return false;
      }
      free_[kinds_.at(waiting.start)].push_back(waiting.start);
      return true;
    });
  }
  void* TakeFree(const Kind& kind) {
    const shoal::MutexLock lock(mutex_);
    std::vector<void*>& free = free_[kind];
    if (!free.empty()) {
      void* const start = free.back();
      free.pop_back();
      return start;
    }
    unsigned long long address = 0;
    Call<unsigned long long*, size_t>("cuMemAlloc_v2", &address, std::max<size_t>(kind.second, 1));
    void* const start = reinterpret_cast<void*>(address);
    kinds_[start] = kind;
    return start;
  }

  shoal::Mutex mutex_;
  std::map<void*, std::vector<c10::Stream>> recorded_ SHOAL_GUARDED_BY(mutex_);
  std::vector<Waiting> waiting_ SHOAL_GUARDED_BY(mutex_);
  std::map<void*, Kind> kinds_ SHOAL_GUARDED_BY(mutex_);  // of all memory
  std::map<Kind, std::vector<void*>> free_ SHOAL_GUARDED_BY(mutex_);
};

Memory& DeviceMemory() {
  static auto* const memory = new Memory;
  return *memory;
}

void Memory::Free(void* start) { DeviceMemory().FreeOrWait(start); }

// ---- what c10 asks of devices ----

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kCuda; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kCuda, static_cast<c10::DeviceIndex>(std::exchange(current_device, device.index()))};
  }
  c10::Device getDevice() const override { return {kCuda, static_cast<c10::DeviceIndex>(current_device)}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  c10::Stream getStream(c10::Device device) const override { return CurrentStream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*isHighPriority*/) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, AllStreams().Make(device.index()));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = CurrentStream(stream.device_index());
    current_streams[static_cast<size_t>(stream.device_index())] = stream.id();
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return AllStreams().Handle(stream.id()); }
  bool isStreamCapturing(const c10::Stream& stream) const override {
    int status = 0;
    Call<void*, int*>("cuStreamIsCapturing", HandleOf(stream), &status);
    return status != 0;
  }
  // Whether the stream is done does not matter to anyone here; a failed device is an error, as torch's is.
  bool queryStream(const c10::Stream& stream) const override {
    TORCH_CHECK(RecordedEvent(stream) != nullptr, "the device has failed");
    return false;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Call<void*>("cuStreamSynchronize", HandleOf(stream));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get_deleter() == DeviceMemory().raw_deleter()) DeviceMemory().Record(data.get(), stream);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    void* const handle = HandleOf(stream);
    if (*event == nullptr) Call<void**, unsigned int>("cuEventCreate", event, 2u);
    Call<void*, void*>("cuEventRecord", *event, handle);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) Call<void*, void*, unsigned int>("cuStreamWaitEvent", HandleOf(stream), event, 0u);
  }
  bool queryEvent(void* event) const override { return event == nullptr || Try<void*>("cuEventQuery", event) == 0; }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) Call<void*>("cuEventSynchronize", event);
  }
};

// ---- kernels ----

// Puts `kernel` into the current stream of the device.
void Run(const c10::Device& device, std::function<void()> kernel) {
  auto* const owned = new std::function<void()>(std::move(kernel));
  const auto call = [](void* function) {
    const std::unique_ptr<std::function<void()>> to_call(static_cast<std::function<void()>*>(function));
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    (*to_call)();
  };
  Call<void*, void (*)(void*), void*>("simulated_cuda_run", HandleOf(CurrentStream(device.index())), call, owned);
}

// A tensor as kernels see it: its memory without what owns it, as on a device.
class InKernels {
 public:
  explicit InKernels(const at::Tensor& tensor)
      : start_(tensor.data_ptr()),
        on_device_(tensor.is_cuda()),
        sizes_(tensor.sizes().vec()),
        strides_(tensor.strides().vec()),
        type_(tensor.scalar_type()) {}
  at::Tensor Get() const {
    void* start = start_;
    if (on_device_) {
      start =
          reinterpret_cast<void* (*)(uint64_t)>(Find("simulated_cuda_in_kernels"))(reinterpret_cast<uint64_t>(start_));
    }
    return at::from_blob(start, sizes_, strides_, at::TensorOptions().dtype(type_));
  }

 private:
  void* start_;
  bool on_device_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  at::ScalarType type_;
};

at::Tensor Empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> device, std::optional<bool> /*pin_memory*/,
                 std::optional<at::MemoryFormat> memory_format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &DeviceMemory(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   type.value_or(at::kFloat), memory_format);
}

// In host memory. To pin it, torch would ask its own CUDA library; the simulated driver reaches any.
at::Tensor EmptyOnHost(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                       std::optional<at::Device> device, std::optional<bool> /*pin_memory*/,
                       std::optional<at::MemoryFormat> memory_format) {
  return at::detail::empty_cpu(size, type, layout, device, /*pin_memory_opt=*/false, memory_format);
}

at::Tensor EmptyStrided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                        std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                        std::optional<bool> /*pin_memory*/) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &DeviceMemory(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           type.value_or(at::kFloat));
}

at::Tensor& Copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (to.numel() == 0) return to;
  const c10::Device device = to.is_cuda() ? to.device() : from.device();
  const at::Tensor on_host = to.is_cpu() ? to : from.is_cpu() ? from : at::Tensor();
  // The host's memory is kept until it is copied, as torch's allocator of pinned memory does it.
  Run(device, [target = InKernels(to), source = InKernels(from), on_host] {
    at::Tensor written = target.Get();
    written.copy_(source.Get());
  });
  if (on_host.defined() && !non_blocking) {
    Call<void*>("cuStreamSynchronize", HandleOf(CurrentStream(device.index())));
  }
  return to;
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &Empty);
  library.impl("empty_strided", &EmptyStrided);
  library.impl("copy_", &Copy);
}

TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("empty.memory_format", &EmptyOnHost); }

// ---- for tests ----

void Use(const std::string& path) {
  driver_library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver_library == nullptr) throw std::runtime_error(dlerror());
  Call<unsigned int>("cuInit", 0u);
  c10::impl::registerDeviceGuard(kCuda, new Guard);
}

at::Tensor EmptyLike(const at::Tensor& tensor, int device) {
  return at::empty(tensor.sizes(), tensor.options().device(c10::Device(kCuda, static_cast<c10::DeviceIndex>(device))));
}

at::Tensor OnDevice(const at::Tensor& tensor, int device) {
  at::Tensor made = EmptyLike(tensor, device);
  made.copy_(tensor);
  return made;
}

at::Tensor OnHost(const at::Tensor& tensor) {
  at::Tensor made = at::empty(tensor.sizes(), tensor.options().device(c10::kCPU));
  made.copy_(tensor);
  return made;
}

void Fill(const at::Tensor& tensor, double value) {
  Run(tensor.device(), [target = InKernels(tensor), value] { target.Get().fill_(value); });
}

void Scale(const at::Tensor& tensor, double factor) {
  const bool integral = at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
  const at::Scalar scalar = integral ? at::Scalar(static_cast<int64_t>(factor)) : at::Scalar(factor);
  Run(tensor.device(), [target = InKernels(tensor), scalar] { target.Get().mul_(scalar); });
}

// A gate that holds the current stream of the device until it is opened. Never freed.
struct Gate {
  std::atomic<bool> is_open{false};
};

Gate* HoldStream(int device) {
  auto* const gate = new Gate;
  Run(c10::Device(kCuda, static_cast<c10::DeviceIndex>(device)), [gate] { gate->is_open.wait(false); });
  return gate;
}

void OpenGate(Gate* gate) {
  gate->is_open = true;
  gate->is_open.notify_all();
}

// Returns the stream that was current before.
int64_t SetStream(int device, int64_t stream) {
  return std::exchange(current_streams[static_cast<size_t>(device)], stream);
}

}  // namespace

PYBIND11_MODULE(simulated_torch_cuda, module) {
  module.doc() = "torch's CUDA devices on the simulated driver";
  using GilReleased = py::call_guard<py::gil_scoped_release>;
  py::class_<Gate, std::unique_ptr<Gate, py::nodelete>>(module, "Gate").def("open", &OpenGate);
  module.attr("devices") = kDevices;
  module.def("use", &Use, py::arg("library"));
  module.def("on_device", &OnDevice, py::arg("tensor"), py::arg("device") = 0, GilReleased());
  module.def("empty_like", &EmptyLike, py::arg("tensor"), py::arg("device") = 0, GilReleased());
  module.def("on_host", &OnHost, py::arg("tensor"), GilReleased());
  module.def("fill", &Fill, py::arg("tensor"), py::arg("value"), GilReleased());
  module.def("scale", &Scale, py::arg("tensor"), py::arg("factor"), GilReleased());
  module.def("hold_stream", &HoldStream, py::arg("device") = 0, py::return_value_policy::reference);
  module.def(
      "make_stream", [](int device) { return AllStreams().Make(device); }, py::arg("device") = 0);
  module.def("set_stream", &SetStream, py::arg("device"), py::arg("stream"));
  module.def(
      "synchronize", [](int device) { Call<void*>("cuStreamSynchronize", HandleOf(CurrentStream(device))); },
      py::arg("device") = 0, GilReleased());
  module.def(
      "begin_capture",
      [](int device) { Call<void*, int>("cuStreamBeginCapture_v2", HandleOf(CurrentStream(device)), 0); },
      py::arg("device") = 0);
  module.def(
      "refuse_next",
      [](const char* function) {
        reinterpret_cast<void (*)(const char*)>(Find("simulated_cuda_refuse_next"))(function);
      },
      py::arg("function"));
  module.def(
      "fail", [](uint32_t device) { reinterpret_cast<void (*)(uint32_t)>(Find("simulated_cuda_fail"))(device); },
      py::arg("device") = 0);
}
