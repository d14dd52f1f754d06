// What a worker says while it waits: after a while, not too often, and with the name of whom it waits for.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void SayRankIsMissing(WorkerDriver* worker, uint32_t rank, uint64_t op) {
  FrameHeader header = WorkerDriver::Header(FrameType::kWaiting);
  header.op = OpNumber(op);
  worker->GiveNote(0, MakeWaiting(header, {.missing_count = 1, .listed_count = 1, .ranks = {Rank(rank)}}));
}

TEST(WorkerWaiting, TheRankThatAServerMissesIsNamedWithItsNode) {
  WorkerDriver worker(4, 1, 4);
  worker.Submit(1, 2 * kChunkElements, 0, worker.now.monotonic_ns + 8 * kNsPerS);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  worker.OfferResult(worker.sends[0], 4);
  worker.Land(worker.accepts.at(0));
  SayRankIsMissing(&worker, 3, 1);
  worker.Pass(2 * kNsPerS);
  EXPECT_THAT(worker.waits,
              ElementsAre("waited 2 s for rank 3 on node-3 (6 s left): all-reduce 1 of group \"world\" (512 float32), "
                          "1 of 2 chunks are back, chunk 1 is the first missing one"));
  EXPECT_EQ(worker.machine().counters().waits_reported, 1u);
}

TEST(WorkerWaiting, AnOpWhoseChunksComeBackIsNotWaitedForHoweverLongItTakes) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 4 * kChunkElements, 0, worker.now.monotonic_ns + 3600 * kNsPerS);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  for (size_t chunk = 0; chunk < 3; ++chunk) {
    worker.Pass(9 * kNsPerS);
    worker.OfferResult(worker.sends[chunk], 2);
    worker.Land(worker.accepts.at(chunk));
  }
  worker.Pass(9 * kNsPerS);
  EXPECT_THAT(worker.waits, IsEmpty());
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.waits,
              ElementsAre(AllOf(HasSubstr("waited 10 s for server server-0"), HasSubstr("3 of 4 chunks are back"))));
}

TEST(WorkerWaiting, AfterAChunkCameBackTheNextLineComesAsSoonAsTheFirst) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 2 * kChunkElements, 0, worker.now.monotonic_ns + 3600 * kNsPerS);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  worker.Pass(41 * kNsPerS);
  EXPECT_EQ(worker.waits.size(), 3u) << "after 10, 20 and 40 s; the next one would come after 80 s";
  worker.OfferResult(worker.sends[0], 2);
  worker.Land(worker.accepts.at(0));
  worker.Pass(10 * kNsPerS - 1);
  EXPECT_EQ(worker.waits.size(), 3u);
  worker.Pass(1);
  EXPECT_EQ(worker.waits.size(), 4u);
  EXPECT_THAT(worker.waits.back(), HasSubstr("waited 10 s for "));
}

TEST(WorkerWaiting, ItIsSaidAfterTenSecondsAndThenEverLessOften) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 3600 * kNsPerS);
  worker.Sent(worker.sends.at(0));
  SayRankIsMissing(&worker, 1, 1);
  worker.Pass(10 * kNsPerS - 1);
  EXPECT_THAT(worker.waits, IsEmpty());
  worker.Pass(1);
  EXPECT_EQ(worker.waits.size(), 1u);
  worker.Pass(10 * kNsPerS);
  EXPECT_EQ(worker.waits.size(), 2u);
  worker.Pass(20 * kNsPerS);
  EXPECT_EQ(worker.waits.size(), 3u);
  worker.Pass(600 * kNsPerS);
  EXPECT_EQ(worker.waits.size(), 3u + 1u + 9u) << "after 80 s, and each minute from there";
}

TEST(WorkerWaiting, OpsThatEndInTimeAreNotSpokenOf) {
  WorkerDriver worker(2, 1, 4);
  for (uint64_t i = 1; i <= 5; ++i) {
    worker.Submit(i, 100, 0, worker.now.monotonic_ns + 60 * kNsPerS);
    worker.Pass(9 * kNsPerS);
    worker.AnswerAll(2);
  }
  worker.Pass(60 * kNsPerS);
  EXPECT_EQ(worker.done.size(), 5u);
  EXPECT_THAT(worker.waits, IsEmpty());
}

