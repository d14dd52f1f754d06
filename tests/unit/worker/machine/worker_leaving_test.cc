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
