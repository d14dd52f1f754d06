// Groups, the Watch stream and colocated servers of a member.
#include "worker/membership/membership_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/failure_detection.h"
#include "core/frame.h"
#include "tests/unit/worker/membership/membership_driver.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Call = MembershipDriver::Call;

GroupToken Token() {
  return {.job = JobId(9),
          .group = GroupId(50),
          .epoch = Epoch(3),
          .rank = Rank(1),
          .group_size = 2,
          .max_chunk_bytes = 4096,
          .credit_chunks = 4};
}

JoinedGroup Group(const GroupToken& token = Token()) {
  const auto bytes = EncodeToken(token);
  return {.id = GroupId(50), .token = {bytes.begin(), bytes.end()}, .map = Map(3), .nodes = {"node-a", "node-b"}};
}

const JoinGroupCall& GroupCall(const Call& call) { return std::get<JoinGroupCall>(call.what); }

TEST_F(MembershipTest, AGroupIsWhatTheTokenAndTheAnswerSay) {
  driver_.Do(Asks(7, deadline_ns_));
  const Call call = *driver_.Find<JoinGroupCall>();
  EXPECT_EQ(GroupCall(call).wait_ms, 20'000u);
  EXPECT_GT(call.deadline_ns, deadline_ns_) << "the scheduler's answer names who is missing, and needs time to come";
  driver_.Answer(call, Group());
  const GroupJoinEnded joined = driver_.Only<GroupJoinEnded>();
  EXPECT_EQ(joined.ticket, 7u);
  ASSERT_TRUE(joined.group.ok()) << joined.group.status();
  EXPECT_EQ(joined.group->id, GroupId(50));
  EXPECT_EQ(joined.group->name, "even");
  EXPECT_EQ(joined.group->rank, Rank(1));
  EXPECT_EQ(joined.group->max_chunk_bytes, 4096u);
  EXPECT_EQ(joined.group->credit_chunks, 4u);
}

TEST_F(MembershipTest, ASchedulerThatDoesNotTellOfLinksPlansThemAsPorts) {
  JoinedGroup group = Group();
  group.busiest_port = 2;
  driver_.Do(Asks(7, deadline_ns_));
  driver_.AnswerNext<JoinGroupCall>(group);
  EXPECT_EQ(driver_.Only<GroupJoinEnded>().group->busiest_link, 2);
}

// Its caller may find that the worker is closed by then: nobody else would hear that this rank never comes.
TEST_F(MembershipTest, AGroupThatHasNotEndedWhenTheProcessLeavesIsGivenUp) {
  driver_.Do(Asks(7, deadline_ns_));
  driver_.AnswerNext<JoinGroupCall>(Group());
  driver_.Do(Asks(8, deadline_ns_));
  JoinedGroup other = Group();
  other.id = GroupId(51);
  GroupToken token = Token();
  token.group = GroupId(51);
  const auto bytes = EncodeToken(token);
  other.token = {bytes.begin(), bytes.end()};
  driver_.AnswerNext<JoinGroupCall>(other);
  driver_.Do(CloseCommand());
  EXPECT_FALSE(driver_.Find<CloseGroupsCall>().has_value()) << "they may be open, and end in good order";
  driver_.Do(GroupEnded{GroupId(50)});
  driver_.Do(LeaveCommand{.reason = "done"});
  EXPECT_THAT(LeaveCall().given_up_requests,
              ElementsAre(GivenUpRequest{2, "the worker was closed before the group was opened here"}));
}

TEST_F(MembershipTest, ALostRankGivesNoGroupUpForTheOthers) {
  driver_.Do(Asks(7, deadline_ns_));
  driver_.AnswerNext<JoinGroupCall>(Group());
  driver_.Do(LeaveCommand{.reason = "its script raised ValueError", .failed = true});
  EXPECT_TRUE(LeaveCall().failed);
  EXPECT_THAT(LeaveCall().given_up_requests, testing::IsEmpty());
}

TEST_F(MembershipTest, ALostRankGivesNoRequestUpThatIsUnderWay) {
  driver_.Do(Asks(7, deadline_ns_));
  driver_.Do(LeaveCommand{.reason = "its script raised ValueError", .failed = true});
  EXPECT_TRUE(LeaveCall().failed);
  EXPECT_THAT(LeaveCall().given_up_requests, testing::IsEmpty());
}

TEST_F(MembershipTest, WhatTheWorkerHasCountedIsToldWhenItLeaves) {
  WorkerCounters counters;
  counters.ops_completed = 7;
  driver_.Do(LeaveCommand{.reason = "done", .counters = counters});
  EXPECT_EQ(LeaveCall().load->ops_completed, 7u);
}

// Four ranks of the job on two nodes, two on each; this one is rank 2 of the group and belongs to the second rail.
JoinGroupCommand AsksForFour(uint64_t ticket, uint64_t deadline_ns) {
  return {.ticket = ticket, .request = {.name = "four", .ranks = {4, 5, 6, 7}}, .deadline_ns = deadline_ns};
}

JoinedGroup WithRails() {
  GroupToken token = Token();
  token.rank = Rank(0);
  token.ranks_per_contribution = 2;
  JoinedGroup group = Group(token);
  group.nodes = {"node-a", "node-b", "node-a", "node-b"};
  group.node_reduce = NodeReduceMode::kRails;
  group.meeting_name = "shoal-1-9-50-0";
  group.local_ranks = {Rank(0), Rank(2)};
  group.rail_ranks = {Rank(2), Rank(3)};
  group.whole_group = GroupId(41);
  return group;
}

TEST_F(MembershipTest, AGroupOfRailsHasItsNodesRanksAndTheRailToOpen) {
  driver_.Do(AsksForFour(7, deadline_ns_));
  driver_.AnswerNext<JoinGroupCall>(WithRails());
  const GroupJoinEnded joined = driver_.Only<GroupJoinEnded>();
  ASSERT_TRUE(joined.group.ok()) << joined.group.status();
  const GroupInfo& group = *joined.group;
  EXPECT_EQ(group.size(), 4u);
  EXPECT_EQ(group.rank, Rank(2));
  EXPECT_EQ(group.meeting_name, "shoal-1-9-50-0");
  EXPECT_THAT(group.local_ranks, ElementsAre(Rank(0), Rank(2)));
  EXPECT_EQ(group.whole_group, GroupId(41));
  ASSERT_NE(group.rail, nullptr);
  EXPECT_EQ(group.rail->id, group.id);
  EXPECT_EQ(group.rail->rank, Rank(0));
  EXPECT_THAT(group.rail->job_ranks, ElementsAre(JobRank(6), JobRank(7)));
  EXPECT_THAT(group.rail->nodes, ElementsAre("node-a", "node-b"));
  EXPECT_TRUE(group.rail->is_rail());
  EXPECT_EQ(group.rail->token, group.token);
  EXPECT_EQ(group.rail->map, group.map);
  EXPECT_EQ(group.rail->rail, nullptr);
}

TEST_F(MembershipTest, RailsThatDoNotFitTheGroupAreRefused) {
  JoinedGroup of_others = WithRails();
  of_others.local_ranks = {Rank(0), Rank(1)};
  JoinedGroup out_of_range = WithRails();
  out_of_range.rail_ranks[1] = Rank(4);
  JoinedGroup of_another_node = WithRails();
  of_another_node.local_ranks[0] = Rank(4);
  JoinedGroup too_few = WithRails();
  too_few.local_ranks.pop_back();
  JoinedGroup without_name = WithRails();
  without_name.meeting_name.clear();
  JoinedGroup without_servers = WithRails();
  without_servers.map = std::make_shared<const ShardMap>(*ShardMap::Make(Epoch(3), {}));
  JoinedGroup flat_token = WithRails();
  flat_token.token = Group().token;
  uint64_t ticket = 0;
  for (const JoinedGroup& group :
       {of_others, out_of_range, of_another_node, too_few, without_name, without_servers, flat_token}) {
    driver_.Forget();
    driver_.Do(AsksForFour(++ticket, deadline_ns_));
    driver_.AnswerNext<JoinGroupCall>(group);
    EXPECT_TRUE(absl::IsInternal(driver_.Only<GroupJoinEnded>().group.status())) << ticket;
  }
}

TEST_F(MembershipTest, AnAnswerThatContradictsItselfIsRefused) {
  GroupToken other_group = Token();
  other_group.group = GroupId(51);
  GroupToken larger_group = Token();
  larger_group.group_size = 3;
  GroupToken newer_epoch = Token();
  newer_epoch.epoch = Epoch(4);
  uint64_t ticket = 0;
  for (const GroupToken& token : {other_group, larger_group, newer_epoch}) {
    driver_.Forget();
    driver_.Do(Asks(++ticket, deadline_ns_));
    driver_.AnswerNext<JoinGroupCall>(Group(token));
    EXPECT_TRUE(absl::IsInternal(driver_.Only<GroupJoinEnded>().group.status()));
    EXPECT_THAT(driver_.Only<GroupJoinEnded>().group.status().message(), HasSubstr("contradicts itself"));
  }
}

// As of a group whose ranks are on one node.
JoinedGroup NodeGroup() {
  JoinedGroup group = Group();
  group.map = std::make_shared<const ShardMap>(*ShardMap::Make(Epoch(3), {}));
  group.node_reduce = NodeReduceMode::kNodeAlone;
  group.meeting_name = "shoal-1-2-3";
  return group;
}

TEST_F(MembershipTest, AGroupOfOneNodeHasANameToMeetUnderAndNoServers) {
  JoinGroupCommand command = Asks(7, deadline_ns_);
  command.request.node_reduce = {.choice = NodeReduceChoice::kHost, .possible = true, .node_identity = "here"};
  driver_.Do(command);
  const Call call = *driver_.Find<JoinGroupCall>();
  EXPECT_EQ(GroupCall(call).group.node_reduce.choice, NodeReduceChoice::kHost);
  EXPECT_EQ(GroupCall(call).group.node_reduce.node_identity, "here");
  driver_.Answer(call, NodeGroup());
  const absl::StatusOr<GroupInfo> group = driver_.Only<GroupJoinEnded>().group;
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->node_reduce, NodeReduceMode::kNodeAlone);
  EXPECT_EQ(group->meeting_name, "shoal-1-2-3");
  EXPECT_TRUE(group->map->empty());
}

