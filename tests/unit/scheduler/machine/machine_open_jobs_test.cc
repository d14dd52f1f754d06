// Open jobs: ranks come, leave, are lost and come again while the job goes on.
#include <string>
#include <vector>

#include "core/failure_detection.h"
#include "core/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

JoinJob JoinOpen(uint64_t incarnation, uint32_t min_ranks = 1, const std::string& identity = "") {
  JoinJob request = Join("elastic", 0, 0, incarnation);
  request.node = "node" + std::to_string(incarnation);
  request.open = {.min_ranks = min_ranks, .identity = identity};
  return request;
}

class MachineOpenJobsTest : public ::testing::Test {
 protected:
  MachineOpenJobsTest() { server_ = harness_.Ask<ServerRegistered>(Server("a", 11, 1)).server; }

  // The rank that process 100 + `number` gets.
  uint32_t Add(uint32_t number, uint32_t min_ranks = 1) {
    const auto joined = harness_.Ask<JobJoined>(JoinOpen(100 + number, min_ranks));
    job_ = joined.job;
    return joined.rank.value();
  }
  void LoseAllBut(const std::vector<uint32_t>& ranks) { LoseAllRanksBut(&harness_, job_, ranks, server_); }
  // The id of the group of these ranks, all of which ask for it.
  GroupId Open(const std::vector<uint32_t>& ranks) {
    std::vector<RequestHandle> handles;
    for (const uint32_t rank : ranks) handles.push_back(harness_.Send(Group(job_, rank, 100 + rank, ranks)));
    GroupId group;
    for (const RequestHandle handle : handles) group = harness_.Get<GroupJoined>(handle).group;
    return group;
  }
  std::vector<std::string> Rosters() const {
    std::vector<std::string> texts;
    for (const EventRecord& event : harness_.events()) {
      if (event.kind == EventKind::kRosterChanged) texts.push_back(event.reason);
    }
    return texts;
  }

  MachineHarness harness_;
  ServerId server_;
  JobId job_;
};

TEST_F(MachineOpenJobsTest, NumbersAreGivenInOrderAndNeverAgain) {
  EXPECT_EQ(Add(0), 0u);
  EXPECT_EQ(Add(1), 1u);
  EXPECT_EQ(Add(1), 1u) << "the same process again, whose answer may have been lost";
  EXPECT_EQ(Add(2), 2u);
  EXPECT_TRUE(harness_.Try(Leave(job_, 1, 101)).ok());
  EXPECT_EQ(Add(3), 3u);
  EXPECT_EQ(Add(1), 4u) << "it has left, and comes again";
  EXPECT_EQ(OnlyJob(harness_).world_size, 4u);
  EXPECT_EQ(OnlyJob(harness_).min_ranks, 1u);
}

TEST_F(MachineOpenJobsTest, ItRunsWhenTheFewestAreThere) {
  Add(0, 2);
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kJoining);
  Add(1, 2);
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kRunning);
  Add(2, 2);
  EXPECT_EQ(OnlyJob(harness_).world_size, 3u);
}

TEST_F(MachineOpenJobsTest, ALostRankEndsItsGroupsAndNotTheJob) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  EXPECT_NE(Open({0, 1, 2}), GroupId());
  const WatcherId watcher = harness_.WatchAs(job_, 0, 100);
  LoseAllBut({0, 1});
  ASSERT_THAT(harness_.watched(watcher).back().lost_ranks, SizeIs(1));
  EXPECT_EQ(harness_.watched(watcher).back().lost_ranks[0].rank, JobRank(2)) << "by which its groups end";
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kRunning);
  EXPECT_THAT(harness_.EventKinds(), AllOf(Contains("rank-lost"), Not(Contains("job-failed"))));
  EXPECT_NE(Open({0, 1}), GroupId());
  EXPECT_EQ(Add(3), 3u);
  EXPECT_NE(Open({0, 1, 3}), GroupId());
  for (const uint32_t rank : {0, 1, 3}) EXPECT_TRUE(harness_.Try(Leave(job_, rank, 100 + rank)).ok());
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kEnded);
  EXPECT_THAT(OnlyJob(harness_).failure, IsEmpty());
}

