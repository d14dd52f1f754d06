// A group whose ranks share a node, in a worker machine: when it opens, when its ops end, who is named when it fails,
// and how it closes. The node's events are given by hand.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const WorkerMachineOptions kOptions = {.has_local_reduce = true};
const GroupHandle kGroup(0);
constexpr char kFirstOp[] = "all-reduce 1 of group \"world\" (100 float32)";

// Rank 1 of four, which are ranks 4 to 7 of the job.
std::shared_ptr<GroupInfo> Info(uint64_t id = 1) {
  std::shared_ptr<GroupInfo> info = WorkerDriver::Info(1, 4, 0, id);
  info->job_ranks = {JobRank(4), JobRank(5), JobRank(6), JobRank(7)};
  info->nodes = {"node-a", "node-a", "node-a", "node-a"};
  info->node_reduce = NodeReduceMode::kNodeAlone;
  info->meeting_name = "cluster/1";
  return info;
}

void EndOp(WorkerDriver* worker, uint64_t ticket, absl::Status status = absl::OkStatus(), GroupHandle group = kGroup) {
  worker->GiveLocal(LocalOpEnded{group, ticket, std::move(status)});
}

class NodeGroupTest : public ::testing::Test {
 protected:
  NodeGroupTest() : worker(kOptions) {}

  void OpenAll() {
    worker.Open(Info());
    worker.GiveLocal(LocalGroupMet{kGroup});
    ASSERT_THAT(worker.opened, SizeIs(1));
    ASSERT_TRUE(worker.opened[0].status.ok()) << worker.opened[0].status;
    worker.Clear();
  }

  WorkerDriver worker;
};

// ---- opening ----

TEST_F(NodeGroupTest, ItIsOpenWhenItsRanksHaveMetAndAsksForNoServer) {
  worker.Open(Info());
  ASSERT_THAT(worker.local_opens, SizeIs(1));
  EXPECT_EQ(worker.local_opens[0].group, kGroup);
  EXPECT_EQ(worker.local_opens[0].meeting_name, "cluster/1");
  EXPECT_EQ(worker.local_opens[0].rank, LocalRank(1));
  EXPECT_EQ(worker.local_opens[0].size, 4u);
  EXPECT_THAT(worker.opened, IsEmpty());
  worker.GiveLocal(LocalGroupMet{kGroup});
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status, absl::OkStatus());
  EXPECT_THAT(worker.connects, IsEmpty());
  EXPECT_EQ(worker.machine().NextDeadlineNs(), kNoDeadline) << "nothing wakes a worker that is idle";
}

TEST_F(NodeGroupTest, TheOpeningsDeadlineNamesTheRanksThatDidNotCome) {
  worker.missing = {LocalRank(2), LocalRank(3)};
  worker.Open(Info(), 0, worker.now.monotonic_ns + 20 * kNsPerS);
  worker.Pass(20 * kNsPerS - 1);
  EXPECT_THAT(worker.opened, IsEmpty());
  worker.Pass(1);
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status,
            absl::DeadlineExceededError(
                "group \"world\" is not open: its ranks meet on their node, and rank 2 (rank 6 of "
                "the job) on node-a, rank 3 (rank 7 of the job) on node-a did not come (ranks that run "
                "and can't meet can use servers: SHOAL_NODE_REDUCE=off)"));
  ASSERT_THAT(worker.local_fails, SizeIs(1)) << "the other ranks hear of it";
  EXPECT_EQ(worker.local_fails[0].why, worker.opened[0].status);
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  EXPECT_THAT(worker.closed, IsEmpty()) << "it never was open, and nobody waits for its end";
  EXPECT_EQ(worker.machine().NextDeadlineNs(), kNoDeadline);
}

TEST_F(NodeGroupTest, ARankThatIsGoneBeforeTheyHaveMetEndsTheOpening) {
  worker.Open(Info());
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::UnavailableError("its process has ended"), LocalRank(3)});
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status, absl::AbortedError("rank 7 of the job on node-a was lost: its process has ended"));
  EXPECT_THAT(worker.local_fails, IsEmpty()) << "the node has said so itself";
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
}

