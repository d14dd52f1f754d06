// What of a group with rails goes to the node and what to the servers, when, and what the node hears of results.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/rails_fixture.h"

namespace shoal::rails {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- opening ----

TEST_F(RailsTest, TheGroupIsOpenWhenTheNodesRanksHaveMetAndTheServersHaveWelcomedIt) {
  worker.Open(Info(2));
  ASSERT_THAT(worker.local_opens, SizeIs(1));
  EXPECT_EQ(worker.local_opens[0].meeting_name, "cluster/1/0");
  EXPECT_EQ(worker.local_opens[0].rank, LocalRank(1));
  EXPECT_EQ(worker.local_opens[0].size, 2u);
  worker.Up(0);
  worker.Up(1);
  ASSERT_THAT(worker.NotesOf(FrameType::kHello), SizeIs(2));
  EXPECT_EQ(worker.NotesOf(FrameType::kHello)[0].header.rank, Rank(0)) << "the rank in the rail";
  worker.Welcome(0, 8);
  worker.GiveLocal(LocalGroupMet{kGroup});
  EXPECT_THAT(worker.opened, IsEmpty());
  worker.Welcome(1, 8);
  ASSERT_THAT(worker.opened, SizeIs(1)) << "callers hear of one group";
  EXPECT_EQ(worker.opened[0].status, absl::OkStatus());
}

TEST_F(RailsTest, ServersThatWelcomeItFirstWaitForTheMeeting) {
  worker.Open(Info(1));
  worker.Up(0);
  worker.Welcome(0, 8);
  EXPECT_THAT(worker.opened, IsEmpty());
  worker.GiveLocal(LocalGroupMet{kGroup});
  EXPECT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.machine().NextDeadlineNs(), kNoDeadline) << "nothing wakes a worker that is idle";
}

TEST_F(RailsTest, TheOpeningsDeadlineNamesTheRankOfTheNodeThatDidNotCome) {
  worker.missing = {LocalRank(0)};
  worker.Open(Info(1), 0, worker.now.monotonic_ns + 20 * kNsPerS);
  worker.Up(0);
  worker.Welcome(0, 8);
  worker.Pass(20 * kNsPerS);
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(
      worker.opened[0].status,
      absl::DeadlineExceededError("group \"world\" is not open: its ranks meet on their node, and rank 0 (rank 4 "
                                  "of the job) on node-a did not come (ranks that run and can't meet can use servers: "
                                  "SHOAL_NODE_REDUCE=off)"));
  EXPECT_THAT(worker.NotesOf(FrameType::kGroupFailed), SizeIs(1)) << "its rail hears of it";
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  EXPECT_THAT(worker.closed, IsEmpty());
}

TEST_F(RailsTest, TheOpeningsDeadlineNamesTheServerThatDidNotWelcomeIt) {
  worker.Open(Info(1), 0, worker.now.monotonic_ns + 20 * kNsPerS);
  worker.Up(0);
  worker.GiveLocal(LocalGroupMet{kGroup});
  worker.Pass(20 * kNsPerS);
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status,
            absl::DeadlineExceededError("group \"world\" is not open on server server-0 (10.0.0.0:7000) (connected, "
                                        "but no welcome)"));
  ASSERT_THAT(worker.local_fails, SizeIs(1)) << "the node hears of it";
  EXPECT_EQ(worker.local_fails[0].why, worker.opened[0].status);
}

TEST(Rails, ARailAloneIsNoGroup) {
  WorkerDriver worker(kOptions);
  worker.Open(Info(1)->rail);
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_TRUE(absl::IsUnimplemented(worker.opened[0].status)) << worker.opened[0].status;
}

// ---- ops ----

TEST_F(RailsTest, TheNodeGetsTheTensorAndTheServersItsPartAsFarAsTheNodesSumIsThere) {
  OpenAll();
  worker.Submit(1, kElements);
  ASSERT_THAT(worker.local_starts, SizeIs(1));
  EXPECT_EQ(worker.local_starts[0].data, worker.memory(1));
  EXPECT_EQ(worker.local_starts[0].element_count, kElements);
  EXPECT_TRUE(worker.local_starts[0].other_nodes);
  EXPECT_THAT(worker.sends, IsEmpty());
  Reduced(1, 0, kChunkElements - 1);
  EXPECT_THAT(worker.sends, IsEmpty()) << "one element of the chunk is not there";
  Reduced(1, kChunkElements - 1, 2 * kChunkElements);
  ASSERT_THAT(worker.sends, SizeIs(2));
  const FrameHeader header = WorkerDriver::HeaderOf(worker.sends[0]);
  EXPECT_EQ(header.bucket_elements, kPart);
  EXPECT_EQ(header.first_element, 0u);
  EXPECT_EQ(worker.sends[0].data, worker.memory(1) + 4 * kPart);
  Reduced(1, 2 * kChunkElements, kPart);
  ASSERT_THAT(worker.sends, SizeIs(4));
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[chunk]).chunk, ChunkNumber(chunk));
  }
}

