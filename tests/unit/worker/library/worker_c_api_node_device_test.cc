// Tensors on devices in groups whose ranks reduce within their node, through the C ABI: NCCL's part is that of
// tests/simulated_nccl, or real (docs/gpu_checks.md). Ranks on several nodes: tests/pytorch/test_torch_node_devices.py.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/library/test_device.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kRanks = 2;
constexpr auto kPrompt = std::chrono::milliseconds(500);

class NodeDeviceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("SHOAL_CUDA_LIBRARY", CudaLibraryForTests(SHOAL_SIMULATED_CUDA).c_str(), 1);
    if (std::getenv("SHOAL_TEST_CUDA_LIBRARY") == nullptr) setenv("SHOAL_NCCL_LIBRARY", SHOAL_SIMULATED_NCCL, 1);
  }

  // Its ranks, all on this node, need no server.
  Cluster cluster_{0, SHOAL_NODE_REDUCE_NCCL, SHOAL_DEVICES_CUDA};
};

TEST_F(NodeDeviceTest, TheNextKernelSeesTheSumAndTheHostWaitsForNothing) {
  RunRanks(cluster_, "next-kernel", kRanks, [](TestRank& rank) {
    EXPECT_NE(shoal_group_takes_devices(rank.group()), 0);
    Device device(&rank);
    std::atomic<uint32_t>* const go = device.program().MakeWord();
    for (const uint64_t count : {uint64_t{1}, uint64_t{1000}, uint64_t{300'001}}) {
      std::byte* const tensor = device.program().Allocate(4 * count);
      *go = 0;
      device.program().WaitFor(device.stream(), go);
      FillOwn(&device, rank.rank(), tensor, count);
      const auto called = Clock::now();
      shoal_op* const op = device.Start(tensor, count);  // the first one meets the other rank
      device.WaitOnStream(op);
      device.program().Scale(device.stream(), tensor, count, 2);
      if (count > 1) {
        EXPECT_LT(Clock::now() - called, kPrompt) << "the host has waited";
      }
      EXPECT_EQ(shoal_op_done(op), 0);
      *go = 1;
      EXPECT_EQ(device.program().Read(device.stream(), tensor, count), Summed(count, kRanks, 2));
      EXPECT_EQ(TestRank::Finish(op).code, SHOAL_OK);
      device.program().Free(tensor);
    }
  });
}

// A process may end then, and take NCCL and the driver apart.
TEST_F(NodeDeviceTest, WhatNcclHadIsGivenBackWhenTheWorkersAreClosed) {
  if (std::getenv("SHOAL_TEST_CUDA_LIBRARY") != nullptr) GTEST_SKIP() << "a real driver's NCCL does not say";
  std::atomic<uint64_t> most = 0;
  void* const nccl = dlopen(SHOAL_SIMULATED_NCCL, RTLD_NOW | RTLD_LOCAL);
  const auto comms = reinterpret_cast<uint64_t (*)()>(dlsym(nccl, "simulated_nccl_comms"));
  const auto delay_destroy = reinterpret_cast<void (*)(uint64_t)>(dlsym(nccl, "simulated_nccl_delay_destroy"));
  delay_destroy(100);
  RunRanks(cluster_, "give-back", kRanks, [&](TestRank& rank) {
    Device device(&rank);
    std::byte* const tensor = device.program().Allocate(4);
    FillOwn(&device, rank.rank(), tensor, 1);
    shoal_op* const op = device.Start(tensor, 1);
    device.WaitOnStream(op);
    EXPECT_EQ(TestRank::Finish(op).code, SHOAL_OK);
    most = comms();
  });
  EXPECT_GT(most.load(), 0u);
  EXPECT_EQ(comms(), 0u);
  delay_destroy(0);
}

TEST_F(NodeDeviceTest, ManyOpsOnDevicesAndInHostMemoryFollowEachOther) {
  RunRanks(cluster_, "many-ops", kRanks, [](TestRank& rank) {
    Device device(&rank);
    constexpr int kOps = 40;
    std::vector<std::byte*> tensors;
    std::vector<shoal_op*> ops;
    for (int i = 0; i < kOps; ++i) {
      const uint64_t count = 1 + 4000 * static_cast<uint64_t>(i % 7);
      tensors.push_back(device.program().Allocate(4 * count));
      FillOwn(&device, rank.rank(), tensors.back(), count);
      ops.push_back(device.Start(tensors.back(), count));
      if (i % 10 != 0) continue;
      std::vector<float> data(700, 1);
      EXPECT_EQ(rank.AllReduce(&data, kDeviceTimeoutMs).code, SHOAL_OK);
      EXPECT_EQ(data, std::vector<float>(700, 2));
    }
    for (int i = 0; i < kOps; ++i) {
      const uint64_t count = 1 + 4000 * static_cast<uint64_t>(i % 7);
      device.WaitOnStream(ops[i]);
      EXPECT_EQ(device.program().Read(device.stream(), tensors[i], count), Summed(count, kRanks)) << i;
      const Outcome outcome = TestRank::Finish(ops[i]);
      EXPECT_EQ(outcome.code, SHOAL_OK) << outcome.message;
    }
  });
}

// Rank 1 calls the group's second op while the first is open. On rank 0 nothing of the group is left by then.
TEST_F(NodeDeviceTest, AnOpTakesTheSameCommunicatorOnAllRanksWhateverElseTheyCall) {
  RunRanks(cluster_, "two-groups", kRanks, [](TestRank& rank) {
    Device device(&rank);
    shoal_group* const second = rank.MakeGroup({.name = "second", .node_reduce = SHOAL_NODE_REDUCE_NCCL});
    ASSERT_NE(second, nullptr);
    constexpr uint64_t kCount = 1000;
    std::vector<std::byte*> tensors;
    for (int i = 0; i < 3; ++i) tensors.push_back(device.program().Allocate(4 * kCount));
    const auto start = [&](int number, shoal_group* group) {
      FillOwn(&device, rank.rank(), tensors[number], kCount);
      return device.Start(tensors[number], kCount, /*timeout_ms=*/20'000, group);
    };
    const auto finish = [&](int number, shoal_op* op) {
      const Outcome outcome = TestRank::Finish(op);
      EXPECT_EQ(outcome.code, SHOAL_OK) << outcome.message;
      EXPECT_EQ(device.program().Read(device.stream(), tensors[number], kCount), Summed(kCount, kRanks)) << number;
    };
    for (int round = 0; round < 5; ++round) {
      if (rank.rank() == 0) {
        finish(0, start(0, rank.group()));
        finish(1, start(1, second));  // at whose end what has exited is taken back
        finish(2, start(2, rank.group()));
      } else {
        shoal_op* const first = start(0, rank.group());
        shoal_op* const other = start(2, rank.group());
        finish(1, start(1, second));
        finish(0, first);
        finish(2, other);
      }
    }
    shoal_group_close(second);
  });
}

TEST_F(NodeDeviceTest, AnAverageIsDividedByTheRanksWhereThereAreNoServers) {
  RunRanks(cluster_, "average", kRanks, [](TestRank& rank) {
    Device device(&rank);
    constexpr uint64_t kCount = 1000;
    std::byte* const tensor = device.program().Allocate(4 * kCount);
    FillOwn(&device, rank.rank(), tensor, kCount);
    shoal_all_reduce_options options = device.Options();
    options.op = SHOAL_AVG;
    shoal_op* op = nullptr;
    shoal_error error = {};
    ASSERT_EQ(shoal_all_reduce(rank.group(), tensor, kCount, &options, &op, &error), SHOAL_OK) << error.message;
    device.WaitOnStream(op);
    EXPECT_EQ(device.program().Read(device.stream(), tensor, kCount), Summed(kCount, kRanks, 1.0f / kRanks));
    EXPECT_EQ(TestRank::Finish(op).code, SHOAL_OK);
  });
}

// A rank gives up before its call: the other one's kernels wait for it on the device.
TEST_F(NodeDeviceTest, WhereARankGivesUpTheStreamsGoOnAndTheTensorIsNan) {
  std::atomic<bool> has_called = false;
  RunRanks(cluster_, "gives-up", kRanks, [&has_called](TestRank& rank) {
    Device device(&rank);
    constexpr uint64_t kCount = 100'000;
    std::byte* const tensor = device.program().Allocate(4 * kCount);
    FillOwn(&device, rank.rank(), tensor, kCount);
    shoal_op* const first = device.Start(tensor, kCount);
    device.WaitOnStream(first);
    EXPECT_EQ(device.program().Read(device.stream(), tensor, kCount), Summed(kCount, kRanks));
    EXPECT_EQ(TestRank::Finish(first).code, SHOAL_OK);
    if (rank.rank() == 1) {
      has_called.wait(false);
      shoal_group_abort(rank.group(), "it gives up");
      return;
    }
    shoal_op* const op = device.Start(tensor, kCount);
    has_called = true;
    has_called.notify_all();
    device.WaitOnStream(op);
    for (const float number : device.program().Read(device.stream(), tensor, kCount)) ASSERT_TRUE(std::isnan(number));
    const Outcome outcome = TestRank::Finish(op);
    EXPECT_EQ(outcome.code, SHOAL_ABORTED);
    EXPECT_THAT(outcome.message, HasSubstr("rank 1"));
    EXPECT_THAT(outcome.message, HasSubstr("it gives up"));
  });
}

TEST_F(NodeDeviceTest, ARankThatNeverComesToTheFirstOpFailsItAtItsDeadline) {
  RunRanks(cluster_, "never-comes", kRanks, [](TestRank& rank) {
    if (rank.rank() == 1) {
      rank.AwaitAll();  // as the other one does when it has opened its device
      return;
    }
    Device device(&rank);
    std::byte* const tensor = device.program().Allocate(4000);
    shoal_op* op = nullptr;
    shoal_error error = {};
    ASSERT_EQ(device.Start(tensor, 1000, &op, &error, device.stream(), /*timeout_ms=*/500), SHOAL_OK) << error.message;
    EXPECT_NE(TestRank::Finish(op).code, SHOAL_OK);
    EXPECT_EQ(device.Start(tensor, 1000, &op, &error, device.stream()), SHOAL_ABORTED);
  });
}

TEST_F(NodeDeviceTest, ATypeThatNcclLacksIsRefusedAndTheGroupGoesOn) {
  RunRanks(cluster_, "int16", kRanks, [](TestRank& rank) {
    Device device(&rank);
    std::byte* const tensor = device.program().Allocate(4000);
    shoal_all_reduce_options options = device.Options();
    options.dtype = SHOAL_INT16;
    shoal_op* op = nullptr;
    shoal_error error = {};
    EXPECT_EQ(shoal_all_reduce(rank.group(), tensor, 1000, &options, &op, &error), SHOAL_UNIMPLEMENTED);
    EXPECT_THAT(error.message, HasSubstr("int16"));
    FillOwn(&device, rank.rank(), tensor, 1000);
    shoal_op* const next = device.Start(tensor, 1000);
    device.WaitOnStream(next);
    EXPECT_EQ(device.program().Read(device.stream(), tensor, 1000), Summed(1000, kRanks));
    EXPECT_EQ(TestRank::Finish(next).code, SHOAL_OK);
  });
}

TEST_F(NodeDeviceTest, AnotherDeviceOfTheSameRankIsRefusedAndTheGroupGoesOn) {
  RunRanks(cluster_, "two-devices", kRanks, [](TestRank& rank) {
    // Made before there are kernels on the other rank's device: it loads some there, which waits for those that run.
    ProgramOnDevice other(CudaLibraryForTests(SHOAL_SIMULATED_CUDA), rank.rank() + 1);
    Device device(&rank);
    std::byte* const tensor = device.program().Allocate(4000);
    FillOwn(&device, rank.rank(), tensor, 1000);
    EXPECT_EQ(TestRank::Finish(device.Start(tensor, 1000)).code, SHOAL_OK);
    if (other.device() == device.program().device()) return;  // there is but one
    other.Enter();
    std::byte* const elsewhere = other.Allocate(4000);
    shoal_all_reduce_options options = device.Options();
    options.device = other.device();
    options.stream = other.MakeStream();
    shoal_op* op = nullptr;
    shoal_error error = {};
    EXPECT_EQ(shoal_all_reduce(rank.group(), elsewhere, 1000, &options, &op, &error), SHOAL_FAILED_PRECONDITION);
    EXPECT_THAT(error.message, HasSubstr("one device for each rank"));
    FillOwn(&device, rank.rank(), tensor, 1000);
    EXPECT_EQ(TestRank::Finish(device.Start(tensor, 1000)).code, SHOAL_OK) << "the group goes on";
  });
}

// What is asked for is said, and not another way taken.
TEST(NodeDeviceWithoutNccl, AskedForByNameItIsAnErrorThatSaysWhatIsMissing) {
  setenv("SHOAL_CUDA_LIBRARY", CudaLibraryForTests(SHOAL_SIMULATED_CUDA).c_str(), 1);
  setenv("SHOAL_NCCL_LIBRARY", "/no/such/libnccl.so.2", 1);
  const Cluster cluster(2, SHOAL_NODE_REDUCE_AUTO, SHOAL_DEVICES_CUDA);
  RunRanks(cluster, "no-nccl", kRanks, [](TestRank& rank) {
    EXPECT_EQ(shoal_group_takes_devices(rank.group()), 1) << "each rank uses the servers itself";
    shoal_group_options options = {.name = "by-nccl", .node_reduce = SHOAL_NODE_REDUCE_NCCL};
    shoal_group* group = nullptr;
    shoal_error error = {};
    EXPECT_EQ(shoal_group_create(rank.worker(), &options, &group, &error), SHOAL_FAILED_PRECONDITION);
    EXPECT_THAT(error.message, HasSubstr("/no/such/libnccl.so.2"));
  });
}

TEST(NodeDeviceWithoutNccl, WithoutServersTheJoinSaysSoAndNotEachGroup) {
  setenv("SHOAL_CUDA_LIBRARY", CudaLibraryForTests(SHOAL_SIMULATED_CUDA).c_str(), 1);
  setenv("SHOAL_NCCL_LIBRARY", "/no/such/libnccl.so.2", 1);
  const Cluster cluster(0, SHOAL_NODE_REDUCE_AUTO, SHOAL_DEVICES_CUDA);
  // The codes of two ranks that join.
  const auto join = [&](const char* job, shoal_node_reduce node_reduce, uint64_t timeout_ms) {
    std::vector<std::future<shoal_code>> joining;
    std::vector<shoal_worker*> workers(kRanks);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      joining.push_back(std::async(std::launch::async, [&, rank] {
        shoal_worker_options options = WorkerOptions(cluster, job, rank, kRanks);
        options.node_reduce = node_reduce;
        options.min_servers = 1;
        options.timeout_ms = timeout_ms;
        return shoal_worker_connect(&options, &workers[rank], nullptr);
      }));
    }
    std::vector<shoal_code> codes;
    for (std::future<shoal_code>& each : joining) codes.push_back(each.get());
    for (shoal_worker* const worker : workers) shoal_worker_close(worker);
    return codes;
  };
  EXPECT_THAT(join("best", SHOAL_NODE_REDUCE_AUTO, 3'000), testing::Each(SHOAL_DEADLINE_EXCEEDED));
  EXPECT_THAT(join("host", SHOAL_NODE_REDUCE_HOST, 30'000), testing::Each(SHOAL_OK));
}

}  // namespace
}  // namespace shoal
