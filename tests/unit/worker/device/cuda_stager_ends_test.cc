// How ops on devices end, and what is kept until then.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/clock.h"
#include "tests/simulated_cuda/program_on_device.h"
#include "worker/device/cuda_stager.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr auto kAWhile = std::chrono::milliseconds(20);  // longer than streams are late
constexpr uint32_t kPlaceBytes = 4096;

class CudaStagerTest : public testing::Test {
 protected:
  // Before a test holds a stream: the driver lets the loading of the kernel wait for all that runs on the device.
  void SetUp() override { ASSERT_TRUE(stager_->Open(program_.device()).ok()); }

  static std::unique_ptr<CudaStager> Make() {
    return CudaStager::Make({.library = CudaLibraryForTests(SHOAL_SIMULATED_CUDA), .arena_bytes = 1 << 20}).value();
  }
  std::shared_ptr<DeviceOp> Prepare(uint64_t ticket, std::byte* tensor, uint16_t group = 0) {
    return stager_
        ->Prepare({.ticket = ticket,
                   .group = GroupHandle(group),
                   .group_id = GroupId(group),
                   .stream = stream_,
                   .tensor = tensor,
                   .bytes = 4000})
        .value();
  }
  absl::Status Launch(const std::shared_ptr<DeviceOp>& op) {
    return stager_->Launch(op, [this](const absl::Status& /*status*/) { ++ready_; });
  }
  DeviceCopy Copy(uint64_t ticket, std::byte* tensor, uint16_t group = 0) {
    const auto memory = StagingMemory::Allocate(1, kPlaceBytes, stager_->arena()).value();
    return {.token = {.group = GroupHandle(group)},
            .ticket = ticket,
            .tensor = tensor,
            .staging = memory,
            .place = memory->Place(0),
            .elements = 1000};
  }
  template <typename Condition>
  static bool Await(Condition condition) {
    const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < give_up_at) {
      if (condition()) return true;
      std::this_thread::yield();
    }
    return false;
  }

  ProgramOnDevice program_{CudaLibraryForTests(SHOAL_SIMULATED_CUDA)};
  void* const stream_ = program_.MakeStream();
  std::unique_ptr<CudaStager> stager_ = Make();
  std::atomic<int> ready_ = 0;
};

TEST_F(CudaStagerTest, WhatOneStagerHadOfADeviceIsUsedByTheNext) {
  if (!program_.is_simulated()) GTEST_SKIP() << "a real driver does not say what was made";
  std::byte* const tensor = program_.Allocate(4000);
  uint64_t made_by_first = 0;
  for (uint64_t worker = 0; worker < 5; ++worker) {
    const auto op = Prepare(worker, tensor);
    ASSERT_TRUE(Launch(op).ok());
    stager_->EndOp(worker, /*well=*/true);
    stager_.reset();  // when the op's kernel has ended
    stager_ = Make();
    if (worker == 0) made_by_first = program_.ObjectsMade();
  }
  EXPECT_GT(made_by_first, 0u);
  EXPECT_EQ(program_.ObjectsMade(), made_by_first);
}

TEST_F(CudaStagerTest, TouchesNoDeviceBeforeTheFirstTensorAndLocksItsMemoryOnce) {
  if (!program_.is_simulated()) GTEST_SKIP() << "a real driver does not say what is locked";
  // (Of another size than that of other tests, whose regions are used again, and larger than what else is locked.)
  constexpr uint64_t kArenaBytes = uint64_t{64} << 20;
  stager_ = CudaStager::Make({.library = SHOAL_SIMULATED_CUDA, .arena_bytes = kArenaBytes}).value();
  const uint64_t before = program_.RegisteredBytes();
  EXPECT_EQ(stager_->arena()->size_bytes(), kArenaBytes);
  std::byte* const tensor = program_.Allocate(4000);
  const auto first = Prepare(1, tensor);
  const uint64_t locked = program_.RegisteredBytes();
  EXPECT_GT(locked, before + kArenaBytes);
  const auto second = Prepare(2, tensor);
  EXPECT_EQ(program_.RegisteredBytes(), locked);
  stager_->Drop(first);
  stager_->Drop(second);
  stager_.reset();
  // The next worker's is the same region, which stays locked.
  stager_ = CudaStager::Make({.library = SHOAL_SIMULATED_CUDA, .arena_bytes = kArenaBytes}).value();
  stager_->Drop(Prepare(3, tensor));
  EXPECT_EQ(program_.RegisteredBytes(), locked);
}

