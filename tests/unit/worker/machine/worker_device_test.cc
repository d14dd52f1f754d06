// Ops on tensors that lie on a device: what is copied when, and that nothing is sent, moved, told or given back before
// the copy that it depends on has ended.
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// With an arena of that many pages.
WorkerMachineOptions WithDevices(uint64_t pages = 256) {
  static auto* region = new std::vector<std::byte>(256 * 4096);
  return {.staging_arena = std::make_shared<StagingArena>(std::span(*region).first(pages * 4096))};
}

void Move(WorkerDriver* worker, uint32_t servers, uint64_t epoch, uint32_t credit) {
  worker->Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(servers, epoch)});
  for (uint32_t server = 0; server < servers; ++server) worker->Welcome(server, credit, 0, 1, epoch);
}

void Ask(WorkerDriver* worker, uint64_t op, uint32_t chunk, uint64_t epoch) {
  FrameHeader ask = WorkerDriver::Header(FrameType::kAsk, 0, 1, epoch);
  ask.op = OpNumber(op);
  ask.chunk = ChunkNumber(chunk);
  worker->GiveNote(0, MakeNote(ask));
}

// Copies, sends and lands the first chunk of an op of one chunk; its result is not on the device yet.
void LandOnlyChunk(WorkerDriver* worker) {
  worker->TensorReady(1);
  worker->EndCopies();
  ASSERT_THAT(worker->sends, SizeIs(1));
  worker->Sent(worker->sends[0]);
  worker->OfferResult(worker->sends[0], 2);
  ASSERT_THAT(worker->accepts, SizeIs(1));
  worker->Land(worker->accepts[0]);
}

// Of an op of two chunks the first one's result is on the device when the group moves and its new server asks for it.
void AskForAResultOfAnOpenOp(WorkerDriver* worker) {
  worker->OpenAll(2, 1, 2);
  worker->SubmitOnDevice(1, 2 * kChunkElements);
  worker->TensorReady(1);
  worker->EndCopies();
  const std::vector<WorkerSendAction> sends = worker->sends;
  for (const WorkerSendAction& send : sends) worker->Sent(send);
  worker->OfferResult(sends.at(0), 2);
  worker->Land(worker->accepts.at(0));
  worker->EndCopies();
  Move(worker, 1, 4, 2);
  worker->EndCopies();  // chunk 1 again
  worker->Clear();
  Ask(worker, 1, 0, 4);
}

TEST(WorkerDevice, NothingIsReadBeforeTheTensorIsReady) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(1, 3 * kChunkElements);
  EXPECT_THAT(worker.device_copies, IsEmpty());
  EXPECT_THAT(worker.sends, IsEmpty());
  worker.TensorReady(1);
  EXPECT_THAT(worker.device_copies, SizeIs(3));
  EXPECT_THAT(worker.sends, IsEmpty()) << "their copies have not ended";
}

TEST(WorkerDevice, AnOpThatIsReadyDoesNotOvertakeOneThatIsNot) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(1, kChunkElements);
  worker.SubmitOnDevice(2, kChunkElements);
  worker.TensorReady(2);
  EXPECT_THAT(worker.device_copies, IsEmpty()) << "all ranks push in one order";
  worker.TensorReady(1);
  ASSERT_THAT(worker.device_copies, SizeIs(2));
  EXPECT_EQ(worker.device_copies[0].token.op, OpNumber(1));
}

