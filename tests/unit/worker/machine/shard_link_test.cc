// What a link to a shard and a chunk in flight go through.
#include "worker/machine/shard_link.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr ChunkPlace kFirst{.op = OpNumber(1)};

class ShardLinkTest : public ::testing::Test {
 protected:
  ShardLinkTest()
      : connections_(&options_), ops_(GroupId(1)), link_(connections_.Find("10.0.0.1:7000", "alpha"), OpNumber(1)) {
    map_ = *ShardMap::Make(Epoch(3), {{.server = ServerId(1), .server_name = "alpha", .address = "10.0.0.1:7000"}});
    info_.max_chunk_bytes = 1024;
  }

  void Submit(uint64_t chunks) {
    SubmitCommand command;
    command.layout = OpLayout::Make(info_, chunks * 256, DataType::kFloat32).value();
    ops_.Add(command, map_);
  }
  bool FindNext() { return link_.FindNext(0, map_, ops_, OpNumber(0)); }
  uint16_t Push() {
    EXPECT_TRUE(link_.CanPush() && FindNext());
    return link_.Push(OpNumber(0));
  }
  void Welcome(uint32_t credit) {
    link_.Greet(OpNumber(0));
    link_.Welcome(credit, nullptr);
  }

  const WorkerMachineOptions options_;
  Connections connections_;
  GroupInfo info_;
  ShardMap map_;
  OpQueue ops_;
  ShardLink link_;
};

TEST_F(ShardLinkTest, IsInUseFromItsGreetingToItsLoss) {
  EXPECT_FALSE(link_.in_use());
  link_.Greet(OpNumber(0));
  EXPECT_TRUE(link_.in_use());
  EXPECT_FALSE(link_.CanPush());
  link_.Welcome(2, nullptr);
  EXPECT_TRUE(link_.in_use() && link_.welcomed() && link_.CanPush());
  link_.Lose("connection reset");
  EXPECT_FALSE(link_.in_use() || link_.welcomed() || link_.CanPush());
  EXPECT_EQ(link_.lost_because(), "connection reset");
}

TEST_F(ShardLinkTest, ALossIsReportedOnceAndTakenBackWhenItsServerIsReached) {
  EXPECT_FALSE(link_.TakeReport(true)) << "it is not lost";
  link_.Lose("gone");
  EXPECT_TRUE(link_.TakeReport(false));
  EXPECT_FALSE(link_.TakeReport(false));
  EXPECT_TRUE(link_.TakeReport(true));
}

TEST_F(ShardLinkTest, ServersHearOfAWatermarkOnce) {
  EXPECT_FALSE(link_.TakeWatermark(OpNumber(1))) << "not before it is welcomed";
  Welcome(2);
  EXPECT_TRUE(link_.TakeWatermark(OpNumber(1)));
  EXPECT_FALSE(link_.TakeWatermark(OpNumber(1)));
  Submit(1);
  EXPECT_TRUE(FindNext());
  link_.Push(OpNumber(2));
  EXPECT_FALSE(link_.TakeWatermark(OpNumber(2))) << "the push carried it";
}

TEST_F(ShardLinkTest, TheWindowMovesOnWithItsOldestChunk) {
  Welcome(2);
  Submit(3);
  const uint16_t first = Push();
  const uint16_t second = Push();
  EXPECT_FALSE(link_.CanPush());
  link_.Finish(second);
  EXPECT_FALSE(link_.CanPush());
  EXPECT_EQ(link_.OldestInFlight(), kFirst);
  link_.Finish(first);
  EXPECT_TRUE(link_.CanPush());
  EXPECT_EQ(link_.OldestInFlight(), std::nullopt);
}

