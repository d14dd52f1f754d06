// How a worker machine fails: who is named, what the servers are told, and when memory is given back.
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What is said of an op of 100 numbers that ends with its group.
constexpr char kLacked[] = "; all-reduce 1 of group \"world\" (100 float32): 0 of 1 chunks are back";

TEST(WorkerFailure, ALostRankIsNamedWithItsNode) {
  WorkerDriver worker(3, 1, 4);
  worker.Submit(1, 100);
  worker.Sent(worker.sends.at(0));
  worker.GiveNote(0, MakeTextNote(WorkerDriver::Header(FrameType::kRankLost, 2), "connection reset"));
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_EQ(worker.done[0].status,
            absl::AbortedError(absl::StrCat("rank 2 on node-2 was lost: connection reset", kLacked)));
}

// A rank that the scheduler took for lost hears so as well, and tells its servers, as any failed rank does.
TEST(WorkerFailure, ALossThatARankPassesOnNamesTheLostRankAlone) {
  for (const char* lost : {"rank 2 of the job on node-2", "rank 14 of the job on node-9", "rank 2 on node-2"}) {
    WorkerDriver worker(3, 1, 4);
    worker.Submit(1, 100);
    worker.Sent(worker.sends.at(0));
    const std::string text = absl::StrCat(lost, " was lost: no heartbeat for 1 s");
    worker.GiveNote(0, MakeTextNote(WorkerDriver::Header(FrameType::kGroupFailed, 2), text));
    ASSERT_EQ(worker.done.size(), 1u);
    EXPECT_EQ(worker.done[0].status, absl::AbortedError(absl::StrCat(text, kLacked)));
  }
}

// In a group that goes on: a server that heard it before the others have greeted it would fail the group for all.
TEST(WorkerFailure, ARankThatIsLostFromAGroupThatGoesOnTellsNobody) {
  const auto is_kept_out = [](WorkerDriver& worker) { worker.MoveWithout({Rank(0)}); };
  const auto gives_up = [](WorkerDriver& worker) { worker.Command(GiveUpCommand{"its script raised ValueError"}); };
  const auto closes = [](WorkerDriver& worker) { worker.Command(ShutdownCommand{worker.now.monotonic_ns + kNsPerS}); };
  const std::vector<std::pair<std::function<void(WorkerDriver&)>, std::string>> ways = {
      {is_kept_out, "rank 0 on node-0 was taken for lost; the others go on"},
      {gives_up, "its script raised ValueError"},
      {closes, "the worker is closing"}};
  for (const auto& [way, text] : ways) {
    WorkerDriver worker;
    worker.OpenGoingOn(1);
    worker.Clear();
    worker.Submit(1, 100);
    worker.Sent(worker.sends.at(0));
    way(worker);
    ASSERT_EQ(worker.done.size(), 1u) << text;
    EXPECT_THAT(std::string(worker.done[0].status.message()), HasSubstr(text));
    EXPECT_THAT(worker.NotesOf(FrameType::kGroupFailed), IsEmpty()) << text;
    EXPECT_THAT(worker.failures_told, IsEmpty()) << text;
  }
  WorkerDriver fixed(3, 1, 4);
  fixed.Submit(1, 100);
  gives_up(fixed);
  EXPECT_THAT(fixed.NotesOf(FrameType::kGroupFailed), testing::SizeIs(1));
  EXPECT_THAT(fixed.failures_told, ElementsAre("its script raised ValueError"));
}

// There may be no server that tells the others.
TEST(WorkerFailure, WhatThisRankGivesUpIsToldAndWhatOthersGaveUpIsNot) {
  WorkerDriver aborts(3, 1, 4);
  aborts.Down(0);
  aborts.Command(AbortGroupCommand{.group = GroupHandle(0), .reason = "no more"});
  EXPECT_THAT(aborts.failures_told, ElementsAre("the group was aborted: no more"));

  WorkerDriver differs(3, 1, 4);
  differs.GiveNote(0, MakeTextNote(WorkerDriver::Header(FrameType::kGroupFailed, 0), "another size"));
  EXPECT_THAT(differs.failures_told, ElementsAre("another size"))
      << "the server found it to differ: rank 0 is this one";

  for (const FrameType type : {FrameType::kGroupFailed, FrameType::kRankLost}) {
    WorkerDriver hears(3, 1, 4);
    hears.GiveNote(0, MakeTextNote(WorkerDriver::Header(type, 2), "connection reset"));
    hears.Command(AbortGroupCommand{.group = GroupHandle(0), .reason = "no more"});
    EXPECT_THAT(hears.failures_told, IsEmpty());
  }
  WorkerDriver alone(1, 1, 4);
  alone.Command(AbortGroupCommand{.group = GroupHandle(0), .reason = "no more"});
  EXPECT_THAT(alone.failures_told, IsEmpty()) << "nobody is to hear it";
}