TEST_F(RailsTest, AnOpIsDoneWhenTheNodeIsDoneAndNotBefore) {
  OpenAll();
  worker.Submit(1, kElements);
  ReduceAndAnswer(1);
  EXPECT_THAT(worker.done, IsEmpty()) << "the results of the other parts are not here";
  EndOp(1);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].ticket, 1u);
  EXPECT_EQ(worker.done[0].status, absl::OkStatus());
  const WorkerCounters counters = worker.machine().counters();
  EXPECT_EQ(counters.ops_completed, 1u);
  EXPECT_EQ(counters.bytes_on_node, 4 * kElements);
  EXPECT_EQ(counters.bytes_pushed, 4 * kPart);
}

TEST_F(RailsTest, ResultsAreGivenToTheNodeInOrderAfterTheyWereCopiedToTheTensor) {
  OpenAll();
  worker.Submit(1, kElements);
  Reduced(1, 0, kPart);
  const std::vector<WorkerSendAction> sends = std::exchange(worker.sends, {});
  ASSERT_THAT(sends, SizeIs(4));
  Answer(sends[1]);
  EXPECT_THAT(worker.decodes, SizeIs(1));
  EXPECT_THAT(worker.published, IsEmpty()) << "the first chunk is not back";
  Answer(sends[0]);
  EXPECT_THAT(worker.published, ElementsAre(Published{{kPart, 2 * kChunkElements}, 2}));
  Answer(sends[2]);
  Answer(sends[3]);
  // With the last one its results are kept for the other nodes as well, one copy each.
  ASSERT_THAT(worker.published, SizeIs(3));
  EXPECT_EQ(worker.published[1], (Published{{kPart + 2 * kChunkElements, kChunkElements}, 3}));
  EXPECT_EQ(worker.published[2].elements, (ElementRange{kPart + 3 * kChunkElements, kChunkElements}));
  EXPECT_GE(worker.published[2].copies_before, 4u);
  EndOp(1);
  EXPECT_THAT(worker.published, SizeIs(3));
}

TEST_F(RailsTest, OpsFollowEachOtherThroughBothHalves) {
  OpenAll(1, 2);
  for (uint64_t ticket = 1; ticket <= 3; ++ticket) worker.Submit(ticket, kElements);
  EXPECT_THAT(worker.local_starts, SizeIs(3));
  for (uint64_t ticket = 1; ticket <= 3; ++ticket) ReduceAndAnswer(ticket);
  EXPECT_THAT(worker.done, IsEmpty());
  uint64_t published = 0;
  for (const Published& each : worker.published) published += each.elements.count;
  EXPECT_EQ(published, 3 * kPart);
  for (uint64_t ticket = 1; ticket <= 3; ++ticket) {
    EndOp(ticket);
    ASSERT_THAT(worker.done, SizeIs(ticket));
    EXPECT_EQ(worker.done.back().ticket, ticket);
  }
}

TEST_F(RailsTest, AnEmptyPartHasNothingToPushAndCountsAsAnOp) {
  OpenAll();
  worker.Submit(1, kPartAlignmentElements);  // the first rank's alone
  worker.Submit(2, kElements);
  EndOp(1);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_THAT(worker.sends, IsEmpty());
  EXPECT_THAT(worker.published, IsEmpty());
  Reduced(2, 0, kPart);
  ASSERT_THAT(worker.sends, SizeIs(4));
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).op, OpNumber(2)) << "as in rails whose part is not empty";
}

TEST_F(RailsTest, AnEmptyTensorIsDoneAtOnce) {
  OpenAll();
  worker.Submit(1, 0);
  EXPECT_THAT(worker.done, SizeIs(1));
  EXPECT_THAT(worker.local_starts, IsEmpty());
  worker.Submit(2, kElements);
  ReduceAndAnswer(2);
  EndOp(2);
  EXPECT_THAT(worker.done, SizeIs(2));
}

