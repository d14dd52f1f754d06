// A group with a 16-bit wire: when chunks are converted, where they wait, and that a place is not used too early.
#include <cstring>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kHalfChunkElements = 512;  // 1 KiB of 16-bit numbers
constexpr WireCodec kBfloat16Wire(DataType::kFloat32, WireFormat::kBfloat16);

// Rank 0 of 2, one server, bf16 on the wire.
void OpenNarrow(WorkerDriver* worker, uint32_t credit) {
  const auto info = WorkerDriver::Info(0, 2, 1);
  info->wire = WireFormat::kBfloat16;
  worker->Open(info);
  worker->Up(0);
  worker->Welcome(0, credit);
  ASSERT_EQ(worker->opened.size(), 1u);
  ASSERT_TRUE(worker->opened[0].status.ok()) << worker->opened[0].status;
  worker->Clear();
}

TEST(WorkerWire, AChunkIsNarrowedToAPlaceOfItsOwnAndSentFromThere) {
  WorkerDriver worker;
  OpenNarrow(&worker, 4);
  worker.Submit(1, 3 * kHalfChunkElements + 5);
  ASSERT_EQ(worker.sends.size(), 4u);
  ASSERT_EQ(worker.encodes.size(), 4u);
  std::set<const std::byte*> places;
  uint64_t elements = 0;
  for (size_t i = 0; i < 4; ++i) {
    const FrameHeader header = WorkerDriver::HeaderOf(worker.sends[i]);
    EXPECT_EQ(header.codec, kBfloat16Wire);
    EXPECT_EQ(header.bucket_elements, 3 * kHalfChunkElements + 5);
    EXPECT_EQ(worker.sends[i].bytes, 2 * uint64_t{header.chunk_elements});
    EXPECT_EQ(worker.sends[i].data, worker.encodes[i].place);
    EXPECT_EQ(worker.encodes[i].codec, kBfloat16Wire);
    EXPECT_EQ(worker.encodes[i].tensor, worker.memory(1) + 4 * header.first_element);
    EXPECT_EQ(worker.encodes[i].elements, header.chunk_elements);
    places.insert(worker.encodes[i].place);
    elements += header.chunk_elements;
  }
  EXPECT_EQ(places.size(), 4u);
  EXPECT_EQ(elements, 3 * kHalfChunkElements + 5);
}

TEST(WorkerWire, AResultLandsInItsPlaceAndIsWidenedIntoTheTensor) {
  WorkerDriver worker;
  OpenNarrow(&worker, 2);
  worker.Submit(1, kHalfChunkElements + 7);
  const std::vector<WorkerSendAction> sends = worker.sends;
  const std::vector<WorkerEncodeAction> encodes = worker.encodes;
  worker.Clear();
  // The result of the second comes before its push has left: its place must not be written yet.
  worker.OfferResult(sends[1], 2);
  EXPECT_TRUE(worker.accepts.empty());
  worker.Sent(sends[1]);
  ASSERT_EQ(worker.accepts.size(), 1u);
  EXPECT_EQ(worker.accepts[0].data, encodes[1].place);
  EXPECT_EQ(worker.accepts[0].bytes, sends[1].bytes);
  EXPECT_TRUE(worker.decodes.empty());
  worker.Land(worker.accepts[0]);
  ASSERT_EQ(worker.decodes.size(), 1u);
  EXPECT_EQ(worker.decodes[0].place, encodes[1].place);
  EXPECT_EQ(worker.decodes[0].tensor, encodes[1].tensor);
  EXPECT_EQ(worker.decodes[0].elements, encodes[1].elements);
  EXPECT_EQ(worker.decodes[0].codec, kBfloat16Wire);
  worker.Sent(sends[0]);
  worker.OfferResult(sends[0], 2);
  worker.Land(worker.accepts[1]);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_TRUE(worker.done[0].status.ok());
  EXPECT_EQ(worker.machine().counters().bytes_pushed, 2 * (kHalfChunkElements + 7));
  EXPECT_EQ(worker.machine().counters().bytes_pulled, 2 * (kHalfChunkElements + 7));
}

TEST(WorkerWire, TheLastResultOutlivesItsGroup) {
  WorkerDriver worker;
  OpenNarrow(&worker, 1);
  worker.Submit(1, 10);
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  const WorkerSendAction send = worker.sends.at(0);
  worker.Sent(send);
  worker.OfferResult(send, 2);
  worker.Land(worker.accepts.at(0));
  FrameHeader committed = WorkerDriver::Header(FrameType::kCommit);
  committed.commit_watermark = OpNumber(1);
  worker.GiveNote(0, MakeNote(committed));
  ASSERT_EQ(worker.closed.size(), 1u);
  ASSERT_EQ(worker.decodes.size(), 1u);
  worker.encodes.clear();
  EXPECT_EQ(worker.decodes[0].staging.use_count(), 1) << "the group is gone, the place is not";
  std::byte first{};
  std::memcpy(&first, worker.decodes[0].place, 1);
}

TEST(WorkerWire, ResultsThatDoNotFitTheWireFailTheGroup) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kBfloat16}) {
    WorkerDriver worker;
    OpenNarrow(&worker, 1);
    worker.Submit(1, 10);
    const WorkerSendAction send = worker.sends.at(0);
    worker.Sent(send);
    FrameHeader header = WorkerDriver::HeaderOf(send);
    header.type = FrameType::kResult;
    header.contributors = 2;
    header.codec = WireCodec(dtype);
    worker.Offer(send.peer, header, header.payload_bytes());
    ASSERT_EQ(worker.done.size(), 1u);
    EXPECT_THAT(std::string(worker.done[0].status.message()), HasSubstr("does not fit what was pushed"));
  }
}

TEST(WorkerWire, CreditBeyondTheStagingMemoryIsNotUsed) {
  EXPECT_EQ(StagingMemory::Places(1000, 1024), 1000u);
  EXPECT_EQ(StagingMemory::Places(1000, 16u << 20), 16u);
  EXPECT_EQ(StagingMemory::Places(1, 16u << 20), 1u);
  EXPECT_GE(StagingMemory::Places(1024, 1u << 20), 1u);
  const auto staging = StagingMemory::Allocate(3, 5000, /*arena=*/nullptr);
  ASSERT_TRUE(staging.ok());
  EXPECT_GE((*staging)->Place(1) - (*staging)->Place(0), 5000);
  std::memset((*staging)->Place(2), 1, 5000);
}

}  // namespace
}  // namespace shoal