TEST_F(CudaStagerTest, AnOpComesBehindWhatIsInItsCallersStreamAndWhatFollowsComesBehindTheOp) {
  std::byte* const tensor = program_.Allocate(4000);
  std::atomic<uint32_t>* const go = program_.MakeWord();
  program_.WaitFor(stream_, go);
  const auto op = Prepare(1, tensor);
  ASSERT_TRUE(Launch(op).ok());
  ASSERT_TRUE(stager_->WaitOnStream(*op, stream_).ok());
  auto followed = std::async(std::launch::async, [this] {
    program_.Enter();
    program_.Synchronize(stream_);
  });
  EXPECT_EQ(followed.wait_for(kAWhile), std::future_status::timeout);
  EXPECT_EQ(ready_, 0) << "what makes the tensor has not ended";
  *go = 1;
  EXPECT_TRUE(Await([this] { return ready_ == 1; }));
  EXPECT_EQ(followed.wait_for(kAWhile), std::future_status::timeout) << "the op has not ended";
  stager_->EndOp(1, /*well=*/true);
  followed.get();
}

TEST_F(CudaStagerTest, WhatAKernelReadsIsNoOtherOpsBeforeItHasEnded) {
  std::byte* const tensor = program_.Allocate(4000);
  std::atomic<uint32_t>* const go = program_.MakeWord();
  program_.WaitFor(stream_, go);
  const auto failed = Prepare(1, tensor);
  ASSERT_TRUE(Launch(failed).ok());
  stager_->EndOp(1, /*well=*/false);
  ASSERT_TRUE(Launch(Prepare(2, program_.Allocate(4000))).ok());
  stager_->EndOp(2, /*well=*/true);
  *go = 1;
  ASSERT_TRUE(stager_->WaitOnStream(*failed, stream_).ok());
  for (const float number : program_.Read(stream_, tensor, 1000)) ASSERT_TRUE(std::isnan(number));
}

TEST_F(CudaStagerTest, ItsEndDoesNotWaitLongForAKernelThatIsStuckAndLeavesItWhatItReads) {
  std::byte* const tensor = program_.Allocate(4000);
  std::atomic<uint32_t>* const go = program_.MakeWord();
  program_.WaitFor(stream_, go);
  ASSERT_TRUE(Launch(Prepare(1, tensor)).ok());
  stager_->EndOp(1, /*well=*/false);
  const auto end_begins = std::chrono::steady_clock::now();
  stager_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - end_begins, std::chrono::seconds(5));
  *go = 1;
  EXPECT_TRUE(Await([&] {
    const std::vector<float> numbers = program_.Read(stream_, tensor, 1000);
    return std::ranges::all_of(numbers, [](float number) { return std::isnan(number); });
  }));
}

// The loop may end an op before its caller has launched it.
TEST_F(CudaStagerTest, AnOpThatEndsBeforeItsLaunchEndsItsKernel) {
  std::byte* const tensor = program_.Allocate(4000);
  for (const bool well : {true, false}) {
    const uint64_t ticket = well ? 1 : 2;
    const auto op = Prepare(ticket, tensor);
    stager_->EndOp(ticket, well);
    ASSERT_TRUE(Launch(op).ok());
    ASSERT_TRUE(stager_->WaitOnStream(*op, stream_).ok());
    const std::vector<float> content = program_.Read(stream_, tensor, 1000);
    if (well) continue;
    for (const float number : content) ASSERT_NE(number, number);
  }
}

TEST_F(CudaStagerTest, AStreamThatIsStuckIsNotTheNextGroups) {
  std::atomic<uint32_t>* const go = program_.MakeWord();
  void* const stuck_stream = program_.MakeStream();
  program_.WaitFor(stuck_stream, go);
  const auto launch = [&](uint64_t ticket, GroupId group, void* stream) {
    const auto op = stager_->Prepare({.ticket = ticket,
                                      .group = GroupHandle(1),
                                      .group_id = group,
                                      .stream = stream,
                                      .tensor = program_.Allocate(4000),
                                      .bytes = 4000});
    ASSERT_TRUE(op.ok()) << op.status();
    ASSERT_TRUE(Launch(*op).ok());
  };
  for (const uint64_t ticket : {1, 2}) {
    launch(ticket, GroupId(71), stuck_stream);
    stager_->EndOp(ticket, /*well=*/false);
  }
  // Another group has the handle now.
  for (const uint64_t ticket : {3, 4}) launch(ticket, GroupId(72), stream_);
  EXPECT_TRUE(Await([this] { return ready_ == 2; })) << ready_ << " are ready";
  stager_->EndOp(3, true);
  stager_->EndOp(4, true);
  *go = 1;
}