TEST_F(RailsTest, TheNodeAppliesAFactorAndTheServersDivideAnAverage) {
  OpenAll();
  std::vector<FrameHeader> pushed;
  for (const auto& [ticket, op] : {std::pair(1, ReduceOp::kPremulSum), std::pair(2, ReduceOp::kAvg)}) {
    worker.Command(SubmitCommand{.group = kGroup,
                                 .ticket = static_cast<uint64_t>(ticket),
                                 .data = const_cast<std::byte*>(worker.memory(1)),
                                 .layout = *OpLayout::Make(*Info(1), kElements, DataType::kFloat32),
                                 .reduce_op = op,
                                 .premul_factor = 0.25,
                                 .deadline_ns = kNoDeadline});
    Reduced(ticket, 0, kPart);
    pushed.push_back(WorkerDriver::HeaderOf(worker.sends.at(0)));
    worker.AnswerAll(2);
  }
  ASSERT_THAT(worker.local_starts, SizeIs(2));
  EXPECT_EQ(worker.local_starts[0].reduce_op, ReduceOp::kPremulSum);
  EXPECT_EQ(worker.local_starts[0].premul_factor, 0.25);
  EXPECT_EQ(pushed[0].reduce_op, ReduceOp::kPremulSum) << "so that a server sees whether nodes disagree";
  EXPECT_EQ(pushed[0].premul_factor, 0.25);
  EXPECT_EQ(worker.local_starts[1].reduce_op, ReduceOp::kAvg);
  EXPECT_EQ(pushed[1].reduce_op, ReduceOp::kAvg);
}

TEST_F(RailsTest, A16BitWireIsWidenedBeforeTheNodeGetsIt) {
  OpenAll(1, 8, WireFormat::kBfloat16);
  worker.Submit(1, kElements);
  EXPECT_EQ(worker.local_starts.at(0).codec, WireCodec(DataType::kFloat32, WireFormat::kBfloat16));
  Reduced(1, 0, 2 * kChunkElements - 1);
  EXPECT_THAT(worker.sends, IsEmpty()) << "a chunk of 16-bit numbers has twice as many elements";
  Reduced(1, 2 * kChunkElements - 1, kPart);
  ASSERT_THAT(worker.sends, SizeIs(2));
  EXPECT_THAT(worker.encodes, SizeIs(2));
  const std::vector<WorkerSendAction> sends = std::exchange(worker.sends, {});
  Answer(sends[0]);
  EXPECT_THAT(worker.published, ElementsAre(Published{{kPart, 2 * kChunkElements}, 1}));
  EXPECT_THAT(worker.decodes, SizeIs(1));
}

// ---- moves ----

TEST_F(RailsTest, AServersDeathStaysInsideTheRail) {
  OpenAll(2);
  worker.Submit(1, kElements);
  Reduced(1, 0, 3 * kChunkElements);
  const std::vector<WorkerSendAction> sends = std::exchange(worker.sends, {});
  ASSERT_THAT(sends, SizeIs(3));
  Answer(sends[0]);
  const uint64_t published = worker.published.size();
  const uint32_t dead = sends[0].peer == worker.ServerPeer(0) ? 1 : 0;
  const uint32_t alive = 1 - dead;
  for (const WorkerSendAction& send : {sends[1], sends[2]}) worker.Sent(send);
  worker.Down(dead);
  worker.Pass(kNsPerS);
  worker.Down(dead, absl::UnavailableError("connection refused"));
  ASSERT_FALSE(worker.troubles.empty());
  EXPECT_EQ(worker.troubles[0].group, GroupId(1));
  EXPECT_EQ(worker.troubles[0].server, ServerId(dead + 1));
  EXPECT_THAT(worker.local_fails, IsEmpty());
  std::vector<Shard> shards = {WorkerDriver::Map(2)->shards()[alive]};
  worker.Command(MoveGroupCommand{GroupId(1), std::make_shared<ShardMap>(*ShardMap::Make(Epoch(4), shards))});
  worker.Welcome(alive, 8, 0, 1, 4);
  ASSERT_THAT(worker.sends, SizeIs(2)) << "what is reduced and not back goes to the new owner, the last chunk waits";
  Reduced(1, 3 * kChunkElements, kPart);
  ASSERT_THAT(worker.sends, SizeIs(3));
  worker.AnswerAll(2);
  EXPECT_GT(worker.published.size(), published);
  EXPECT_EQ(worker.published.back().elements.first + worker.published.back().elements.count, kElements);
  EndOp(1);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status, absl::OkStatus());
}

TEST_F(RailsTest, AMapThatCameBeforeTheGroupIsItsFirst) {
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(2, 4)});
  worker.Open(Info(1));
  worker.Up(0);
  worker.Up(1);
  for (const SentNote& hello : worker.NotesOf(FrameType::kHello)) EXPECT_EQ(hello.header.epoch, Epoch(4));
  EXPECT_THAT(worker.NotesOf(FrameType::kHello), SizeIs(2));
}

TEST_F(RailsTest, TheSchedulerGivesTheGroupUpByTheRailsId) {
  OpenAll();
  worker.Submit(1, kElements);
  worker.Command(GiveGroupUpCommand{GroupId(1), absl::ResourceExhaustedError("no server has memory for it")});
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EndOp(1, absl::ResourceExhaustedError("as the node passes it on"));
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status,
            absl::ResourceExhaustedError(absl::StrCat("no server has memory for it; ", kFirstOp)));
}

}  // namespace
}  // namespace shoal::rails
