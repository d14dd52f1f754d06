// A rank that closes a group stays until all ranks have all their results (docs/failover.md, F10).
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FrameHeader AllHaveThoseUpTo(uint64_t op) {
  FrameHeader commit = WorkerDriver::Header(FrameType::kCommit, 0, 1, /*epoch=*/3);
  commit.commit_watermark = OpNumber(op);
  return commit;
}

// In a group of two ranks, of which the other one may still lack the result.
void DoOneOp(WorkerDriver* worker) {
  worker->OpenAll(2, 1, 2);
  worker->Submit(1, 100);
  worker->AnswerAll(2);
}

TEST(WorkerLeaving, NobodyLeavesBeforeAllRanksHaveAllResults) {
  WorkerDriver worker;
  DoOneOp(&worker);
  worker.Clear();
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  EXPECT_THAT(worker.closed, IsEmpty());
  const std::vector<SentNote> commits = worker.NotesOf(FrameType::kCommit);
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].header.op, OpNumber(1)) << "the server is asked to say when";
  worker.GiveNote(0, MakeNote(AllHaveThoseUpTo(1)));
  EXPECT_EQ(worker.closed.size(), 1u);
  EXPECT_EQ(worker.NotesOf(FrameType::kLeaveGroup).size(), 1u);
}

TEST(WorkerLeaving, ARankThatLeavesKnowingThatAllHaveAllResultsSaysSo) {
  WorkerDriver worker;
  DoOneOp(&worker);
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  worker.GiveNote(0, MakeNote(AllHaveThoseUpTo(1)));
  ASSERT_EQ(worker.closed.size(), 1u);
  EXPECT_TRUE(worker.closed[0].all_committed);
}

// The rank that closed it first is gone: it does not tell the servers of a new map that it has its results.
TEST(WorkerLeaving, ARankLeavesOnceTheSchedulerSaysThatAllHaveAllResults) {
  for (const bool closes_first : {true, false}) {
    WorkerDriver worker;
    DoOneOp(&worker);
    const auto move = [&](bool all_committed) {
      worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(1, 5), all_committed});
    };
    if (!closes_first) move(true);
    worker.Command(CloseGroupCommand{GroupHandle(0)});
    if (closes_first) {
      move(false);
      ASSERT_THAT(worker.closed, IsEmpty()) << "another rank may lack its result";
      move(true);
    }
    ASSERT_EQ(worker.closed.size(), 1u) << closes_first;
    EXPECT_TRUE(worker.closed[0].all_committed);
  }
}

TEST(WorkerLeaving, ARankThatIsToldStaysUntilItsOwnOpHasEnded) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, 100);
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(1, 3), /*all_committed=*/true});
  EXPECT_THAT(worker.closed, IsEmpty());
  worker.AnswerAll(2);
  EXPECT_EQ(worker.closed.size(), 1u);
}

// The servers must not take a rank that goes on elsewhere for one that has left.
TEST(WorkerLeaving, F24ServersHearWhichOpARankDoesNotCall) {
  WorkerDriver closes;
  DoOneOp(&closes);
  closes.GiveNote(0, MakeNote(AllHaveThoseUpTo(1)));
  closes.Clear();
  closes.Command(CloseGroupCommand{GroupHandle(0)});
  ASSERT_EQ(closes.NotesOf(FrameType::kLeaveGroup).size(), 1u);
  EXPECT_EQ(closes.NotesOf(FrameType::kLeaveGroup)[0].header.op, OpNumber(2));

  WorkerDriver moves(2, 2, 4);
  moves.Clear();
  moves.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(1, 4)});
  ASSERT_EQ(moves.NotesOf(FrameType::kLeaveGroup).size(), 1u);
  EXPECT_EQ(moves.NotesOf(FrameType::kLeaveGroup)[0].header.op, OpNumber(0));

  WorkerDriver fails(2, 1, 4);
  fails.Command(AbortGroupCommand{.group = GroupHandle(0), .reason = "enough"});
  fails.Clear();
  fails.Command(CloseGroupCommand{GroupHandle(0)});
  ASSERT_EQ(fails.NotesOf(FrameType::kLeaveGroup).size(), 1u);
  EXPECT_EQ(fails.NotesOf(FrameType::kLeaveGroup)[0].header.op, OpNumber(0));
}

