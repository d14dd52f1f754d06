// Tensors on devices in groups that are reduced within nodes: their streams reduce on the node and gather there; the
// machine sees to the part in between, and to the end.
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/rails_fixture.h"

namespace shoal::rails {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

WorkerMachineOptions WithDevices() {
  static auto* region = new std::vector<std::byte>(256 * 4096);
  return {.has_local_reduce = true, .staging_arena = std::make_shared<StagingArena>(std::span(*region))};
}

class DevicesOnNodeTest : public ::testing::Test {
 protected:
  DevicesOnNodeTest() : worker(WithDevices()) { meeting.front() = std::byte{5}; }

  void OpenRails(const std::optional<DeviceMeeting>& devices) {
    worker.Open(Info(1));
    worker.Up(0);
    worker.Welcome(0, 8);
    worker.GiveLocal(LocalGroupMet{kGroup, devices});
    ASSERT_THAT(worker.opened, SizeIs(1));
    EXPECT_EQ(worker.opened[0].devices, devices);
    worker.Clear();
  }
  void OpenAlone() {
    std::shared_ptr<GroupInfo> info = WorkerDriver::Info(1, 2, 0);
    info->nodes = {"node-a", "node-a"};
    info->node_reduce = NodeReduceMode::kNodeAlone;
    info->meeting_name = "cluster/1";
    info->local_ranks = {Rank(0), Rank(1)};
    worker.Open(std::move(info));
    worker.GiveLocal(LocalGroupMet{kGroup, meeting});
    ASSERT_THAT(worker.opened, SizeIs(1));
    worker.Clear();
  }
  // The part goes to the servers and comes back, and its result is on the device.
  void ReducePart(uint64_t ticket) {
    worker.TensorReady(ticket);
    worker.EndCopies();
    const std::vector<WorkerSendAction> sends = std::exchange(worker.sends, {});
    for (const WorkerSendAction& send : sends) {
      worker.Sent(send);
      worker.OfferResult(send, 2);
      for (const WorkerAcceptAction& accept : std::exchange(worker.accepts, {})) worker.Land(accept);
    }
    worker.EndCopies();
  }

  WorkerDriver worker;
  DeviceMeeting meeting{};
};

TEST_F(DevicesOnNodeTest, TheOwnPartAloneGoesToServersAndNothingToThePort) {
  OpenRails(meeting);
  worker.SubmitOnDevice(1, kElements);
  EXPECT_THAT(worker.local_starts, IsEmpty());
  EXPECT_THAT(worker.device_copies, IsEmpty()) << "the node's sum is not there";
  worker.TensorReady(1);
  ASSERT_THAT(worker.device_copies, SizeIs(4));
  EXPECT_EQ(worker.device_copies[0].tensor, worker.memory(1) + kPart * sizeof(float));
  uint64_t elements = 0;
  for (const DeviceCopy& copy : worker.device_copies) elements += copy.elements;
  EXPECT_EQ(elements, kPart);
}

TEST_F(DevicesOnNodeTest, TheDeviceIsToldWhenThePartsResultIsThereAndTheOpEndsWhenTheTensorIsGathered) {
  OpenRails(meeting);
  worker.SubmitOnDevice(1, kElements);
  ReducePart(1);
  EXPECT_THAT(worker.copies_over, ElementsAre(1u));
  EXPECT_THAT(worker.published, IsEmpty()) << "the other ranks have it from their devices";
  EXPECT_THAT(worker.done, IsEmpty());
  worker.DeviceDone(1);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status, absl::OkStatus());
  EXPECT_THAT(worker.copies_over, SizeIs(1)) << "it is told once";
}

TEST_F(DevicesOnNodeTest, ARankWithoutAPartWaitsForItsDeviceAlone) {
  OpenRails(meeting);
  worker.SubmitOnDevice(1, 10);  // all of it is local rank 0's
  EXPECT_THAT(worker.done, IsEmpty());
  worker.TensorReady(1);
  EXPECT_THAT(worker.copies_over, IsEmpty()) << "no kernel waits for it";
  worker.DeviceDone(1);
  EXPECT_THAT(worker.done, SizeIs(1));
}

