// How a group goes over to another map, and what a worker keeps and hands over for the others (docs/failover.md).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/clock.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The map of `servers` without the last one.
void Move(WorkerDriver* worker, uint32_t servers, uint64_t epoch) {
  worker->Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(servers, epoch)});
}

FrameHeader Ask(uint64_t op, uint32_t chunk, uint64_t epoch) {
  FrameHeader ask = WorkerDriver::Header(FrameType::kAsk, 0, 1, epoch);
  ask.op = OpNumber(op);
  ask.chunk = ChunkNumber(chunk);
  return ask;
}

FrameHeader Commit(uint64_t watermark, uint64_t epoch = 3) {
  FrameHeader commit = WorkerDriver::Header(FrameType::kCommit, 0, 1, epoch);
  commit.commit_watermark = OpNumber(watermark);
  return commit;
}

TEST(WorkerSettling, ALostServerIsReportedWhenItIsKnownWhetherItCanBeReached) {
  for (const bool reachable : {false, true}) {
    WorkerDriver worker(2, 2, 4);
    worker.Submit(1, 4 * kChunkElements);
    worker.Clear();
    worker.Down(1, absl::UnavailableError("connection reset by peer"));
    EXPECT_THAT(worker.connects, ElementsAre(1)) << "it is tried at once";
    EXPECT_THAT(worker.troubles, IsEmpty());
    if (reachable) {
      worker.Up(1);
      EXPECT_THAT(worker.NotesOf(FrameType::kHello), IsEmpty()) << "not in this epoch";
    } else {
      worker.Down(1, absl::UnavailableError("connection refused"));
    }
    ASSERT_EQ(worker.troubles.size(), 1u);
    EXPECT_EQ(worker.troubles[0].server, ServerId(2));
    EXPECT_EQ(worker.troubles[0].incarnation, Incarnation(51));
    EXPECT_EQ(worker.troubles[0].epoch, Epoch(3));
    EXPECT_EQ(worker.troubles[0].reachable, reachable);
    EXPECT_EQ(worker.troubles[0].reason, "connection reset by peer");
    EXPECT_THAT(worker.done, IsEmpty());
  }
}

// What the loop does in each round, however little happens.
uint64_t RoundsNs(WorkerDriver* worker) {
  constexpr int kRounds = 1000;
  constexpr int kAttempts = 100;  // some of them are not disturbed
  WorkerActions actions;
  uint64_t shortest_ns = UINT64_MAX;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const uint64_t begin_ns = MonotonicNs();
    for (int round = 0; round < kRounds; ++round) {
      worker->machine().Tick(worker->now, &actions);
      EXPECT_GT(worker->machine().NextDeadlineNs(), worker->now.monotonic_ns);
    }
    shortest_ns = std::min(shortest_ns, MonotonicNs() - begin_ns);
  }
  return shortest_ns;
}

TEST(WorkerSettling, ServersOfThePastAreForgottenAndARoundTakesNoLongerAfter200Restarts) {
  WorkerDriver worker(2, 2, 4);
  const uint64_t before_ns = RoundsNs(&worker);
  std::vector<Shard> shards = WorkerDriver::Map(2)->shards();
  uint32_t connections[] = {0, 1};
  for (uint32_t restart = 0; restart < 200; ++restart) {
    // In turns each of the two servers ends, and comes back with another address.
    Shard& shard = shards[restart % 2];
    worker.Down(connections[restart % 2]);
    shard.server = ServerId(10 + restart);
    shard.address = absl::StrCat("10.0.1.", restart, ":7000");
    worker.Clear();
    const uint64_t epoch = 4 + restart;
    worker.Command(MoveGroupCommand{GroupId(1), std::make_shared<ShardMap>(*ShardMap::Make(Epoch(epoch), shards))});
    ASSERT_EQ(worker.connects.size(), 1u) << "restart " << restart;
    worker.Down(std::exchange(connections[restart % 2], worker.connects[0]), absl::UnavailableError("refused"));
    worker.Up(worker.connects[0]);
    for (const uint32_t connection : connections) worker.Welcome(connection, 4, 0, 1, epoch);
    worker.Submit(restart + 1, 4 * kChunkElements);
    worker.AnswerAll(2);
    ASSERT_EQ(worker.done.size(), 1u) << "restart " << restart;
    ASSERT_TRUE(worker.done[0].status.ok()) << worker.done[0].status;
    EXPECT_EQ(worker.machine().counters().shards.size(), 2u) << "it knows its servers and no others";
  }
  EXPECT_LT(RoundsNs(&worker), 3 * before_ns);
}