TEST_F(MembershipTest, AnAnswerThatDoesNotFitItsModeIsRefused) {
  JoinedGroup nameless = NodeGroup();
  nameless.meeting_name = "";
  JoinedGroup long_name = NodeGroup();
  long_name.meeting_name = std::string(kMaxMeetingNameBytes + 1, 'x');
  JoinedGroup with_servers = NodeGroup();
  with_servers.map = Map(3);
  JoinedGroup without_servers = NodeGroup();
  without_servers.node_reduce = NodeReduceMode::kFlat;
  JoinedGroup not_built_yet = Group();
  not_built_yet.node_reduce = NodeReduceMode::kRails;
  uint64_t ticket = 0;
  for (const JoinedGroup& answer : {nameless, long_name, with_servers, without_servers, not_built_yet}) {
    driver_.Forget();
    driver_.Do(Asks(++ticket, deadline_ns_));
    driver_.AnswerNext<JoinGroupCall>(answer);
    EXPECT_TRUE(absl::IsInternal(driver_.Only<GroupJoinEnded>().group.status())) << ticket;
  }
}

TEST_F(MembershipTest, ABrokenCallForAGroupIsRepeatedUnderItsNumber) {
  driver_.Do(Asks(1, deadline_ns_));
  driver_.Do(Asks(2, deadline_ns_));
  const Call first = *driver_.Find<JoinGroupCall>();
  const uint64_t number = GroupCall(first).request_number;
  driver_.Answer(first, absl::UnavailableError("connection reset"));
  driver_.Advance(100 * kNsPerMs);
  std::vector<uint64_t> numbers;
  while (driver_.Find<JoinGroupCall>().has_value()) {
    numbers.push_back(GroupCall(*driver_.Find<JoinGroupCall>()).request_number);
    driver_.Answer(*driver_.Find<JoinGroupCall>(), Group());
  }
  EXPECT_THAT(numbers, testing::UnorderedElementsAre(number, number + 1));
  EXPECT_EQ(driver_.All<GroupJoinEnded>().size(), 2u);
}