TEST_F(MachineOpenJobsTest, AGroupThatFailedWithALostRankIsGotOver) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  const GroupId group = Open({0, 1, 2});
  LoseAllBut({0, 1});
  harness_.Ask<Done>(CloseGroups{.job = job_,
                                 .rank = JobRank(0),
                                 .incarnation = Incarnation(100),
                                 .groups = {group},
                                 .given_up_requests = {},
                                 .failures = {{.group = group, .reason = "rank 2 was lost"}}});
  EXPECT_THAT(OnlyJob(harness_).failure, HasSubstr("rank 2 was lost"));
  Open({0, 1});
  EXPECT_THAT(OnlyJob(harness_).failure, IsEmpty());
}

TEST_F(MachineOpenJobsTest, WithTooFewLeftItHasFailed) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank, 2);
  EXPECT_TRUE(harness_.Try(Leave(job_, 2, 102)).ok());
  LoseAllBut({1});
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kFailed);
  EXPECT_THAT(OnlyJob(harness_).failure, AllOf(HasSubstr("rank 0 of job \"elastic\" on node node100 was lost"),
                                               HasSubstr("1 rank: 1 left, and the job needs 2")));
  EXPECT_EQ(harness_.Try(Group(job_, 1, 101, {1})).code(), absl::StatusCode::kAborted);
}

TEST_F(MachineOpenJobsTest, ThoseWhoLeaveEndItWithoutAFailure) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank, 3);
  for (const uint32_t rank : {0, 1, 2}) EXPECT_TRUE(harness_.Try(Leave(job_, rank, 100 + rank)).ok());
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kEnded);
}