TEST_F(ShardLinkTest, AChunkHoldsMemoryWhileItIsReadAndWhileItsResultIsWritten) {
  Welcome(1);
  Submit(1);
  const uint16_t cell = Push();
  link_.chunk(cell).StartSend(/*from_tensor=*/true, PushPace());
  EXPECT_TRUE(link_.HoldsMemory() && link_.ReadsTensor(kFirst));
  link_.chunk(cell).Hold(OfferId(8));
  EXPECT_FALSE(link_.chunk(cell).MayTakeResult());
  EXPECT_FALSE(link_.chunk(cell).EndSend());
  EXPECT_FALSE(link_.HoldsMemory() || link_.ReadsTensor(kFirst));
  EXPECT_TRUE(link_.chunk(cell).MayTakeResult());
  EXPECT_EQ(link_.chunk(cell).StartLanding(), OfferId(8));
  EXPECT_TRUE(link_.HoldsMemory());
  EXPECT_TRUE(link_.ResultMayBeInTensor()) << "nobody has said where it goes";
  link_.chunk(cell).NoteTaken(/*at_once=*/false);
  EXPECT_FALSE(link_.ResultMayBeInTensor());
  link_.chunk(cell).EndLanding(/*whole=*/true);
  EXPECT_TRUE(link_.chunk(cell).HasResult());
  link_.Finish(cell);
  EXPECT_FALSE(link_.HoldsMemory() || link_.FindCell(kFirst).has_value());
}

TEST_F(ShardLinkTest, ACopyFromOrToADeviceHoldsMemoryThatNoConnectionFrees) {
  Welcome(1);
  Submit(1);
  const uint16_t cell = Push();
  link_.chunk(cell).StartSend(/*from_tensor=*/false, {.in_one_go = true, .in_flight = 2});
  link_.chunk(cell).StartCopy();
  EXPECT_TRUE(link_.HoldsMemory() && link_.ReadsTensor(kFirst));
  EXPECT_FALSE(link_.IsInTransport());
  EXPECT_FALSE(link_.chunk(cell).Preempt()) << "it is pushed again when this push has ended";
  link_.chunk(cell).EndCopy();
  EXPECT_TRUE(link_.HoldsMemory() && link_.IsInTransport());
  EXPECT_FALSE(link_.ReadsTensor(kFirst)) << "the transport reads the place";
  EXPECT_TRUE(link_.chunk(cell).pace().in_one_go);
  EXPECT_EQ(link_.chunk(cell).pace().in_flight, 2u);
  EXPECT_TRUE(link_.chunk(cell).EndSend());
  link_.chunk(cell).StartSend(/*from_tensor=*/false, PushPace());
  link_.chunk(cell).EndSend();
  link_.chunk(cell).Hold(OfferId(8));
  link_.chunk(cell).StartLanding();
  link_.chunk(cell).NoteTaken(/*at_once=*/false);
  link_.chunk(cell).EndLanding(/*whole=*/true);
  EXPECT_FALSE(link_.HoldsMemory() || link_.ResultMayBeInTensor());
  link_.chunk(cell).StartCopy();
  EXPECT_TRUE(link_.HoldsMemory() && link_.ResultMayBeInTensor());
  EXPECT_FALSE(link_.IsInTransport() || link_.ReadsTensor(kFirst));
  link_.chunk(cell).EndCopy();
  EXPECT_FALSE(link_.HoldsMemory() || link_.ResultMayBeInTensor());
}

TEST_F(ShardLinkTest, APreemptedChunkIsPushedAgainUnlessItsResultIsHere) {
  Welcome(1);
  Submit(1);
  const uint16_t cell = Push();
  link_.chunk(cell).StartSend(/*from_tensor=*/true, PushPace());
  EXPECT_FALSE(link_.chunk(cell).Preempt()) << "the transport still reads it";
  EXPECT_TRUE(link_.chunk(cell).EndSend());
  link_.chunk(cell).StartSend(/*from_tensor=*/true, PushPace());
  EXPECT_FALSE(link_.chunk(cell).EndSend()) << "once";
  EXPECT_TRUE(link_.chunk(cell).Preempt());
  link_.chunk(cell).StartSend(/*from_tensor=*/true, PushPace());
  link_.chunk(cell).EndSend();
  link_.chunk(cell).Hold(OfferId(8));
  EXPECT_FALSE(link_.chunk(cell).Preempt());
  EXPECT_EQ(link_.DropHeld(), std::vector<OfferId>{OfferId(8)});
  EXPECT_TRUE(link_.DropHeld().empty());
}

}  // namespace
}  // namespace shoal