TEST(WorkerDevice, AChunkIsCopiedToAPlaceOfItsOwnAndSentFromThere) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(1, 2 * kChunkElements + 5);
  worker.TensorReady(1);
  ASSERT_THAT(worker.device_copies, SizeIs(3));
  const std::vector<DeviceCopy> copies = worker.device_copies;
  std::set<const std::byte*> places;
  uint64_t elements = 0;
  for (const DeviceCopy& copy : copies) {
    EXPECT_FALSE(copy.to_device());
    EXPECT_EQ(copy.ticket, 1u);
    EXPECT_EQ(copy.tensor, worker.memory(1) + 4 * elements);
    EXPECT_EQ(copy.codec, WireCodec(DataType::kFloat32));
    EXPECT_NE(copy.staging, nullptr);
    places.insert(copy.place);
    elements += copy.elements;
  }
  EXPECT_EQ(elements, 2 * kChunkElements + 5);
  EXPECT_THAT(places, SizeIs(3));
  // In whichever order they end.
  worker.EndCopy(copies[1]);
  ASSERT_THAT(worker.sends, SizeIs(1));
  EXPECT_EQ(worker.sends[0].data, copies[1].place);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).chunk, ChunkNumber(1));
  worker.EndCopy(copies[0]);
  worker.EndCopy(copies[2]);
  ASSERT_THAT(worker.sends, SizeIs(3));
  EXPECT_EQ(worker.sends[2].bytes, 4 * copies[2].elements);
}

TEST(WorkerDevice, TheDeviceConvertsWhereTheWireIsNarrower) {
  WorkerDriver worker(WithDevices());
  const auto info = WorkerDriver::Info(0, 2, 1);
  info->wire = WireFormat::kBfloat16;
  worker.Open(info);
  worker.Up(0);
  worker.Welcome(0, 4);
  worker.SubmitOnDevice(1, 100);
  worker.TensorReady(1);
  ASSERT_THAT(worker.device_copies, SizeIs(1));
  EXPECT_EQ(worker.device_copies[0].codec, WireCodec(DataType::kFloat32, WireFormat::kBfloat16));
  worker.AnswerAll(2);
  EXPECT_THAT(worker.encodes, IsEmpty());
  EXPECT_THAT(worker.decodes, IsEmpty());
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_TRUE(worker.done[0].status.ok());
}

TEST(WorkerDevice, AnOpIsDoneWhenItsResultsAreOnTheDeviceAndThoseForOthersAreKept) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(1, 100);
  LandOnlyChunk(&worker);
  ASSERT_THAT(worker.device_copies, SizeIs(1));
  const DeviceCopy to_device = worker.device_copies[0];
  EXPECT_TRUE(to_device.to_device());
  EXPECT_EQ(to_device.place, worker.accepts[0].data) << "where it landed";
  EXPECT_EQ(worker.accepts[0].data_at_once, nullptr) << "the transport can't write to a device";
  EXPECT_EQ(to_device.tensor, worker.memory(1));
  EXPECT_THAT(worker.done, IsEmpty());
  worker.device_copies.clear();
  worker.EndCopy(to_device);
  ASSERT_THAT(worker.device_copies, SizeIs(1)) << "some rank may lack the result (I3)";
  EXPECT_EQ(worker.device_copies[0].token.kind, DeviceCopyKind::kKept);
  EXPECT_THAT(worker.done, IsEmpty()) << "the tensor is still read";
  worker.EndCopy(worker.device_copies[0]);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_TRUE(worker.done[0].status.ok());
  EXPECT_THAT(worker.encodes, IsEmpty()) << "no processor may touch a device's memory";
  EXPECT_THAT(worker.decodes, IsEmpty());
}

TEST(WorkerDevice, ACellIsUsedAgainWhenItsResultIsOnTheDevice) {
  WorkerDriver worker(2, 1, 1, WithDevices());
  worker.SubmitOnDevice(1, 2 * kChunkElements);
  worker.TensorReady(1);
  const DeviceCopy first = worker.device_copies.at(0);
  worker.device_copies.clear();
  worker.EndCopy(first);
  worker.Sent(worker.sends.at(0));
  worker.OfferResult(worker.sends.at(0), 2);
  worker.Land(worker.accepts.at(0));
  ASSERT_THAT(worker.device_copies, SizeIs(1)) << "the place still holds the result";
  const DeviceCopy back = worker.device_copies[0];
  EXPECT_EQ(back.place, first.place);
  worker.device_copies.clear();
  worker.EndCopy(back);
  ASSERT_THAT(worker.device_copies, SizeIs(1));
  EXPECT_EQ(worker.device_copies[0].place, first.place);
  EXPECT_EQ(worker.device_copies[0].tensor, worker.memory(1) + 1024);
}