TEST(WorkerSettling, AServerThatNeitherAnswersNorRefusesIsReportedAsOutOfReachBeforeLong) {
  WorkerDriver worker(2, 2, 4);
  worker.Submit(1, 4 * kChunkElements);
  worker.Clear();
  const uint64_t lost_at_ns = worker.now.monotonic_ns;
  worker.Down(1, absl::UnavailableError("endpoint timeout"));
  EXPECT_THAT(worker.connects, ElementsAre(1)) << "an attempt that comes to no end";
  const uint64_t patience_ns = WorkerMachineOptions().reach_patience_ns;
  worker.TickAt(lost_at_ns + patience_ns - 1);
  EXPECT_THAT(worker.troubles, IsEmpty());
  EXPECT_EQ(worker.machine().NextDeadlineNs(), lost_at_ns + patience_ns);
  worker.TickAt(lost_at_ns + patience_ns);
  ASSERT_EQ(worker.troubles.size(), 1u);
  EXPECT_EQ(worker.troubles[0].server, ServerId(2));
  EXPECT_FALSE(worker.troubles[0].reachable);
  EXPECT_EQ(worker.troubles[0].reason, "endpoint timeout");
  worker.TickAt(lost_at_ns + 3 * patience_ns);
  EXPECT_EQ(worker.troubles.size(), 1u) << "said once";
  worker.Up(1);
  ASSERT_EQ(worker.troubles.size(), 2u);
  EXPECT_TRUE(worker.troubles[1].reachable) << "and taken back when it is reached after all";
}

// I10: a group that is made while a path is cut goes around it, as an open one does.
TEST(WorkerSettling, AServerThatANewGroupDoesNotReachIsReported) {
  for (const bool attempt_fails : {true, false}) {
    WorkerDriver worker;
    worker.Open(WorkerDriver::Info(0, 2, 2));
    worker.Up(0);
    worker.Welcome(0, 4);
    const uint64_t opened_ns = worker.now.monotonic_ns;
    if (attempt_fails) worker.Down(1, absl::UnavailableError("connection refused"));
    const uint64_t patience_ns = (attempt_fails ? 1 : 3) * WorkerMachineOptions().reach_patience_ns;
    worker.TickAt(opened_ns + patience_ns - 1);
    EXPECT_THAT(worker.troubles, IsEmpty()) << "it may only be slow";
    EXPECT_LE(worker.machine().NextDeadlineNs(), opened_ns + patience_ns);
    worker.TickAt(opened_ns + patience_ns);
    ASSERT_EQ(worker.troubles.size(), 1u);
    EXPECT_EQ(worker.troubles[0].server, ServerId(2));
    EXPECT_FALSE(worker.troubles[0].reachable);
    EXPECT_EQ(worker.troubles[0].reason, attempt_fails ? "connection refused" : "no connection was made in time");
    worker.TickAt(opened_ns + 2 * patience_ns);
    EXPECT_EQ(worker.troubles.size(), 1u) << "said once";
    EXPECT_THAT(worker.opened, IsEmpty());
    worker.Clear();
    worker.Up(1);
    ASSERT_EQ(worker.troubles.size(), 1u) << "and taken back when it is reached after all";
    EXPECT_TRUE(worker.troubles[0].reachable);
    EXPECT_THAT(worker.NotesOf(FrameType::kHello), IsEmpty()) << "not in this epoch";
    Move(&worker, 1, 4);
    worker.Welcome(0, 4, 0, 1, 4);
    ASSERT_EQ(worker.opened.size(), 1u);
    EXPECT_TRUE(worker.opened[0].status.ok());
  }
}

