#include "worker/machine/worker_machine.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/bucket_plan.h"
#include "core/op_ledger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(WorkerMachine, SaysHelloOnEveryServerAndOpensWhenAllWelcomed) {
  WorkerDriver worker;
  worker.Open(WorkerDriver::Info(1, 2, 2));
  EXPECT_THAT(worker.connects, ElementsAre(0, 1));
  EXPECT_TRUE(worker.notes.empty());
  worker.Up(0);
  worker.Up(1);
  const std::vector<SentNote> hellos = worker.NotesOf(FrameType::kHello);
  ASSERT_EQ(hellos.size(), 2u);
  EXPECT_EQ(hellos[1].peer, worker.ServerPeer(1));
  EXPECT_EQ(hellos[1].header.group, GroupId(1));
  EXPECT_EQ(hellos[1].header.epoch, Epoch(3));
  EXPECT_EQ(hellos[1].header.rank, Rank(1));
  EXPECT_EQ(hellos[1].body, std::vector<std::byte>(kGroupTokenBytes, std::byte{6}));
  worker.Welcome(1, 4, 1);
  EXPECT_TRUE(worker.opened.empty());
  worker.Welcome(0, 4, 1);
  ASSERT_EQ(worker.opened.size(), 1u);
  EXPECT_TRUE(worker.opened[0].status.ok());
}

// A slow link gives small chunks and a fast one large chunks (core/flow_plan.h).
TEST(WorkerMachine, ATensorOfTheLargestSizeIsPushedInSmallAndInLargeChunks) {
  for (const uint32_t chunk_bytes : {kSmallestChosenChunkBytes, kMaxChunkBytes}) {
    WorkerDriver worker;
    const std::shared_ptr<GroupInfo> info = WorkerDriver::Info(0, 1, 1);
    info->max_chunk_bytes = chunk_bytes;
    worker.Open(info);
    worker.Up(0);
    worker.Welcome(0, 4);
    worker.Submit(1, kMaxBucketBytes / sizeof(float));
    EXPECT_TRUE(worker.done.empty()) << "in chunks of " << chunk_bytes << ": " << worker.done[0].status;
    ASSERT_EQ(worker.sends.size(), 4u);
    EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).bucket_elements, kMaxBucketBytes / sizeof(float));
  }
}

TEST(WorkerMachine, TriesServersThatAreNotThereUntilTheyAre) {
  WorkerDriver worker;
  worker.Open(WorkerDriver::Info(0, 1, 1));
  for (int i = 0; i < 5; ++i) {
    worker.connects.clear();
    worker.Down(0, absl::UnavailableError("connection refused"));
    EXPECT_TRUE(worker.connects.empty()) << "not at once again";
    const uint64_t next_ns = worker.machine().NextDeadlineNs();
    EXPECT_EQ(next_ns, worker.now.monotonic_ns + 200 * kNsPerMs);
    worker.TickAt(next_ns);
    EXPECT_THAT(worker.connects, ElementsAre(0));
  }
  worker.Up(0);
  worker.Welcome(0, 1);
  EXPECT_TRUE(worker.opened.at(0).status.ok());
}

TEST(WorkerMachine, MissingServersAreNamedAtTheDeadlineWithWhatIsKnown) {
  WorkerDriver worker;
  worker.unconnectable = {2};
  worker.Open(WorkerDriver::Info(0, 1, 3), 0, 10 * kNsPerS);
  worker.Submit(5, 100);
  worker.Up(0);
  worker.Down(1, absl::UnavailableError("connection refused"));
  worker.TickAt(10 * kNsPerS - 1);
  EXPECT_TRUE(worker.opened.empty());
  worker.TickAt(10 * kNsPerS);
  ASSERT_EQ(worker.opened.size(), 1u);
  EXPECT_EQ(
      worker.opened[0].status,
      absl::DeadlineExceededError("group \"world\" is not open on server server-0 (10.0.0.0:7000) (connected, but "
                                  "no welcome), server server-1 (10.0.0.1:7000) (connection refused), server "
                                  "server-2 (10.0.0.2:7000) (not an address)"));
  ASSERT_EQ(worker.done.size(), 1u) << "an op that was submitted meanwhile ends as well";
  EXPECT_EQ(worker.done[0].status, worker.opened[0].status);
}