TEST_F(MembershipTest, OneRefusalOfAGroupIsRepeatedForASchedulerMayNotKnowYetThatAnotherLeads) {
  driver_.Do(Asks(1, deadline_ns_));
  const Call first = *driver_.Find<JoinGroupCall>();
  driver_.Answer(first, absl::NotFoundError("rank 2 of job \"gpt\" is lost (no heartbeat for 5 s)"));
  EXPECT_THAT(driver_.All<GroupJoinEnded>(), IsEmpty());
  const Call again = driver_.Await<JoinGroupCall>(kNsPerS);
  EXPECT_EQ(GroupCall(again).request_number, GroupCall(first).request_number);
  driver_.Answer(again, Group());
  EXPECT_TRUE(driver_.Only<GroupJoinEnded>().group.ok());
}

TEST_F(MembershipTest, F11ALostRankThatAsksForAGroupHearsThatItsMembershipHasEnded) {
  const absl::Status lost = absl::NotFoundError("rank 2 of job \"gpt\" is lost (no heartbeat for 5 s)");
  driver_.Do(Asks(1, deadline_ns_));
  const uint64_t asked_ns = driver_.now_ns();
  while (driver_.All<GroupJoinEnded>().empty()) {
    driver_.Advance(10 * kNsPerMs);
    ASSERT_LT(driver_.now_ns(), asked_ns + kLeaseNs);
    if (driver_.Find<JoinGroupCall>().has_value()) driver_.Answer(*driver_.Find<JoinGroupCall>(), lost);
    if (driver_.Find<HeartbeatCall>().has_value()) driver_.Answer(*driver_.Find<HeartbeatCall>(), lost);
  }
  EXPECT_EQ(driver_.Only<GroupJoinEnded>().group.status(),
            absl::FailedPreconditionError("the scheduler at sched:7070 ended this worker's membership in job \"gpt\": "
                                          "rank 2 of job \"gpt\" is lost (no heartbeat for 5 s); connect again"));
  EXPECT_FALSE(driver_.Find<JoinGroupCall>().has_value());
}

