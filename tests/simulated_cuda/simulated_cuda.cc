// The functions of CUDA's driver, with its names, on simulated devices (README.md).
#include "tests/simulated_cuda/simulated_cuda.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "process/mutex.h"
#include "tests/simulated_cuda/simulated_memory.h"
#include "tests/simulated_cuda/simulated_stream.h"
#include "worker/device/copy_kernel.h"

namespace shoal::device {

void Pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace shoal::device

namespace shoal::simulated_cuda {
namespace {

using Result = int;
using Pointer = unsigned long long;

constexpr Result kSuccess = 0;
constexpr Result kInvalidValue = 1;
constexpr Result kOutOfMemory = 2;
constexpr Result kInvalidDevice = 101;
constexpr Result kInvalidContext = 201;
constexpr Result kInvalidHandle = 400;
constexpr Result kAlreadyRegistered = 712;
constexpr Result kNotRegistered = 713;
constexpr Result kNotReady = 600;
constexpr Result kDeviceFailed = 719;
constexpr uint32_t kDevices = 2;

struct Context {
  explicit Context(uint32_t ordinal) : device(ordinal), default_stream(new Stream(ordinal)) {}
  const uint32_t device;
  Stream* const default_stream;
};

// What a program calls "shoal_copy" and so on.
struct Kernel {
  std::string name;
};

std::array<std::atomic<bool>, kDevices> failed;
std::atomic<uint64_t> copy_kernels;
std::atomic<uint64_t> objects_made;

Context* ContextOf(uint32_t device) {
  static auto* const contexts = new std::array<Context*, kDevices>{new Context(0), new Context(1)};
  return (*contexts)[device];
}

std::vector<Context*>& CurrentContexts() {
  static thread_local std::vector<Context*> contexts;
  return contexts;
}

Context* Current() { return CurrentContexts().empty() ? nullptr : CurrentContexts().back(); }

// nullptr: the default one of the current context; there is none.
Stream* Find(void* stream) {
  if (stream != nullptr) return static_cast<Stream*>(stream);
  return Current() == nullptr ? nullptr : Current()->default_stream;
}

// The driver's own lock, and what a test wants to be refused.
Mutex driver_mutex;
std::condition_variable driver_changed;
bool driver_is_held SHOAL_GUARDED_BY(driver_mutex) = false;
std::map<std::string, int> refusals
    SHOAL_GUARDED_BY(driver_mutex);  // by function, how many of its next calls are refused

// Of a call that needs the driver's lock.
Result EnterDriver(const char* function) {
  MutexLock lock(driver_mutex);
  driver_changed.wait(lock, []() SHOAL_REQUIRES(driver_mutex) { return !driver_is_held; });
  const auto refusal = refusals.find(function);
  if (refusal == refusals.end()) return kSuccess;
  if (--refusal->second == 0) refusals.erase(refusal);
  return kOutOfMemory;
}

Result StateOf(const Stream* stream, const char* function) {
  if (stream == nullptr) return kInvalidContext;
  if (const Result entered = EnterDriver(function); entered != kSuccess) return entered;
  return failed[stream->device()] ? kDeviceFailed : kSuccess;
}

// Does not happen on a device that has failed.
void PutUnlessFailed(Stream* stream, Stream::Work work) {
  stream->Put([device = stream->device(), work = std::move(work)] {
    if (!failed[device]) work();
  });
}

// ---- kernels ----

template <typename Value>
Value Parameter(void** parameters, int index) {
  Value value;
  std::memcpy(&value, parameters[index], sizeof(value));
  return value;
}

// A thread for each block.
void RunCopyKernel(device::OpControl* control, Pointer tensor, Pointer bytes) {
  std::vector<std::thread> blocks;
  for (uint32_t block = 0; block < device::kBlocks; ++block) {
    blocks.emplace_back([=] {
      device::block_of_this_thread = block;
      device::BlockState state = {};
      device::RunBlock(control, &state, tensor, bytes);
    });
  }
  for (std::thread& block : blocks) block.join();
}

Stream::Work WorkOf(const Kernel& kernel, void** parameters) {
  if (kernel.name == "shoal_copy") {
    ++copy_kernels;
    auto* const control = Parameter<device::OpControl*>(parameters, 0);
    return [control, tensor = Parameter<Pointer>(parameters, 1), bytes = Parameter<Pointer>(parameters, 2)] {
      RunCopyKernel(control, tensor, bytes);
      --copy_kernels;
    };
  }
  // Those of the program whose tensors are reduced (program_on_device.h).
  if (kernel.name == "test_fill") {
    return [tensor = Parameter<Pointer>(parameters, 0), count = Parameter<Pointer>(parameters, 1),
            value = Parameter<float>(parameters, 2)] {
      auto* const numbers = static_cast<float*>(OnDevice(tensor));
      for (Pointer i = 0; i < count; ++i) numbers[i] = value + static_cast<float>(i % 251);
    };
  }
  if (kernel.name == "test_scale") {
    return [tensor = Parameter<Pointer>(parameters, 0), count = Parameter<Pointer>(parameters, 1),
            factor = Parameter<float>(parameters, 2)] {
      auto* const numbers = static_cast<float*>(OnDevice(tensor));
      for (Pointer i = 0; i < count; ++i) numbers[i] *= factor;
    };
  }
  if (kernel.name == "test_wait") {
    auto* const word = static_cast<std::atomic<uint32_t>*>(Registered(Parameter<Pointer>(parameters, 0)));
    return [word] {
      while (word->load() == 0) device::Pause();
    };
  }
  return nullptr;
}

}  // namespace
}  // namespace shoal::simulated_cuda

using namespace shoal::simulated_cuda;  // NOLINT: the functions below are of the driver's interface

extern "C" {

void simulated_cuda_fail(uint32_t device) { failed[device] = true; }

void simulated_cuda_refuse_next(const char* function) {
  const shoal::MutexLock lock(driver_mutex);
  ++refusals[function];
}

void simulated_cuda_hold(int hold) {
  const shoal::MutexLock lock(driver_mutex);
  driver_is_held = hold != 0;
  driver_changed.notify_all();
}

Result simulated_cuda_run(void* stream, void (*kernel)(void* user_data), void* user_data) {
  Stream* const found = Find(stream);
  if (const Result state = StateOf(found, "simulated_cuda_run"); state != kSuccess) return state;
  PutUnlessFailed(found, [=] { kernel(user_data); });
  return kSuccess;
}

void* simulated_cuda_in_kernels(uint64_t address) { return OnDevice(address); }

uint64_t simulated_cuda_registered_bytes() { return RegisteredBytes(); }
uint64_t simulated_cuda_copy_kernels() { return copy_kernels; }

uint64_t simulated_cuda_objects_made() { return objects_made; }

Result cuInit(unsigned int /*flags*/) { return kSuccess; }

Result cuGetErrorString(Result error, const char** text) {
  static const std::map<Result, const char*> kTexts = {{kSuccess, "no error"},
                                                       {kInvalidValue, "invalid argument"},
                                                       {kOutOfMemory, "out of memory"},
                                                       {kInvalidDevice, "invalid device ordinal"},
                                                       {kInvalidContext, "invalid device context"},
                                                       {kInvalidHandle, "invalid resource handle"},
                                                       {kDeviceFailed, "unspecified launch failure"}};
  const auto found = kTexts.find(error);
  if (found == kTexts.end()) return kInvalidValue;
  *text = found->second;
  return kSuccess;
}

Result cuDeviceGetCount(int* count) {
  *count = kDevices;
  return kSuccess;
}

Result cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= static_cast<int>(kDevices)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

Result cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = ContextOf(static_cast<uint32_t>(device));
  return kSuccess;
}

Result cuCtxPushCurrent_v2(void* context) {
  CurrentContexts().push_back(static_cast<Context*>(context));
  return kSuccess;
}

Result cuCtxPopCurrent_v2(void** context) {
  if (Current() == nullptr) return kInvalidContext;
  *context = Current();
  CurrentContexts().pop_back();
  return kSuccess;
}

Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return kSuccess;
}