FrameHeader HasLeftBefore(uint64_t op, uint32_t rank) {
  FrameHeader news = WorkerDriver::Header(FrameType::kGroupFailed, rank);
  news.op = OpNumber(op);
  return news;
}

TEST(WorkerLeaving, F24AnOpWithoutARankThatHasLeftEndsAtOnce) {
  WorkerDriver worker(3, 1, 4);
  worker.Submit(1, 100);
  worker.GiveNote(0, MakeTextNote(HasLeftBefore(1, 2), "it has left"));
  ASSERT_EQ(worker.done.size(), 0u) << "the push is under way";
  worker.Sent(worker.sends.at(0));
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(worker.done[0].status));
  EXPECT_THAT(std::string(worker.done[0].status.message()),
              HasSubstr("rank 2 on node-2 has left the group, and does not call op 1, which this rank has called"));
  EXPECT_EQ(worker.failures_told.size(), 1u) << "the others must not wait for an op of theirs, either";
}

TEST(WorkerLeaving, F24AGroupThatGoesOnAsksForAnEpochWithoutTheRank) {
  WorkerDriver worker;
  worker.OpenGoingOn(1);
  worker.Submit(1, 100);
  worker.Sent(worker.sends.at(0));
  worker.Clear();
  FrameHeader news = HasLeftBefore(1, 7);
  worker.GiveNote(0, MakeTextNote(news, "it has left"));
  EXPECT_THAT(worker.troubles, IsEmpty()) << "there is no rank 7";
  news.rank = Rank(2);
  worker.GiveNote(0, MakeTextNote(news, "it has left"));
  ASSERT_EQ(worker.troubles.size(), 1u);
  EXPECT_EQ(worker.troubles[0].left, Rank(2));
  EXPECT_TRUE(worker.troubles[0].reachable);
  EXPECT_EQ(worker.troubles[0].epoch, Epoch(3));
  EXPECT_THAT(worker.done, IsEmpty());
  EXPECT_THAT(worker.failures_told, IsEmpty());
}

TEST(WorkerLeaving, F24WithTooFewLeftAnOpEndsAndAGroupWithoutOneDoesNot) {
  for (const bool submits_first : {true, false}) {
    WorkerDriver worker;
    worker.OpenGoingOn(2);
    if (submits_first) {
      worker.Submit(1, 100);
      worker.Sent(worker.sends.at(0));
    }
    worker.MoveWithout({Rank(1), Rank(2)});
    if (!submits_first) {
      EXPECT_THAT(worker.failures_told, IsEmpty());
      worker.Submit(1, 100);
    }
    ASSERT_EQ(worker.done.size(), 1u) << submits_first;
    EXPECT_THAT(std::string(worker.done[0].status.message()), HasSubstr("it has 1 ranks left, and needs 2"));
  }
}

// I3: the answer to a report may come after the news of the next epoch.
TEST(WorkerLeaving, WhatARankKnewThatHasLeftIsNotTakenUpAgainWithALateAnswer) {
  WorkerDriver worker;
  worker.OpenGoingOn(1);
  worker.MoveWithout({Rank(2)});
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(1, 3), /*all_committed=*/true});
  worker.Welcome(0, 4, 0, 1, /*epoch=*/4);
  worker.Submit(1, 100);
  worker.AnswerAll(2);
  ASSERT_EQ(worker.done.size(), 1u);
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  EXPECT_THAT(worker.closed, IsEmpty()) << "rank 1 may lack the result";
}