TEST_F(MachineOpenJobsTest, NobodyWaitsForARankThatIsGone) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  const RequestHandle with = harness_.Send(Group(job_, 0, 100, {0, 1}, /*wait_ms=*/600'000));
  JoinGroup other = Group(job_, 2, 102, {2}, /*wait_ms=*/600'000);
  other.group_name = "other";
  const RequestHandle without = harness_.Send(other);
  EXPECT_TRUE(harness_.Try(Leave(job_, 1, 101)).ok());
  EXPECT_EQ(harness_.StatusOf(with).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(harness_.StatusOf(with).message()), HasSubstr("ask for the group without it"));
  EXPECT_TRUE(harness_.StatusOf(without).ok());
  const absl::Status later = harness_.Try(Group(job_, 0, 100, {0, 1}));
  EXPECT_EQ(later.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(later.message()),
              HasSubstr("rank 1 of job \"elastic\" on node node101 is left (it left); ask for the group without it"));
}

TEST_F(MachineOpenJobsTest, ARankThatWasDeclaredLostIsNoRankAnyMoreAndMayComeAgain) {
  for (const uint32_t rank : {0, 1}) Add(rank);
  LoseAllBut({0});
  EXPECT_EQ(harness_.Try(Beat(job_, 1, 101)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(harness_.Try(Group(job_, 1, 101, {0, 1})).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Add(1), 2u);
}

// A false alarm costs a rank its place and not the job.
TEST_F(MachineOpenJobsTest, AProcessThatEndedIsSoonLost) {
  for (const uint32_t rank : {0, 1}) Add(rank);
  const WatcherId stream = harness_.WatchAs(job_, 1, 101);
  const GroupId group = Open({0, 1});
  harness_.StepEvent(StreamClosed{stream});
  HeartbeatServer beat;
  beat.server = server_;
  beat.incarnation = Incarnation(11);
  beat.absent_ranks = {{.job = job_,
                        .group = group,
                        .epoch = OnlyJob(harness_).groups.at(0).state.epoch,
                        .rank = Rank(1),
                        .ago_ms = 0,
                        .because = "connection reset by peer"}};
  harness_.Ask<ServerRenewed>(beat);
  harness_.Advance(kOpenJobPatienceNs / kNsPerMs - 1);
  EXPECT_THAT(harness_.EventKinds(), Not(Contains("rank-lost")));
  harness_.Advance(1);
  EXPECT_THAT(harness_.EventKinds(), Contains("rank-lost"));
}

TEST_F(MachineOpenJobsTest, EventsHaveTheHistoryOfItsRosters) {
  job_ = harness_.Ask<JobJoined>(JoinOpen(100, 1, "trainer-a")).job;
  Add(1);
  LoseAllBut({0});
  harness_.Ask<JobJoined>(JoinOpen(102, 1, "trainer-c"));
  EXPECT_TRUE(harness_.Try(Leave(job_, 0, 100)).ok());
  EXPECT_THAT(Rosters(), ElementsAre("rank 0 joined from node node100; 1 rank: 0 (\"trainer-a\")",
                                     "rank 1 joined from node node101; 2 ranks: 0 (\"trainer-a\"), 1",
                                     "rank 1 was lost; 1 rank: 0 (\"trainer-a\")",
                                     "rank 2 joined from node node102; 2 ranks: 0 (\"trainer-a\"), 2 (\"trainer-c\")",
                                     "rank 0 left; 1 rank: 2 (\"trainer-c\")"));
}

JoinGroup GoingOn(JoinGroup request, uint32_t min_ranks, bool scales_sums = false) {
  request.options = {.checksums = false, .min_ranks = min_ranks, .scales_sums = scales_sums};
  return request;
}

// Who is not in the newest epoch of the group that the watcher was told.
std::vector<Rank> LostOf(const std::vector<SendWatch>& watched, uint32_t group_size) {
  for (auto update = watched.rbegin(); update != watched.rend(); ++update) {
    if (update->groups.empty()) continue;
    return DecodeRoster(group_size, update->groups.back().sealed_roster)->lost();
  }
  return {};
}

class MachineGroupsThatGoOnTest : public MachineOpenJobsTest {
 protected:
  // Of these ranks, which all ask for it.
  GroupJoined OpenGoingOn(const std::vector<uint32_t>& ranks, uint32_t min_ranks) {
    std::vector<RequestHandle> handles;
    for (const uint32_t rank : ranks) {
      handles.push_back(harness_.Send(GoingOn(Group(job_, rank, 100 + rank, ranks), min_ranks)));
    }
    return harness_.Get<GroupJoined>(handles.front());
  }
  void CloseGroup(uint32_t rank, GroupId group, bool all_committed = false) {
    CloseGroups request{.job = job_, .rank = JobRank(rank), .incarnation = Incarnation(100 + rank), .groups = {group}};
    if (all_committed) request.committed_groups = {group};
    harness_.Ask<Done>(request);
  }
  const GroupState& OnlyGroup() {
    job_view_ = OnlyJob(harness_);
    return job_view_.groups.at(0).state;
  }

  JobView job_view_;
};

TEST_F(MachineGroupsThatGoOnTest, ALostRankIsNotInTheNextEpoch) {
  for (const uint32_t rank : {0, 1, 2, 3}) Add(rank);
  const GroupJoined opened = OpenGoingOn({0, 1, 2, 3}, 2);
  EXPECT_TRUE(opened.sealed_roster.empty());
  const WatcherId watcher = harness_.WatchAs(job_, 0, 100);
  LoseAllBut({0, 2, 3});
  EXPECT_GT(OnlyGroup().epoch, opened.map->epoch());
  EXPECT_EQ(OnlyGroup().shards, opened.map->shards()) << "the servers stay";
  EXPECT_THAT(OnlyGroup().failure, IsEmpty());
  EXPECT_THAT(LostOf(harness_.watched(watcher), 4), ElementsAre(Rank(1)));
  EXPECT_THAT(harness_.EventKinds(), AllOf(Contains("group-moved"), Not(Contains("group-failed"))));
  LoseAllBut({0, 2});
  EXPECT_THAT(LostOf(harness_.watched(watcher), 4), ElementsAre(Rank(1), Rank(3)));
  // A server that comes is another reason to move, with the same ranks.
  harness_.Ask<ServerRegistered>(Server("b", 12, 2));
  harness_.Advance(100);
  EXPECT_THAT(LostOf(harness_.watched(watcher), 4), ElementsAre(Rank(1), Rank(3)));
  EXPECT_THAT(OnlyGroup().shards, SizeIs(2));
}

TEST_F(MachineGroupsThatGoOnTest, WithTooFewItFailsAndTheJobDoesNot) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  OpenGoingOn({0, 1, 2}, 2);
  LoseAllBut({0});
  EXPECT_THAT(OnlyGroup().failure, AllOf(HasSubstr("was lost"), HasSubstr("it has 1 ranks left, and needs 2")));
  EXPECT_TRUE(OnlyGroup().ends_with_aborted);
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kRunning);
}

TEST_F(MachineGroupsThatGoOnTest, ThoseWhoHaveLeftAreNotAmongTheFewest) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  OpenGoingOn({0, 1, 2}, 2);
  EXPECT_TRUE(harness_.Try(Leave(job_, 2, 102)).ok());
  LoseAllBut({0});
  EXPECT_THAT(OnlyGroup().failure, HasSubstr("it has 1 ranks left, and needs 2"));
}

// The only server is leaving, or out of reach of a rank: the group keeps it, in an epoch without the lost rank.
TEST_F(MachineGroupsThatGoOnTest, ALostRankIsLeftOutAlsoWhereNoServerIsToMoveTo) {
  for (const bool drains : {true, false}) {
    MachineHarness fresh;
    harness_ = std::move(fresh);
    server_ = harness_.Ask<ServerRegistered>(Server("a", 11, 1)).server;
    for (const uint32_t rank : {0, 1, 2}) Add(rank);
    const GroupJoined opened = OpenGoingOn({0, 1, 2}, 1);
    const WatcherId watcher = harness_.WatchAs(job_, 0, 100);
    if (drains) {
      harness_.Ask<ServerDraining>(DrainServer{"a"});
    } else {
      harness_.Ask<ServerReported>(ReportServer{.job = job_,
                                                .rank = JobRank(2),
                                                .incarnation = Incarnation(102),
                                                .group = opened.group,
                                                .epoch = opened.map->epoch(),
                                                .server = server_,
                                                .server_incarnation = Incarnation(11),
                                                .reachable = false,
                                                .reason = "no route to host"});
    }
    LoseAllBut({0, 1});
    EXPECT_THAT(LostOf(harness_.watched(watcher), 3), ElementsAre(Rank(2))) << drains;
    EXPECT_EQ(OnlyGroup().shards, opened.map->shards()) << drains;
    EXPECT_THAT(OnlyGroup().failure, IsEmpty()) << drains;
  }
}

TEST_F(MachineGroupsThatGoOnTest, ARankThatHasClosedItOrLeftIsNotMissed) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  const GroupJoined opened = OpenGoingOn({0, 1, 2}, 1);
  EXPECT_TRUE(harness_.Try(Leave(job_, 2, 102)).ok());
  EXPECT_EQ(OnlyGroup().epoch, opened.map->epoch());
  EXPECT_THAT(OnlyGroup().lost, IsEmpty());
}

