// How either half of a group with rails, its node and its rail, ends the other, and who is named then.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/rails_fixture.h"

namespace shoal::rails {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RailsFailureTest : public RailsTest {
 protected:
  // It waits then for the other node, which may lack a result of this one.
  void CloseAfterOneOp() {
    OpenAll();
    worker.Submit(1, kElements);
    ReduceAndAnswer(1);
    worker.Command(CloseGroupCommand{kGroup});
    EndOp(1);
  }
};

// ---- failures ----

TEST_F(RailsFailureTest, ARankOfTheNodeThatDiesFailsTheRailWithItsName) {
  OpenAll();
  worker.Submit(1, kElements);
  worker.Submit(2, kElements);
  Reduced(1, 0, kChunkElements);
  ASSERT_THAT(worker.sends, SizeIs(1));
  FailOnNode(absl::UnavailableError("its process has ended"), 0, {1, 2});
  const std::string why = "rank 4 of the job on node-a was lost: its process has ended";
  ASSERT_THAT(worker.NotesOf(FrameType::kGroupFailed), SizeIs(1));
  EXPECT_EQ(worker.NotesOf(FrameType::kGroupFailed)[0].text(), why);
  EXPECT_THAT(worker.failures_told, ElementsAre(why)) << "for ranks of the rail that no server reaches";
  EXPECT_THAT(worker.done, IsEmpty()) << "the network reads the tensor of the first";
  worker.Sent(worker.sends[0]);
  ASSERT_THAT(worker.done, SizeIs(2));
  EXPECT_EQ(worker.done[0].status, absl::AbortedError(absl::StrCat(why, "; ", kFirstOp)));
  EXPECT_TRUE(absl::IsAborted(worker.done[1].status));
  EXPECT_EQ(worker.machine().counters().ops_failed, 2u);
}

TEST_F(RailsFailureTest, ARankThatIsLostInTheRailFailsTheNodeWithItsName) {
  OpenAll();
  worker.Submit(1, kElements);
  worker.GiveNote(0, MakeTextNote(WorkerDriver::Header(FrameType::kRankLost, 1), "connection reset"));
  const absl::Status why = absl::AbortedError("rank 7 of the job on node-b was lost: connection reset");
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_EQ(worker.local_fails[0].why, why);
  EXPECT_THAT(worker.done, IsEmpty()) << "the node uses its tensor";
  EndOp(1, why);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status, absl::AbortedError(absl::StrCat(why.message(), "; ", kFirstOp)));
  EXPECT_THAT(worker.local_fails, SizeIs(1)) << "said once";
  EXPECT_THAT(worker.failures_told, IsEmpty()) << "the rail knows";
}

TEST_F(RailsFailureTest, WhatARankOfTheNodeWasToldOfAnotherIsPassedOnAsItIs) {
  OpenAll();
  worker.Submit(1, kElements);
  const std::string why = "rank 6 of the job on node-b was lost: connection reset";
  FailOnNode(absl::AbortedError(why), 0, {1});
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status, absl::AbortedError(absl::StrCat(why, "; ", kFirstOp)));
  EXPECT_EQ(worker.NotesOf(FrameType::kGroupFailed).at(0).text(), why);
}

TEST_F(RailsFailureTest, ARankThatTheSchedulerDeclaresLostFailsBothHalvesWhicheverRailItIsIn) {
  OpenAll();
  worker.Submit(1, kElements);
  worker.Command(RankLostCommand{JobRank(6), "node-b", "its lease ran out"});
  const std::string why = "rank 6 of the job on node-b was lost: its lease ran out";
  EXPECT_EQ(worker.local_fails.at(0).why, absl::AbortedError(why));
  EXPECT_THAT(worker.failures_told, IsEmpty()) << "the scheduler knows";
  EXPECT_EQ(worker.NotesOf(FrameType::kGroupFailed).at(0).text(), why);
  EndOp(1, absl::AbortedError(why));
  EXPECT_EQ(worker.done.at(0).status, absl::AbortedError(absl::StrCat(why, "; ", kFirstOp)));
}

