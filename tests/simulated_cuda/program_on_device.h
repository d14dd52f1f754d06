// A program that has tensors on a device, for tests: it calls the driver itself, as a program with kernels of its own
// does. Also on real devices (docs/gpu_checks.md): SHOAL_TEST_CUDA_LIBRARY=libcuda.so.1.
//
// Threads: any, each object one at a time.
#ifndef SHOAL_TESTS_SIMULATED_CUDA_PROGRAM_ON_DEVICE_H_
#define SHOAL_TESTS_SIMULATED_CUDA_PROGRAM_ON_DEVICE_H_

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulated_cuda/program_kernels_ptx.h"

namespace shoal {

// The driver that tests use: the simulated one, unless a person wants another.
inline std::string CudaLibraryForTests(const std::string& simulated) {
  const char* const wanted = std::getenv("SHOAL_TEST_CUDA_LIBRARY");
  return wanted == nullptr ? simulated : wanted;
}

// Its functions throw if the driver refuses.
class ProgramOnDevice {
 public:
  using Pointer = unsigned long long;

  // On the device of that number, or a smaller one where there are not so many.
  explicit ProgramOnDevice(const std::string& library, uint32_t device = 0)
      : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    Call<unsigned int>("cuInit", 0u);
    int devices = 0;
    Call<int*>("cuDeviceGetCount", &devices);
    device_ = device % static_cast<uint32_t>(devices);
    Call<void**, int>("cuDevicePrimaryCtxRetain", &context_, static_cast<int>(device_));
    Enter();
    void* module = nullptr;
    Call<void**, const void*>("cuModuleLoadData", &module, kProgramKernelsPtx);
    for (auto [function, name] : {std::pair{&fill_, "test_fill"}, {&scale_, "test_scale"}, {&wait_, "test_wait"}}) {
      Call<void**, void*, const char*>("cuModuleGetFunction", function, module, name);
    }
  }

  uint32_t device() const { return device_; }
  // A driver that a person names counts as a real one, whatever it is.
  bool is_simulated() const { return std::getenv("SHOAL_TEST_CUDA_LIBRARY") == nullptr; }

  // The device is this thread's. Once for each thread.
  void Enter() { Call<void*>("cuCtxPushCurrent_v2", context_); }

  void* MakeStream() {
    void* stream = nullptr;
    Call<void**, unsigned int, int>("cuStreamCreateWithPriority", &stream, 1u, 0);
    return stream;
  }
  std::byte* Allocate(uint64_t bytes) {
    Pointer address = 0;
    Call<Pointer*, size_t>("cuMemAlloc_v2", &address, bytes);
    return reinterpret_cast<std::byte*>(address);
  }
  void Free(std::byte* tensor) { Call<Pointer>("cuMemFree_v2", AddressOf(tensor)); }

  // Kernels. Element i becomes value + i % 251; each is multiplied; the stream waits until the word is not 0.
  void Fill(void* stream, std::byte* tensor, uint64_t count, float value) {
    Launch(fill_, stream, tensor, count, value);
  }
  void Scale(void* stream, std::byte* tensor, uint64_t count, float factor) {
    Launch(scale_, stream, tensor, count, factor);
  }
  void WaitFor(void* stream, std::atomic<uint32_t>* word) {
    void* parameters[] = {&word};
    LaunchKernel(wait_, stream, parameters, /*blocks=*/1);
  }
  // A word for it, which is 0 and never freed.
  std::atomic<uint32_t>* MakeWord() {
    void* memory = nullptr;
    Call<void**, size_t, unsigned int>("cuMemHostAlloc", &memory, sizeof(std::atomic<uint32_t>), 3u);
    return new (memory) std::atomic<uint32_t>(0);
  }

  // What the tensor holds once all in the stream is done.
  std::vector<float> Read(void* stream, const std::byte* tensor, uint64_t count) {
    std::vector<float> numbers(count);
    Call<void*, Pointer, size_t, void*>("cuMemcpyDtoHAsync_v2", numbers.data(), AddressOf(tensor), 4 * count, stream);
    return numbers;
  }
  void Write(void* stream, std::byte* tensor, const void* from, uint64_t bytes) {
    Call<Pointer, const void*, size_t, void*>("cuMemcpyHtoDAsync_v2", AddressOf(tensor), from, bytes, stream);
  }
  void Synchronize(void* stream) { Call<void*>("cuStreamSynchronize", stream); }
  // Other threads may do meanwhile what they like.
  void BeginCapture(void* stream) { Call<void*, int>("cuStreamBeginCapture_v2", stream, /*relaxed*/ 2); }
  void EndCapture(void* stream) {
    void* graph = nullptr;
    Call<void*, void**>("cuStreamEndCapture", stream, &graph);
  }

  // Of simulated_cuda.h.
  void RefuseNext(const char* function) { Simulated<void, const char*>("simulated_cuda_refuse_next", function); }
  void HoldDriver(bool hold) { Simulated<void, int>("simulated_cuda_hold", hold ? 1 : 0); }
  void Fail(uint32_t device) { Simulated<void, uint32_t>("simulated_cuda_fail", device); }
  uint64_t RegisteredBytes() { return Simulated<uint64_t>("simulated_cuda_registered_bytes"); }
  uint64_t ObjectsMade() { return Simulated<uint64_t>("simulated_cuda_objects_made"); }
  uint64_t CopyKernels() { return Simulated<uint64_t>("simulated_cuda_copy_kernels"); }

 private:
  static Pointer AddressOf(const std::byte* tensor) { return reinterpret_cast<Pointer>(tensor); }

  void* Find(const char* name) {
    void* const function = dlsym(library_, name);
    if (function == nullptr) throw std::runtime_error(dlerror());
    return function;
  }
  template <typename Result, typename... Arguments>
  Result Simulated(const char* name, Arguments... arguments) {
    if (!is_simulated()) throw std::runtime_error(std::string(name) + ": a real driver has no such function");
    return reinterpret_cast<Result (*)(Arguments...)>(Find(name))(arguments...);
  }
  template <typename... Arguments>
  void Call(const char* name, Arguments... arguments) {
    const int result = reinterpret_cast<int (*)(Arguments...)>(Find(name))(arguments...);
    if (result != 0) throw std::runtime_error(std::string(name) + " gave " + std::to_string(result));
  }
  void Launch(void* kernel, void* stream, std::byte* tensor, uint64_t count, float value) {
    Pointer address = AddressOf(tensor);
    Pointer elements = count;
    void* parameters[] = {&address, &elements, &value};
    LaunchKernel(kernel, stream, parameters, /*blocks=*/16);
  }
  void LaunchKernel(void* kernel, void* stream, void** parameters, unsigned blocks) {
    Call<void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**>(
        "cuLaunchKernel", kernel, blocks, 1, 1, blocks == 1 ? 1 : 256, 1, 1, 0, stream, parameters, nullptr);
  }

  void* const library_;
  uint32_t device_ = 0;
  void* context_ = nullptr;
  void* fill_ = nullptr;
  void* scale_ = nullptr;
  void* wait_ = nullptr;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATED_CUDA_PROGRAM_ON_DEVICE_H_