TEST(WorkerDevice, HoweverManyOpsAreUnderWayTheyTakeNoMoreThanTheGroupsWindow) {
  constexpr uint32_t kServers = 2;
  constexpr uint32_t kCredit = 3;
  constexpr uint64_t kOps = 60;
  constexpr uint64_t kWindowBytes = kServers * kCredit * 4096;
  const WorkerMachineOptions options = WithDevices();
  const StagingArena& arena = *options.staging_arena;
  WorkerDriver worker(2, kServers, kCredit, options);
  EXPECT_EQ(arena.taken_bytes(), kWindowBytes) << "of each server the chunks that may be in flight to it";
  for (uint64_t op = 1; op <= kOps; ++op) worker.SubmitOnDevice(op, 12 * kChunkElements);
  for (uint64_t op = 1; op <= kOps; ++op) worker.TensorReady(op);
  worker.EndCopies();
  while (!worker.sends.empty()) {
    for (const WorkerSendAction& send : std::exchange(worker.sends, {})) {
      worker.Sent(send);
      // All ranks have what came before the op.
      worker.OfferResult(send, 2, WorkerDriver::HeaderOf(send).op.value() - 1);
    }
    for (const WorkerAcceptAction& accept : std::exchange(worker.accepts, {})) worker.Land(accept);
    worker.EndCopies();
  }
  EXPECT_THAT(worker.done, SizeIs(kOps));
  // Beside the window there are results that another rank may lack, as many at most.
  EXPECT_GT(arena.most_taken_bytes(), kWindowBytes);
  EXPECT_LE(arena.most_taken_bytes(), 2 * kWindowBytes);
  EXPECT_LT(2 * kWindowBytes, kOps * 12 * 1024 / 8) << "of what was reduced";
}

TEST(WorkerDevice, AChunkWhoseServerIsLostDuringItsCopyIsPushedToTheNextOne) {
  WorkerDriver worker(2, 2, 4, WithDevices());
  worker.SubmitOnDevice(1, 2 * kChunkElements);
  worker.TensorReady(1);
  ASSERT_THAT(worker.device_copies, SizeIs(2));
  const std::vector<DeviceCopy> copies = worker.device_copies;
  worker.Clear();
  worker.Down(1);
  for (const DeviceCopy& copy : copies) worker.EndCopy(copy);
  ASSERT_THAT(worker.sends, SizeIs(1)) << "nothing for a server that is gone";
  EXPECT_EQ(worker.sends[0].peer, worker.ServerPeer(0));
  worker.Clear();
  Move(&worker, 1, 4, 4);
  EXPECT_THAT(worker.device_copies, SizeIs(2));
  worker.AnswerAll(2);
  ASSERT_THAT(worker.done, IsEmpty()) << "the transport still has the first push of the first epoch";
}

TEST(WorkerDevice, AResultWaitsForACopyOfAnEpochThatIsOver) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(1, kChunkElements);
  worker.TensorReady(1);
  const DeviceCopy old_copy = worker.device_copies.at(0);
  worker.Clear();
  Move(&worker, 1, 4, 4);
  const DeviceCopy copy = worker.device_copies.at(0);
  EXPECT_NE(copy.place, old_copy.place);
  worker.Clear();
  worker.EndCopy(copy);
  worker.Sent(worker.sends.at(0));
  worker.OfferResult(worker.sends.at(0), 2);
  EXPECT_THAT(worker.accepts, IsEmpty()) << "the old copy would read what is half a result";
  worker.Pass(10 * kNsPerS);
  EXPECT_THAT(worker.closes, IsEmpty()) << "no connection's end would end the copy";
  worker.EndCopy(old_copy);
  EXPECT_THAT(worker.accepts, SizeIs(1));
  EXPECT_THAT(worker.sends, SizeIs(1)) << "the old copy is for nobody";
}