// F20 and F21: who lacks how much memory is the same for all ranks, whoever heard it first and whoever passes it on.
TEST(WorkerFailure, WantOfMemoryIsToldAndHeardAsWhatItIs) {
  WorkerDriver refused;
  refused.Open(WorkerDriver::Info(0, 2, 2));
  for (uint32_t server = 0; server < 2; ++server) refused.Up(server);
  FrameHeader refusal = WorkerDriver::Header(FrameType::kRefuse);
  refusal.refusal = Refusal::kNoSlotMemory;
  refused.GiveNote(1, MakeTextNote(refusal, "it needs 64 bytes, 2 are free"));
  EXPECT_TRUE(refused.lacks_memory_told);
  for (const SentNote& note : refused.NotesOf(FrameType::kGroupFailed)) {
    EXPECT_EQ(note.header.refusal, Refusal::kGroupLackedMemory);
  }
  EXPECT_FALSE(refused.NotesOf(FrameType::kGroupFailed).empty());

  WorkerDriver hears(3, 1, 4);
  hears.Submit(1, 100);
  hears.Sent(hears.sends.at(0));
  FrameHeader failed = WorkerDriver::Header(FrameType::kGroupFailed, 2);
  failed.refusal = Refusal::kGroupLackedMemory;
  hears.GiveNote(0, MakeTextNote(failed, "server b needs 64 bytes, 2 are free"));
  ASSERT_EQ(hears.done.size(), 1u);
  EXPECT_EQ(hears.done[0].status, absl::ResourceExhaustedError(
                                      absl::StrCat("rank 2 on node-2: server b needs 64 bytes, 2 are free", kLacked)));

  WorkerDriver aborts(3, 1, 4);
  aborts.Command(AbortGroupCommand{.group = GroupHandle(0), .reason = "no more"});
  EXPECT_FALSE(aborts.lacks_memory_told);
  EXPECT_EQ(aborts.NotesOf(FrameType::kGroupFailed).at(0).header.refusal, Refusal::kNone);
}

TEST(WorkerFailure, ARankOfASubGroupIsNamedWithItsNumberInTheJob) {
  WorkerDriver worker;
  std::shared_ptr<GroupInfo> info = WorkerDriver::Info(0, 2, 1);
  info->job_ranks = {JobRank(4), JobRank(7)};
  worker.Open(info);
  worker.Up(0);
  worker.GiveNote(0, MakeTextNote(WorkerDriver::Header(FrameType::kRankLost, 1), "gone"));
  EXPECT_EQ(worker.opened.at(0).status, absl::AbortedError("rank 1 (rank 7 of the job) on node-1 was lost: gone"));
}

TEST(WorkerFailure, TheSchedulersWordFailsTheGroupsOfThatRankOnly) {
  WorkerDriver worker(3, 1, 4);
  std::shared_ptr<GroupInfo> info = WorkerDriver::Info(0, 2, 1, 2);
  worker.Open(info, 1);
  worker.Welcome(0, 4, 0, 2);
  worker.Submit(1, 100, 0);
  worker.Submit(2, 100, 1);
  worker.Sent(worker.sends.at(0));
  worker.Sent(worker.sends.at(1));
  worker.Command(RankLostCommand{JobRank(2), "node-2", "no heartbeat for 10 s"});
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_EQ(worker.done[0].ticket, 1u);
  EXPECT_EQ(worker.done[0].status,
            absl::AbortedError(absl::StrCat("rank 2 of the job on node-2 was lost: no heartbeat for 10 s", kLacked)));
}

// The answer that opens it and the news of the loss come by two ways.
TEST(WorkerFailure, AGroupThatIsOpenedAfterTheLossOfOneOfItsRanksFailsAtOnce) {
  WorkerDriver worker;
  worker.Command(RankLostCommand{JobRank(2), "node-2", "no heartbeat for 10 s"});
  worker.Open(WorkerDriver::Info(0, 2, 1, 2), 1);
  EXPECT_THAT(worker.opened, IsEmpty()) << "the rank is in another group";
  worker.Open(WorkerDriver::Info(0, 3, 1), 0);
  ASSERT_EQ(worker.opened.size(), 1u);
  EXPECT_EQ(worker.opened[0].status, absl::AbortedError("rank 2 of the job on node-2 was lost: no heartbeat for 10 s"));
}

