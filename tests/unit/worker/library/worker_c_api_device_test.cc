// Tensors on devices, through the C ABI: a scheduler, servers and ranks in this process, and the simulated driver of
// tests/simulated_cuda, whose streams run late, or a real one (docs/gpu_checks.md).
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulated_cuda/program_on_device.h"
#include "tests/unit/worker/library/test_device.h"
#include "tests/unit/worker/library/worker_cluster.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kRanks = 2;

// What the driver is asked must not wait for the network or for a kernel.
constexpr auto kPrompt = std::chrono::milliseconds(200);

class DeviceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("SHOAL_CUDA_LIBRARY", CudaLibraryForTests(SHOAL_SIMULATED_CUDA).c_str(), 1);
    // The ranks share a real device and a process, and streams that share a hardware queue wait for each other's
    // kernels.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  }

  Cluster cluster_{2, SHOAL_NODE_REDUCE_OFF, SHOAL_DEVICES_CUDA};
};

TEST_F(DeviceTest, TheNextKernelSeesTheSumAndTheHostWaitsForNothing) {
  RunRanks(cluster_, "next-kernel", kRanks, [](TestRank& rank) {
    Device device(&rank);
    std::atomic<uint32_t>* const go = device.program().MakeWord();
    for (const uint64_t count : {uint64_t{1}, uint64_t{1000}, uint64_t{300'001}}) {
      std::byte* const tensor = device.program().Allocate(4 * count);
      *go = 0;
      device.program().WaitFor(device.stream(), go);  // the contribution takes its time
      FillOwn(&device, rank.rank(), tensor, count);
      const auto called = Clock::now();
      shoal_op* const op = device.Start(tensor, count);
      device.WaitOnStream(op);
      device.program().Scale(device.stream(), tensor, count, 2);
      EXPECT_LT(Clock::now() - called, kPrompt) << "the host has waited";
      EXPECT_EQ(shoal_op_done(op), 0);
      *go = 1;
      EXPECT_EQ(device.program().Read(device.stream(), tensor, count), Summed(count, kRanks, 2));
      EXPECT_EQ(TestRank::Finish(op).code, SHOAL_OK);
      // The tensor stays: to free it waits for all kernels of the process, those of the other rank too.
    }
  });
}

TEST_F(DeviceTest, ManyOpsAreUnderWayAndTheirHostMemoryStaysTheSame) {
  RunRanks(cluster_, "many-ops", kRanks, [](TestRank& rank) {
    Device device(&rank);
    constexpr int kOps = 60;
    std::vector<std::byte*> tensors;
    std::vector<shoal_op*> ops;
    uint64_t registered = 0;
    const bool is_simulated = device.program().is_simulated();
    for (int i = 0; i < kOps; ++i) {
      const uint64_t count = 1 + 4000 * static_cast<uint64_t>(i % 7);
      tensors.push_back(device.program().Allocate(4 * count));
      FillOwn(&device, rank.rank(), tensors.back(), count);
      ops.push_back(device.Start(tensors.back(), count));
      if (i == 0 && is_simulated) registered = device.program().RegisteredBytes();
      if (i % 3 == 0) device.WaitOnStream(ops.back());  // as a program would that needs some of them soon
    }
    for (int i = 0; i < kOps; ++i) {
      device.WaitOnStream(ops[i]);
      const uint64_t count = 1 + 4000 * static_cast<uint64_t>(i % 7);
      EXPECT_EQ(device.program().Read(device.stream(), tensors[i], count), Summed(count, kRanks)) << i;
      const Outcome outcome = TestRank::Finish(ops[i]);
      EXPECT_EQ(outcome.code, SHOAL_OK) << outcome.message;
    }
    // (The other rank registers its own region at its first op.)
    if (is_simulated) {
      EXPECT_LE(device.program().RegisteredBytes(), 2 * registered);
    }
  });
}

TEST_F(DeviceTest, TensorsInHostMemoryAndOnTheDeviceTakeTurns) {
  RunRanks(cluster_, "take-turns", kRanks, [](TestRank& rank) {
    Device device(&rank);
    std::byte* const tensor = device.program().Allocate(4 * 5000);
    for (int round = 0; round < 5; ++round) {
      FillOwn(&device, rank.rank(), tensor, 5000);
      shoal_op* const first = device.Start(tensor, 5000);
      std::vector<float> data(700, 1);
      EXPECT_EQ(rank.AllReduce(&data, kDeviceTimeoutMs).code, SHOAL_OK);
      EXPECT_EQ(data, std::vector<float>(700, 2));
      device.WaitOnStream(first);
      EXPECT_EQ(device.program().Read(device.stream(), tensor, 5000), Summed(5000, kRanks));
      EXPECT_EQ(TestRank::Finish(first).code, SHOAL_OK);
    }
  });
}

// The order between groups is each rank's own.
TEST_F(DeviceTest, GroupsThatAreCalledInAnotherOrderDoNotDeadlock) {
  RunRanks(cluster_, "two-orders", kRanks, [](TestRank& rank) {
    Device device(&rank);
    shoal_group* const second = rank.MakeGroup({.name = "second", .node_reduce = SHOAL_NODE_REDUCE_OFF});
    ASSERT_NE(second, nullptr);
    constexpr uint64_t kCount = 20'000;
    std::vector<std::byte*> tensors;
    for (int i = 0; i < 6; ++i) tensors.push_back(device.program().Allocate(4 * kCount));
    for (int round = 0; round < 10; ++round) {
      std::vector<shoal_op*> ops;
      for (int i = 0; i < 6; ++i) {
        FillOwn(&device, rank.rank(), tensors[i], kCount);
        shoal_group* const group = (i % 2 == 0) == (rank.rank() == 0) ? rank.group() : second;
        ops.push_back(device.Start(tensors[i], kCount, kDeviceTimeoutMs, group));
      }
      for (int i = 0; i < 6; ++i) {
        device.WaitOnStream(ops[i]);
        EXPECT_EQ(device.program().Read(device.stream(), tensors[i], kCount), Summed(kCount, kRanks));
        EXPECT_EQ(TestRank::Finish(ops[i]).code, SHOAL_OK);
      }
    }
    shoal_group_close(second);
  });
}

TEST_F(DeviceTest, A16BitWireIsRoundedOnTheDevice) {
  RunRanks(cluster_, "bf16", kRanks, [](TestRank& rank) {
    Device device(&rank);
    shoal_group* const group =
        rank.MakeGroup({.name = "bf16", .wire = SHOAL_WIRE_BFLOAT16, .node_reduce = SHOAL_NODE_REDUCE_OFF});
    ASSERT_NE(group, nullptr);
    constexpr uint64_t kCount = 70'000;
    std::vector<float> data(kCount);
    for (uint64_t i = 0; i < kCount; ++i)
      data[i] = 0.001f * static_cast<float>(i) * static_cast<float>(rank.rank() + 1);
    std::byte* const tensor = device.program().Allocate(4 * kCount);
    device.program().Write(device.stream(), tensor, data.data(), 4 * kCount);
    shoal_op* const on_device = device.Start(tensor, kCount, kDeviceTimeoutMs, group);
    device.WaitOnStream(on_device);
    const std::vector<float> summed = device.program().Read(device.stream(), tensor, kCount);
    EXPECT_EQ(TestRank::Finish(on_device).code, SHOAL_OK);
    // The same bits as from host memory.
    EXPECT_EQ(TestRank::Finish(TestRank::StartIn(group, SHOAL_SUM, &data, kDeviceTimeoutMs)).code, SHOAL_OK);
    EXPECT_EQ(summed, data);
    shoal_group_close(group);
  });
}

TEST_F(DeviceTest, AServerThatStopsInTheMiddleCostsNoBit) {
  std::atomic<int> steps = 0;
  std::thread stopper([&] {
    while (steps < 6) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    cluster_.StopServer(1);
  });
  RunRanks(cluster_, "server-stops", kRanks, [&steps](TestRank& rank) {
    Device device(&rank);
    constexpr uint64_t kCount = 150'000;
    std::byte* const tensor = device.program().Allocate(4 * kCount);
    for (int step = 0; step < 30; ++step) {
      FillOwn(&device, rank.rank(), tensor, kCount);
      shoal_op* const op = device.Start(tensor, kCount);
      ++steps;
      device.WaitOnStream(op);
      ASSERT_EQ(device.program().Read(device.stream(), tensor, kCount), Summed(kCount, kRanks)) << step;
      const Outcome outcome = TestRank::Finish(op);
      ASSERT_EQ(outcome.code, SHOAL_OK) << outcome.message;
    }
  });
  stopper.join();
}

TEST_F(DeviceTest, AKernelThatNeverEndsFailsTheOpAtItsDeadlineAndTheWorkerCloses) {
  std::atomic<std::atomic<uint32_t>*> end_it = nullptr;
  RunRanks(cluster_, "never-ends", kRanks, [&end_it](TestRank& rank) {
    Device device(&rank);
    std::byte* const tensor = device.program().Allocate(4000);
    if (rank.rank() == 0) {
      end_it = device.program().MakeWord();
      device.program().WaitFor(device.stream(), end_it);
    }
    FillOwn(&device, rank.rank(), tensor, 1000);
    shoal_op* const op = device.Start(tensor, 1000, /*timeout_ms=*/rank.rank() == 0 ? 2000 : kDeviceTimeoutMs);
    device.WaitOnStream(op);
    const Outcome outcome = TestRank::Finish(op);
    if (rank.rank() == 0) {
      EXPECT_EQ(outcome.code, SHOAL_DEADLINE_EXCEEDED);
      EXPECT_THAT(outcome.message, HasSubstr("this rank's tensor is not ready"));
    } else {
      EXPECT_EQ(outcome.code, SHOAL_ABORTED);
      EXPECT_THAT(outcome.message, HasSubstr("rank 0"));
    }
    const auto closing = Clock::now();
    rank.Close();
    EXPECT_LT(Clock::now() - closing, std::chrono::seconds(5));
  });
  *end_it.load() = 1;
}

TEST_F(DeviceTest, AFailedOpLeavesNoNumberThatLooksLikeASum) {
  RunRanks(cluster_, "poison", kRanks, [](TestRank& rank) {
    Device device(&rank);
    std::byte* const tensor = device.program().Allocate(4 * 1000);
    FillOwn(&device, rank.rank(), tensor, 1000);
    if (rank.rank() == 1) {
      shoal_group_abort(rank.group(), "enough");
      shoal_op* op = nullptr;
      shoal_error error = {};
      EXPECT_EQ(device.Start(tensor, 1000, &op, &error, device.stream()), SHOAL_CANCELLED);
      return;
    }
    shoal_op* op = nullptr;
    shoal_error error = {};
    const shoal_code started = device.Start(tensor, 1000, &op, &error, device.stream());
    if (started != SHOAL_OK) return;  // it has heard of the other's end already
    device.WaitOnStream(op);
    for (const float number : device.program().Read(device.stream(), tensor, 1000)) ASSERT_TRUE(std::isnan(number));
    EXPECT_EQ(TestRank::Finish(op).code, SHOAL_ABORTED);
  });
}

TEST_F(DeviceTest, AFailureIsToldBeforeTheStreamGoesOn) {
  for (int round = 0; round < 20; ++round) {
    RunRanks(cluster_, "told-first", kRanks, [](TestRank& rank) {
      Device device(&rank);
      std::byte* const tensor = device.program().Allocate(4 * 1000);
      FillOwn(&device, rank.rank(), tensor, 1000);
      if (rank.rank() == 1) return;
      shoal_op* op = nullptr;
      shoal_error error = {};
      if (device.Start(tensor, 1000, &op, &error, device.stream()) != SHOAL_OK) return;  // it has heard of the end
      device.WaitOnStream(op);
      device.program().Read(device.stream(), tensor, 1000);  // synchronizes
      EXPECT_EQ(shoal_group_failure(rank.group(), &error), SHOAL_ABORTED);
      TestRank::Finish(op);
    });
  }
}

TEST_F(DeviceTest, WhatCanNotBeDoneIsRefusedBeforeAnythingIsSent) {
  RunRanks(cluster_, "refused", kRanks, [](TestRank& rank) {
    Device device(&rank);
    EXPECT_NE(shoal_group_takes_devices(rank.group()), 0);
    std::byte* const tensor = device.program().Allocate(4 * 100);
    shoal_op* op = nullptr;
    shoal_error error = {};
    void* const captured = device.program().MakeStream();
    device.program().BeginCapture(captured);
    EXPECT_EQ(device.Start(tensor, 100, &op, &error, captured), SHOAL_FAILED_PRECONDITION);
    EXPECT_THAT(error.message, HasSubstr("captured into a graph"));
    device.program().EndCapture(captured);
    shoal_all_reduce_options options = {.dtype = SHOAL_FLOAT32, .op = SHOAL_SUM, .on_device = 1, .device = 99};
    EXPECT_EQ(shoal_all_reduce(rank.group(), tensor, 100, &options, &op, &error), SHOAL_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("there is no CUDA device 99: this process sees"));
    // The group is none the worse for it.
    std::vector<float> data(10, 1);
    EXPECT_EQ(rank.AllReduce(&data, kDeviceTimeoutMs).code, SHOAL_OK);
    shoal_op* const in_memory = rank.Start(&data, kDeviceTimeoutMs);
    EXPECT_EQ(shoal_op_wait_on_stream(in_memory, nullptr, &error), SHOAL_INVALID_ARGUMENT);
    EXPECT_EQ(TestRank::Finish(in_memory).code, SHOAL_OK);
  });
}

TEST_F(DeviceTest, ARankWhoseHostMemoryCanNotBeLockedFailsTheGroupOnAllRanks) {
  if (std::getenv("SHOAL_TEST_CUDA_LIBRARY") != nullptr) GTEST_SKIP() << "a real driver is not told to refuse";
  cluster_.SetDeviceMemory(33 << 20);
  RunRanks(cluster_, "not-locked", kRanks, [](TestRank& rank) {
    if (rank.rank() == 1) {
      Device device(&rank);  // locks its own memory, and waits for the other rank
      std::byte* const tensor = device.program().Allocate(4000);
      shoal_op* op = nullptr;
      shoal_error error = {};
      const shoal_code started = device.Start(tensor, 1000, &op, &error, device.stream());
      Outcome outcome = {.code = started, .message = error.message};
      if (started == SHOAL_OK) outcome = TestRank::Finish(op);
      EXPECT_EQ(outcome.code, SHOAL_ABORTED) << outcome.message;
      EXPECT_THAT(outcome.message, AllOf(HasSubstr("rank 0"), HasSubstr("cuMemHostRegister")));
      return;
    }
    rank.AwaitAll();  // the other one has locked its memory
    ProgramOnDevice program(CudaLibraryForTests(SHOAL_SIMULATED_CUDA), rank.rank());
    std::byte* const tensor = program.Allocate(4000);
    shoal_all_reduce_options options = {.dtype = SHOAL_FLOAT32,
                                        .op = SHOAL_SUM,
                                        .on_device = 1,
                                        .device = program.device(),
                                        .stream = program.MakeStream()};
    shoal_op* op = nullptr;
    shoal_error error = {};
    program.RefuseNext("cuMemHostRegister");
    EXPECT_EQ(shoal_all_reduce(rank.group(), tensor, 1000, &options, &op, &error), SHOAL_RESOURCE_EXHAUSTED);
    EXPECT_THAT(error.message, AllOf(HasSubstr("cuMemHostRegister"), HasSubstr("set device_memory_bytes to less")));
    // Not the other rank's first, now that it could begin.
    EXPECT_EQ(shoal_all_reduce(rank.group(), tensor, 1000, &options, &op, &error), SHOAL_CANCELLED);
    EXPECT_THAT(error.message, HasSubstr("cuMemHostRegister"));
  });
}

TEST_F(DeviceTest, AGroupWithAWireOf8BitsTakesHostMemoryOnly) {
  RunRanks(cluster_, "fp8", kRanks, [](TestRank& rank) {
    Device device(&rank);
    shoal_group* const group =
        rank.MakeGroup({.name = "fp8", .wire = SHOAL_WIRE_FLOAT8, .node_reduce = SHOAL_NODE_REDUCE_OFF});
    EXPECT_EQ(shoal_group_takes_devices(group), 0);
    shoal_op* op = nullptr;
    shoal_error error = {};
    std::byte* const tensor = device.program().Allocate(400);
    EXPECT_EQ(device.Start(tensor, 100, &op, &error, device.stream(), kDeviceTimeoutMs, group), SHOAL_UNIMPLEMENTED);
    EXPECT_THAT(error.message, HasSubstr("\"fp8\" has wire fp8, which is for tensors in host memory"));
    std::vector<float> in_host_memory(100, 1.0f);
    op = TestRank::StartIn(group, SHOAL_SUM, &in_host_memory, kDeviceTimeoutMs);
    EXPECT_EQ(TestRank::Finish(op).code, SHOAL_OK);
    EXPECT_EQ(in_host_memory, std::vector<float>(100, static_cast<float>(kRanks)));
    shoal_group_close(group);
  });
}

TEST(DeviceWithoutServersTest, AGroupWithinANodeSaysThatItTakesHostMemoryOnly) {
  setenv("SHOAL_CUDA_LIBRARY", CudaLibraryForTests(SHOAL_SIMULATED_CUDA).c_str(), 1);
  const Cluster cluster(0, SHOAL_NODE_REDUCE_HOST, SHOAL_DEVICES_CUDA);
  RunRanks(cluster, "within-node", kRanks, [](TestRank& rank) {
    Device device(&rank);
    EXPECT_EQ(shoal_group_takes_devices(rank.group()), 0);
    shoal_op* op = nullptr;
    shoal_error error = {};
    EXPECT_EQ(device.Start(device.program().Allocate(400), 100, &op, &error, device.stream()), SHOAL_UNIMPLEMENTED);
    EXPECT_THAT(error.message, HasSubstr("SHOAL_NODE_REDUCE_OFF"));
  });
}

TEST_F(DeviceTest, ADeviceIsOpenedBeforeThereIsWorkOnIt) {
  RunRanks(cluster_, "opened", kRanks, [](TestRank& rank) {
    shoal_error error = {};
    EXPECT_EQ(shoal_worker_open_device(rank.worker(), 99, &error), SHOAL_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("there is no CUDA device 99"));
    EXPECT_EQ(shoal_worker_open_device(nullptr, 0, &error), SHOAL_INVALID_ARGUMENT);
    Device device(&rank);  // opens it, and the driver lets that wait for all that runs there
    EXPECT_EQ(shoal_worker_open_device(rank.worker(), device.program().device(), &error), SHOAL_OK) << error.message;
    std::atomic<uint32_t>* const go = device.program().MakeWord();
    std::byte* const tensor = device.program().Allocate(400);
    device.program().WaitFor(device.stream(), go);
    FillOwn(&device, rank.rank(), tensor, 100);
    const auto called = Clock::now();
    shoal_op* const op = device.Start(tensor, 100);  // the worker's first one
    EXPECT_LT(Clock::now() - called, kPrompt) << "the host has waited";
    *go = 1;
    EXPECT_EQ(TestRank::Finish(op).code, SHOAL_OK);
  });
}

TEST(DeviceWithoutDevicesTest, AFlatGroupSaysThatItTakesHostMemoryOnly) {
  const Cluster cluster(2, SHOAL_NODE_REDUCE_OFF, SHOAL_DEVICES_NONE);
  RunRanks(cluster, "no-devices", kRanks, [](TestRank& rank) {
    EXPECT_EQ(shoal_group_takes_devices(rank.group()), 0);
    Device device(&rank);
    shoal_op* op = nullptr;
    shoal_error error = {};
    EXPECT_EQ(device.Start(device.program().Allocate(400), 100, &op, &error, device.stream()),
              SHOAL_FAILED_PRECONDITION);
    EXPECT_THAT(error.message, HasSubstr("shoal_worker_options.devices"));
    EXPECT_EQ(shoal_worker_open_device(rank.worker(), 0, &error), SHOAL_FAILED_PRECONDITION);
  });
}

// The guard looks at tensors in host memory alone.
TEST_F(DeviceTest, TheGuardLooksAtHostMemoryAlone) {
  setenv("SHOAL_CUDA_LIBRARY", CudaLibraryForTests(SHOAL_SIMULATED_CUDA).c_str(), 1);
  Cluster cluster(2, SHOAL_NODE_REDUCE_OFF, SHOAL_DEVICES_CUDA);
  cluster.CheckFinite();
  RunRanks(cluster, "guarded", kRanks, [](TestRank& rank) {
    Device device(&rank);
    std::byte* const tensor = device.program().Allocate(4 * 100);
    FillOwn(&device, rank.rank(), tensor, 100);
    EXPECT_EQ(TestRank::Finish(device.Start(tensor, 100)).code, SHOAL_OK);
    rank.AwaitAll();  // the abort that follows ends ops that another rank is not done with
    std::vector<float> data(10, NAN);
    Outcome outcome;
    if (shoal_op* const op = rank.Start(&data, 10'000, &outcome)) outcome = TestRank::Finish(op);
    EXPECT_THAT(outcome.message, HasSubstr("has NaN at element 0"));
  });
}

TEST(DeviceWithoutDriverTest, AWorkerSaysThatThereIsNoDriver) {
  setenv("SHOAL_CUDA_LIBRARY", "libno-such-driver.so.1", 1);
  const Cluster cluster(1, SHOAL_NODE_REDUCE_OFF, SHOAL_DEVICES_CUDA);
  const shoal_worker_options options = WorkerOptions(cluster, "no-driver", 0, 1);
  shoal_worker* worker = nullptr;
  shoal_error error = {};
  EXPECT_EQ(shoal_worker_connect(&options, &worker, &error), SHOAL_NOT_FOUND);
  EXPECT_THAT(error.message, HasSubstr("libno-such-driver.so.1"));
}

// Last: the device stays as it is.
TEST_F(DeviceTest, ZADeviceThatFailsEndsTheOpOnAllRanks) {
  RunRanks(cluster_, "device-fails", kRanks, [](TestRank& rank) {
    Device device(&rank);
    if (!device.program().is_simulated()) GTEST_SKIP() << "a real device is not broken for a test";
    std::byte* const tensor = device.program().Allocate(4 * 1000);
    FillOwn(&device, rank.rank(), tensor, 1000);
    if (rank.rank() == 1) device.program().Fail(1);
    shoal_op* op = nullptr;
    shoal_error error = {};
    const shoal_code started = device.Start(tensor, 1000, &op, &error, device.stream(), 10'000);
    if (rank.rank() == 1) {
      EXPECT_EQ(started, SHOAL_INTERNAL);
      EXPECT_THAT(error.message, HasSubstr("unspecified launch failure"));
      return;
    }
    Outcome outcome = {.code = started, .message = error.message};
    if (started == SHOAL_OK) outcome = TestRank::Finish(op);
    EXPECT_EQ(outcome.code, SHOAL_ABORTED) << outcome.message;
    EXPECT_THAT(outcome.message, AllOf(HasSubstr("rank 1"), HasSubstr("unspecified launch failure")));
  });
}

}  // namespace
}  // namespace shoal