TEST(WorkerSettling, AServerWithoutMemoryIsReportedAsSuch) {
  for (const Refusal refusal : {Refusal::kNoSlotMemory, Refusal::kDraining}) {
    WorkerDriver worker(2, 2, 4);
    worker.Submit(1, 4 * kChunkElements);
    FrameHeader refused = WorkerDriver::Header(FrameType::kRefuse);
    refused.refusal = refusal;
    worker.GiveNote(1, MakeTextNote(refused, "it needs 8 bytes, 2 are free"));
    ASSERT_EQ(worker.troubles.size(), 1u);
    EXPECT_EQ(worker.troubles[0].refused, refusal == Refusal::kNoSlotMemory);
    EXPECT_THAT(worker.troubles[0].reason, HasSubstr("it needs 8 bytes, 2 are free"));
  }
}

TEST(WorkerSettling, AGroupThatTheSchedulerGivesUpFailsWithItsReason) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, kChunkElements);
  worker.Sent(worker.sends.at(0));
  worker.Command(GiveGroupUpCommand{GroupId(2), absl::AbortedError("another group")});
  EXPECT_THAT(worker.done, IsEmpty());
  worker.Command(GiveGroupUpCommand{GroupId(1), absl::ResourceExhaustedError("server a needs 8 bytes, 2 are free")});
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(worker.done[0].status)) << worker.done[0].status;
  EXPECT_THAT(worker.done[0].status.message(), HasSubstr("server a needs 8 bytes, 2 are free"));
}

TEST(WorkerSettling, AGroupThatIsGivenUpBeforeItIsOpenedHereFailsWhenItIs) {
  WorkerDriver worker;
  worker.Command(GiveGroupUpCommand{GroupId(1), absl::AbortedError("rank 1 on node-1: aborted")});
  worker.Open(WorkerDriver::Info(0, 2, 1));
  ASSERT_EQ(worker.opened.size(), 1u);
  EXPECT_EQ(worker.opened[0].status, absl::AbortedError("rank 1 on node-1: aborted"));
  EXPECT_THAT(worker.failures_told, IsEmpty()) << "the scheduler said so";
}

TEST(WorkerSettling, UnfinishedChunksArePushedAgainInTheNewEpochAndFinishedOnesAreNot) {
  WorkerDriver worker(2, 2, 4);
  worker.Submit(1, 4 * kChunkElements);
  ASSERT_EQ(worker.sends.size(), 4u);
  const std::vector<WorkerSendAction> first = worker.sends;
  worker.Sent(first[0]);
  worker.OfferResult(first[0], 2);
  worker.Land(worker.accepts.at(0));
  for (size_t i = 1; i < 4; ++i) worker.Sent(first[i], absl::UnavailableError("gone"));
  worker.Down(0);
  worker.Down(1);
  worker.Clear();
  Move(&worker, 1, 4);
  worker.Up(0);
  const std::vector<SentNote> hellos = worker.NotesOf(FrameType::kHello);
  ASSERT_EQ(hellos.size(), 1u);
  EXPECT_EQ(hellos[0].header.epoch, Epoch(4));
  EXPECT_EQ(hellos[0].header.op, OpNumber(1)) << "it has a result of op 1";
  EXPECT_THAT(worker.sends, IsEmpty());
  worker.Welcome(0, 8, 0, 1, 4);
  ASSERT_EQ(worker.sends.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    const FrameHeader header = WorkerDriver::HeaderOf(worker.sends[i]);
    EXPECT_EQ(header.chunk, ChunkNumber(i + 1));
    EXPECT_EQ(header.epoch, Epoch(4));
    EXPECT_EQ(header.contributors, 0u);
    EXPECT_EQ(worker.sends[i].data, worker.memory(1) + (i + 1) * 1024);
  }
  worker.AnswerAll(2);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_TRUE(worker.done[0].status.ok());
}

// Also F7 of docs/failover.md.
TEST(Invariant, I3AResultLandsBesideTheContributionUntilItIsWhole) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 100);
  worker.Sent(worker.sends.at(0));
  worker.OfferResult(worker.sends.at(0), 2);
  ASSERT_EQ(worker.accepts.size(), 1u);
  EXPECT_NE(worker.accepts[0].data, worker.memory(1));
  EXPECT_EQ(worker.accepts[0].data_at_once, worker.memory(1)) << "for transports that copy at once";
  worker.Land(worker.accepts[0]);
  ASSERT_EQ(worker.decodes.size(), 1u);
  EXPECT_EQ(worker.decodes[0].place, worker.accepts[0].data);
  EXPECT_EQ(worker.decodes[0].tensor, worker.memory(1));
  EXPECT_EQ(worker.decodes[0].elements, 100u);
}