TEST_F(RailsFailureTest, AFailureBeforeItIsOpenEndsBothHalves) {
  worker.Open(Info(1));
  worker.Up(0);
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::UnavailableError("its process has ended"), LocalRank(0)});
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status, absl::AbortedError("rank 4 of the job on node-a was lost: its process has ended"));
  EXPECT_THAT(worker.NotesOf(FrameType::kGroupFailed), SizeIs(1));
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  EXPECT_THAT(worker.closed, IsEmpty());
}

TEST_F(RailsFailureTest, WhatThisRankLacksIsToldInTheRailWithoutItsNameWhichOthersAdd) {
  worker.Open(Info(1));
  worker.Up(0);
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::ResourceExhaustedError("no descriptors are left"), LocalRank(1)});
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status,
            absl::ResourceExhaustedError("rank 5 of the job on node-a: no descriptors are left"));
  EXPECT_THAT(worker.failures_told, ElementsAre("no descriptors are left"));
  EXPECT_EQ(worker.NotesOf(FrameType::kGroupFailed).at(0).text(), "no descriptors are left");
}

TEST_F(RailsFailureTest, AServerThatRefusesTheRailEndsTheOpeningOnTheNode) {
  worker.Open(Info(1));
  worker.GiveLocal(LocalGroupMet{kGroup});
  worker.Up(0);
  FrameHeader refusal = WorkerDriver::Header(FrameType::kRefuse);
  refusal.refusal = Refusal::kBadToken;
  worker.GiveNote(0, MakeTextNote(refusal, "because"));
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_TRUE(absl::IsUnauthenticated(worker.opened[0].status)) << worker.opened[0].status;
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_EQ(worker.local_fails[0].why, worker.opened[0].status);
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
}

TEST_F(RailsFailureTest, ServersWordsOfTheRailNameTheRanksThatUsersKnow) {
  const std::string words = "{rank 0} called this, {rank 1} called that, {rank 2} is no rank of it";
  const char kNamed[] =
      "rank 5 of the job on node-a called this, rank 7 of the job on node-b called that, rank 2 is no rank of it";
  for (const FrameType type : {FrameType::kRefuse, FrameType::kGroupFailed}) {
    WorkerDriver driver(kOptions);
    driver.Open(Info(1));
    driver.Up(0);
    driver.Welcome(0, 8);
    driver.GiveLocal(LocalGroupMet{kGroup});
    driver.Submit(1, kElements);
    FrameHeader said = WorkerDriver::Header(type, 1);
    if (type == FrameType::kRefuse) said.refusal = Refusal::kLayoutMismatch;
    driver.GiveNote(0, MakeTextNote(said, words));
    ASSERT_THAT(driver.local_fails, SizeIs(1));
    EXPECT_THAT(std::string(driver.local_fails[0].why.message()), HasSubstr(kNamed));
  }
}

TEST_F(RailsFailureTest, AFailedRailMovesNoMoreWhileTheNodeStillHasItsTensor) {
  OpenAll();
  worker.Submit(1, kElements);
  worker.Command(CloseGroupCommand{kGroup});
  worker.GiveNote(0, MakeTextNote(WorkerDriver::Header(FrameType::kRankLost, 1), "connection reset"));
  worker.Clear();
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(2, 4)});
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.NotesOf(FrameType::kHello), IsEmpty());
  EXPECT_THAT(worker.connects, IsEmpty());
  EndOp(1, absl::AbortedError("as the node passes it on"));
  EXPECT_THAT(worker.done, SizeIs(1));
  EXPECT_THAT(worker.closed, SizeIs(1));
}

TEST_F(RailsFailureTest, AFailedGroupTakesNoOps) {
  OpenAll();
  worker.GiveNote(0, MakeTextNote(WorkerDriver::Header(FrameType::kRankLost, 1), "connection reset"));
  worker.Submit(1, kElements);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_THAT(std::string(worker.done[0].status.message()), HasSubstr("rank 7 of the job on node-b was lost"));
  EXPECT_THAT(worker.local_starts, IsEmpty());
}