TEST(WorkerMachine, OpsSubmittedBeforeTheGroupIsOpenGoOutThen) {
  WorkerDriver worker;
  worker.Open(WorkerDriver::Info(0, 1, 1));
  worker.Submit(7, 100);
  EXPECT_TRUE(worker.sends.empty());
  worker.Up(0);
  worker.Welcome(0, 2);
  ASSERT_EQ(worker.sends.size(), 1u);
  worker.AnswerAll(1);
  EXPECT_EQ(worker.done.at(0).ticket, 7u);
}

// All ranks push in one order, so that results flow back while pushes still go out: op by op, chunk by chunk.
TEST(WorkerMachine, ChunksAreDealtToTheirOwnersInTheOrderAllRanksShare) {
  WorkerDriver worker(2, 3, 16);
  worker.Submit(1, 5 * 256);
  worker.Submit(2, 3 * 256);
  const std::shared_ptr<const ShardMap> map = WorkerDriver::Map(3);
  ASSERT_EQ(worker.sends.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    const FrameHeader header = WorkerDriver::HeaderOf(worker.sends[i]);
    const uint64_t op = i < 5 ? 1 : 2;
    const auto chunk = static_cast<uint32_t>(i < 5 ? i : i - 5);
    EXPECT_EQ(header.type, FrameType::kPush);
    EXPECT_EQ(header.op, OpNumber(op));
    EXPECT_EQ(header.chunk, ChunkNumber(chunk));
    EXPECT_EQ(header.bucket_elements, op == 1 ? 5u * 256 : 3u * 256);
    EXPECT_EQ(header.chunk_elements, 256u);
    EXPECT_EQ(worker.sends[i].peer, worker.ServerPeer(map->Owner(GroupId(1), i)));
    EXPECT_EQ(worker.sends[i].data, worker.memory(op) + chunk * 1024);
    EXPECT_EQ(worker.sends[i].bytes, 1024u);
  }
}

TEST(WorkerMachine, TheWindowHoldsTheOldestChunk) {
  WorkerDriver worker(2, 1, 3);
  worker.Submit(1, 6 * 256);
  ASSERT_EQ(worker.sends.size(), 3u);
  const std::vector<WorkerSendAction> first = std::exchange(worker.sends, {});
  for (const WorkerSendAction& send : first) worker.Sent(send);
  for (size_t i : {1u, 2u}) {
    worker.OfferResult(first[i], 2);
    worker.Land(worker.accepts.at(0));
    worker.accepts.clear();
  }
  EXPECT_TRUE(worker.sends.empty()) << "chunk 0 is not back: chunk 3 would leave it outside of the window";
  worker.OfferResult(first[0], 2);
  worker.Land(worker.accepts.at(0));
  worker.accepts.clear();
  ASSERT_EQ(worker.sends.size(), 3u);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).chunk, ChunkNumber(3));
  worker.AnswerAll(2);
  EXPECT_EQ(worker.done.size(), 1u);
}

TEST(WorkerMachine, AResultThatOvertakesTheEndOfItsPushIsHeld) {
  WorkerDriver worker(1, 1, 2);
  worker.Submit(1, 100);
  const WorkerSendAction send = worker.sends.at(0);
  const OfferId offer = worker.OfferResult(send, 1);
  EXPECT_TRUE(worker.accepts.empty()) << "the network still reads the memory that the result goes to";
  worker.Sent(send);
  ASSERT_EQ(worker.accepts.size(), 1u);
  EXPECT_EQ(worker.accepts[0].offer, offer);
  EXPECT_EQ(worker.accepts[0].data_at_once, worker.memory(1));
  EXPECT_EQ(worker.accepts[0].bytes, 400u);
  worker.Land(worker.accepts[0]);
  EXPECT_EQ(worker.done.size(), 1u);
}