TEST(WorkerSettling, F7AMoveWaitsForAResultThatIsInTheTensorAlready) {
  WorkerDriver worker;
  worker.accepts_at_once = true;
  worker.OpenAll(2, 1, 4);
  worker.Submit(1, 100);
  worker.Sent(worker.sends.at(0));
  worker.OfferResult(worker.sends.at(0), 2);
  worker.Clear();
  Move(&worker, 1, 4);
  EXPECT_THAT(worker.NotesOf(FrameType::kHello), IsEmpty());
  worker.Give({.kind = TransportEventKind::kLanded, .token = worker.last_accept_token});
  EXPECT_EQ(worker.done.size(), 1u) << "else the result would be pushed as the contribution";
  ASSERT_EQ(worker.NotesOf(FrameType::kHello).size(), 1u);
  EXPECT_EQ(worker.NotesOf(FrameType::kHello)[0].header.epoch, Epoch(4));
}

TEST(WorkerSettling, AGroupThatFailsBeforeItsMoveForgetsTheMove) {
  WorkerDriver worker;
  worker.accepts_at_once = true;
  worker.OpenAll(2, 1, 4);
  worker.Submit(1, 100);
  worker.Sent(worker.sends.at(0));
  worker.OfferResult(worker.sends.at(0), 2);
  Move(&worker, 1, 4);
  worker.Command(AbortGroupCommand{GroupHandle(0), "enough"});
  worker.Give({.kind = TransportEventKind::kLanded, .token = worker.last_accept_token});
  EXPECT_GT(worker.machine().NextDeadlineNs(), worker.now.monotonic_ns) << "its loop would never sleep";
}

// Also F8 of docs/failover.md.
TEST(Invariant, I3TheLastResultsOfADoneOpAreKeptUntilAllHaveThem) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, 5 * kChunkElements);
  worker.AnswerAll(2);
  ASSERT_EQ(worker.done.size(), 1u);
  // 5 chunks to the tensor, and with a credit of 2 the last 2 are kept.
  EXPECT_EQ(worker.decodes.size(), 5u);
  ASSERT_EQ(worker.encodes.size(), 2u);
  EXPECT_EQ(worker.encodes[0].elements, kChunkElements);
  EXPECT_EQ(worker.encodes[0].tensor, worker.memory(1) + 4 * 1024) << "places are told by position: 4, 3";
  EXPECT_EQ(worker.encodes[1].tensor, worker.memory(1) + 3 * 1024);
  EXPECT_EQ(worker.machine().counters().retained_results, 2u);
  Move(&worker, 1, 4);
  worker.Welcome(0, 2, 0, 1, 4);
  worker.Clear();
  worker.GiveNote(0, MakeNote(Ask(1, 2, 4)));
  EXPECT_THAT(worker.sends, IsEmpty()) << "that all have chunk 2 follows from the credit";
  worker.GiveNote(0, MakeNote(Ask(1, 4, 4)));
  ASSERT_EQ(worker.sends.size(), 1u);
  const FrameHeader header = WorkerDriver::HeaderOf(worker.sends[0]);
  EXPECT_EQ(header.type, FrameType::kPush);
  EXPECT_EQ(header.contributors, 2u) << "it is the result";
  EXPECT_EQ(header.epoch, Epoch(4));
  EXPECT_EQ(header.chunk, ChunkNumber(4));
  EXPECT_EQ(worker.sends[0].bytes, 1024u);
  EXPECT_NE(worker.sends[0].data, worker.memory(1) + 4 * 1024) << "the tensor is its caller's again";
  worker.Sent(worker.sends[0]);
  worker.Clear();
  worker.GiveNote(0, MakeNote(Commit(1, 4)));
  EXPECT_EQ(worker.machine().counters().retained_results, 0u);
  worker.GiveNote(0, MakeNote(Ask(1, 4, 4)));
  EXPECT_THAT(worker.sends, IsEmpty());
}

