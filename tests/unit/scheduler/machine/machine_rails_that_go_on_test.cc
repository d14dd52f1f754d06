// Groups of open jobs that go on without lost ranks, and have rails: the node is what is lost (docs/failover.md, F23).
#include <map>
#include <string>
#include <vector>

#include "core/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// Ranks 2n and 2n + 1 are on node n.
class MachineRailsThatGoOnTest : public ::testing::Test {
 protected:
  void Start(uint32_t nodes) {
    harness_ = MachineHarness();
    server_ = harness_.Ask<ServerRegistered>(Server("a", 11, 1)).server;
    ranks_.clear();
    for (uint32_t rank = 0; rank < 2 * nodes; ++rank) {
      JoinJob join = Join("elastic", 0, 0, 100 + rank);
      join.node = NodeOf(rank);
      join.open = {.min_ranks = 1, .identity = ""};
      join.node_reduce = Request(rank);
      job_ = harness_.Ask<JobJoined>(join).job;
      ranks_.push_back(rank);
    }
  }
  static std::string NodeOf(uint32_t rank) { return "node-" + std::to_string(rank / 2); }
  static NodeReduceRequest Request(uint32_t rank) {
    return {.possible = true, .node_identity = "boot of " + NodeOf(rank), .can_rails = true};
  }
  std::vector<GroupJoined> Open(uint32_t min_ranks) {
    std::vector<RequestHandle> handles;
    for (const uint32_t rank : ranks_) {
      JoinGroup request = Group(job_, rank, 100 + rank, ranks_);
      request.group_name = "world";
      request.request_number = 1;
      request.node_reduce = Request(rank);
      request.options = {.checksums = false, .min_ranks = min_ranks};
      handles.push_back(harness_.Send(request));
    }
    std::vector<GroupJoined> answers;
    for (const RequestHandle handle : handles) answers.push_back(harness_.Get<GroupJoined>(handle));
    watcher_ = harness_.WatchAs(job_, 0, 100);
    return answers;
  }
  void LoseAllBut(const std::vector<uint32_t>& ranks) { LoseAllRanksBut(&harness_, job_, ranks, server_); }
  // Of each rail: which nodes its newest epoch lacks, as the watcher was told.
  std::map<GroupId, std::vector<Rank>> LostNodes(uint32_t nodes) {
    std::map<GroupId, std::vector<Rank>> lost;
    for (const SendWatch& news : harness_.watched(watcher_)) {
      for (const GroupMap& group : news.groups) lost[group.group] = DecodeRoster(nodes, group.sealed_roster)->lost();
    }
    return lost;
  }
  void GiveUp(uint32_t rank, const GroupJoined& group) {
    CloseGroups request{job_, JobRank(rank), Incarnation(100 + rank), {}, {}};
    request.failures = {{.group = group.group, .reason = "rank 2 died", .others_go_on = true}};
    harness_.Ask<Done>(request);
  }
  void Close(uint32_t rank, const GroupJoined& group) {
    harness_.Ask<Done>(CloseGroups{job_, JobRank(rank), Incarnation(100 + rank), {group.group}, {}});
  }
  std::vector<GroupView> Groups() { return OnlyJob(harness_).groups; }

  MachineHarness harness_;
  WatcherId watcher_;
  ServerId server_;
  std::vector<uint32_t> ranks_;
  JobId job_;
};

TEST_F(MachineRailsThatGoOnTest, ItHasRailsEachOfWhichNeedsAsManyNodesAsItsRanksTake) {
  for (const auto& [min_ranks, min_nodes] : std::map<uint32_t, uint32_t>{{1, 1}, {2, 1}, {3, 2}, {4, 2}, {6, 3}}) {
    Start(3);
    const std::vector<GroupJoined> answers = Open(min_ranks);
    EXPECT_THAT(answers, Each(::testing::Field(&GroupJoined::node_reduce, NodeReduceMode::kRails)));
    ASSERT_THAT(Groups(), SizeIs(2));
    for (const GroupView& rail : Groups()) EXPECT_EQ(rail.state.min_ranks, min_nodes) << min_ranks;
  }
}

TEST_F(MachineRailsThatGoOnTest, OnOneNodeAloneItIsFlat) {
  Start(1);
  for (const GroupJoined& answer : Open(1)) {
    EXPECT_EQ(answer.node_reduce, NodeReduceMode::kFlat);
    EXPECT_FALSE(answer.map->empty());
  }
}