TEST_F(NodeGroupTest, OpsBeforeTheMeetingAreStartedAndKeepAFailedOpeningOpenUntilTheyEnd) {
  worker.Open(Info());
  worker.Submit(1, 100);
  EXPECT_THAT(worker.local_starts, SizeIs(1));
  worker.Command(AbortGroupCommand{kGroup, "enough"});
  EXPECT_THAT(worker.opened, IsEmpty()) << "then its handle would be free";
  EXPECT_THAT(worker.local_closes, IsEmpty());
  EndOp(&worker, 1, absl::CancelledError("the group was aborted: enough"));
  EXPECT_THAT(worker.done, SizeIs(1));
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status, absl::CancelledError("the group was aborted: enough"));
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
}

TEST_F(NodeGroupTest, AnOpsDeadlineBeforeTheMeetingNamesWhoDidNotCome) {
  worker.missing = {LocalRank(0)};
  worker.Open(Info());
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  worker.Pass(4 * kNsPerS);
  EndOp(&worker, 1, absl::DeadlineExceededError("as the node passes it on"));
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(
      worker.done[0].status,
      absl::DeadlineExceededError(std::string(kFirstOp) +
                                  " is not done after 4 s: group \"world\" is not open: its ranks meet on their "
                                  "node, and rank 0 (rank 4 of the job) on node-a did not come (ranks that run and "
                                  "can't meet can use servers: SHOAL_NODE_REDUCE=off)"));
}

TEST(NodeGroup, AWorkerWithoutThePortRefusesItAndOneWithThePortRefusesRails) {
  WorkerDriver without;
  without.Open(Info());
  ASSERT_THAT(without.opened, SizeIs(1));
  EXPECT_EQ(
      without.opened[0].status,
      absl::UnimplementedError("the scheduler wants group \"world\" reduced within nodes (node alone), which this "
                               "worker can't do; update the workers and the scheduler together"));
  EXPECT_THAT(without.local_opens, IsEmpty());
  EXPECT_THAT(without.failures_told, ElementsAre(std::string(without.opened[0].status.message())))
      << "the others would wait for it";
  WorkerDriver with(kOptions);
  std::shared_ptr<GroupInfo> info = WorkerDriver::Info(1, 4, 1);
  info->node_reduce = NodeReduceMode::kRails;
  with.Open(info);
  ASSERT_THAT(with.opened, SizeIs(1));
  EXPECT_TRUE(absl::IsUnimplemented(with.opened[0].status)) << with.opened[0].status;
}

// ---- ops ----

TEST_F(NodeGroupTest, AnOpGoesToTheNodeAsItWasCalledAndEndsWhenItsMemoryIsFree) {
  std::shared_ptr<GroupInfo> info = Info();
  info->wire = WireFormat::kBfloat16;
  worker.Open(info);
  worker.GiveLocal(LocalGroupMet{kGroup});
  worker.Command(SubmitCommand{.group = kGroup,
                               .ticket = 7,
                               .data = reinterpret_cast<std::byte*>(0x1000),
                               .layout = *OpLayout::Make(*info, 100, DataType::kFloat32),
                               .reduce_op = ReduceOp::kPremulSum,
                               .premul_factor = 0.5,
                               .submitted_ns = worker.now.monotonic_ns,
                               .deadline_ns = kNoDeadline});
  ASSERT_THAT(worker.local_starts, SizeIs(1));
  const LocalOp& op = worker.local_starts[0];
  EXPECT_EQ(op.group, kGroup);
  EXPECT_EQ(op.ticket, 7u);
  EXPECT_EQ(op.data, reinterpret_cast<std::byte*>(0x1000));
  EXPECT_EQ(op.element_count, 100u);
  EXPECT_EQ(op.reduce_op, ReduceOp::kPremulSum);
  EXPECT_EQ(op.premul_factor, 0.5);
  EXPECT_EQ(op.codec, WireCodec(DataType::kFloat32, WireFormat::kBfloat16));
  EXPECT_FALSE(op.other_nodes);
  EXPECT_THAT(worker.done, IsEmpty());
  worker.now.monotonic_ns += 5'000;
  EndOp(&worker, 7);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].ticket, 7u);
  EXPECT_EQ(worker.done[0].status, absl::OkStatus());
  EXPECT_EQ(worker.done[0].duration_ns, 5'000u);
  const WorkerCounters counters = worker.machine().counters();
  EXPECT_EQ(counters.ops_completed, 1u);
  EXPECT_EQ(counters.op_time_ns_total, 5'000u);
  EXPECT_EQ(counters.bytes_on_node, 400u);
  EXPECT_EQ(counters.bytes_pushed, 0u);
  EXPECT_EQ(counters.chunks_pushed, 0u);
}

TEST_F(NodeGroupTest, AnOpWithNothingToReduceEndsAtOnce) {
  OpenAll();
  worker.Submit(1, 100);
  worker.Submit(2, 0);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].ticket, 2u);
  EXPECT_EQ(worker.done[0].status, absl::OkStatus());
  EXPECT_THAT(worker.local_starts, SizeIs(1)) << "the node takes ops with elements alone";
  EndOp(&worker, 1);
  EXPECT_THAT(worker.done, SizeIs(2));
}