TEST(WorkerSettling, AResultOfAnOpThatIsNotDoneIsHandedOverAsACopy) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, 2 * kChunkElements);
  const std::vector<WorkerSendAction> sends = worker.sends;
  worker.Sent(sends[0]);
  worker.OfferResult(sends[0], 2);
  worker.Land(worker.accepts.at(0));
  Move(&worker, 1, 4);
  worker.Welcome(0, 2, 0, 1, 4);
  worker.Clear();
  worker.GiveNote(0, MakeNote(Ask(1, 1, 4)));
  EXPECT_THAT(worker.sends, IsEmpty()) << "it has no result of chunk 1: it pushes its contribution";
  worker.GiveNote(0, MakeNote(Ask(1, 0, 4)));
  ASSERT_EQ(worker.sends.size(), 1u);
  ASSERT_EQ(worker.encodes.size(), 1u);
  EXPECT_EQ(worker.encodes[0].tensor, worker.memory(1));
  EXPECT_EQ(worker.encodes[0].place, worker.sends[0].data);
  EXPECT_EQ(worker.machine().counters().results_handed_over, 1u);
}

TEST(WorkerSettling, WhatIsSaidInAnEpochThatIsOverHasNoConsequence) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, kChunkElements);
  const WorkerSendAction old_push = worker.sends.at(0);
  worker.Sent(old_push);
  Move(&worker, 1, 4);
  worker.Welcome(0, 2, 0, 1, 4);
  worker.Clear();
  const OfferId late = worker.OfferResult(old_push, 2);
  EXPECT_THAT(worker.declines, ElementsAre(late)) << "I4: its epoch is over";
  FrameHeader refusal = WorkerDriver::Header(FrameType::kRefuse);
  refusal.refusal = Refusal::kStaleEpoch;
  worker.GiveNote(0, MakeTextNote(refusal, ""));
  worker.GiveNote(0, MakeTextNote(WorkerDriver::Header(FrameType::kRankLost, 1), "the server was left behind"));
  worker.GiveNote(0, MakeNote(Ask(1, 0, 3)));
  EXPECT_THAT(worker.done, IsEmpty());
  EXPECT_THAT(worker.sends, IsEmpty());
}

// Found by the simulator: the others had moved on twice, and left the server, before this rank heard of it.
TEST(WorkerSettling, AServerThatTheOthersHaveLeftIsNoLoss) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, kChunkElements);
  worker.Sent(worker.sends.at(0));
  FrameHeader refusal = WorkerDriver::Header(FrameType::kRefuse);
  refusal.refusal = Refusal::kUnknownGroup;
  worker.GiveNote(0, MakeTextNote(refusal, ""));
  EXPECT_THAT(worker.done, IsEmpty());
  worker.Clear();
  Move(&worker, 1, 4);
  worker.Welcome(0, 2, 0, 1, 4);
  EXPECT_EQ(worker.sends.size(), 1u) << "the chunk is pushed again";
}

constexpr char kUnknownJob[] = "no job has id 7 here; connect again";

// Found by the simulator: while its node was cut off the rank was declared lost, and the others moved and ended the
// group. What it had pushed was taken before, so nobody refused it, and it waited until its deadline.
TEST(WorkerSettling, F21ARankThatGetsNoMoreMapsAsksWhetherTheOthersHaveGoneOn) {
  for (const Refusal refusal : {Refusal::kUnknownGroup, Refusal::kStaleEpoch}) {
    WorkerDriver worker(2, 1, 2);
    worker.Submit(1, kChunkElements);
    worker.Sent(worker.sends.at(0));
    worker.Pass(kNsPerS);
    EXPECT_THAT(worker.NotesOf(FrameType::kCommit), IsEmpty()) << "a newer map may come";
    worker.Command(NoMoreMapsCommand{absl::FailedPreconditionError(kUnknownJob)});
    EXPECT_EQ(worker.NotesOf(FrameType::kCommit).size(), 1u);
    worker.Clear();
    worker.Pass(kReachPatienceNs);
    EXPECT_EQ(worker.NotesOf(FrameType::kCommit).size(), 1u) << "they may go on later";
    EXPECT_THAT(worker.done, IsEmpty());
    FrameHeader refused = WorkerDriver::Header(FrameType::kRefuse);
    refused.refusal = refusal;
    worker.GiveNote(0, MakeTextNote(refused, ""));
    ASSERT_EQ(worker.done.size(), 1u);
    EXPECT_TRUE(absl::IsFailedPrecondition(worker.done[0].status)) << worker.done[0].status;
    EXPECT_THAT(worker.done[0].status.message(), HasSubstr(kUnknownJob));
  }
}