Result cuStreamCreateWithPriority(void** stream, unsigned int /*flags*/, int /*priority*/) {
  if (Current() == nullptr) return kInvalidContext;
  *stream = new Stream(Current()->device);
  ++objects_made;
  return kSuccess;
}

Result cuStreamSynchronize(void* stream) {
  Stream* const found = Find(stream);
  if (found == nullptr) return kInvalidContext;
  found->Synchronize();
  return StateOf(found, "cuStreamSynchronize");
}

Result cuStreamIsCapturing(void* stream, int* status) {
  Stream* const found = Find(stream);
  if (found == nullptr) return kInvalidContext;
  if (const Result entered = EnterDriver("cuStreamIsCapturing"); entered != kSuccess) return entered;
  *status = found->is_capturing() ? 1 : 0;
  return kSuccess;
}

// A capture that records nothing: enough to see who would put work into it.
Result cuStreamBeginCapture_v2(void* stream, int /*mode*/) {
  Find(stream)->is_capturing() = true;
  return kSuccess;
}

Result cuStreamEndCapture(void* stream, void** graph) {
  Find(stream)->is_capturing() = false;
  *graph = nullptr;
  return kSuccess;
}

Result cuEventCreate(void** event, unsigned int /*flags*/) {
  if (Current() == nullptr) return kInvalidContext;
  *event = new Event(Current()->device);
  ++objects_made;
  return kSuccess;
}

Result cuEventRecord(void* event, void* stream) {
  Stream* const found = Find(stream);
  if (const Result state = StateOf(found, "cuEventRecord"); state != kSuccess) return state;
  if (static_cast<Event*>(event)->device() != found->device()) return kInvalidHandle;
  found->Put([record = static_cast<Event*>(event)->Record()] { record->Reach(); });
  return kSuccess;
}

