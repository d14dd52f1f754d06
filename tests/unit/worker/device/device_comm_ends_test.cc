// How calls and kernels of a DeviceComm end where ranks are gone, or NCCL refuses.
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/device/device_comm_ranks.h"
#include "worker/device/device_comm.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// ---- ranks that are late, or gone ----

TEST_F(DeviceCommTest, WaitsForARankThatNeverComesUntilItIsOver) {
  ProgramOnDevice program(SHOAL_SIMULATED_CUDA);
  int asked = 0;
  const auto made = DeviceComm::Make(LoadNccl(), MakeId(), {.rank = 0, .size = 2}, [&asked] {
    return ++asked < 20 ? absl::OkStatus() : absl::DeadlineExceededError("the group is closed");
  });
  EXPECT_EQ(made.status(), absl::DeadlineExceededError("the group is closed"));
  EXPECT_EQ(asked, 20);
}

TEST_F(DeviceCommTest, AbortEndsKernelsThatWaitForARankThatIsGone) {
  std::atomic<bool> is_gone = false;
  WithRanks(2, [&](Rank* rank, uint32_t number) {
    // Unequal parts: several kernels.
    std::byte* const tensor = rank->Allocate(4000);
    ASSERT_TRUE(rank->comm().Reduce(rank->stream(), tensor, 1000, DataType::kFloat32, ReduceOp::kSum, 1).ok());
    rank->program().Synchronize(rank->stream());
    if (number == 1) {
      rank->Leave();
      is_gone = true;
      return;
    }
    ASSERT_TRUE(Await([&] { return is_gone.load(); }));
    ASSERT_TRUE(rank->comm().Gather(rank->stream(), tensor, 1000, DataType::kFloat32).ok());
    EXPECT_TRUE(Await([] { return Kernels() == 2; }));
    rank->comm().Abort();
    rank->comm().Abort();
    ASSERT_TRUE(Await([] { return Kernels() == 0; }));
    rank->program().Synchronize(rank->stream());
    EXPECT_TRUE(
        absl::IsAborted(rank->comm().Reduce(rank->stream(), tensor, 1000, DataType::kFloat32, ReduceOp::kSum, 1)));
    EXPECT_TRUE(absl::IsAborted(rank->comm().Gather(rank->stream(), tensor, 1000, DataType::kFloat32)));
  });
}