TEST(WorkerWaiting, AServerThatDoesNotAnswerIsNamed) {
  WorkerDriver worker(2, 2, 4);
  worker.Submit(1, 2 * kChunkElements, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  for (const WorkerSendAction& send : worker.sends) {
    if (send.peer == worker.ServerPeer(1)) continue;
    worker.OfferResult(send, 2);
  }
  worker.Land(worker.accepts.at(0));
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.waits,
              ElementsAre(AllOf(HasSubstr("waited 1 s for server server-1 (10.0.0.1:7000) (no answer) (3 s left)"),
                                HasSubstr("1 of 2 chunks are back"))));
}

TEST(WorkerWaiting, ALostServerMeansWaitingForTheScheduler) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  worker.Down(0, absl::UnavailableError("connection reset"));
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre(HasSubstr("waited 1 s for a new map from the scheduler (server server-0 "
                                                  "(10.0.0.0:7000) was lost: connection reset) (3 s left)")));
}

TEST(WorkerWaiting, WithNoServerLeftThatIsSaid) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(0, 4)});
  worker.Sent(worker.sends.at(0));
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre(HasSubstr("waited 1 s for a reduction server (none is left) (3 s left)")));
}

TEST(WorkerWaiting, AServerOfTheNewMapThatDoesNotComeUpIsNamed) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 2 * kChunkElements, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(2, 4)});
  worker.Welcome(0, 4, 0, 1, 4);
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre(HasSubstr("server server-1 (10.0.0.1:7000) (no connection yet)")));
}

TEST(WorkerWaiting, AGroupThatDoesNotOpenNamesTheServers) {
  WorkerDriver worker;
  worker.Open(WorkerDriver::Info(0, 2, 2), 0, worker.now.monotonic_ns + 20 * kNsPerS);
  worker.Up(0);
  worker.Welcome(0, 4);
  worker.Pass(5 * kNsPerS);
  EXPECT_THAT(
      worker.waits,
      ElementsAre("waited 5 s for servers (15 s left): group \"world\" is not open on server server-1 (10.0.0.1:7000) "
                  "(no connection yet)"));
  worker.Up(1);
  worker.Welcome(1, 4);
  worker.Pass(60 * kNsPerS);
  EXPECT_EQ(worker.waits.size(), 1u) << "it is open";
}

TEST(WorkerWaiting, AGroupThatWaitsForANewMapSaysWhy) {
  WorkerDriver worker;
  worker.Open(WorkerDriver::Info(0, 2, 2), 0, worker.now.monotonic_ns + 40 * kNsPerS);
  worker.Up(0);
  worker.Welcome(0, 4);
  worker.Pass(10 * kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre("waited 10 s for servers (30 s left): group \"world\" is not open on server "
                                        "server-1 (10.0.0.1:7000) (no connection was made in time)"));
}

// Closed here with the results of two ops, which another rank may lack.
void CloseWithTwoOps(WorkerDriver* worker) {
  for (uint64_t op = 1; op <= 2; ++op) {
    worker->Submit(op, 100);
    worker->AnswerAll(4);
  }
  worker->Command(CloseGroupCommand{GroupHandle(0)});
}

TEST(WorkerWaiting, LeavingNamesTheRankThatHasNotItsResults) {
  WorkerDriver worker(4, 1, 2);
  CloseWithTwoOps(&worker);
  SayRankIsMissing(&worker, 3, 2);
  worker.Pass(8 * kNsPerS);
  EXPECT_THAT(
      worker.waits,
      ElementsAre("waited 7.5 s for rank 3 on node-3 (22.5 s left): group \"world\" is closed here but stays until "
                  "all ranks have their results of all-reduces 1 to 2"));
  FrameHeader commit = WorkerDriver::Header(FrameType::kCommit);
  commit.commit_watermark = OpNumber(1);
  worker.GiveNote(0, MakeNote(commit));
  worker.waits.clear();
  worker.Pass(8 * kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre(HasSubstr("results of all-reduce 2")));
}

TEST(WorkerWaiting, LeavingNamesTheServersWhileNoneSaysWhomItWaitsFor) {
  WorkerDriver worker(4, 2, 2);
  CloseWithTwoOps(&worker);
  worker.Down(1);
  worker.Pass(8 * kNsPerS);
  EXPECT_THAT(worker.waits,
              ElementsAre(AllOf(HasSubstr("waited 7.5 s for server server-0 (10.0.0.0:7000) (no answer), a new map "
                                          "from the scheduler (server server-1 (10.0.0.1:7000) was lost: connection "
                                          "reset) (22.5 s left)"))));
}

