// A group with rails that goes on without lost ranks: a rank that is gone takes its node out of the group, the ranks
// that it leaves alone are told, and the other nodes go on (docs/failover.md, F23).
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/rails_fixture.h"

namespace shoal::rails {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const char kNodeIsOut[] =
    "; this rank is on that node, which is out of group \"world\": the other nodes go on without it";

class RailsThatGoOnTest : public RailsTest {
 protected:
  void OpenGoingOn() {
    Begin();
    worker.Welcome(0, 8);
    worker.GiveLocal(LocalGroupMet{kGroup});
    ASSERT_EQ(worker.opened.size(), 1u);
    ASSERT_TRUE(worker.opened[0].status.ok()) << worker.opened[0].status;
    worker.Clear();
  }
  void Begin() {
    const std::shared_ptr<GroupInfo> info = Info(1);
    info->min_ranks = 2;
    auto rail = std::make_shared<GroupInfo>(*info->rail);
    rail->min_ranks = 1;
    info->rail = std::move(rail);
    info->whole_group = GroupId(77);
    worker.Open(info);
    worker.Up(0);
  }
  // The rail goes over to an epoch without that node.
  void MoveWithout(uint32_t node) {
    worker.Command(
        MoveGroupCommand{.group = GroupId(1),
                         .map = WorkerDriver::Map(1, 4),
                         .sealed_roster = SealRoster(TokenKey{}, GroupId(1), Epoch(4), Roster(2, {Rank(node)}))});
  }
  void ExpectToldByTheScheduler(const std::string& cause) {
    ASSERT_THAT(worker.local_fails, SizeIs(1)) << "the node's other ranks hear it at once";
    EXPECT_EQ(worker.local_fails[0].why, absl::UnavailableError(cause));
    EXPECT_THAT(worker.failures_told, IsEmpty()) << "the scheduler knows";
    EndOp(1, absl::UnavailableError(cause));
    ExpectLeftAlone(cause);
  }
  void ExpectLeftAlone(const std::string& cause) {
    EXPECT_THAT(worker.NotesOf(FrameType::kGroupFailed), IsEmpty()) << "it would fail the group on the other nodes";
    ASSERT_THAT(worker.done, SizeIs(1));
    EXPECT_EQ(worker.done[0].status, absl::AbortedError(absl::StrCat(cause, kNodeIsOut, "; ", kFirstOp)));
    worker.Submit(9, kElements);
    ASSERT_THAT(worker.done, SizeIs(2));
    EXPECT_THAT(std::string(worker.done[1].status.message()), HasSubstr(kNodeIsOut));
  }
};

TEST_F(RailsThatGoOnTest, ARankOfTheNodeThatDiesEndsTheGroupOnThisNodeAlone) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  FailOnNode(absl::UnavailableError("its process has ended"), 0, {1});
  const std::string cause = "rank 4 of the job on node-a was lost: its process has ended";
  EXPECT_THAT(worker.failures_told, ElementsAre(cause));
  EXPECT_TRUE(worker.others_go_on_told);
  ExpectLeftAlone(cause);
}

TEST_F(RailsThatGoOnTest, WhatARankOfTheNodeHeardOfAnotherIsPassedOnAsItIs) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  const std::string cause = "rank 4 of the job on node-a was lost: its process has ended";
  FailOnNode(absl::UnavailableError(cause), 1, {1});
  EXPECT_THAT(worker.failures_told, ElementsAre(cause));
  ExpectLeftAlone(cause);
}

TEST_F(RailsThatGoOnTest, AnyOtherFailureOnTheNodeEndsTheGroupEverywhere) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  FailOnNode(absl::InvalidArgumentError("the ranks of this node disagree"), 0, {1});
  EXPECT_THAT(worker.NotesOf(FrameType::kGroupFailed), SizeIs(1));
  EXPECT_FALSE(worker.others_go_on_told);
}