TEST_F(RailsFailureTest, ResultsThatLandAfterAFailureAreGivenToNobody) {
  OpenAll();
  worker.Submit(1, kElements);
  Reduced(1, 0, kPart);
  const std::vector<WorkerSendAction> sends = std::exchange(worker.sends, {});
  worker.Sent(sends.at(0));
  worker.OfferResult(sends[0], 2);
  ASSERT_THAT(worker.accepts, SizeIs(1));
  FailOnNode(absl::UnavailableError("its process has ended"), 0, {1});
  for (size_t i = 1; i < sends.size(); ++i) worker.Sent(sends[i]);
  EXPECT_THAT(worker.done, IsEmpty());
  worker.Land(worker.accepts[0]);
  EXPECT_THAT(worker.published, IsEmpty());
  EXPECT_THAT(worker.done, SizeIs(1));
}

// ---- deadlines and waits ----

TEST_F(RailsFailureTest, AnOpsDeadlineNamesTheRankOfTheNodeWhoseContributionIsMissing) {
  OpenAll();
  worker.missing = {LocalRank(0)};
  worker.Submit(1, kElements, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  Reduced(1, 0, kPart - 1);
  worker.waits.clear();
  worker.Pass(4 * kNsPerS);
  const std::string why = absl::StrCat(kFirstOp, " is not done after 4 s: it waits for rank 0 (rank 4 of the job) on ",
                                       "node-a, which made fewer calls, stopped, or waits for a server itself");
  EXPECT_EQ(worker.local_fails.at(0).why, absl::DeadlineExceededError(why));
  EXPECT_EQ(worker.NotesOf(FrameType::kGroupFailed).at(0).text(), why);
}

TEST_F(RailsFailureTest, AnOpsDeadlineNamesTheRankOfTheRailThatTheServerWaitsFor) {
  OpenAll();
  worker.Submit(1, kElements, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  Reduced(1, 0, kPart);
  FrameHeader header = WorkerDriver::HeaderOf(worker.sends.at(0));
  header.type = FrameType::kWaiting;
  Waiting waiting{.missing_count = 1, .listed_count = 1};
  waiting.ranks[0] = Rank(1);
  worker.GiveNote(0, MakeWaiting(header, waiting));
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre(absl::StrCat("waited 1 s for rank 7 of the job on node-b (3 s left): ",
                                                     kFirstOp, ", 0 of 4 chunks are back")));
  worker.Pass(3 * kNsPerS);
  EXPECT_EQ(worker.local_fails.at(0).why,
            absl::DeadlineExceededError(absl::StrCat(
                kFirstOp,
                " is not done after 4 s: server server-0 (10.0.0.0:7000) waits for rank 7 of the job on "
                "node-b, which made fewer calls, stopped, or waits for another rank of its node or server itself")));
}

TEST_F(RailsFailureTest, AnOpWhoseChunksComeBackIsNotWaitedForHoweverLongItTakes) {
  OpenAll();
  worker.Submit(1, kElements, 0, worker.now.monotonic_ns + 3600 * kNsPerS);
  Reduced(1, 0, kPart);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  for (size_t chunk = 0; chunk < 3; ++chunk) {
    worker.Pass(9 * kNsPerS);
    worker.OfferResult(worker.sends[chunk], 2);
    worker.Land(worker.accepts.at(chunk));
  }
  worker.Pass(9 * kNsPerS);
  EXPECT_THAT(worker.waits, IsEmpty());
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre(HasSubstr("waited 10 s for ")));
}

TEST_F(RailsFailureTest, ALineIsAboutTheHalfThatTheOpWaitsFor) {
  OpenAll();
  worker.missing = {LocalRank(0)};
  worker.Submit(1, kElements, 0, worker.now.monotonic_ns + 40 * kNsPerS);
  worker.Pass(10 * kNsPerS);
  EXPECT_THAT(worker.waits,
              ElementsAre(HasSubstr("for rank 0 (rank 4 of the job) on node-a (30 s left): all-reduce 1")));
  worker.waits.clear();
  ReduceAndAnswer(1);
  worker.Pass(10 * kNsPerS);
  EXPECT_THAT(worker.waits,
              ElementsAre(HasSubstr("for rank 0 (rank 4 of the job) on node-a (20 s left): all-reduce 1")))
      << "the other parts' results are not here";
}