TEST_F(MachineGroupsThatGoOnTest, F24OneThatHasClosedItAndIsMissedIsNotInTheNextEpoch) {
  for (const uint32_t rank : {0, 1, 2, 3}) Add(rank);
  const GroupJoined opened = OpenGoingOn({0, 1, 2, 3}, 2);
  const WatcherId watcher = harness_.WatchAs(job_, 0, 100);
  const auto report_left = [&](uint32_t left, Epoch epoch) {
    return harness_.Ask<ServerReported>(ReportServer{.job = job_,
                                                     .rank = JobRank(0),
                                                     .incarnation = Incarnation(100),
                                                     .group = opened.group,
                                                     .epoch = epoch,
                                                     .server = server_,
                                                     .server_incarnation = Incarnation(11),
                                                     .reachable = true,
                                                     .reason = "it has left",
                                                     .left = Rank(left)});
  };
  CloseGroup(3, opened.group, /*all_committed=*/true);
  report_left(0, opened.map->epoch());
  report_left(9, opened.map->epoch());
  EXPECT_EQ(OnlyGroup().epoch, opened.map->epoch()) << "nobody says that of itself, and there is no rank 9";
  // The word of rank 1 itself is on its way.
  report_left(1, opened.map->epoch());
  EXPECT_THAT(LostOf(harness_.watched(watcher), 4), ElementsAre(Rank(1), Rank(3)));
  EXPECT_FALSE(OnlyGroup().all_committed) << "rank 3 does not know of ops that are done without it";
  EXPECT_THAT(OnlyGroup().failure, IsEmpty());
  const Epoch second = OnlyGroup().epoch;
  report_left(1, second);
  EXPECT_EQ(OnlyGroup().epoch, second) << "it is not in that epoch";
  report_left(2, second);
  EXPECT_THAT(OnlyGroup().failure, AllOf(HasSubstr("rank 2 of job \"elastic\" on node node102 has closed it"),
                                         HasSubstr("it has 1 ranks left, and needs 2")));
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kRunning);
}