TEST_F(MembershipTest, ARefusedRequestHasHeartbeatsAskAtOnceAndKeepsTheirPause) {
  driver_.Do(Asks(1, deadline_ns_));
  const uint64_t refused_ns = driver_.now_ns();
  driver_.Answer(*driver_.Find<JoinGroupCall>(), absl::NotFoundError("it is lost"));
  const Call beat = driver_.Await<HeartbeatCall>(kLeaseNs);
  EXPECT_EQ(driver_.now_ns(), refused_ns);
  driver_.Answer(beat, absl::NotFoundError("it is lost"));
  const uint64_t unknown_ns = driver_.now_ns();
  while (!driver_.Find<HeartbeatCall>().has_value()) {
    if (driver_.Find<JoinGroupCall>().has_value()) {
      driver_.Answer(*driver_.Find<JoinGroupCall>(), absl::NotFoundError("it is lost"));
    }
    driver_.Advance(kNsPerMs);
    ASSERT_LT(driver_.now_ns(), unknown_ns + kLeaseNs);
  }
  EXPECT_GE(driver_.now_ns(), unknown_ns + HeartbeatPeriodNs(kLeaseNs) / 8);
}

TEST_F(MembershipTest, ARequestThatIsRefusedUntilItsDeadlineHasTheSchedulersReason) {
  const uint64_t deadline_ns = driver_.now_ns() + 100 * kNsPerMs;  // before the heartbeats have found out
  driver_.Do(Asks(1, deadline_ns));
  while (driver_.All<GroupJoinEnded>().empty()) {
    if (driver_.Find<JoinGroupCall>().has_value()) {
      driver_.Answer(*driver_.Find<JoinGroupCall>(), absl::NotFoundError("rank 2 of job \"gpt\" is lost"));
    }
    driver_.Advance(kNsPerMs);
    ASSERT_LT(driver_.now_ns(), deadline_ns + kNsPerS);
  }
  EXPECT_EQ(driver_.Only<GroupJoinEnded>().group.status(),
            absl::FailedPreconditionError("the scheduler at sched:7070 refuses this process: rank 2 of job \"gpt\" is "
                                          "lost; connect again"));
  EXPECT_THAT(driver_.Notices(), IsEmpty()) << "a scheduler that refuses is not away";
}

TEST_F(MembershipTest, TheSchedulersWordOfWhoIsMissingIsPassedOn) {
  driver_.Do(Asks(1, deadline_ns_));
  driver_.AnswerNext<JoinGroupCall>(absl::DeadlineExceededError("rank 0 never joined the job"));
  EXPECT_EQ(driver_.Only<GroupJoinEnded>().group.status(), absl::DeadlineExceededError("rank 0 never joined the job"));
}