// ---- the end ----

TEST_F(RailsFailureTest, ClosingWaitsUntilTheRailHasItsResults) {
  CloseAfterOneOp();
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_THAT(worker.closed, IsEmpty()) << "the other node may need a result of this one";
  EXPECT_THAT(worker.local_closes, IsEmpty());
  FrameHeader commit = WorkerDriver::Header(FrameType::kCommit);
  commit.commit_watermark = OpNumber(1);
  worker.GiveNote(0, MakeNote(commit));
  ASSERT_THAT(worker.closed, SizeIs(1));
  EXPECT_TRUE(worker.closed[0].all_committed);
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  EXPECT_THAT(worker.NotesOf(FrameType::kLeaveGroup), SizeIs(1));
}

TEST_F(RailsFailureTest, ItIsClosedWhenTheSchedulerSaysThatTheRailHasItsResults) {
  CloseAfterOneOp();
  ASSERT_THAT(worker.closed, IsEmpty());
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(1, 5), /*all_committed=*/true});
  EXPECT_THAT(worker.NotesOf(FrameType::kHello), IsEmpty()) << "it leaves, so the servers of the new map need not know";
  worker.TickAt(worker.now.monotonic_ns);
  ASSERT_THAT(worker.closed, SizeIs(1));
  EXPECT_TRUE(worker.closed[0].all_committed);
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
}

TEST_F(RailsFailureTest, AFailureWhileItClosesEndsItAtOnce) {
  OpenAll();
  worker.Submit(1, kElements);
  ReduceAndAnswer(1);
  EndOp(1);
  worker.Command(CloseGroupCommand{kGroup});
  worker.Command(RankLostCommand{JobRank(6), "node-b", "its lease ran out"});
  EXPECT_THAT(worker.closed, SizeIs(1));
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
}

TEST_F(RailsFailureTest, AnAbortEndsBothHalvesAndTheGroupIsGoneOnceItIsClosed) {
  OpenAll();
  worker.Submit(1, kElements);
  Reduced(1, 0, kPart);
  worker.Command(AbortGroupCommand{kGroup, "enough"});
  EXPECT_THAT(worker.failures_told, ElementsAre("the group was aborted: enough"));
  EndOp(1, absl::CancelledError("as the node passes it on"));
  worker.Command(CloseGroupCommand{kGroup});
  EXPECT_THAT(worker.closed, IsEmpty()) << "the network reads its tensor";
  for (const WorkerSendAction& send : std::exchange(worker.sends, {})) worker.Sent(send);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status, absl::CancelledError("the group was aborted: enough"));
  EXPECT_THAT(worker.closed, SizeIs(1));
  EXPECT_THAT(worker.opened, IsEmpty());
}

TEST_F(RailsFailureTest, ItsHandleServesAnotherGroupAfterIt) {
  OpenAll();
  worker.Command(CloseGroupCommand{kGroup});
  EXPECT_THAT(worker.closed, SizeIs(1));
  worker.Clear();
  worker.Open(WorkerDriver::Info(0, 2, 1, 9));
  worker.Welcome(0, 4, 0, 9);
  ASSERT_THAT(worker.opened, SizeIs(1));
  worker.Submit(1, kElements);
  EXPECT_THAT(worker.local_starts, IsEmpty());
  worker.AnswerAll(2);
  EXPECT_THAT(worker.done, SizeIs(1));
}

TEST_F(RailsFailureTest, AWorkerThatClosesWaitsForItsRailUntilTheDeadline) {
  OpenAll();
  worker.Submit(1, kElements);
  ReduceAndAnswer(1);
  EndOp(1);
  worker.Command(ShutdownCommand{worker.now.monotonic_ns + 2 * kNsPerS});
  EXPECT_THAT(worker.local_closes, IsEmpty());
  worker.Pass(2 * kNsPerS);
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  EXPECT_THAT(worker.local_fails, IsEmpty());
}

}  // namespace
}  // namespace shoal::rails