TEST_F(RailsThatGoOnTest, TheSchedulerMayHearOfTheLossFirst) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  worker.Command(RankLostCommand{JobRank(4), "node-a", "its lease ran out"});
  EXPECT_THAT(worker.local_fails, IsEmpty()) << "it may have closed the group, which this rank's ops survive";
  MoveWithout(0);
  ExpectToldByTheScheduler("rank 4 of the job on node-a was lost: its lease ran out");
}

TEST_F(RailsThatGoOnTest, WhoTheNodesRankWasMayNotBeKnown) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  MoveWithout(0);
  ExpectToldByTheScheduler(
      "rank 5 of the job on node-a is left out, since a rank of its node was lost or gave the group up");
}

TEST_F(RailsThatGoOnTest, ARankOfAnotherNodeThatIsLostIsNoneOfThisOnes) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  worker.Command(RankLostCommand{JobRank(6), "node-b", "its lease ran out"});
  EXPECT_THAT(worker.local_fails, IsEmpty());
  EXPECT_THAT(worker.done, IsEmpty());
}

TEST_F(RailsThatGoOnTest, ARankThatGivesUpIsGoneForItsNodeAlone) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  worker.Command(GiveUpCommand{"its script raised ValueError"});
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_EQ(worker.local_fails[0].why, absl::UnavailableError("its script raised ValueError"));
  EXPECT_THAT(worker.failures_told, ElementsAre("its script raised ValueError"));
  EXPECT_TRUE(worker.others_go_on_told);
  EXPECT_THAT(worker.NotesOf(FrameType::kGroupFailed), IsEmpty());
  EndOp(1, absl::UnavailableError("its script raised ValueError"));
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].status, absl::CancelledError("its script raised ValueError"));
}

// Servers are in a newer epoch, and the scheduler does not know this rank any more.
TEST_F(RailsThatGoOnTest, ARankThatGetsNoNewerMapIsGoneForItsNodeAlone) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  worker.Command(NoMoreMapsCommand{absl::NotFoundError("it is lost")});
  FrameHeader refusal = WorkerDriver::Header(FrameType::kRefuse);
  refusal.refusal = Refusal::kStaleEpoch;
  worker.GiveNote(0, MakeTextNote(refusal, "the group is in epoch 4"));
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_TRUE(absl::IsUnavailable(worker.local_fails[0].why)) << worker.local_fails[0].why;
  EXPECT_THAT(worker.NotesOf(FrameType::kGroupFailed), IsEmpty());
  EXPECT_THAT(worker.failures_told, IsEmpty());
}

TEST_F(RailsThatGoOnTest, ARankThatTheSchedulerDoesNotKnowIsGoneForItsNodeAlone) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  worker.Command(GiveGroupUpCommand{GroupId(1), absl::FailedPreconditionError("rank 5 is lost")});
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_EQ(worker.local_fails[0].why, absl::UnavailableError("rank 5 is lost"));
  EXPECT_THAT(worker.NotesOf(FrameType::kGroupFailed), IsEmpty());
}

TEST_F(RailsThatGoOnTest, WhatTheSchedulerSaysOfTheWholeGroupEndsIt) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  worker.Command(GiveGroupUpCommand{GroupId(1), absl::AbortedError("it has 1 nodes left, and needs 2")});
  ASSERT_THAT(worker.local_fails, SizeIs(1));
  EXPECT_EQ(worker.local_fails[0].why, absl::AbortedError("it has 1 nodes left, and needs 2"));
}

TEST_F(RailsThatGoOnTest, ARankThatDiesBeforeTheGroupIsOpenTakesItsNodeOut) {
  Begin();
  worker.GiveLocal(LocalGroupFailed{kGroup, absl::UnavailableError("its process has ended"), LocalRank(0)});
  ASSERT_THAT(worker.opened, SizeIs(1));
  EXPECT_EQ(worker.opened[0].status, absl::AbortedError(absl::StrCat(
                                         "rank 4 of the job on node-a was lost: its process has ended", kNodeIsOut)));
  EXPECT_TRUE(worker.others_go_on_told);
  EXPECT_THAT(worker.NotesOf(FrameType::kGroupFailed), IsEmpty());
}