// The servers of this epoch may have been told of it too late to hear the rank leave.
TEST(WorkerLeaving, F24TheSchedulerTellsWhoHasClosedAGroupThatHasMoved) {
  const auto news = [](uint64_t epoch, bool all_committed) {
    return MoveGroupCommand{
        .group = GroupId(1), .map = WorkerDriver::Map(1, epoch), .all_committed = all_committed, .closed = Rank(2)};
  };
  for (const bool submits_first : {true, false}) {
    WorkerDriver fixed(3, 1, 4);
    if (submits_first) {
      fixed.Submit(1, 100);
      fixed.Sent(fixed.sends.at(0));
    }
    fixed.Command(news(3, false));
    EXPECT_THAT(fixed.done, IsEmpty()) << "another rank may have the result";
    fixed.Command(news(3, true));
    if (!submits_first) fixed.Submit(1, 100);
    ASSERT_EQ(fixed.done.size(), 1u) << submits_first;
    EXPECT_THAT(std::string(fixed.done[0].status.message()), HasSubstr("rank 2 on node-2 has left the group"));

    WorkerDriver goes_on;
    goes_on.OpenGoingOn(1);
    if (submits_first) goes_on.Submit(1, 100);
    goes_on.Command(news(4, false));  // with its map
    if (!submits_first) goes_on.Submit(1, 100);
    goes_on.Command(news(4, false));
    ASSERT_EQ(goes_on.troubles.size(), 1u) << submits_first;
    EXPECT_EQ(goes_on.troubles[0].left, Rank(2));
    EXPECT_EQ(goes_on.troubles[0].epoch, Epoch(4));
    EXPECT_THAT(goes_on.done, IsEmpty());
  }
}

// I3: what a rank knew that has left was of its own ops.
TEST(WorkerLeaving, WhatARankKnewThatHasLeftIsForgottenWithItsEpoch) {
  for (const bool is_told_again : {false, true}) {
    WorkerDriver worker;
    worker.OpenGoingOn(1);
    worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(1, 3), /*all_committed=*/true});
    worker.MoveWithout({Rank(2)}, is_told_again);
    worker.Welcome(0, 4, 0, 1, /*epoch=*/4);
    worker.Submit(1, 100);
    worker.AnswerAll(2);
    ASSERT_EQ(worker.done.size(), 1u);
    worker.Command(CloseGroupCommand{GroupHandle(0)});
    EXPECT_THAT(worker.closed, testing::SizeIs(is_told_again ? 1 : 0)) << "rank 1 may lack the result";
  }
}

TEST(WorkerLeaving, AGroupThatFailedOrHadNoOpsSaysNothingOfResults) {
  WorkerDriver unused(2, 1, 2);
  unused.Command(CloseGroupCommand{GroupHandle(0)});
  ASSERT_EQ(unused.closed.size(), 1u);
  EXPECT_FALSE(unused.closed[0].all_committed);
  WorkerDriver failed;
  DoOneOp(&failed);
  failed.GiveNote(0, MakeNote(AllHaveThoseUpTo(1)));
  failed.Command(AbortGroupCommand{.group = GroupHandle(0), .reason = "enough"});
  failed.Command(CloseGroupCommand{GroupHandle(0)});
  ASSERT_EQ(failed.closed.size(), 1u);
  EXPECT_FALSE(failed.closed[0].all_committed);
}

// It ends on each rank by itself: the other rank may never call it, and lacks no result of it.
TEST(WorkerLeaving, NobodyIsWaitedForBecauseOfAnOpWithoutElements) {
  WorkerDriver worker;
  DoOneOp(&worker);
  worker.Submit(2, 0);
  ASSERT_EQ(worker.done.size(), 2u);
  worker.Clear();
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  EXPECT_THAT(worker.closed, IsEmpty()) << "the other rank may lack the result of the op before it";
  const std::vector<SentNote> commits = worker.NotesOf(FrameType::kCommit);
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].header.op, OpNumber(1));
  EXPECT_EQ(commits[0].header.landed_watermark, OpNumber(2));
  worker.Pass(8 * kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre(HasSubstr("results of all-reduce 1")));
  worker.GiveNote(0, MakeNote(AllHaveThoseUpTo(1)));
  ASSERT_EQ(worker.closed.size(), 1u);
  EXPECT_TRUE(worker.closed[0].all_committed);
}

TEST(WorkerLeaving, AGroupWhoseOpsHadNoElementsIsLeftAtOnce) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, 0);
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  ASSERT_EQ(worker.closed.size(), 1u);
  EXPECT_FALSE(worker.closed[0].all_committed) << "there was no result";
}

TEST(WorkerLeaving, LeavingHasItsDeadline) {
  WorkerDriver worker;
  DoOneOp(&worker);
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  worker.TickAt(worker.now.monotonic_ns + 30 * kNsPerS);
  ASSERT_EQ(worker.closed.size(), 1u);
  EXPECT_FALSE(worker.closed[0].all_committed) << "it does not know that";
}

}  // namespace
}  // namespace shoal