TEST(WorkerMachine, AnOpIsDoneOnceAndOnlyWhenAllOfItLanded) {
  WorkerDriver worker(2, 2, 8);
  worker.Submit(9, 4 * 256);
  const std::vector<WorkerSendAction> sends = std::exchange(worker.sends, {});
  for (const WorkerSendAction& send : sends) worker.Sent(send);
  for (size_t i = 0; i < 4; ++i) {
    worker.OfferResult(sends[i], 2);
    EXPECT_TRUE(worker.done.empty());
    worker.Land(worker.accepts.at(0));
    worker.accepts.clear();
  }
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_EQ(worker.done[0].ticket, 9u);
  EXPECT_TRUE(worker.done[0].status.ok());
  const WorkerCounters counters = worker.machine().counters();
  EXPECT_EQ(counters.ops_completed, 1u);
  EXPECT_EQ(counters.chunks_pushed, 4u);
  EXPECT_EQ(counters.bytes_pushed, 4096u);
  EXPECT_EQ(counters.bytes_pulled, 4096u);
  EXPECT_EQ(counters.shards.at(0).bytes_pushed + counters.shards.at(1).bytes_pushed, 4096u);
}

TEST(Invariant, I2AResultLandsOnce) {
  WorkerDriver worker(1, 1, 2);
  worker.Submit(1, 2 * 256);
  const WorkerSendAction send = worker.sends.at(0);
  worker.OfferResult(send, 1);
  const OfferId while_held = worker.OfferResult(send, 1);
  worker.Sent(send);
  const OfferId while_landing = worker.OfferResult(send, 1);
  ASSERT_EQ(worker.accepts.size(), 1u);
  worker.Land(worker.accepts[0]);
  const OfferId after = worker.OfferResult(send, 1);
  EXPECT_THAT(worker.declines, ElementsAre(while_held, while_landing, after));
  EXPECT_EQ(worker.accepts.size(), 1u);
  EXPECT_TRUE(worker.done.empty());
  EXPECT_EQ(worker.machine().counters().refusals, 3u);
}

TEST(WorkerMachine, AnOpWithoutElementsIsDoneAtOnceAndKeepsItsNumber) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, 0);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_TRUE(worker.done[0].status.ok());
  EXPECT_TRUE(worker.sends.empty());
  worker.Submit(2, 10);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends.at(0)).op, OpNumber(2));
}

// Ops without elements need no other rank, so a worker can run ahead of the group by any number of them.
TEST(WorkerMachine, NeverPushesFurtherAheadOfTheGroupThanAServerKeeps) {
  WorkerDriver worker(2, 1, 2);
  for (uint64_t op = 1; op <= kMaxUncommittedOps; ++op) worker.Submit(op, 0);
  worker.Submit(1000, 10);
  EXPECT_TRUE(worker.sends.empty()) << "the server would refuse it: it knows nothing of the other rank";
  FrameHeader commit = WorkerDriver::Header(FrameType::kCommit);
  commit.commit_watermark = OpNumber(1);
  worker.GiveNote(0, MakeNote(commit));
  ASSERT_EQ(worker.sends.size(), 1u);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).op, OpNumber(kMaxUncommittedOps + 1));
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).commit_watermark, OpNumber(1));
}