// The node counts its ranks: what the servers say of a part is of nodes.
TEST_F(RailsThatGoOnTest, AnOpEndsWithoutALostNodeAndTellsTheFewestAndTheMostOfAllParts) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  Reduced(1, 0, kPart);
  ASSERT_THAT(worker.sends, SizeIs(4));
  const std::vector<WorkerSendAction> sends = std::exchange(worker.sends, {});
  Answer(sends[0]);
  Answer(sends[1]);
  EXPECT_THAT(worker.published, ElementsAre(Published{{kPart, kChunkElements}, 1, 2},
                                            Published{{kPart + kChunkElements, kChunkElements}, 2, 2}));
  worker.published.clear();
  for (const size_t late : {2, 3}) worker.Sent(sends[late]);
  MoveWithout(1);
  worker.Welcome(0, 8, 0, 1, 4);
  ASSERT_THAT(worker.sends, SizeIs(2)) << "what it had no result of";
  worker.AnswerAll(1);
  EXPECT_THAT(worker.published, ElementsAre(Published{{kPart + 2 * kChunkElements, kChunkElements}, 3, 1},
                                            Published{{kPart + 3 * kChunkElements, kChunkElements}, 4, 1}));
  // The other rank of the node had all of its part of both nodes.
  worker.GiveLocal(
      LocalOpEnded{kGroup,
                   1,
                   absl::OkStatus(),
                   {{.first = 0, .count = kPart + 2 * kChunkElements, .contributors = 2},
                    {.first = kPart + 2 * kChunkElements, .count = 2 * kChunkElements, .contributors = 1}}});
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_TRUE(worker.done[0].status.ok()) << worker.done[0].status;
  EXPECT_EQ(worker.done[0].contributors, (Contributors{.least = 2, .most = 4}));
  const std::vector<PartialOp> told = worker.machine().counters().partial_ops;
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].group, GroupId(77)) << "the same for all rails";
  EXPECT_EQ(told[0].op, OpNumber(1));
  EXPECT_THAT(told[0].ranges, ElementsAre(ContributedRange{0, kPart + 2 * kChunkElements, 4},
                                          ContributedRange{kPart + 2 * kChunkElements, 2 * kChunkElements, 2}));
}

TEST_F(RailsThatGoOnTest, ThePartsOfTheNodesOtherRanksCountAsWell) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  ReduceAndAnswer(1);
  worker.GiveLocal(LocalOpEnded{
      kGroup,
      1,
      absl::OkStatus(),
      {{.first = 0, .count = 64, .contributors = 1}, {.first = 64, .count = kElements - 64, .contributors = 2}}});
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].contributors, (Contributors{.least = 2, .most = 4}));
}

TEST_F(RailsThatGoOnTest, WhatAnotherProcessOfTheNodeWroteThereCantBeMoreThanThereAre) {
  OpenGoingOn();
  worker.Submit(1, kElements);
  ReduceAndAnswer(1);
  worker.GiveLocal(LocalOpEnded{kGroup,
                                1,
                                absl::OkStatus(),
                                {{.first = 0, .count = 64, .contributors = 0}, {64, kElements - 64, 4'000'000'000}}});
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].contributors, (Contributors{.least = 2, .most = 4}));
}

TEST_F(RailsThatGoOnTest, AWholeGroupTellsNothing) {
  Begin();
  ASSERT_THAT(worker.local_opens, SizeIs(1));
  EXPECT_TRUE(worker.local_opens[0].counts_nodes);
  worker.Welcome(0, 8);
  worker.GiveLocal(LocalGroupMet{kGroup});
  worker.Clear();
  worker.Submit(1, kElements);
  ReduceAndAnswer(1);
  worker.GiveLocal(LocalOpEnded{kGroup, 1, absl::OkStatus(), {{.first = 0, .count = kElements, .contributors = 2}}});
  ASSERT_THAT(worker.done, SizeIs(1));
  EXPECT_EQ(worker.done[0].contributors, (Contributors{.least = 4, .most = 4}));
  EXPECT_THAT(worker.machine().counters().partial_ops, IsEmpty());
}

}  // namespace
}  // namespace shoal::rails