TEST(WorkerDevice, AMoveWaitsForAResultOnItsWayToTheDevice) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(1, kChunkElements);
  LandOnlyChunk(&worker);
  const DeviceCopy to_device = worker.device_copies.at(0);
  worker.Clear();
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(1, 4)});
  EXPECT_THAT(worker.NotesOf(FrameType::kHello), IsEmpty()) << "half a result would be pushed as the contribution";
  worker.EndCopy(to_device);
  ASSERT_THAT(worker.NotesOf(FrameType::kHello), SizeIs(1));
  worker.EndCopies();
  EXPECT_THAT(worker.done, SizeIs(1));
}

TEST(WorkerDevice, ResultsThatAreBeingKeptWhenTheGroupMovesAreKeptOnce) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(1, kChunkElements);
  LandOnlyChunk(&worker);
  const DeviceCopy to_device = worker.device_copies.at(0);
  worker.device_copies.clear();
  worker.EndCopy(to_device);
  const DeviceCopy kept = worker.device_copies.at(0);
  worker.Clear();
  Move(&worker, 1, 4, 4);
  EXPECT_THAT(worker.device_copies, IsEmpty());
  worker.EndCopy(kept);
  ASSERT_THAT(worker.done, SizeIs(1));
  Ask(&worker, 1, 0, 4);
  ASSERT_THAT(worker.sends, SizeIs(1));
  EXPECT_EQ(worker.sends[0].data, kept.place);
  EXPECT_THAT(worker.device_copies, IsEmpty());
}

TEST(WorkerDevice, AResultOfAnOpThatIsNotDoneIsCopiedAndThenHandedOver) {
  WorkerDriver worker(WithDevices());
  AskForAResultOfAnOpenOp(&worker);
  EXPECT_THAT(worker.sends, IsEmpty());
  ASSERT_THAT(worker.device_copies, SizeIs(1));
  const DeviceCopy copy = worker.device_copies[0];
  EXPECT_EQ(copy.token.kind, DeviceCopyKind::kHandOver);
  EXPECT_EQ(copy.tensor, worker.memory(1));
  worker.EndCopy(copy);
  ASSERT_THAT(worker.sends, SizeIs(1));
  EXPECT_EQ(worker.sends[0].data, copy.place);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).contributors, 2u);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).epoch, Epoch(4));
}

TEST(WorkerDevice, AHandOverIsForgottenWhenTheGroupMovesDuringItsCopy) {
  WorkerDriver worker(WithDevices());
  AskForAResultOfAnOpenOp(&worker);
  const DeviceCopy copy = worker.device_copies.at(0);
  worker.Clear();
  Move(&worker, 1, 5, 2);
  worker.EndCopy(copy);
  for (const WorkerSendAction& send : worker.sends) EXPECT_EQ(WorkerDriver::HeaderOf(send).contributors, 0u);
}

TEST(WorkerDevice, AFailedOpEndsWhenItsCopiesHaveEnded) {
  for (const bool comes_back : {false, true}) {
    WorkerDriver worker(2, 1, 4, WithDevices());
    worker.SubmitOnDevice(1, kChunkElements);
    if (comes_back) {
      LandOnlyChunk(&worker);
    } else {
      worker.TensorReady(1);
    }
    const DeviceCopy copy = worker.device_copies.at(0);
    worker.Clear();
    worker.Command(AbortGroupCommand{GroupHandle(0), "enough"});
    EXPECT_THAT(worker.done, IsEmpty()) << "the device still uses its memory";
    worker.Pass(5 * kNsPerS);
    EXPECT_THAT(worker.closes, IsEmpty()) << "no connection's end would end the copy";
    EXPECT_EQ(worker.device_abandons, 1) << "it is not waited for without end";
    worker.EndCopy(copy, absl::AbortedError("abandoned"));
    ASSERT_THAT(worker.done, SizeIs(1));
    EXPECT_TRUE(absl::IsCancelled(worker.done[0].status)) << worker.done[0].status;
    EXPECT_THAT(worker.sends, IsEmpty());
  }
}