TEST_F(NodeGroupTest, AnOpThatWasCutForAnotherGroupIsRefusedAlone) {
  OpenAll();
  std::shared_ptr<GroupInfo> other = Info(2);
  other->max_chunk_bytes = 2048;
  worker.Command(
      SubmitCommand{.group = kGroup, .ticket = 1, .layout = *OpLayout::Make(*other, 100, DataType::kFloat32)});
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_TRUE(absl::IsInvalidArgument(worker.done[0].status)) << worker.done[0].status;
  EXPECT_THAT(worker.local_starts, IsEmpty());
  worker.Submit(2, 100);
  EXPECT_THAT(worker.local_starts, SizeIs(1));
}

TEST_F(NodeGroupTest, AnOpsDeadlineFailsTheGroupAndNamesTheRankItWaitsFor) {
  OpenAll();
  worker.missing = {LocalRank(2)};
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  worker.Submit(2, 50, 0, worker.now.monotonic_ns + 9 * kNsPerS);
  worker.Pass(4 * kNsPerS);
  const absl::Status why = absl::DeadlineExceededError(
      std::string(kFirstOp) +
      " is not done after 4 s: it waits for rank 2 (rank 6 of the job) on node-a, which made fewer calls, or stopped");
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_EQ(worker.local_fails[0].why, why);
  EXPECT_THAT(worker.done, IsEmpty()) << "the node may still use the memory";
  EndOp(&worker, 1, why);
  EndOp(&worker, 2, why);
  ASSERT_THAT(worker.done, SizeIs(2));
  EXPECT_EQ(worker.done[0].status, why);
  EXPECT_EQ(worker.done[1].status, why);
  EXPECT_EQ(worker.machine().NextDeadlineNs(), kNoDeadline);
  worker.Submit(3, 100);
  ASSERT_THAT(worker.done, SizeIs(3)) << "what comes later hears the same";
  EXPECT_EQ(worker.done[2].status, why);
  EXPECT_EQ(worker.machine().counters().ops_failed, 3u);
  EXPECT_THAT(worker.local_starts, SizeIs(2));
}

TEST_F(NodeGroupTest, ADeadlineByWhichEveryRankHasComeBlamesNone) {
  OpenAll();
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  worker.Pass(4 * kNsPerS);
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_EQ(worker.local_fails[0].why,
            absl::DeadlineExceededError(std::string(kFirstOp) + " is not done after 4 s: no rank is missing, but the "
                                                                "node is too slow for its timeout"));
}

TEST_F(NodeGroupTest, AnOpThatIsDoneInTimeTakesItsDeadlineWithIt) {
  OpenAll();
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 4 * kNsPerS);
  EndOp(&worker, 1);
  worker.Submit(2, 100, 0, worker.now.monotonic_ns + 60 * kNsPerS);
  worker.Pass(9 * kNsPerS);
  EXPECT_THAT(worker.local_fails, IsEmpty());
  EXPECT_THAT(worker.waits, IsEmpty());
}

