// A rank of a test with tensors on a device: on the simulated driver of tests/simulated_cuda, whose streams run late,
// or a real one (docs/gpu_checks.md).
#ifndef SHOAL_TESTS_UNIT_WORKER_LIBRARY_TEST_DEVICE_H_
#define SHOAL_TESTS_UNIT_WORKER_LIBRARY_TEST_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/simulated_cuda/program_on_device.h"
#include "tests/unit/worker/library/worker_cluster.h"

namespace shoal {

inline constexpr uint64_t kDeviceTimeoutMs = 60'000;

// A rank's tensors and streams, on the device that its number gives.
class Device {
 public:
  explicit Device(TestRank* rank) : rank_(*rank), program_(CudaLibraryForTests(SHOAL_SIMULATED_CUDA), rank->rank()) {
    if (shoal_group_takes_devices(rank->group()) != 0) Open();
  }

  ProgramOnDevice& program() { return program_; }
  void* stream() { return stream_; }

  // Of a sum of floats on this device, on this stream.
  shoal_all_reduce_options Options() const {
    shoal_all_reduce_options options = {.dtype = SHOAL_FLOAT32,
                                        .op = SHOAL_SUM,
                                        .timeout_ms = kDeviceTimeoutMs,
                                        .on_device = 1,
                                        .device = program_.device(),
                                        .stream = stream_};
    return options;
  }
  shoal_code Start(std::byte* tensor, uint64_t count, shoal_op** op, shoal_error* error, void* stream,
                   uint64_t timeout_ms = kDeviceTimeoutMs, shoal_group* group = nullptr) {
    shoal_all_reduce_options options = Options();
    options.timeout_ms = timeout_ms;
    options.stream = stream;
    return shoal_all_reduce(group == nullptr ? rank_.group() : group, tensor, count, &options, op, error);
  }
  shoal_op* Start(std::byte* tensor, uint64_t count, uint64_t timeout_ms = kDeviceTimeoutMs,
                  shoal_group* group = nullptr) {
    shoal_op* op = nullptr;
    shoal_error error = {};
    EXPECT_EQ(Start(tensor, count, &op, &error, stream_, timeout_ms, group), SHOAL_OK) << error.message;
    return op;
  }
  void WaitOnStream(shoal_op* op) {
    shoal_error error = {};
    EXPECT_EQ(shoal_op_wait_on_stream(op, stream_, &error), SHOAL_OK) << error.message;
  }

 private:
  // On all ranks before there is a kernel that waits for another rank: the driver lets the loading of kernels, those of
  // the program too, wait for all that runs on the device, and ranks may share it.
  void Open() {
    shoal_error error = {};
    EXPECT_EQ(shoal_worker_open_device(rank_.worker(), program_.device(), &error), SHOAL_OK) << error.message;
    rank_.AwaitAll();
  }

  TestRank& rank_;
  ProgramOnDevice program_;
  void* const stream_ = program_.MakeStream();
};

// What Fill and an all-reduce over ranks that filled with rank + 1 give.
inline std::vector<float> Summed(uint64_t count, uint32_t ranks, float factor = 1) {
  std::vector<float> sum(count);
  for (uint64_t i = 0; i < count; ++i) {
    for (uint32_t rank = 0; rank < ranks; ++rank) sum[i] += static_cast<float>(rank + 1) + static_cast<float>(i % 251);
    sum[i] *= factor;
  }
  return sum;
}

inline void FillOwn(Device* device, uint32_t rank, std::byte* tensor, uint64_t count) {
  device->program().Fill(device->stream(), tensor, count, static_cast<float>(rank + 1));
}

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_WORKER_LIBRARY_TEST_DEVICE_H_