TEST_F(CudaStagerTest, WhatTheDriverRefusesInTheMiddleOfALaunchEndsTheOpAndNoStreamPasses) {
  if (!program_.is_simulated()) GTEST_SKIP() << "a real driver is not told to refuse";
  std::byte* const tensor = program_.Allocate(4000);
  uint64_t ticket = 0;
  for (const char* const function : {"cuStreamWaitEvent", "cuStreamAddCallback", "cuLaunchKernel", "cuEventRecord"}) {
    for (const bool is_refused : {false, true, false}) {
      const auto op = Prepare(++ticket, tensor);
      if (is_refused) program_.RefuseNext(function);
      const absl::Status launched = Launch(op);
      EXPECT_EQ(launched.ok(), !is_refused) << function << ": " << launched;
      EXPECT_EQ(stager_->WaitOnStream(*op, stream_).ok(), !is_refused) << function;
      stager_->EndOp(ticket, launched.ok());
    }
    program_.Synchronize(stream_);
    EXPECT_TRUE(Await([this] { return program_.CopyKernels() == 0; })) << function;
  }
}

TEST_F(CudaStagerTest, StreamsOfAnOpThatWasLaunchedInPartAreNotAnotherGroupsBeforeTheyComeToItsEnd) {
  if (!program_.is_simulated()) GTEST_SKIP() << "a real driver is not told to refuse";
  void* const stuck_stream = program_.MakeStream();
  std::atomic<uint32_t>* const go = program_.MakeWord();
  program_.WaitFor(stuck_stream, go);
  const auto prepare = [&](uint64_t ticket, GroupId group, void* stream) {
    return stager_
        ->Prepare({.ticket = ticket,
                   .group = GroupHandle(1),
                   .group_id = group,
                   .stream = stream,
                   .tensor = program_.Allocate(4000),
                   .bytes = 4000})
        .value();
  };
  std::vector<std::shared_ptr<DeviceOp>> in_part;
  for (const uint64_t ticket : {1, 2}) {
    in_part.push_back(prepare(ticket, GroupId(71), stuck_stream));
    program_.RefuseNext("cuLaunchKernel");
    EXPECT_FALSE(Launch(in_part.back()).ok());
    stager_->EndOp(ticket, /*well=*/false);
  }
  for (const uint64_t ticket : {3, 4}) ASSERT_TRUE(Launch(prepare(ticket, GroupId(72), stream_)).ok());
  EXPECT_TRUE(Await([this] { return ready_ == 2; })) << ready_ << " are ready";
  stager_->EndOp(3, true);
  stager_->EndOp(4, true);
  // What follows the op in its caller's stream comes behind what was put there for it.
  std::byte* const filled = program_.Allocate(4);
  const auto read = [&] {
    const std::vector<float> numbers = program_.Read(stream_, filled, 1);
    program_.Synchronize(stream_);
    return numbers[0];
  };
  program_.Fill(stream_, filled, 1, 1);
  void* const follows = program_.MakeStream();
  program_.Synchronize(stream_);
  EXPECT_FALSE(stager_->WaitOnStream(*in_part[0], follows).ok());
  program_.Fill(follows, filled, 1, 5);
  std::this_thread::sleep_for(kAWhile);
  EXPECT_EQ(read(), 1);
  *go = 1;
  program_.Synchronize(follows);
  EXPECT_EQ(read(), 5);
}

// A program that frees memory, or loads a kernel, holds the driver's lock until the device is idle.
TEST_F(CudaStagerTest, TheLoopGoesOnWhileTheDriverIsHeld) {
  if (!program_.is_simulated()) GTEST_SKIP() << "a real driver's locks are its own";
  std::byte* const tensor = program_.Allocate(4000);
  const auto first = Prepare(1, tensor);
  ASSERT_TRUE(Launch(first).ok());
  EXPECT_TRUE(Await([this] { return ready_ == 1; }));
  program_.HoldDriver(true);
  std::thread other([&] { stager_->Drop(Prepare(2, tensor)); });  // it is stuck in the driver, with the stager's lock
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  stager_->Start(Copy(1, tensor));
  EXPECT_TRUE(Await([this] { return !stager_->Poll().empty(); }));
  stager_->EndOp(1, true);
  EXPECT_TRUE(Await([this] { return program_.CopyKernels() == 0; }));
  program_.HoldDriver(false);
  other.join();
}

TEST_F(CudaStagerTest, OpsThatEndMakeRoomForOthers) {
  std::byte* const tensor = program_.Allocate(4000);
  for (uint64_t ticket = 1; ticket <= 3000; ++ticket) {
    auto op = Prepare(ticket, tensor);
    stager_->Drop(op);
  }
}