// ---- ranks that are gone, and ranks that fail it ----

TEST_F(NodeGroupTest, I8ARankThatIsGoneIsNamedAsTheSchedulerWouldNameIt) {
  OpenAll();
  worker.Submit(1, 100);
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::UnavailableError("its process has ended"), LocalRank(2)});
  EXPECT_THAT(worker.done, IsEmpty());
  EndOp(&worker, 1, absl::UnavailableError("its process has ended"));
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(
      worker.done[0].status,
      absl::AbortedError(std::string("rank 6 of the job on node-a was lost: its process has ended; ") + kFirstOp));
  EXPECT_THAT(worker.local_fails, IsEmpty());
  worker.Command(RankLostCommand{JobRank(6), "node-a", "no heartbeat for 10 s"});
  EXPECT_THAT(worker.local_fails, IsEmpty()) << "the first word stays";
}

TEST_F(NodeGroupTest, I8TheSchedulersWordOnALostRankFailsItsGroupsAlone) {
  OpenAll();
  std::shared_ptr<GroupInfo> other = Info(2);
  other->rank = Rank(1);
  other->job_ranks = {JobRank(4), JobRank(5)};
  other->nodes = {"node-a", "node-a"};
  worker.Open(other, 1);
  worker.GiveLocal(LocalGroupMet{GroupHandle(1)});
  worker.Submit(1, 100, 0);
  worker.Submit(2, 100, 1);
  worker.Command(RankLostCommand{JobRank(6), "node-a", "no heartbeat for 10 s"});
  const std::string why = "rank 6 of the job on node-a was lost: no heartbeat for 10 s";
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_EQ(worker.local_fails[0].group, kGroup);
  EXPECT_EQ(worker.local_fails[0].why, absl::AbortedError(why));
  EndOp(&worker, 1, absl::AbortedError(why));
  EndOp(&worker, 2, absl::OkStatus(), GroupHandle(1));
  ASSERT_THAT(worker.done, SizeIs(2));
  EXPECT_EQ(worker.done[0].status, absl::AbortedError(absl::StrCat(why, "; ", kFirstOp)));
  EXPECT_EQ(worker.done[1].status, absl::OkStatus());
}

TEST_F(NodeGroupTest, ARankThatFailsTheGroupIsNamedWithItsReason) {
  OpenAll();
  worker.Submit(1, 100);
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::DeadlineExceededError("all-reduce 1 is late"), LocalRank(0)});
  EndOp(&worker, 1, absl::DeadlineExceededError("all-reduce 1 is late"));
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status,
            absl::AbortedError(std::string("rank 4 of the job on node-a: all-reduce 1 is late; ") + kFirstOp));
}

TEST_F(NodeGroupTest, ADisagreementEndsItAsThroughServers) {
  OpenAll();
  worker.Submit(1, 100);
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::InvalidArgumentError("99 elements here, 100 there"), LocalRank(3)});
  EndOp(&worker, 1, absl::InvalidArgumentError("99 elements here, 100 there"));
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status,
            absl::AbortedError(std::string("rank 7 of the job on node-a: 99 elements here, 100 there; ") + kFirstOp));
}

TEST_F(NodeGroupTest, AFailureOfNoRankIsPassedOnAsItIs) {
  OpenAll();
  worker.Submit(1, 100);
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::ResourceExhaustedError("no shared memory is left"), std::nullopt});
  EndOp(&worker, 1, absl::ResourceExhaustedError("no shared memory is left"));
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status, absl::ResourceExhaustedError(std::string("no shared memory is left; ") + kFirstOp));
  // A rank that has not met this one hears it by way of the scheduler.
  EXPECT_THAT(worker.failures_told, ElementsAre("no shared memory is left"));
}