// No server may have heard of it.
TEST_F(MachineGroupsThatGoOnTest, ARankThatGivesItsRequestUpIsNotInTheNextEpoch) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  std::vector<JoinGroup> requests;
  for (const uint32_t rank : {0, 1, 2}) {
    requests.push_back(GoingOn(Group(job_, rank, 100 + rank, {0, 1, 2}), 2));
    requests.back().request_number = 1;
    harness_.Send(requests.back());
  }
  const WatcherId watcher = harness_.WatchAs(job_, 0, 100);
  const auto give_up = [&](uint32_t rank) {
    harness_.Ask<Done>(CloseGroups{.job = job_,
                                   .rank = JobRank(rank),
                                   .incarnation = Incarnation(100 + rank),
                                   .groups = {},
                                   .given_up_requests = {{1, "the worker is closed"}}});
  };
  give_up(2);
  EXPECT_THAT(OnlyGroup().failure, IsEmpty());
  EXPECT_THAT(LostOf(harness_.watched(watcher), 3), ElementsAre(Rank(2)));
  give_up(1);
  EXPECT_THAT(OnlyGroup().failure,
              AllOf(HasSubstr("rank 1 of job \"elastic\" on node node101: it gave its request for the group up"),
                    HasSubstr("it has 1 ranks left, and needs 2")));
}

// The servers of the next epoch may not be those that have heard it.
TEST_F(MachineGroupsThatGoOnTest, WhoHasClosedItIsNotExpectedByOtherServers) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  OpenGoingOn({0, 1, 2}, 3);
  const WatcherId watcher = harness_.WatchAs(job_, 0, 100);
  EXPECT_TRUE(harness_.Try(Leave(job_, 1, 101)).ok());
  harness_.Ask<ServerRegistered>(Server("b", 12, 2));
  harness_.Advance(100);
  EXPECT_THAT(LostOf(harness_.watched(watcher), 3), ElementsAre(Rank(1)));
  EXPECT_THAT(OnlyGroup().failure, IsEmpty()) << "the others may be about to close it, few as they are";
}

TEST_F(MachineGroupsThatGoOnTest, F24WhoIsTheFirstToCloseItAfterAMoveIsTold) {
  for (const uint32_t rank : {0, 1, 2, 3}) Add(rank);
  OpenGoingOn({0, 1, 2, 3}, 1);
  const WatcherId watcher = harness_.WatchAs(job_, 0, 100);
  const auto told = [&] { return harness_.watched(watcher).size(); };
  harness_.Ask<ServerRegistered>(Server("b", 12, 2));
  harness_.Advance(100);
  const size_t before = told();
  EXPECT_EQ(harness_.watched(watcher).back().groups.back().closed, std::nullopt);
  EXPECT_TRUE(harness_.Try(Leave(job_, 2, 102)).ok());
  EXPECT_EQ(told(), before + 1);
  EXPECT_EQ(harness_.watched(watcher).back().groups.back().closed, Rank(2));
  EXPECT_TRUE(harness_.Try(Leave(job_, 1, 101)).ok());
  EXPECT_EQ(told(), before + 1) << "once is enough";
}