TEST(WorkerMachine, PushesCarryTheWatermarkAndALonelyOneGoesOutAlone) {
  WorkerDriver worker(1, 2, 2);
  worker.Submit(1, 100);
  worker.AnswerAll(1);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_TRUE(worker.notes.empty());
  const uint64_t due_ns = worker.machine().NextDeadlineNs();
  EXPECT_EQ(due_ns, worker.now.monotonic_ns + 10 * kNsPerMs);
  worker.TickAt(due_ns);
  const std::vector<SentNote> commits = worker.NotesOf(FrameType::kCommit);
  ASSERT_EQ(commits.size(), 2u) << "every server is told";
  for (const SentNote& note : commits) EXPECT_EQ(note.header.landed_watermark, OpNumber(1));
  EXPECT_EQ(worker.machine().NextDeadlineNs(), kNoDeadline) << "once";

  worker.Clear();
  worker.Submit(2, 4 * 256);
  worker.AnswerAll(1);
  worker.Submit(3, 4 * 256);
  for (const WorkerSendAction& send : worker.sends) {
    EXPECT_EQ(WorkerDriver::HeaderOf(send).landed_watermark, OpNumber(2));
  }
  worker.TickAt(worker.machine().NextDeadlineNs());
  EXPECT_TRUE(worker.NotesOf(FrameType::kCommit).empty()) << "the pushes said it";
}

TEST(WorkerMachine, TheWatermarkStopsAtTheFirstOpThatIsNotDone) {
  WorkerDriver worker(1, 1, 8);
  for (uint64_t op = 1; op <= 3; ++op) worker.Submit(op, 100);
  const std::vector<WorkerSendAction> sends = std::exchange(worker.sends, {});
  for (const WorkerSendAction& send : sends) worker.Sent(send);
  for (size_t i : {2u, 1u}) {
    worker.OfferResult(sends[i], 1);
    worker.Land(worker.accepts.at(0));
    worker.accepts.clear();
  }
  EXPECT_EQ(worker.done.size(), 2u) << "ops may end out of order";
  worker.Submit(4, 100);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends.at(0)).landed_watermark, OpNumber(0));
  worker.OfferResult(sends[0], 1, 0);
  worker.Land(worker.accepts.at(0));
  worker.Submit(5, 100);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends.at(1)).landed_watermark, OpNumber(3));
}

TEST(WorkerMachine, TheCommitWatermarkOfOneServerReachesTheOthers) {
  WorkerDriver worker(2, 2, 8);
  worker.Submit(1, 100);
  const WorkerSendAction send = worker.sends.at(0);
  worker.sends.clear();
  worker.Sent(send);
  worker.OfferResult(send, 2, 1);
  worker.Submit(2, 4 * 256);
  std::set<PeerId> told;
  for (const WorkerSendAction& push : worker.sends) {
    EXPECT_EQ(WorkerDriver::HeaderOf(push).commit_watermark, OpNumber(1));
    told.insert(push.peer);
  }
  EXPECT_EQ(told.size(), 2u);
}

TEST(WorkerMachine, TwoGroupsShareTheConnections) {
  WorkerDriver worker(2, 2, 4);
  worker.OpenAll(2, 2, 4, 1, 2);
  EXPECT_TRUE(worker.connects.empty());
  worker.Submit(1, 100, 0);
  worker.Submit(2, 100, 1);
  ASSERT_EQ(worker.sends.size(), 2u);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).group, GroupId(1));
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[1]).group, GroupId(2));
  worker.AnswerAll(2);
  EXPECT_EQ(worker.done.size(), 2u);
}

TEST(WorkerMachine, ClosingWaitsForTheOpsAndLeavesOrderly) {
  WorkerDriver worker(1, 2, 4);
  worker.Submit(1, 100);
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  EXPECT_TRUE(worker.closed.empty());
  worker.AnswerAll(1);
  EXPECT_EQ(worker.done.size(), 1u);
  EXPECT_EQ(worker.closed.size(), 1u);
  EXPECT_EQ(worker.NotesOf(FrameType::kLeaveGroup).size(), 2u);
  ASSERT_EQ(worker.notes.size(), 4u);
  EXPECT_EQ(worker.notes[0].header.type, FrameType::kCommit) << "the last watermark, then the leaving";
  worker.Submit(2, 100);
  EXPECT_EQ(worker.done.at(1).status.code(), absl::StatusCode::kCancelled);
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  EXPECT_EQ(worker.closed.size(), 2u) << "closing what is closed is answered";
}