TEST_F(NodeGroupTest, WhatThisRankLacksIsToldToThoseThatHaveNotMetItByTheSchedulerWhichAddsItsName) {
  worker.Open(Info());
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::ResourceExhaustedError("no descriptors are left"), LocalRank(1)});
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status,
            absl::ResourceExhaustedError("rank 5 of the job on node-a: no descriptors are left"));
  EXPECT_THAT(worker.failures_told, ElementsAre("no descriptors are left"));
}

// Rank 0 passes on what the scheduler, or a server, has told it: of itself, or of another rank.
TEST(NodeGroup, WantOfMemoryThatARankWasToldOfIsPassedOnAsItIs) {
  for (const std::string whom : {"rank 0 (rank 4 of the job) on node-a", "rank 4 of the job on node-a",
                                 "rank 2 (rank 6 of the job) on node-a"}) {
    WorkerDriver worker(kOptions);
    worker.Open(Info());
    const absl::Status why = absl::ResourceExhaustedError(whom + ": no memory is left");
    worker.GiveLocal(LocalGroupFailed{kGroup, why, LocalRank(0)});
    ASSERT_THAT(worker.opened, SizeIs(1));
    EXPECT_EQ(worker.opened[0].status, why);
  }
}

TEST_F(NodeGroupTest, AResultThatCameDespiteAFailureIsAResult) {
  OpenAll();
  worker.Submit(1, 100);
  worker.Submit(2, 100);
  worker.Command(AbortGroupCommand{kGroup, "enough"});
  EndOp(&worker, 1);
  EndOp(&worker, 2, absl::CancelledError("the group was aborted: enough"));
  ASSERT_THAT(worker.done, SizeIs(2));
  EXPECT_EQ(worker.done[0].status, absl::OkStatus());
  EXPECT_EQ(worker.done[1].status, absl::CancelledError("the group was aborted: enough"));
}

// ---- the end ----

TEST_F(NodeGroupTest, ClosingWaitsForItsOpsAndForNobodyElse) {
  OpenAll();
  worker.Submit(1, 100);
  worker.Command(CloseGroupCommand{kGroup});
  EXPECT_THAT(worker.local_closes, IsEmpty());
  EXPECT_THAT(worker.closed, IsEmpty());
  EndOp(&worker, 1);
  EXPECT_THAT(worker.done, SizeIs(1));
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  ASSERT_THAT(worker.closed, SizeIs(1));
  EXPECT_THAT(worker.local_fails, IsEmpty());
}

TEST_F(NodeGroupTest, AGroupThatIsClosedBeforeItIsOpenEndsOnAllRanks) {
  worker.Open(Info());
  worker.Command(CloseGroupCommand{kGroup});
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status, absl::CancelledError("the group was closed before it was open"));
  EXPECT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  EXPECT_THAT(worker.closed, SizeIs(1));
}

TEST_F(NodeGroupTest, AFailedGroupIsForgottenWhenItIsClosed) {
  OpenAll();
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::UnavailableError("its process has ended"), LocalRank(2)});
  EXPECT_THAT(worker.local_closes, IsEmpty());
  EXPECT_THAT(worker.closed, IsEmpty()) << "its caller has not let go of it";
  worker.Command(CloseGroupCommand{kGroup});
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  EXPECT_THAT(worker.closed, SizeIs(1));
}

TEST_F(NodeGroupTest, WhatTheNodeSaysOfAClosedGroupIsLate) {
  OpenAll();
  worker.Command(CloseGroupCommand{kGroup});
  worker.Clear();
  worker.GiveLocal(LocalGroupMet{kGroup});
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::UnavailableError("its process has ended"), LocalRank(2)});
  EndOp(&worker, 1);
  worker.GiveLocal(LocalRanksMissing{kGroup, {LocalRank(1)}});
  EXPECT_THAT(worker.opened, IsEmpty());
  EXPECT_THAT(worker.done, IsEmpty());
  EXPECT_THAT(worker.closed, IsEmpty());
}