// The scheduler has lost its state, and all ranks are in the same epoch.
TEST(WorkerSettling, F12AGroupThatGetsNoMoreMapsGoesOnWithTheServersThatItHas) {
  WorkerDriver worker(2, 1, 2);
  worker.Command(NoMoreMapsCommand{absl::FailedPreconditionError(kUnknownJob)});
  worker.Pass(2 * kReachPatienceNs);
  EXPECT_THAT(worker.NotesOf(FrameType::kCommit), IsEmpty()) << "nothing is waited for";
  worker.Submit(1, kChunkElements);
  worker.AnswerAll(2);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_TRUE(worker.done[0].status.ok()) << worker.done[0].status;
}

TEST(WorkerSettling, AMapThatIsHereAlreadyIsGoneOverToAlthoughNoMoreWillCome) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, kChunkElements);
  worker.Sent(worker.sends.at(0));
  Move(&worker, 1, 4);
  worker.Command(NoMoreMapsCommand{absl::FailedPreconditionError(kUnknownJob)});
  FrameHeader refused = WorkerDriver::Header(FrameType::kRefuse);
  refused.refusal = Refusal::kStaleEpoch;
  worker.GiveNote(0, MakeTextNote(refused, ""));
  EXPECT_THAT(worker.done, IsEmpty()) << "it is about the epoch before";
  worker.Clear();
  worker.Welcome(0, 2, 0, 1, 4);
  worker.AnswerAll(2);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_TRUE(worker.done[0].status.ok()) << worker.done[0].status;
}

TEST(WorkerSettling, ALandingOfAnEpochThatIsOverIsDroppedAndItsMemoryWaitedFor) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, kChunkElements);
  worker.Sent(worker.sends.at(0));
  worker.OfferResult(worker.sends.at(0), 2);
  const WorkerAcceptAction old_landing = worker.accepts.at(0);
  Move(&worker, 1, 4);
  worker.Welcome(0, 2, 0, 1, 4);
  worker.Clear();
  worker.Land(old_landing);
  EXPECT_THAT(worker.decodes, IsEmpty());
  EXPECT_THAT(worker.done, IsEmpty());
}

TEST(WorkerSettling, AResultWaitsForTheNetworkToBeDoneWithTheOldPushOfItsChunk) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, 2 * kChunkElements);
  const std::vector<WorkerSendAction> old_pushes = worker.sends;
  worker.Sent(old_pushes.at(1));
  Move(&worker, 1, 4);
  worker.Clear();
  worker.Welcome(0, 2, 0, 1, 4);
  const std::vector<WorkerSendAction> pushes = worker.sends;
  ASSERT_EQ(pushes.size(), 2u);
  for (const WorkerSendAction& push : pushes) {
    worker.Sent(push);
    worker.OfferResult(push, 2);
  }
  ASSERT_EQ(worker.accepts.size(), 1u) << "the network still reads the first chunk, for the push of the epoch before";
  worker.Land(worker.accepts[0]);
  worker.Sent(old_pushes[0]);
  ASSERT_EQ(worker.accepts.size(), 2u);
  worker.Land(worker.accepts[1]);
  EXPECT_EQ(worker.done.size(), 1u);
}

// Of the second op: the first one's chunk goes to the other server.
WorkerSendAction PushToServer1(WorkerDriver* worker) {
  worker->OpenAll(2, 2, 2);
  worker->Submit(1, kChunkElements);
  worker->AnswerAll(2);
  worker->Clear();
  worker->Submit(2, kChunkElements);
  const WorkerSendAction push = worker->sends.at(0);
  EXPECT_EQ(push.peer, worker->ServerPeer(1));
  worker->Clear();
  return push;
}