TEST(WorkerWaiting, AWordOnAnEarlierWaitIsNoneOnLeaving) {
  WorkerDriver worker(4, 1, 2);
  worker.Submit(1, 100);
  worker.AnswerAll(4);
  SayRankIsMissing(&worker, 3, 1);
  worker.Command(CloseGroupCommand{GroupHandle(0)});
  worker.Pass(8 * kNsPerS);
  EXPECT_THAT(worker.waits,
              ElementsAre(HasSubstr("waited 7.5 s for server server-0 (10.0.0.0:7000) (no answer) (22.5 s left)")));
}

TEST(WorkerWaiting, LeavingWithoutTheOthersIsSaidOnceWithTheRankThatMayLackResults) {
  WorkerDriver worker(4, 1, 2);
  CloseWithTwoOps(&worker);
  SayRankIsMissing(&worker, 3, 2);
  worker.Pass(30 * kNsPerS - 1);
  worker.waits.clear();
  worker.Pass(60 * kNsPerS);
  EXPECT_EQ(worker.closed.size(), 1u);
  EXPECT_THAT(worker.waits, ElementsAre("left group \"world\" after it waited 30 s, although rank 3 on node-3 may "
                                        "lack results of all-reduces 1 to 2"));
}

TEST(WorkerWaiting, AWorkerThatClosesWaitsForTwoSecondsAndSaysForWhom) {
  WorkerDriver worker(4, 1, 2);
  CloseWithTwoOps(&worker);
  worker.Pass(kNsPerS);
  worker.Command(ShutdownCommand{worker.now.monotonic_ns + 2 * kNsPerS});
  SayRankIsMissing(&worker, 3, 2);
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre(HasSubstr("waited 0.5 s for rank 3 on node-3 (1.5 s left)"),
                                        HasSubstr("waited 1 s for rank 3 on node-3 (1 s left)")));
  worker.waits.clear();
  worker.Pass(kNsPerS);
  EXPECT_THAT(worker.waits,
              ElementsAre(HasSubstr("left group \"world\" after it waited 2 s, although rank 3"),
                          "the worker closes although it has not heard goodbye from server server-0 (10.0.0.0:7000)"));
}

TEST(WorkerWaiting, AnOpsDeadlineNamesTheServerOfTheNewMapThatDidNotLetTheGroupIn) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(2, 4)});
  worker.Welcome(0, 4, 0, 1, 4);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  worker.Pass(4 * kNsPerS);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_THAT(std::string(worker.done[0].status.message()),
              HasSubstr("the group is not open on server server-1 (10.0.0.1:7000) (no connection yet)"));
}

TEST(WorkerWaiting, AGroupThatOpensWhileNoServerIsLeftSaysSo) {
  WorkerDriver worker;
  worker.Open(WorkerDriver::Info(0, 2, 1), 0, worker.now.monotonic_ns + 20 * kNsPerS);
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(0, 4)});
  worker.Pass(5 * kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre(HasSubstr("group \"world\" is not open: no reduction server is left")));
}

TEST(WorkerWaiting, AFailedGroupIsSilent) {
  WorkerDriver worker(2, 1, 2);
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 100 * kNsPerS);
  worker.Sent(worker.sends.at(0));
  worker.Command(AbortGroupCommand{GroupHandle(0), "enough"});
  worker.Pass(99 * kNsPerS);
  EXPECT_THAT(worker.waits, IsEmpty());
}

TEST(Invariant, I8EachOpOfALostRankSaysWhatItStillLacked) {
  WorkerDriver worker(3, 1, 8);
  worker.Submit(1, 3 * kChunkElements);
  worker.Submit(2, 100);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  worker.OfferResult(worker.sends.at(0), 3);
  worker.Land(worker.accepts.at(0));
  worker.Command(
      RankLostCommand{.job_rank = JobRank(2), .node = "node-2", .reason = "no heartbeat for 5 s (lease 5 s)"});
  ASSERT_EQ(worker.done.size(), 2u);
  const std::string why = "rank 2 of the job on node-2 was lost: no heartbeat for 5 s (lease 5 s); ";
  EXPECT_EQ(
      worker.done[0].status,
      absl::AbortedError(why + "all-reduce 1 of group \"world\" (768 float32): 1 of 3 chunks are back, chunk 1 is the "
                               "first missing one"));
  EXPECT_EQ(worker.done[1].status,
            absl::AbortedError(why + "all-reduce 2 of group \"world\" (100 float32): 0 of 1 chunks are back"));
}

}  // namespace
}  // namespace shoal