TEST_F(NodeGroupTest, ItsHandleServesGroupsOfBothKinds) {
  OpenAll();
  worker.Command(CloseGroupCommand{kGroup});
  worker.Clear();
  worker.OpenAll(2, 1, 4, 0, 2);
  worker.Command(AbortGroupCommand{kGroup, "enough"});
  worker.Command(CloseGroupCommand{kGroup});
  worker.Clear();
  OpenAll();
  worker.Submit(1, 100);
  EndOp(&worker, 1);
  EXPECT_THAT(worker.done, SizeIs(1));
}

TEST_F(NodeGroupTest, AServersEndIsNothingToIt) {
  worker.OpenAll(2, 1, 4, 1, 2);
  worker.Open(Info());
  worker.GiveLocal(LocalGroupMet{kGroup});
  worker.Submit(1, 100);
  worker.Down(0);
  worker.Pass(20 * kNsPerS);
  EXPECT_THAT(worker.local_fails, IsEmpty());
  EndOp(&worker, 1);
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status, absl::OkStatus());
}

TEST_F(NodeGroupTest, AWorkerThatClosesEndsItsOpsAndWaitsForTheirMemory) {
  OpenAll();
  worker.Submit(1, 100);
  worker.Command(ShutdownCommand{worker.now.monotonic_ns + 2 * kNsPerS});
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_EQ(worker.local_fails[0].why, absl::CancelledError("the worker is closing"));
  EXPECT_EQ(worker.shutdowns, 0);
  EndOp(&worker, 1, absl::CancelledError("the worker is closing"));
  EXPECT_EQ(worker.done.at(0).status, absl::CancelledError("the worker is closing"));
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  EXPECT_EQ(worker.shutdowns, 1);
}

TEST_F(NodeGroupTest, AWorkerThatClosesWithoutOpsLeavesItInPeace) {
  OpenAll();
  worker.Command(ShutdownCommand{worker.now.monotonic_ns + 2 * kNsPerS});
  EXPECT_THAT(worker.local_fails, IsEmpty());
  EXPECT_THAT(worker.local_closes, ElementsAre(kGroup));
  EXPECT_EQ(worker.shutdowns, 1);
}

// ---- waits ----

TEST_F(NodeGroupTest, AnOpeningThatLastsNamesTheRanksThatHaveNotCome) {
  worker.missing = {LocalRank(3)};
  worker.Open(Info(), 0, worker.now.monotonic_ns + 20 * kNsPerS);
  worker.Pass(5 * kNsPerS);
  EXPECT_THAT(worker.waits,
              ElementsAre("waited 5 s for rank 3 (rank 7 of the job) on node-a (15 s left): group \"world\" "
                          "opens when all its ranks have met on their node"));
  EXPECT_EQ(worker.machine().counters().waits_reported, 1u);
  worker.GiveLocal(LocalGroupMet{kGroup});
  worker.Pass(20 * kNsPerS);
  EXPECT_THAT(worker.waits, SizeIs(1)) << "it waits for nothing any more";
}

TEST_F(NodeGroupTest, AnOpThatLastsNamesTheRanksThatItWaitsFor) {
  OpenAll();
  worker.missing = {LocalRank(0), LocalRank(2)};
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 8 * kNsPerS);
  worker.Submit(2, 50, 0, worker.now.monotonic_ns + 8 * kNsPerS);
  worker.Pass(2 * kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre("waited 2 s for rank 0 (rank 4 of the job) on node-a, rank 2 (rank 6 of the "
                                        "job) on node-a (6 s left): all-reduce 1 of group \"world\" (100 float32)"));
  worker.waits.clear();
  EndOp(&worker, 1);
  worker.missing.clear();
  worker.Pass(2 * kNsPerS);
  EXPECT_THAT(worker.waits, ElementsAre("waited 4 s for processor time (4 s left): all-reduce 2 of group \"world\" (50 "
                                        "float32)"))
      << "the oldest op stands for all behind it, as often as one does";
}

TEST_F(NodeGroupTest, AFailedGroupIsSilent) {
  OpenAll();
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 100 * kNsPerS);
  worker.Command(AbortGroupCommand{kGroup, "enough"});
  worker.Pass(99 * kNsPerS);
  EXPECT_THAT(worker.waits, IsEmpty());
}

}  // namespace
}  // namespace shoal