TEST(WorkerSettling, AnOldPushThatDoesNotEndIsCutOff) {
  WorkerDriver worker;
  const WorkerSendAction old_push = PushToServer1(&worker);
  // Its owner is silent; the other one, which is the first in the new map, takes over.
  Move(&worker, 1, 4);
  EXPECT_EQ(worker.NotesOf(FrameType::kLeaveGroup).size(), 1u);
  worker.Welcome(0, 2, 0, 1, 4);
  for (const WorkerSendAction& send : std::exchange(worker.sends, {})) {
    worker.Sent(send);
    worker.OfferResult(send, 2);
  }
  EXPECT_THAT(worker.done, IsEmpty());
  EXPECT_THAT(worker.accepts, IsEmpty()) << "the network may still read the tensor";
  worker.TickAt(worker.now.monotonic_ns + kNsPerS);
  EXPECT_THAT(worker.closes, ElementsAre(worker.ServerPeer(1))) << "it is cut after a while";
  worker.Sent(old_push, absl::CancelledError("closed"));
  worker.Land(worker.accepts.at(0));
  EXPECT_EQ(worker.done.size(), 1u);
}

TEST(WorkerSettling, AnOldPushIsCutOffAlsoWhenItsServerIsLeftLater) {
  WorkerDriver worker;
  PushToServer1(&worker);
  Move(&worker, 2, 4);
  worker.TickAt(worker.now.monotonic_ns + kNsPerS);
  EXPECT_THAT(worker.closes, IsEmpty()) << "the group uses its connection";
  Move(&worker, 1, 5);
  worker.TickAt(worker.now.monotonic_ns + kNsPerS);
  EXPECT_THAT(worker.closes, ElementsAre(worker.ServerPeer(1)));
}

TEST(WorkerSettling, AnOldPushIsCutOffWhenItsGroupFails) {
  WorkerDriver worker(2, 2, 2);
  worker.Submit(1, kChunkElements);
  const WorkerSendAction old_push = worker.sends.at(0);
  Move(&worker, 2, 4);
  worker.TickAt(worker.now.monotonic_ns + kNsPerS);
  ASSERT_THAT(worker.closes, IsEmpty());
  worker.Command(AbortGroupCommand{.group = GroupHandle(0), .reason = "enough"});
  worker.TickAt(worker.now.monotonic_ns + kNsPerS);
  EXPECT_THAT(worker.closes, ElementsAre(old_push.peer));
}

TEST(WorkerSettling, APreemptedPushIsMadeAgain) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, 2 * kChunkElements);
  const std::vector<WorkerSendAction> sends = worker.sends;
  worker.Sent(sends[0]);
  worker.Clear();
  for (uint32_t chunk : {0u, 1u}) {
    FrameHeader refusal = WorkerDriver::HeaderOf(sends[chunk]);
    refusal.type = FrameType::kRefuse;
    refusal.refusal = Refusal::kPreempted;
    worker.GiveNote(0, MakeTextNote(refusal, ""));
  }
  ASSERT_EQ(worker.sends.size(), 1u);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[0]).chunk, ChunkNumber(0));
  worker.Sent(sends[1]);
  ASSERT_EQ(worker.sends.size(), 2u) << "at the earliest when the network is done with it";
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends[1]).chunk, ChunkNumber(1));
  worker.AnswerAll(2);
  EXPECT_EQ(worker.done.size(), 1u);
}

TEST(WorkerSettling, AMapThatComesBeforeTheGroupIsOpenIsUsed) {
  WorkerDriver worker;
  Move(&worker, 1, 5);
  worker.Open(WorkerDriver::Info(0, 2, 2));
  worker.Up(0);
  const std::vector<SentNote> hellos = worker.NotesOf(FrameType::kHello);
  ASSERT_EQ(hellos.size(), 1u);
  EXPECT_EQ(hellos[0].header.epoch, Epoch(5));
  worker.Welcome(0, 2, 0, 1, 5);
  ASSERT_EQ(worker.opened.size(), 1u);
  EXPECT_TRUE(worker.opened[0].status.ok());
}

TEST(WorkerSettling, WithNoServerLeftOpsWaitAndSaySo) {
  WorkerDriver worker(2, 1, 2);
  Move(&worker, 0, 4);
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + kNsPerS);
  Move(&worker, 1, 5);
  worker.Welcome(0, 2, 0, 1, 5);
  EXPECT_EQ(worker.sends.size(), 1u) << "a server came back";
  Move(&worker, 0, 6);
  worker.Sent(worker.sends[0]);
  worker.TickAt(worker.now.monotonic_ns + kNsPerS);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_THAT(std::string(worker.done[0].status.message()), HasSubstr("no reduction server is left"));
}

}  // namespace
}  // namespace shoal