TEST(WorkerDevice, ACopyThatFailsFailsTheGroupWithWhatTheDeviceSaid) {
  for (const bool comes_back : {false, true}) {
    WorkerDriver worker(2, 1, 4, WithDevices());
    worker.SubmitOnDevice(1, kChunkElements);
    if (comes_back) {
      LandOnlyChunk(&worker);
    } else {
      worker.TensorReady(1);
    }
    worker.EndCopy(worker.device_copies.at(0), absl::InternalError("device 0: an illegal memory access"));
    ASSERT_THAT(worker.done, SizeIs(1));
    EXPECT_EQ(worker.done[0].status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(worker.done[0].status.message(), HasSubstr("device 0: an illegal memory access"));
    EXPECT_THAT(worker.failures_told, ElementsAre(HasSubstr("illegal memory access")));
  }
}

TEST(WorkerDevice, ATensorThatNeverWillBeReadyFailsTheGroup) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(1, kChunkElements);
  worker.TensorReady(1, absl::InternalError("device 0: out of memory"));
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_THAT(worker.done[0].status.message(), HasSubstr("device 0: out of memory"));
}

TEST(WorkerDevice, WhatAStreamSaysOfAnOpThatIsNotKnownHasNoConsequence) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(2, kChunkElements);
  worker.TensorReady(1, absl::InternalError("device 0: out of memory"));  // of a group that had the handle before
  worker.TensorReady(1);
  EXPECT_THAT(worker.done, IsEmpty());
  EXPECT_THAT(worker.device_copies, IsEmpty());
  worker.TensorReady(2);
  EXPECT_THAT(worker.device_copies, SizeIs(1));
}

TEST(WorkerDevice, AKernelThatNeverEndsIsNamedAtTheDeadline) {
  WorkerDriver worker(2, 1, 4, WithDevices());
  worker.SubmitOnDevice(1, kChunkElements, worker.now.monotonic_ns + 20 * kNsPerS);
  worker.Pass(19 * kNsPerS);
  ASSERT_FALSE(worker.waits.empty());
  EXPECT_THAT(worker.waits[0], HasSubstr("this rank's own device"));
  worker.Pass(kNsPerS);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(worker.done[0].status));
  EXPECT_THAT(worker.done[0].status.message(), HasSubstr("this rank's tensor is not ready"));
}

TEST(WorkerDevice, AnArenaThatIsTooSmallForTheGroupFailsItAndSaysWhatToSet) {
  WorkerDriver worker(WithDevices(/*pages=*/3));
  worker.OpenAll(2, 1, 4);  // a group of tensors in host memory would do with other memory
  worker.Submit(1, kChunkElements);
  worker.AnswerAll(2);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_TRUE(worker.done[0].status.ok());
  worker.Clear();
  worker.SubmitOnDevice(2, kChunkElements);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_TRUE(absl::IsResourceExhausted(worker.done[0].status)) << worker.done[0].status;
  EXPECT_THAT(worker.done[0].status.message(), HasSubstr("device_memory_bytes"));
  EXPECT_THAT(worker.failures_told, SizeIs(1)) << "the other ranks would wait for this one";
}

TEST(WorkerDevice, AWorkerWithoutDevicesRefusesTheirTensors) {
  WorkerDriver worker(2, 1, 4);
  worker.SubmitOnDevice(1, kChunkElements);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status.code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace shoal