TEST(WorkerMachine, ClosingAGroupThatIsNotOpenEndsBothWaits) {
  WorkerDriver worker;
  worker.Open(WorkerDriver::Info(0, 2, 1));
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  ASSERT_EQ(worker.opened.size(), 1u) << "whoever waits for the group to open waits for ever";
  EXPECT_EQ(worker.opened[0].status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(worker.closed.size(), 1u);
}

TEST(WorkerMachine, ClosingBeforeTheGroupIsOpenLetsItsOpsEndFirst) {
  for (bool opens : {true, false}) {
    WorkerDriver worker;
    worker.Open(WorkerDriver::Info(0, 1, 1), 0, 10 * kNsPerS);
    worker.Submit(3, 100);
    worker.Command(CloseGroupCommand{GroupHandle(0)});
    EXPECT_TRUE(worker.opened.empty());
    worker.Up(0);
    if (opens) worker.Welcome(0, 4);
    worker.AnswerAll(1);
    worker.TickAt(10 * kNsPerS);
    ASSERT_EQ(worker.done.size(), 1u);
    EXPECT_EQ(worker.done[0].status.ok(), opens);
    EXPECT_EQ(worker.opened.at(0).status.ok(), opens);
    EXPECT_EQ(worker.closed.size(), 1u);
  }
}

TEST(WorkerMachine, ShutsDownWithAByeToEveryServer) {
  WorkerDriver worker(1, 2, 4);
  worker.Command(ShutdownCommand{worker.now.monotonic_ns + kNsPerS});
  EXPECT_EQ(worker.NotesOf(FrameType::kLeaveGroup).size(), 2u);
  EXPECT_EQ(worker.NotesOf(FrameType::kBye).size(), 2u);
  EXPECT_EQ(worker.closed.size(), 1u);
  worker.GiveNote(0, MakeNote({.type = FrameType::kBye}));
  EXPECT_THAT(worker.closes, ElementsAre(worker.ServerPeer(0)));
  worker.Down(0, absl::OkStatus());
  EXPECT_EQ(worker.shutdowns, 0);
  worker.Down(1, absl::OkStatus());
  EXPECT_EQ(worker.shutdowns, 1);
  worker.Open(WorkerDriver::Info(0, 1, 1));
  EXPECT_EQ(worker.opened.at(0).status.code(), absl::StatusCode::kCancelled);
}

TEST(WorkerMachine, ShutdownDoesNotWaitForServersThatSayNothing) {
  WorkerDriver worker(1, 1, 4);
  const uint64_t deadline_ns = worker.now.monotonic_ns + kNsPerS;
  worker.Command(ShutdownCommand{deadline_ns});
  EXPECT_EQ(worker.machine().NextDeadlineNs(), deadline_ns);
  worker.TickAt(deadline_ns);
  EXPECT_THAT(worker.closes, ElementsAre(worker.ServerPeer(0)));
  EXPECT_EQ(worker.shutdowns, 0);
  worker.Down(0, absl::OkStatus());
  EXPECT_EQ(worker.shutdowns, 1);
}

TEST(WorkerMachine, ShutdownWithNothingOpenIsDoneAtOnce) {
  WorkerDriver worker;
  worker.Command(ShutdownCommand{5 * kNsPerS});
  EXPECT_EQ(worker.shutdowns, 1);
  EXPECT_EQ(worker.machine().NextDeadlineNs(), kNoDeadline);
}

TEST(WorkerMachine, ShutdownFailsWhatIsUnderWayAndWaitsForItsMemory) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 100);
  worker.Command(ShutdownCommand{worker.now.monotonic_ns + kNsPerS});
  EXPECT_TRUE(worker.done.empty());
  EXPECT_TRUE(worker.NotesOf(FrameType::kBye).empty());
  worker.Sent(worker.sends.at(0), absl::UnavailableError("declined"));
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_EQ(worker.done[0].status, absl::CancelledError("the worker is closing"));
  EXPECT_EQ(worker.NotesOf(FrameType::kBye).size(), 1u);
}

}  // namespace
}  // namespace shoal