// Its loss is none of a group that it had closed before.
TEST_F(MachineGroupsThatGoOnTest, ARankThatHadClosedItIsNotLostFromIt) {
  for (const uint32_t rank : {0, 1, 2, 3}) Add(rank);
  const GroupJoined opened = OpenGoingOn({0, 1, 2, 3}, 3);
  for (const uint32_t rank : {0, 1}) {
    CloseGroup(rank, opened.group);
  }
  harness_.Ask<ServerRegistered>(Server("b", 12, 2));
  harness_.Advance(100);
  ASSERT_THAT(OnlyGroup().lost, ElementsAre(JobRank(0), JobRank(1)));
  LoseAllBut({1, 2, 3});
  EXPECT_THAT(OnlyGroup().failure, IsEmpty());
  EXPECT_THAT(OnlyJob(harness_).failure, IsEmpty());
}

TEST_F(MachineGroupsThatGoOnTest, ALossIsSurvivedHoweverManyHaveClosedIt) {
  constexpr uint32_t kRanks = Roster::kMaxLost + 3;
  std::vector<uint32_t> ranks(kRanks);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks[rank] = rank;
    Add(rank);
  }
  const GroupJoined opened = OpenGoingOn(ranks, 1);
  for (uint32_t rank = 0; rank < Roster::kMaxLost; ++rank) {
    CloseGroup(rank, opened.group);
  }
  const WatcherId watcher = harness_.WatchAs(job_, kRanks - 1, 100 + kRanks - 1);
  LeaveJob lost = Leave(job_, Roster::kMaxLost, 100 + Roster::kMaxLost);
  lost.failed = true;
  EXPECT_TRUE(harness_.Try(lost).ok());
  EXPECT_THAT(OnlyGroup().failure, IsEmpty());
  EXPECT_THAT(LostOf(harness_.watched(watcher), kRanks), ElementsAre(Rank(Roster::kMaxLost)));
}

TEST_F(MachineGroupsThatGoOnTest, WhoHasClosedItIsNotExpectedAfterALoss) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  OpenGoingOn({0, 1, 2}, 1);
  const WatcherId watcher = harness_.WatchAs(job_, 0, 100);
  EXPECT_TRUE(harness_.Try(Leave(job_, 1, 101)).ok());
  LoseAllBut({0});
  EXPECT_THAT(LostOf(harness_.watched(watcher), 3), ElementsAre(Rank(1), Rank(2)))
      << "it tells the servers of the next epoch nothing";
}

TEST_F(MachineGroupsThatGoOnTest, TheNextSchedulerKnowsWhoIsLost) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  OpenGoingOn({0, 1, 2}, 1);
  LoseAllBut({0, 1});
  const GroupState before = OnlyGroup();
  ASSERT_THAT(before.lost, ElementsAre(JobRank(2)));
  MachineHarness next(*harness_.last_saved());
  const GroupState after = OnlyJob(next).groups.at(0).state;
  EXPECT_EQ(after.lost, before.lost);
  EXPECT_EQ(after.min_ranks, 1u);
  EXPECT_EQ(after.sealed_roster, before.sealed_roster);
  next.Advance(100);
  EXPECT_EQ(OnlyJob(next).groups.at(0).state.epoch, before.epoch) << "nothing is new";
}

TEST_F(MachineGroupsThatGoOnTest, WhoMissedItsAnswerHearsOfTheEpochThatTheGroupIsIn) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  std::vector<JoinGroup> requests;
  for (const uint32_t rank : {0, 1, 2}) {
    requests.push_back(GoingOn(Group(job_, rank, 100 + rank, {0, 1, 2}), 1));
    requests.back().request_number = 1;
    harness_.Send(requests.back());
  }
  LoseAllBut({0, 1});
  const auto again = harness_.Ask<GroupJoined>(requests.front());
  EXPECT_EQ(again.map->epoch(), OnlyGroup().epoch);
  EXPECT_THAT(DecodeRoster(3, again.sealed_roster)->lost(), ElementsAre(Rank(2)));
}