Result cuStreamWaitEvent(void* stream, void* event, unsigned int /*flags*/) {
  Stream* const found = Find(stream);
  if (const Result state = StateOf(found, "cuStreamWaitEvent"); state != kSuccess) return state;
  found->Put([record = static_cast<Event*>(event)->newest_record()] {
    if (record != nullptr) record->Wait();
  });
  return kSuccess;
}

Result cuEventQuery(void* event) {
  const std::shared_ptr<EventRecord> record = static_cast<Event*>(event)->newest_record();
  return record == nullptr || record->is_reached() ? kSuccess : kNotReady;
}

Result cuEventSynchronize(void* event) {
  auto* const found = static_cast<Event*>(event);
  const std::shared_ptr<EventRecord> record = found->newest_record();
  // Keeps a core busy, as the real one does of events that were not made for waits that sleep.
  while (record != nullptr && !record->is_reached() && !failed[found->device()]) std::this_thread::yield();
  return failed[found->device()] ? kDeviceFailed : kSuccess;
}

Result cuStreamAddCallback(void* stream, void (*callback)(void*, Result, void*), void* user_data,
                           unsigned int /*flags*/) {
  Stream* const found = Find(stream);
  if (const Result state = StateOf(found, "cuStreamAddCallback"); state != kSuccess) return state;
  found->Put([=] { callback(stream, failed[found->device()] ? kDeviceFailed : kSuccess, user_data); });
  return kSuccess;
}

Result cuMemHostRegister_v2(void* start, size_t bytes, unsigned int /*flags*/) {
  if (Current() == nullptr) return kInvalidContext;
  if (const Result entered = EnterDriver("cuMemHostRegister"); entered != kSuccess) return entered;
  return Register(start, bytes) ? kSuccess : kAlreadyRegistered;
}

Result cuMemHostAlloc(void** start, size_t bytes, unsigned int flags) {
  *start = std::calloc(1, bytes);
  return *start == nullptr ? kOutOfMemory : cuMemHostRegister_v2(*start, bytes, flags);
}

Result cuMemHostUnregister(void* start) { return Unregister(start) ? kSuccess : kNotRegistered; }

Result cuMemAlloc_v2(Pointer* address, size_t bytes) {
  void* const allocated = AllocateOnDevice(bytes);
  *address = reinterpret_cast<Pointer>(allocated);
  return allocated == nullptr ? kOutOfMemory : kSuccess;
}

Result cuMemFree_v2(Pointer address) {
  if (Current() == nullptr) return kInvalidContext;
  Stream::SynchronizeAll(Current()->device);  // as the real one does
  FreeOnDevice(reinterpret_cast<void*>(address));
  return kSuccess;
}

// From and to memory that is not registered, the calls return when the copy is done, as on a device.
Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, void* stream) {
  Stream* const found = Find(stream);
  if (const Result state = StateOf(found, "cuMemcpyHtoDAsync"); state != kSuccess) return state;
  PutUnlessFailed(found, [=] { std::memcpy(OnDevice(to), from, bytes); });
  found->Synchronize();
  return StateOf(found, "cuMemcpyHtoDAsync");
}

Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, void* stream) {
  Stream* const found = Find(stream);
  if (const Result state = StateOf(found, "cuMemcpyDtoHAsync"); state != kSuccess) return state;
  PutUnlessFailed(found, [=] { std::memcpy(to, OnDevice(from), bytes); });
  found->Synchronize();
  return StateOf(found, "cuMemcpyDtoHAsync");
}

Result cuModuleLoadData(void** module, const void* image) {
  if (Current() == nullptr) return kInvalidContext;
  if (std::strstr(static_cast<const char*>(image), ".version") == nullptr) return kInvalidValue;
  Stream::SynchronizeAll(Current()->device);  // as the real one does
  *module = const_cast<void*>(image);
  return kSuccess;
}

Result cuModuleGetFunction(void** function, void* module, const char* name) {
  if (std::strstr(static_cast<const char*>(module), name) == nullptr) return kInvalidValue;
  // As long as the process has the module; it has each once.
  static shoal::Mutex mutex;
  static auto* const kernels = new std::map<std::string, Kernel>();
  const shoal::MutexLock lock(mutex);
  *function = &kernels->try_emplace(name, Kernel{name}).first->second;
  return kSuccess;
}

Result cuLaunchKernel(void* function, unsigned int grid_x, unsigned int /*grid_y*/, unsigned int /*grid_z*/,
                      unsigned int /*block_x*/, unsigned int /*block_y*/, unsigned int /*block_z*/,
                      unsigned int /*shared_bytes*/, void* stream, void** parameters, void** /*extra*/) {
  Stream* const found = Find(stream);
  if (const Result state = StateOf(found, "cuLaunchKernel"); state != kSuccess) return state;
  if (grid_x == 0) return kInvalidValue;
  Stream::Work work = WorkOf(*static_cast<Kernel*>(function), parameters);
  if (work == nullptr) return kInvalidValue;
  PutUnlessFailed(found, std::move(work));
  return kSuccess;
}
}