TEST_F(CudaStagerTest, AnOpWaitsForRoomUntilOneHasLeftItsDevice) {
  std::byte* const tensor = program_.Allocate(4000);
  std::vector<std::shared_ptr<DeviceOp>> prepared;
  for (uint64_t ticket = 1; ticket <= CudaStager::kMaxOps; ++ticket) prepared.push_back(Prepare(ticket, tensor));
  DeviceOpCall call = {.ticket = 5000, .stream = stream_, .tensor = tensor, .bytes = 4000};
  const absl::Status over = stager_->Prepare(call, [] { return absl::AbortedError("it is over"); }).status();
  EXPECT_EQ(over, absl::AbortedError("it is over"));
  call.deadline_ns = DeadlineIn(10);
  const absl::Status late = stager_->Prepare(call).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  call.deadline_ns = kNoDeadline;
  std::future<absl::Status> waiting = std::async(std::launch::async, [&] { return stager_->Prepare(call).status(); });
  EXPECT_EQ(waiting.wait_for(kAWhile), std::future_status::timeout);
  stager_->Drop(prepared.back());
  EXPECT_TRUE(waiting.get().ok());
  prepared.pop_back();
  for (const auto& op : prepared) stager_->Drop(op);
}

TEST_F(CudaStagerTest, AnOpIsRefusedWhereAStuckDeviceHasAllTheRoom) {
  std::byte* const tensor = program_.Allocate(4000);
  std::atomic<uint32_t>* const go = program_.MakeWord();
  program_.WaitFor(stream_, go);
  for (uint64_t ticket = 1; ticket <= CudaStager::kMaxOps; ++ticket) {
    ASSERT_TRUE(Launch(Prepare(ticket, tensor)).ok());
    stager_->EndOp(ticket, /*well=*/false);
  }
  const DeviceOpCall call = {.ticket = 5000, .stream = stream_, .tensor = tensor, .bytes = 4000};
  const absl::Status refused = stager_->Prepare(call).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("a device is stuck"));
  *go = 1;
  EXPECT_TRUE(stager_->Prepare(call).ok()) << "now that it goes on";
}

TEST_F(CudaStagerTest, AnOpWhoseKernelDoesNotComeToItEndsAllTheSame) {
  std::byte* const tensor = program_.Allocate(4000);
  std::atomic<uint32_t>* const go = program_.MakeWord();
  program_.WaitFor(stream_, go);
  const auto op = Prepare(1, tensor);
  ASSERT_TRUE(Launch(op).ok());
  EXPECT_TRUE(stager_->WaitOnStream(*op, stream_).ok());
  stager_->EndOp(1, /*well=*/false);
  EXPECT_EQ(ready_, 0);
  *go = 1;
  EXPECT_TRUE(Await([this] { return ready_ == 1; }));
  // It finds that it has failed.
  for (const float number : program_.Read(stream_, tensor, 1000)) ASSERT_NE(number, number);
}

TEST_F(CudaStagerTest, AbandonedCopiesEndAtOnceAndTheirMemoryIsKeptUntilTheKernelHasEnded) {
  std::byte* const tensor = program_.Allocate(4000);
  std::atomic<uint32_t>* const go = program_.MakeWord();
  program_.WaitFor(stream_, go);
  const auto stuck = Prepare(1, tensor, /*group=*/1);
  ASSERT_TRUE(Launch(stuck).ok());
  std::weak_ptr<const StagingMemory> memory;
  {
    DeviceCopy copy = Copy(1, tensor, 1);
    memory = copy.staging;
    stager_->Start(std::move(copy));
  }
  EXPECT_TRUE(stager_->Poll().empty());
  stager_->Abandon(GroupHandle(2));
  EXPECT_TRUE(stager_->Poll().empty()) << "that is another group";
  stager_->Abandon(GroupHandle(1));
  const auto ended = stager_->Poll();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(ended[0].status));
  EXPECT_EQ(stager_->PollWithinNs(), kNoDeadline);
  stager_->EndOp(1, /*well=*/false);
  EXPECT_FALSE(memory.expired()) << "the kernel is still to come";
  *go = 1;
  EXPECT_TRUE(Await([&] {
    stager_->Poll();
    return !program_.is_simulated() || program_.CopyKernels() == 0;
  }));
  EXPECT_TRUE(Await([&] {
    stager_->Poll();
    return memory.expired();
  }));
}

TEST_F(CudaStagerTest, CopiesOfAnOpThatIsNotKnownEndWithAnError) {
  stager_->Start(Copy(7, program_.Allocate(4000)));
  const auto ended = stager_->Poll();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(ended[0].status));
}

TEST_F(CudaStagerTest, TheNextOpOfAGroupBeginsBeforeTheOneBeforeItEnds) {
  std::byte* const tensor = program_.Allocate(4000);
  const auto first = Prepare(1, tensor);
  const auto second = Prepare(2, tensor);
  ASSERT_TRUE(Launch(first).ok());
  ASSERT_TRUE(Launch(second).ok());
  EXPECT_TRUE(Await([this] { return ready_ == 2; }));
  stager_->Start(Copy(2, tensor));
  EXPECT_TRUE(Await([this] { return !stager_->Poll().empty(); }));
  stager_->EndOp(1, true);
  stager_->EndOp(2, true);
}

}  // namespace
}  // namespace shoal