TEST(WorkerFailure, ADisagreementIsReportedInTheServersWords) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 100);
  worker.Sent(worker.sends.at(0));
  FrameHeader refusal = WorkerDriver::Header(FrameType::kRefuse);
  refusal.refusal = Refusal::kLayoutMismatch;
  worker.GiveNote(0, MakeTextNote(refusal, "the ranks disagree on op 1"));
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_EQ(worker.done[0].status, absl::AbortedError(absl::StrCat(
                                       "server server-0 (10.0.0.0:7000) refused group \"world\" (layout-mismatch): the "
                                       "ranks disagree on op 1",
                                       kLacked)));
}

TEST(WorkerFailure, RefusalsOfAHelloEndTheOpeningWithTheRightCode) {
  const std::vector<std::pair<Refusal, absl::StatusCode>> cases = {
      {Refusal::kNoSlotMemory, absl::StatusCode::kResourceExhausted},
      {Refusal::kBadToken, absl::StatusCode::kUnauthenticated},
      {Refusal::kRankTaken, absl::StatusCode::kAlreadyExists},
      {Refusal::kGroupFailedBefore, absl::StatusCode::kAborted},
      {Refusal::kGroupLackedMemory, absl::StatusCode::kResourceExhausted},
  };
  for (const auto& [reason, code] : cases) {
    WorkerDriver worker;
    worker.Open(WorkerDriver::Info(0, 2, 1));
    worker.Up(0);
    FrameHeader refusal = WorkerDriver::Header(FrameType::kRefuse);
    refusal.refusal = reason;
    worker.GiveNote(0, MakeTextNote(refusal, "because"));
    ASSERT_EQ(worker.opened.size(), 1u);
    EXPECT_EQ(worker.opened[0].status.code(), code) << RefusalName(reason);
    EXPECT_THAT(std::string(worker.opened[0].status.message()),
                HasSubstr(absl::StrCat("refused group \"world\" (", std::string(RefusalName(reason)), "): because")));
  }
}

TEST(WorkerFailure, AServerOfAnotherVersionEndsTheOpeningWithBothNumbers) {
  WorkerDriver worker;
  worker.Open(WorkerDriver::Info(0, 2, 1));
  worker.Up(0);
  worker.GiveNote(0, MakeTextNote({.type = FrameType::kRefuse, .refusal = Refusal::kOtherVersion},
                                  "the peer speaks wire version 1, this process 4"));
  ASSERT_EQ(worker.opened.size(), 1u);
  EXPECT_EQ(worker.opened[0].status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(worker.opened[0].status.message()), HasSubstr("wire version 1, this process 4"));
}

TEST(WorkerFailure, RefusedCopiesAreHarmless) {
  WorkerDriver worker(1, 1, 4);
  worker.Submit(1, 100);
  for (Refusal reason : {Refusal::kDuplicate, Refusal::kStaleOp}) {
    FrameHeader refusal = WorkerDriver::Header(FrameType::kRefuse);
    refusal.refusal = reason;
    worker.GiveNote(0, MakeNote(refusal));
  }
  EXPECT_TRUE(worker.done.empty());
  worker.AnswerAll(1);
  EXPECT_TRUE(worker.done.at(0).status.ok());
}

// A group that failed here may still be refused there; that says nothing about a group that is being opened.
TEST(WorkerFailure, ALateRefusalOfAGroupThatEndedDoesNotHurtTheNextOne) {
  WorkerDriver worker(2, 1, 4);
  worker.Command(AbortGroupCommand{GroupHandle(0), "no reason"});
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  worker.Open(WorkerDriver::Info(0, 2, 1, 2), 1);
  FrameHeader refusal = WorkerDriver::Header(FrameType::kRefuse, 0, 1);
  refusal.refusal = Refusal::kGroupFailedBefore;
  worker.GiveNote(0, MakeTextNote(refusal, "no reason"));
  EXPECT_TRUE(worker.opened.empty()) << worker.opened[0].status;
  worker.Welcome(0, 4, 0, 2);
  EXPECT_TRUE(worker.opened.at(0).status.ok());
}

TEST(WorkerFailure, AnAbortTellsTheServersWhy) {
  WorkerDriver worker(2, 2, 4);
  worker.Command(AbortGroupCommand{GroupHandle(0), "the watchdog barked"});
  const std::vector<SentNote> notes = worker.NotesOf(FrameType::kGroupFailed);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].text(), "the group was aborted: the watchdog barked");
  worker.Submit(1, 10);
  EXPECT_EQ(worker.done.at(0).status, absl::CancelledError("the group was aborted: the watchdog barked"));
  worker.Command(AbortGroupCommand{GroupHandle(7), "no such group"});
}