TEST_F(DeviceCommTest, AbortEndsCallsThatAreUnderWay) {
  WithRanks(1, [&](Rank* rank, uint32_t /*number*/) {
    std::byte* const tensor = rank->Allocate(4000);
    rank->program().HoldDriver(true);  // NCCL's thread is stuck in it
    auto reduced = std::async(std::launch::async, [&] {
      rank->program().Enter();
      return rank->comm().Reduce(rank->stream(), tensor, 1000, DataType::kFloat32, ReduceOp::kSum, 1);
    });
    EXPECT_EQ(reduced.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    rank->comm().Abort();
    ASSERT_EQ(reduced.wait_for(kPatience), std::future_status::ready);
    const absl::Status status = reduced.get();
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    rank->program().HoldDriver(false);
  });
}

// ThreadSanitizer, and what the simulated NCCL checks, say whether a call meets the end of the communicator.
TEST_F(DeviceCommTest, AbortAtAnyTimeIsWell) {
  for (int round = 0; round < 30; ++round) {
    std::latch both(2);
    WithRanks(2, [&](Rank* rank, uint32_t number) {
      std::byte* const tensor = rank->Allocate(4000);
      std::thread aborter([&] {
        both.arrive_and_wait();
        std::this_thread::sleep_for(std::chrono::microseconds(50 * round * (number + 1)));
        rank->comm().Abort();
      });
      absl::Status status;
      for (int call = 0; status.ok(); ++call) {
        status = call % 2 == 0
                     ? rank->comm().Reduce(rank->stream(), tensor, 1000, DataType::kFloat32, ReduceOp::kPremulSum, call)
                     : rank->comm().Gather(rank->stream(), tensor, 1000, DataType::kFloat32);
      }
      EXPECT_TRUE(absl::IsAborted(status)) << status;
      aborter.join();
      rank->program().Synchronize(rank->stream());
    });
  }
}

TEST_F(DeviceCommTest, WhereTheDeviceFailsTheEndDoesNotWaitForIt) {
  EXPECT_TRUE(OtherProcess("OnADeviceThatFails").EndsWell());
}

// Run by the test above, in a process of its own: the device has failed for good.
TEST(DeviceCommProcess, DISABLED_OnADeviceThatFails) {
  LoadNccl();
  Rank rank(MakeId(), 0, 1);
  std::byte* const tensor = rank.Allocate(4000);
  std::atomic<uint32_t>* const go = rank.program().MakeWord();
  rank.program().WaitFor(rank.stream(), go);
  ASSERT_TRUE(rank.comm().Reduce(rank.stream(), tensor, 1000, DataType::kFloat32, ReduceOp::kSum, 1).ok());
  rank.program().Fail(0);
  *go = 1;
  EXPECT_TRUE(absl::IsInternal(rank.comm().Gather(rank.stream(), tensor, 1000, DataType::kFloat32)));
  rank.comm().Abort();
  rank.Leave();
}

// ---- what NCCL refuses ----

TEST_F(DeviceCommTest, WhatNcclRefusesWhileItBeginsIsSaidInItsWords) {
  ProgramOnDevice program(SHOAL_SIMULATED_CUDA);
  const auto make = [](const char* refused) {
    RefuseNext(refused);
    return DeviceComm::Make(LoadNccl(), MakeId(), {.rank = 0, .size = 1}, IsNotOver).status();
  };
  const absl::Status at_once = make("ncclCommInitRankConfig");
  EXPECT_TRUE(absl::IsInternal(at_once));
  EXPECT_EQ(at_once.message(),
            "NCCL: ncclCommInitRankConfig: unhandled system error (2); its last error: the simulated NCCL was told to "
            "refuse a call");
  const absl::Status later = make("ncclCommGetAsyncError");
  EXPECT_TRUE(absl::IsInternal(later));
  EXPECT_THAT(later.message(),
              HasSubstr("NCCL: ncclCommInitRankConfig: remote process exited or there was a network error (6)"));
}

TEST_F(DeviceCommTest, WhatNcclRefusesIsSaidInItsWordsAndEndsTheCommunicator) {
  // The first three with equal parts, the others with unequal ones.
  for (const char* const refused : {"ncclReduceScatter", "ncclAllGather", "ncclRedOpCreatePreMulSum", "ncclGroupStart",
                                    "ncclReduce", "ncclBroadcast", "ncclGroupEnd", "ncclCommGetAsyncError"}) {
    const std::string name = refused;
    const bool is_equal = name == "ncclReduceScatter" || name == "ncclAllGather";
    const uint64_t count = is_equal ? 1280 : 1000;
    std::atomic<bool> is_judged = false;
    WithRanks(2, [&](Rank* rank, uint32_t number) {
      if (number == 1) {
        EXPECT_TRUE(Await([&] { return is_judged.load(); }));
        return;
      }
      std::byte* const tensor = rank->Allocate(8000);
      const auto call = [&] {
        if (name == "ncclAllGather" || name == "ncclBroadcast") {
          return rank->comm().Gather(rank->stream(), tensor, count, DataType::kFloat32);
        }
        return rank->comm().Reduce(rank->stream(), tensor, count, DataType::kFloat32, ReduceOp::kPremulSum, 0.5);
      };
      RefuseNext(refused);
      const absl::Status status = call();
      EXPECT_TRUE(absl::IsInternal(status)) << refused << ": " << status;
      EXPECT_THAT(status.message(), HasSubstr(name == "ncclCommGetAsyncError" ? "remote process exited" : refused));
      is_judged = true;
    });
    EXPECT_EQ(Comms(), 0u) << refused;
    EXPECT_EQ(Kernels(), 0u) << refused;
  }
}

TEST_F(DeviceCommTest, WhatTheDriverRefusesIsInternalToo) {
  WithRanks(1, [&](Rank* rank, uint32_t /*number*/) {
    std::byte* const tensor = rank->Allocate(4000);
    rank->program().RefuseNext("simulated_cuda_run");
    const absl::Status status =
        rank->comm().Reduce(rank->stream(), tensor, 1000, DataType::kFloat32, ReduceOp::kSum, 1);
    EXPECT_TRUE(absl::IsInternal(status));
    EXPECT_THAT(status.message(), HasSubstr("unhandled cuda error"));
  });
}

// ---- the simulated NCCL itself ----

TEST(SimulatedNcclDeathTest, EndsAProcessWhoseRanksDiffer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(WithRanks(2,
                         [](Rank* rank, uint32_t number) {
                           std::byte* const tensor = rank->Allocate(4000);
                           static_cast<void>(rank->comm().Reduce(rank->stream(), tensor, 512 + 128 * number,
                                                                 DataType::kFloat32, ReduceOp::kSum, 1));
                           rank->program().Synchronize(rank->stream());
                         }),
               "ranks of a communicator differ: rank . calls ncclReduceScatter");
}

TEST(SimulatedNcclDeathTest, EndsAProcessThatCallsWithWhatIsNoCommunicator) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  int memory = 0;
  EXPECT_DEATH(LoadNccl()->comm_destroy(reinterpret_cast<nccl::Comm>(&memory)), "destroyed or aborted, or never made");
  EXPECT_DEATH(LoadNccl()->group_end(), "there was no ncclGroupStart");
}

}  // namespace
}  // namespace shoal