TEST_F(MachineGroupsThatGoOnTest, WhatDoesNotFitIsRefusedByName) {
  for (const uint32_t rank : {0, 1}) Add(rank);
  const absl::Status too_many = harness_.Try(GoingOn(Group(job_, 0, 100, {0, 1}), 3));
  EXPECT_EQ(too_many.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_many.message()), HasSubstr("group \"world\" of 2 ranks is to go on with 3 of them"));
  const RequestHandle first = harness_.Send(GoingOn(Group(job_, 0, 100, {0, 1}), 1));
  const absl::Status other = harness_.Try(GoingOn(Group(job_, 1, 101, {0, 1}), 2));
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()), HasSubstr("min_ranks is 1 on rank 0 and 2 on rank 1"));
  EXPECT_FALSE(harness_.StatusOf(first).ok());
  harness_.Send(GoingOn(Group(job_, 0, 100, {0, 1}), 1, true));
  const absl::Status unscaled = harness_.Try(GoingOn(Group(job_, 1, 101, {0, 1}), 1, false));
  EXPECT_THAT(std::string(unscaled.message()), HasSubstr("scale_sums is on on rank 0 and off on rank 1"));
  const auto fixed = harness_.Ask<JobJoined>(Join("gpt", 1, 0, 200));
  const absl::Status of_fixed = harness_.Try(GoingOn(Group(fixed.job, 0, 200, {0}), 1));
  EXPECT_EQ(of_fixed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(of_fixed.message()), HasSubstr("an open job"));
}

TEST_F(MachineOpenJobsTest, WhatDoesNotFitIsRefusedByName) {
  Add(0, 2);
  harness_.Ask<JobJoined>(Join("gpt", 2, 0, 200));
  struct Case {
    void (*spoil)(JoinJob*);
    std::string text;
  };
  const Case cases[] = {
      {[](JoinJob* r) { r->open->min_ranks = 3; }, "needs 2 ranks at least, but process 1000 on node node300 says 3"},
      {[](JoinJob* r) { r->open->min_ranks = 0; }, "needs 0 ranks at least; give 1 to"},
      {[](JoinJob* r) { r->rank = JobRank(1); }, "an open job has no size, and gives each process its rank"},
      {[](JoinJob* r) { r->world_size = 4; }, "an open job has no size"},
      {[](JoinJob* r) { r->job_name = "gpt"; },
       "job \"gpt\" has world size 2, but process 1000 on node node300 joins it"},
      {[](JoinJob* r) {
         r->open.reset();
         r->world_size = 4;
       },
       "is an open one, but process 1000 on node node300 joins it as rank 0 with world size 4"},
  };
  for (const Case& c : cases) {
    JoinJob request = JoinOpen(300, 2);
    c.spoil(&request);
    const absl::Status status = harness_.Try(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.text));
  }
  EXPECT_EQ(harness_.Try(Group(job_, 0, 100, {0, 7})).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MachineOpenJobsTest, TheNextSchedulerGoesOnCounting) {
  for (const uint32_t rank : {0, 1, 2}) Add(rank);
  EXPECT_NE(Open({0, 1, 2}), GroupId());
  LoseAllBut({0, 1});
  harness_ = MachineHarness(harness_.last_saved());
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kRunning);
  EXPECT_EQ(OnlyJob(harness_).world_size, 2u);
  EXPECT_THAT(OnlyJob(harness_).failure, IsEmpty()) << "a lost rank is no failure of it";
  EXPECT_EQ(Add(1), 1u);
  EXPECT_EQ(Add(5), 3u);
}

TEST_F(MachineOpenJobsTest, OfThoseWhoAreGoneTheNewestAreListed) {
  Add(0);
  for (uint32_t number = 1; number <= 200; ++number) {
    EXPECT_EQ(Add(number), number);
    EXPECT_TRUE(harness_.Try(Leave(job_, number, 100 + number)).ok());
  }
  const JobView job = OnlyJob(harness_);
  EXPECT_THAT(job.ranks, SizeIs(65));
  EXPECT_EQ(job.ranks.front().rank, JobRank(0));
  EXPECT_EQ(job.ranks.back().rank, JobRank(200));
  EXPECT_EQ(harness_.Try(Group(job_, 0, 100, {0, 5})).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace shoal::scheduler