// Clause T2 of the transport: until it says so, the memory is the network's; the caller gets it back with OpDone.
TEST(WorkerFailure, NoOpEndsBeforeTheNetworkIsDoneWithItsMemory) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 2 * 256);
  worker.Submit(2, 100);
  const std::vector<WorkerSendAction> sends = worker.sends;
  ASSERT_EQ(sends.size(), 3u);
  worker.Sent(sends[0]);
  worker.OfferResult(sends[0], 2);
  const WorkerAcceptAction landing = worker.accepts.at(0);
  const OfferId held = worker.OfferResult(sends[1], 2);
  worker.Command(AbortGroupCommand{GroupHandle(0), "enough"});
  EXPECT_THAT(worker.declines, ElementsAre(held)) << "a held result will not be taken any more";
  EXPECT_TRUE(worker.done.empty());
  worker.Sent(sends[2]);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_EQ(worker.done[0].ticket, 2u);
  worker.Sent(sends[1]);
  EXPECT_EQ(worker.done.size(), 1u) << "the result of chunk 0 is still being written";
  worker.Land(landing);
  ASSERT_EQ(worker.done.size(), 2u);
  EXPECT_EQ(worker.done[1].ticket, 1u);
  EXPECT_EQ(worker.done[1].status.code(), absl::StatusCode::kCancelled);
}

TEST(WorkerFailure, AConnectionThatHoldsMemoryBackTooLongIsCut) {
  WorkerDriver worker(2, 2, 4);
  worker.Submit(1, 100);
  const WorkerSendAction send = worker.sends.at(0);
  worker.Command(AbortGroupCommand{GroupHandle(0), "enough"});
  const uint64_t cut_ns = worker.machine().NextDeadlineNs();
  EXPECT_EQ(cut_ns, worker.now.monotonic_ns + kNsPerS);
  worker.TickAt(cut_ns);
  EXPECT_THAT(worker.closes, ElementsAre(send.peer)) << "only the one that holds memory";
  EXPECT_TRUE(worker.done.empty());
  worker.Sent(send, absl::CancelledError("closed"));
  EXPECT_EQ(worker.done.size(), 1u);
  EXPECT_EQ(worker.machine().NextDeadlineNs(), kNoDeadline);
}

TEST(WorkerFailure, AResultThatDoesNotFitWhatWasPushedIsNeverTaken) {
  const auto fails = [](auto change, uint64_t payload_bytes = 400) {
    WorkerDriver worker(2, 1, 4);
    worker.Submit(1, 100);
    worker.Sent(worker.sends.at(0));
    FrameHeader header = WorkerDriver::HeaderOf(worker.sends.at(0));
    header.type = FrameType::kResult;
    header.contributors = 2;
    change(&header);
    worker.Offer(worker.ServerPeer(0), header, payload_bytes);
    EXPECT_TRUE(worker.accepts.empty());
    EXPECT_EQ(worker.declines.size(), 1u);
    return worker.done.size() == 1 && absl::IsInternal(worker.done[0].status);
  };
  EXPECT_TRUE(fails([](FrameHeader*) {}, 404));
  EXPECT_TRUE(fails([](FrameHeader* h) { h->contributors = 1; })) << "a sum without somebody is no sum";
  EXPECT_TRUE(fails([](FrameHeader* h) { h->bucket_elements = 101; }));
  EXPECT_TRUE(fails([](FrameHeader* h) { h->chunk_elements = 99; }, 396));
  EXPECT_TRUE(fails([](FrameHeader* h) { h->codec = WireCodec(DataType::kInt32); }));
  EXPECT_TRUE(fails([](FrameHeader* h) { h->reduce_op = ReduceOp::kMax; }));
  EXPECT_TRUE(fails([](FrameHeader* h) { h->rank = Rank(1); }));
}

TEST(Invariant, I4AResultOfAnotherEpochIsNeverTaken) {
  WorkerDriver worker(1, 1, 4);
  worker.Submit(1, 100);
  worker.Sent(worker.sends.at(0));
  FrameHeader header = WorkerDriver::HeaderOf(worker.sends.at(0));
  header.type = FrameType::kResult;
  header.contributors = 1;
  header.epoch = Epoch(2);
  const OfferId offer = worker.Offer(worker.ServerPeer(0), header, 400);
  EXPECT_THAT(worker.declines, ElementsAre(offer));
  EXPECT_TRUE(worker.accepts.empty());
}