TEST_F(MembershipTest, AGroupEndsAtItsDeadlineWhileNoSchedulerCanBeReached) {
  driver_.Do(Asks(1, deadline_ns_));
  while (driver_.All<GroupJoinEnded>().empty() && driver_.now_ns() < deadline_ns_) {
    if (driver_.Find<JoinGroupCall>().has_value()) {
      driver_.Answer(*driver_.Find<JoinGroupCall>(), absl::UnavailableError("Connection refused"));
    }
    if (driver_.Find<HeartbeatCall>().has_value()) driver_.Answer(*driver_.Find<HeartbeatCall>(), driver_.Renewed());
    driver_.Advance(10 * kNsPerMs);
  }
  EXPECT_EQ(driver_.Only<GroupJoinEnded>().group.status(),
            absl::UnavailableError("no scheduler answered at sched:7070 within 20 s (Connection refused): is "
                                   "shoal-scheduler running there?"));
  EXPECT_THAT(driver_.Notices()[0], HasSubstr("for a scheduler at sched:7070 ("));
}

TEST_F(MembershipTest, ClosingTellsWhoeverWaitsForAGroup) {
  driver_.Do(Asks(1, deadline_ns_));
  driver_.Do(CloseCommand{});
  EXPECT_TRUE(absl::IsCancelled(driver_.Only<GroupJoinEnded>().group.status()));
  EXPECT_FALSE(driver_.Find<JoinGroupCall>().has_value());
  driver_.Forget();
  driver_.Do(Asks(2, deadline_ns_));
  EXPECT_TRUE(absl::IsCancelled(driver_.Only<GroupJoinEnded>().group.status()));
}

TEST_F(MembershipTest, AStreamThatEndsIsOpenedEverLaterUntilItTellsSomething) {
  std::vector<uint64_t> waits_ns;
  for (int i = 0; i < 12; ++i) {
    const uint64_t ended_ns = driver_.now_ns();
    driver_.EndWatch();
    while (driver_.watch() == WatchId()) {
      driver_.RenewUntil(driver_.now_ns() + kNsPerMs);
      ASSERT_LT(driver_.now_ns() - ended_ns, 2 * kNsPerS);
    }
    waits_ns.push_back(driver_.now_ns() - ended_ns);
  }
  uint64_t longest_ns = 100 * kNsPerMs;
  for (const uint64_t wait_ns : waits_ns) {
    EXPECT_GE(wait_ns, longest_ns / 2);
    EXPECT_LE(wait_ns, longest_ns + kNsPerMs);
    longest_ns = std::min(2 * longest_ns, kNsPerS);
  }
  News({.map = Map(4)});
  driver_.EndWatch();
  driver_.RenewUntil(driver_.now_ns() + 101 * kNsPerMs);
  EXPECT_NE(driver_.watch(), WatchId());
}

TEST_F(MembershipTest, OtherSeedsWaitForOtherTimes) {
  const auto reopened_ns = [](uint64_t seed) {
    MembershipOptions options = TestOptions();
    options.jitter_seed = seed;
    MembershipDriver driver(options);
    driver.JoinJob();
    driver.EndWatch();
    while (driver.watch() == WatchId()) driver.Advance(1000);
    return driver.now_ns();
  };
  EXPECT_EQ(reopened_ns(1), reopened_ns(1));
  EXPECT_NE(reopened_ns(1), reopened_ns(2));
}

TEST_F(MembershipTest, ALostRankIsToldOnce) {
  News({.lost_ranks = {{.job_rank = JobRank(1), .node = "node-b", .reason = "its lease ran out"}}});
  driver_.EndWatch();
  driver_.RenewUntil(driver_.now_ns() + kNsPerS);
  News({.lost_ranks = {{.job_rank = JobRank(1), .node = "node-b", .reason = "its lease ran out"},
                       {.job_rank = JobRank(3)}}});
  const std::vector<RankLostCommand> lost = driver_.All<RankLostCommand>();
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(lost[0].job_rank, JobRank(1));
  EXPECT_EQ(lost[0].reason, "its lease ran out");
  EXPECT_EQ(lost[1].job_rank, JobRank(3));
}