TEST_F(MachineRailsThatGoOnTest, ALostRankTakesItsNodeOutOfAllRails) {
  Start(3);
  const std::vector<GroupJoined> answers = Open(2);
  LoseAllBut({0, 1, 3, 4, 5});
  EXPECT_THAT(LostNodes(3), UnorderedElementsAre(Pair(answers[0].group, ElementsAre(Rank(1))),
                                                 Pair(answers[1].group, ElementsAre(Rank(1)))));
  EXPECT_THAT(harness_.EventKinds(), AllOf(Contains("group-moved"), Not(Contains("group-failed"))));
  EXPECT_TRUE(harness_.Try(Beat(job_, 3, 103)).ok()) << "the rank that is left alone is in the job";
  // It may be in the next group.
  ranks_ = {0, 1, 4, 5};
  LoseAllBut({0, 1, 3, 4});
  EXPECT_THAT(LostNodes(3), Each(Pair(::testing::_, ElementsAre(Rank(1), Rank(2)))));
}

TEST_F(MachineRailsThatGoOnTest, WithFewerNodesThanItNeedsAllRailsFail) {
  Start(3);
  Open(5);
  LoseAllBut({0, 1, 2, 3, 4});
  for (const GroupView& rail : Groups()) {
    EXPECT_THAT(rail.state.failure, AllOf(HasSubstr("was lost"), HasSubstr("it has 2 nodes left, and needs 3")));
  }
}

TEST_F(MachineRailsThatGoOnTest, ARankThatIsLeftAloneTakesItsNodeOutAsWell) {
  Start(3);
  const std::vector<GroupJoined> answers = Open(2);
  GiveUp(3, answers[3]);
  EXPECT_THAT(LostNodes(3), UnorderedElementsAre(Pair(answers[0].group, ElementsAre(Rank(1))),
                                                 Pair(answers[1].group, ElementsAre(Rank(1)))));
  const size_t moves = harness_.EventKinds().size();
  GiveUp(3, answers[3]);
  GiveUp(2, answers[2]);
  Close(3, answers[3]);
  Close(2, answers[2]);
  EXPECT_EQ(harness_.EventKinds().size(), moves) << "said again";
}

TEST_F(MachineRailsThatGoOnTest, ARankThatHasClosedTheGroupStaysInItsRail) {
  Start(3);
  const std::vector<GroupJoined> answers = Open(2);
  Close(3, answers[3]);
  LoseAllBut({0, 1, 3, 4, 5});
  EXPECT_THAT(LostNodes(3),
              UnorderedElementsAre(Pair(answers[0].group, ElementsAre(Rank(1))), Pair(answers[1].group, IsEmpty())))
      << "its results may be missing elsewhere, and it handed them over before it closed the group";
}

TEST_F(MachineRailsThatGoOnTest, WhatRanksTellOfAnOpIsOfTheWholeGroup) {
  Start(3);
  const std::vector<GroupJoined> answers = Open(2);
  LoseAllBut({0, 1, 3, 4, 5});
  for (const uint32_t rank : {0, 1, 5}) {
    HeartbeatWorker beat = Beat(job_, rank, 100 + rank);
    beat.partial_ops = {{.number = 1,
                         .group = answers[0].whole_group,
                         .epoch = Epoch(3),
                         .op = OpNumber(7),
                         .ranges = {{.first = 0, .count = 50, .contributors = 6}, {50, 50, 4}}}};
    harness_.Ask<WorkerRenewed>(beat);
  }
  std::vector<std::string> told;
  for (const EventRecord& event : harness_.events()) {
    if (event.kind == EventKind::kOpLacksRanks) told.push_back(event.subject + ": " + event.reason);
  }
  EXPECT_THAT(told, ElementsAre("group \"world\" of job \"elastic\": op 7 of epoch 3: elements 0 to 49 have the "
                                "contributions of 6 ranks, 50 to 99 of 4; the group is without rank 2, 3 now"));
}

TEST_F(MachineRailsThatGoOnTest, ItsNodeIsOutAlsoWhereAllOthersHaveClosedItsOwnRail) {
  Start(3);
  const std::vector<GroupJoined> answers = Open(2);
  for (const uint32_t rank : {0, 4}) Close(rank, answers[rank]);
  LoseAllBut({0, 1, 3, 4, 5});
  EXPECT_THAT(Groups(), SizeIs(1));
  EXPECT_THAT(LostNodes(3)[answers[1].group], ElementsAre(Rank(1)));
}

TEST_F(MachineRailsThatGoOnTest, ARankThatAsksAgainWhenItsNodeIsOutIsToldSo) {
  Start(3);
  Open(2);
  LoseAllBut({0, 1, 3, 4, 5});
  JoinGroup again = Group(job_, 3, 103, ranks_);
  again.group_name = "world";
  again.request_number = 1;
  again.node_reduce = Request(3);
  again.options = {.checksums = false, .min_ranks = 2};
  const absl::Status refused = harness_.Try(again);
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("goes on without rank 3"));
}

}  // namespace
}  // namespace shoal::scheduler