TEST(WorkerFailure, ResultsForWhatEndedAreDroppedAndCounted) {
  WorkerDriver worker(1, 1, 4);
  worker.Submit(1, 100);
  const WorkerSendAction send = worker.sends.at(0);
  worker.AnswerAll(1);
  const OfferId offer = worker.OfferResult(send, 1);
  EXPECT_THAT(worker.declines, ElementsAre(offer));
  EXPECT_EQ(worker.machine().counters().refusals, 1u);
}

TEST(WorkerFailure, AnOpThatWasCutForAnotherGroupFailsAloneAndTakesNoNumber) {
  WorkerDriver worker(1, 1, 4);
  GroupInfo of_larger_chunks = *WorkerDriver::Info(0, 1, 1);
  of_larger_chunks.max_chunk_bytes = 2048;
  GroupInfo of_narrow_wire = *WorkerDriver::Info(0, 1, 1);
  of_narrow_wire.wire = WireFormat::kBfloat16;
  for (const GroupInfo& other : {of_larger_chunks, of_narrow_wire}) {
    worker.Clear();
    worker.Command(SubmitCommand{
        .group = GroupHandle(0), .ticket = 1, .layout = OpLayout::Make(other, 100, DataType::kFloat32).value()});
    ASSERT_EQ(worker.done.size(), 1u);
    EXPECT_EQ(worker.done[0].status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(worker.done[0].status.message()), HasSubstr("another group than \"world\""));
  }
  worker.Submit(2, 100);
  EXPECT_EQ(WorkerDriver::HeaderOf(worker.sends.at(0)).op, OpNumber(1));
}

TEST(WorkerFailure, AFailedSubmitThatWasStampedLaterThanNowTookNoTime) {
  WorkerDriver worker;
  worker.Command(SubmitCommand{.group = GroupHandle(3), .ticket = 1, .submitted_ns = worker.now.monotonic_ns + 5});
  EXPECT_EQ(worker.done.at(0).duration_ns, 0u);
}

TEST(WorkerFailure, AServerThatWritesGarbageIsCutOffAndNamed) {
  WorkerDriver worker(1, 1, 4);
  Note garbage;
  garbage.bytes.fill(std::byte{'x'});
  garbage.size = 100;
  worker.GiveNote(0, garbage);
  EXPECT_THAT(worker.closes, ElementsAre(worker.ServerPeer(0)));
  worker.Down(0, absl::CancelledError("closed"));
  worker.Down(0, absl::UnavailableError("refused"));
  ASSERT_EQ(worker.troubles.size(), 1u) << "the scheduler is to move the group away from it";
  EXPECT_EQ(worker.troubles[0].server, ServerId(1));
  EXPECT_EQ(worker.troubles[0].reason, "the message does not start as a Shoal frame");
}

// Whatever a server sends, a worker neither crashes nor takes a result into memory that is not the op's.
TEST(Invariant, I7NothingThatAServerSendsCanAbortAWorker) {
  std::mt19937_64 random(31);
  for (int round = 0; round < 200; ++round) {
    WorkerDriver worker(2, 2, 4);
    worker.Submit(1, 5 * 256);
    for (int step = 0; step < 60; ++step) {
      FrameHeader header = worker.sends.empty() ? WorkerDriver::Header(FrameType::kResult)
                                                : WorkerDriver::HeaderOf(worker.sends[random() % worker.sends.size()]);
      header.type = random() % 2 == 0 ? FrameType::kResult : static_cast<FrameType>(1 + random() % 13);
      header.contributors = 2;
      FrameHeaderBytes bytes = EncodeHeader(header);
      for (uint64_t i = random() % 3; i > 0; --i) bytes[random() % bytes.size()] = std::byte(random());
      const auto server = static_cast<uint32_t>(random() % 2);
      if (random() % 3 == 0) {
        Note note = MakeTextNote(header, std::string(random() % 60, '\1'));
        std::copy(bytes.begin(), bytes.end(), note.bytes.begin());
        if (random() % 6 == 0) note.size = random() % note.size;
        worker.GiveNote(server, note);
      } else if (absl::StatusOr<FrameHeader> decoded = DecodeHeader(bytes); decoded.ok()) {
        worker.Offer(worker.ServerPeer(server), *decoded, random() % 2 == 0 ? 1024 : random());
      }
      for (const WorkerAcceptAction& accept : std::exchange(worker.accepts, {})) {
        ASSERT_GE(accept.data_at_once, worker.memory(1));
        ASSERT_LE(accept.data_at_once + accept.bytes, worker.memory(1) + 5 * 1024);
        worker.Land(accept);
      }
      if (random() % 3 == 0 && !worker.sends.empty()) {
        worker.Sent(worker.sends.back());
        worker.sends.pop_back();
      }
    }
  }
}

}  // namespace
}  // namespace shoal