TEST_F(MembershipTest, MapsAndMovedGroupsArePassedOn) {
  News({.map = Map(8), .moved_groups = {{.group = GroupId(50), .map = Map(4)}, {.group = GroupId(51), .map = Map(4)}}});
  EXPECT_EQ(driver_.Only<MapPublished>().map->epoch(), Epoch(8));
  const std::vector<MoveGroupCommand> moves = driver_.All<MoveGroupCommand>();
  ASSERT_EQ(moves.size(), 2u);
  EXPECT_EQ(moves[0].group, GroupId(50));
}

TEST_F(MembershipTest, NewsOfAStreamThatWasGivenUpAreNone) {
  const WatchId old = driver_.watch();
  driver_.AnswerNext<HeartbeatCall>(absl::UnavailableError("connection reset"));
  driver_.Do(WatchNewsCame{old, {.map = Map(8)}});
  driver_.Do(WatchEnded{old});
  EXPECT_THAT(driver_.All<MapPublished>(), IsEmpty());
  driver_.Advance(100 * kNsPerMs);
  EXPECT_NE(driver_.watch(), WatchId());
}

WatchNews Colocate(std::vector<uint32_t> ranks) {
  return {.colocation_wanted = std::move(ranks), .colocation_wanted_because = "server a is lost"};
}

TEST(Membership, AColocatedServerThatIsAskedForLateHasNoMoreTimeThanTheWorker) {
  MembershipOptions options = TestOptions();
  options.timeout_ms = 1200;
  MembershipDriver driver(options);
  driver.JoinJob();
  driver.Do(WatchNewsCame{driver.watch(), Colocate({2})});
  EXPECT_EQ(driver.Only<RunColocatedServer>().timeout_ms, 1200u);
}

TEST_F(MembershipTest, AColocatedServerIsStartedOnceHoweverOftenItIsAskedFor) {
  News(Colocate({1, 3}));
  EXPECT_THAT(driver_.All<RunColocatedServer>(), IsEmpty()) << "others are meant";
  News(Colocate({1, 2}));
  News(Colocate({2}));
  EXPECT_EQ(driver_.Only<RunColocatedServer>().timeout_ms, 5'000u);
  driver_.Do(ColocatedServerStarted{absl::OkStatus()});
  News(Colocate({2}));
  EXPECT_EQ(driver_.All<RunColocatedServer>().size(), 1u) << "it runs";
  EXPECT_THAT(driver_.Notices(), ElementsAre("no reduction server is left (server a is lost): this process runs a "
                                             "colocated server for its job now"));
}

TEST_F(MembershipTest, AColocatedServerThatDidNotStartMayBeAskedForAgain) {
  News(Colocate({2}));
  driver_.Do(ColocatedServerStarted{absl::ResourceExhaustedError("no memory for slots")});
  EXPECT_THAT(driver_.Notices(),
              ElementsAre("no reduction server is left (server a is lost), and no memory for slots"));
  News(Colocate({2}));
  EXPECT_EQ(driver_.All<RunColocatedServer>().size(), 2u);
}

TEST(Membership, AServerIsRunOnlyByWhoOfferedIt) {
  MembershipOptions options = TestOptions();
  options.member.colocates_without_servers = false;
  MembershipDriver driver(options);
  driver.JoinJob();
  driver.Do(WatchNewsCame{driver.watch(), Colocate({2})});
  EXPECT_THAT(driver.All<RunColocatedServer>(), IsEmpty());
}

TEST_F(MembershipTest, TwoOfSeveralSchedulersThatAreSilentCostNobodyTheLease) {
  // The first heartbeat meets one that stands still, the next ones over new connections are answered.
  const uint64_t granted_ns = driver_.now_ns();
  const Call silent = driver_.Await<HeartbeatCall>(kLeaseNs);
  driver_.AdvanceTo(silent.deadline_ns);
  driver_.AnswerNext<HeartbeatCall>(driver_.Renewed(), kLeaseNs);
  EXPECT_LT(driver_.now_ns(), granted_ns + kLeaseNs);
  EXPECT_EQ(driver_.All<UseNewConnectionsAction>().size(), 1u);
}

}  // namespace
}  // namespace shoal