TEST_F(DevicesOnNodeTest, TensorsInHostMemoryAndOnDevicesFollowEachOther) {
  OpenRails(meeting);
  worker.SubmitOnDevice(1, kElements);
  worker.Submit(2, kElements);
  worker.SubmitOnDevice(3, kElements);
  ASSERT_THAT(worker.local_starts, SizeIs(1));
  EXPECT_EQ(worker.local_starts[0].ticket, 2u);
  EXPECT_EQ(worker.local_starts[0].number, OpNumber(2));
  ReducePart(1);
  worker.GiveLocal(LocalPartReduced{kGroup, 2, kPart, kPart});
  worker.AnswerAll(2);
  ReducePart(3);
  EXPECT_THAT(worker.copies_over, ElementsAre(1u, 3u));
  uint64_t published = 0;
  for (const auto& piece : worker.published) published += piece.elements.count;
  EXPECT_EQ(published, kPart);
  worker.DeviceDone(3);
  worker.GiveLocal(LocalOpEnded{kGroup, 2, absl::OkStatus()});
  worker.DeviceDone(1);
  EXPECT_THAT(worker.done, SizeIs(3));
}

TEST_F(DevicesOnNodeTest, WithoutServersTheOpEndsWhenTheDeviceSaysSo) {
  OpenAlone();
  worker.SubmitOnDevice(1, kElements);
  worker.SubmitOnDevice(2, kElements);
  worker.TensorReady(1);
  EXPECT_THAT(worker.device_copies, IsEmpty());
  EXPECT_THAT(worker.done, IsEmpty());
  worker.DeviceDone(1);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].ticket, 1u);
  worker.DeviceDone(2);
  EXPECT_THAT(worker.done, SizeIs(2));
}

TEST_F(DevicesOnNodeTest, WhereNotAllRanksOfTheNodeCanItIsRefusedAndSaysWhatIsMissing) {
  OpenRails(std::nullopt);
  worker.SubmitOnDevice(1, kElements);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(worker.done[0].status.message(), HasSubstr("NCCL"));
}

TEST_F(DevicesOnNodeTest, ALostRankEndsOpsThoughTheirDevicesNeverDo) {
  OpenRails(meeting);
  worker.SubmitOnDevice(1, kElements);
  worker.SubmitOnDevice(2, kElements);
  ReducePart(1);
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::UnavailableError("local rank 0 of 2 died"), LocalRank(0)});
  ASSERT_THAT(worker.done, SizeIs(2));
  for (const OpDone& done : worker.done) {
    EXPECT_EQ(done.status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(done.status.message(), HasSubstr("rank 4 of the job on node-a"));
  }
  worker.DeviceDone(1);
  worker.DeviceDone(2, absl::InternalError("late"));
  EXPECT_THAT(worker.done, SizeIs(2));
}

TEST_F(DevicesOnNodeTest, ALostRankEndsOpsWithoutServersAsWell) {
  OpenAlone();
  worker.SubmitOnDevice(1, kElements);
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::UnavailableError("local rank 0 of 2 died"), LocalRank(0)});
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status.code(), absl::StatusCode::kAborted);
}

TEST_F(DevicesOnNodeTest, ADeviceThatFailsAfterThePartFailsTheGroup) {
  OpenRails(meeting);
  worker.SubmitOnDevice(1, kElements);
  ReducePart(1);
  worker.DeviceDone(1, absl::InternalError("CUDA: unspecified launch failure (719)"));
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_THAT(worker.done[0].status.message(), HasSubstr("unspecified launch failure"));
  EXPECT_THAT(worker.local_fails, SizeIs(1));
}

TEST_F(DevicesOnNodeTest, AtItsDeadlineTheMessageSaysThatTheDevicesAreWaitedFor) {
  OpenRails(meeting);
  worker.SubmitOnDevice(1, kElements, worker.now.monotonic_ns + 5 * kNsPerS);
  ReducePart(1);
  worker.Pass(5 * kNsPerS);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(worker.done[0].status.message(), HasSubstr("the devices of the node's ranks"));
}

}  // namespace
}  // namespace shoal::rails
