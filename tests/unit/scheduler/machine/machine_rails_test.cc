// Groups with as many ranks on each of several nodes: they open as rails, each a group of its own for the scheduler.
#include <set>
#include <string>
#include <vector>

#include "core/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/store/state_codec.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class MachineRailsTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(4, 2); }

  // A job of that many ranks, dealt over the nodes in turn, and two servers.
  void Start(uint32_t ranks, uint32_t nodes) {
    harness_ = MachineHarness();
    ranks_ = ranks;
    nodes_ = nodes;
    harness_.Ask<ServerRegistered>(Server("a", 1, 1001));
    harness_.Ask<ServerRegistered>(Server("b", 1, 1002));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      JoinJob join = Join("gpt", ranks, rank, 100 + rank);
      join.node = NodeOf(rank);
      join.node_reduce = Request(rank);
      job_ = harness_.Ask<JobJoined>(join).job;
    }
  }
  std::string NodeOf(uint32_t rank) const { return "node-" + std::to_string(rank % nodes_); }
  NodeReduceRequest Request(uint32_t rank) const {
    return {.possible = true, .node_identity = "boot of " + NodeOf(rank), .can_rails = true};
  }
  JoinGroup GroupAs(uint32_t rank, uint64_t request_number = 1, const std::string& name = "world") const {
    std::vector<uint32_t> all(ranks_);
    for (uint32_t i = 0; i < ranks_; ++i) all[i] = i;
    JoinGroup request = Group(job_, rank, 100 + rank, all);
    request.group_name = name;
    request.request_number = request_number;
    request.node_reduce = Request(rank);
    return request;
  }
  std::vector<GroupJoined> Open(uint64_t request_number = 1, const std::string& name = "world") {
    std::vector<RequestHandle> handles;
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      handles.push_back(harness_.Send(GroupAs(rank, request_number, name)));
    std::vector<GroupJoined> answers;
    for (const RequestHandle handle : handles) answers.push_back(harness_.Get<GroupJoined>(handle));
    return answers;
  }
  std::vector<GroupView> OpenGroups() { return harness_.Jobs().at(0).groups; }
  std::vector<EventRecord> Events(const std::string& kind) const {
    std::vector<EventRecord> events;
    for (const EventRecord& event : harness_.events()) {
      if (EventKey(event.kind) == kind) events.push_back(event);
    }
    return events;
  }
  void Close(uint32_t rank, GroupId group) {
    harness_.Ask<Done>(CloseGroups{job_, JobRank(rank), Incarnation(100 + rank), {group}, {}});
  }
  ReportServer Report(uint32_t rank, const GroupJoined& group, uint64_t server) const {
    return {.job = job_,
            .rank = JobRank(rank),
            .incarnation = Incarnation(100 + rank),
            .group = group.group,
            .epoch = group.map->epoch(),
            .server = ServerId(server),
            .server_incarnation = Incarnation(1),
            .reason = "connection reset by peer"};
  }

  MachineHarness harness_;
  uint32_t ranks_ = 0;
  uint32_t nodes_ = 0;
  JobId job_;
};

// Ranks 0 and 2 are on one node, 1 and 3 on the other.
TEST_F(MachineRailsTest, TwoNodesOfTwoRanksAreTwoRailsOfTwo) {
  const std::vector<GroupJoined> answers = Open();
  EXPECT_EQ(answers[0].group, answers[1].group);
  EXPECT_EQ(answers[2].group, answers[3].group);
  EXPECT_NE(answers[0].group, answers[2].group);
  for (const GroupJoined& answer : answers) EXPECT_EQ(answer.whole_group, answers[0].whole_group);
  const std::vector<uint32_t> place_in_rail = {0, 1, 0, 1};
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const GroupJoined& answer = answers[rank];
    EXPECT_EQ(answer.node_reduce, NodeReduceMode::kRails);
    EXPECT_THAT(answer.nodes, ElementsAre("node-0", "node-1", "node-0", "node-1")) << "of the whole group";
    const GroupToken token = *DecodeToken(answer.token);
    EXPECT_TRUE(CheckToken(NewState().token_key, token, harness_.now().unix_ms / 1000).ok());
    EXPECT_EQ(token.group, answer.group);
    EXPECT_EQ(token.rank, Rank(place_in_rail[rank]));
    EXPECT_EQ(token.group_size, 2u);
    EXPECT_EQ(token.ranks_per_contribution, 2u);
    EXPECT_EQ(token.incarnation, Incarnation(100 + rank));
    EXPECT_EQ(answer.map, answers[0].map) << "all rails have the same servers";
  }
  EXPECT_THAT(answers[0].local_ranks, ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(answers[3].local_ranks, ElementsAre(Rank(1), Rank(3)));
  EXPECT_THAT(answers[0].rail_ranks, ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(answers[3].rail_ranks, ElementsAre(Rank(2), Rank(3)));
  EXPECT_EQ(answers[0].meeting_name, answers[2].meeting_name);
  EXPECT_EQ(answers[1].meeting_name, answers[3].meeting_name);
  EXPECT_NE(answers[0].meeting_name, answers[1].meeting_name);
}

TEST_F(MachineRailsTest, FourNodesOfTwoRanksAreTwoRailsOfFourAndTheEventSaysSo) {
  Start(8, 4);
  const std::vector<GroupJoined> answers = Open();
  EXPECT_THAT(answers[0].rail_ranks, ElementsAre(Rank(0), Rank(1), Rank(2), Rank(3)));
  EXPECT_THAT(answers[7].rail_ranks, ElementsAre(Rank(4), Rank(5), Rank(6), Rank(7)));
  EXPECT_THAT(answers[7].local_ranks, ElementsAre(Rank(3), Rank(7)));
  EXPECT_EQ(DecodeToken(answers[7].token)->group_size, 4u);
  EXPECT_EQ(DecodeToken(answers[7].token)->rank, Rank(3));
  ASSERT_THAT(Events("group-opened"), SizeIs(1));
  EXPECT_EQ(Events("group-opened")[0].subject, "group \"world\" of job \"gpt\"");
  EXPECT_THAT(Events("group-opened")[0].reason, HasSubstr("8 ranks as 2 rails x 4 nodes, "));
  EXPECT_THAT(Events("group-opened")[0].reason, Not(HasSubstr("not within")));
}

TEST_F(MachineRailsTest, OneNodeOfFourAmongTwoRanksEachMakesAllFlat) {
  std::vector<RequestHandle> handles;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    JoinGroup request = GroupAs(rank);
    if (rank == 3) request.node_reduce->node_identity = "boot of node-0";
    handles.push_back(harness_.Send(request));
  }
  for (const RequestHandle handle : handles) {
    EXPECT_EQ(harness_.Get<GroupJoined>(handle).node_reduce, NodeReduceMode::kFlat);
    EXPECT_EQ(DecodeToken(harness_.Get<GroupJoined>(handle).token)->group_size, 4u);
    EXPECT_EQ(DecodeToken(harness_.Get<GroupJoined>(handle).token)->ranks_per_contribution, 1u);
  }
  EXPECT_THAT(Events("group-opened")[0].reason, HasSubstr("; not within a node: rank 1 is on another node (node-1)"));
}

TEST_F(MachineRailsTest, WhatEndsOneRailIsToldToAll) {
  const std::vector<GroupJoined> answers = Open();
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  CloseGroups giving_up{job_, JobRank(3), Incarnation(103), {}, {}};
  giving_up.failures = {{answers[3].group, "all-reduce 1 is late"}};
  harness_.Ask<Done>(giving_up);
  std::set<GroupId> told;
  for (const SendWatch& update : harness_.watched(watcher)) {
    for (const GroupMap& group : update.groups) {
      told.insert(group.group);
      EXPECT_EQ(group.failure, "rank 3 on node-1: all-reduce 1 is late");
      EXPECT_TRUE(group.ends_with_aborted);
    }
  }
  EXPECT_THAT(told, UnorderedElementsAre(answers[0].group, answers[3].group));
  EXPECT_THAT(Events("group-failed"), SizeIs(1));
}

// The flow plan is that of a flat group of the same ranks: their connections meet at the same ports.
TEST_F(MachineRailsTest, TheyArePlannedAsOneGroup) {
  const auto open = [&](bool rails) {
    std::vector<RequestHandle> handles;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      JoinGroup request = GroupAs(rank, rails ? 1 : 2, rails ? "rails" : "flat");
      request.link = {.bytes_per_s = 25'000'000, .round_trip_ns = 200'000, .message_ns = 10'000};
      request.node_reduce->can_rails = rails;
      handles.push_back(harness_.Send(request));
    }
    return harness_.Get<GroupJoined>(handles.back());
  };
  const GroupJoined rails = open(true);
  const GroupJoined flat = open(false);
  EXPECT_EQ(rails.node_reduce, NodeReduceMode::kRails);
  EXPECT_EQ(flat.node_reduce, NodeReduceMode::kFlat);
  EXPECT_EQ(DecodeToken(rails.token)->max_chunk_bytes, DecodeToken(flat.token)->max_chunk_bytes);
  EXPECT_EQ(DecodeToken(rails.token)->credit_chunks, DecodeToken(flat.token)->credit_chunks);
  EXPECT_EQ(rails.look_ahead_chunks, flat.look_ahead_chunks);
  EXPECT_EQ(rails.busiest_port, flat.busiest_port);
}

TEST_F(MachineRailsTest, RailsOnTwoCardsMeetHalfAsManyAtEach) {
  const auto open = [&](const std::string& name, uint64_t number, std::vector<uint32_t> cards) {
    std::vector<RequestHandle> handles;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      JoinGroup request = GroupAs(rank, number, name);
      request.link = {.bytes_per_s = 25'000'000, .round_trip_ns = 200'000, .message_ns = 10'000};
      request.network_cards = cards[rank];
      handles.push_back(harness_.Send(request));
    }
    return harness_.Get<GroupJoined>(handles.back());
  };
  for (uint64_t server = 3; server <= 4; ++server) {
    harness_.Ask<ServerRegistered>(Server(std::string(1, static_cast<char>('a' + server)), 1, 1000 + server));
  }
  EXPECT_EQ(open("one-card", 1, {0, 1, 1, 1}).busiest_port, 2) << "0: an older process, one card";
  EXPECT_EQ(open("two-cards", 2, {2, 2, 2, 2}).busiest_port, 1);
  EXPECT_EQ(open("not-all-nodes", 3, {2, 1, 2, 1}).busiest_port, 2);
  // Of each node one rank: the other has the other card.
  std::vector<RequestHandle> handles;
  for (const uint32_t rank : {0u, 1u}) {
    JoinGroup request = GroupAs(rank, 4, "replica");
    request.ranks = {JobRank(0), JobRank(1)};
    request.network_cards = 2;
    handles.push_back(harness_.Send(request));
  }
  EXPECT_EQ(harness_.Get<GroupJoined>(handles.back()).busiest_port, 1);
}

TEST_F(MachineRailsTest, ARankThatDidNotHearTheAnswerGetsTheSameOnceMoreAlsoFromTheNextScheduler) {
  const std::vector<GroupJoined> first = Open();
  const absl::StatusOr<PersistedState> saved = DecodeState(EncodeState(*harness_.last_saved()));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(*saved, *harness_.last_saved());
  MachineHarness next(*saved);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    for (MachineHarness* harness : {&harness_, &next}) {
      const GroupJoined again = harness->Ask<GroupJoined>(GroupAs(rank));
      EXPECT_EQ(again.group, first[rank].group);
      EXPECT_EQ(again.token, first[rank].token);
      EXPECT_EQ(again.nodes, first[rank].nodes);
      EXPECT_EQ(again.node_reduce, NodeReduceMode::kRails);
      EXPECT_EQ(again.meeting_name, first[rank].meeting_name);
      EXPECT_EQ(again.local_ranks, first[rank].local_ranks);
      EXPECT_EQ(again.rail_ranks, first[rank].rail_ranks);
      EXPECT_EQ(again.map->shards(), first[rank].map->shards());
      EXPECT_EQ(again.map->epoch(), first[rank].map->epoch());
    }
  }
}

TEST_F(MachineRailsTest, AReportMovesTheRailThatItIsOfAndNoOther) {
  const std::vector<GroupJoined> answers = Open();
  const WatcherId watcher = harness_.Watch(job_);
  EXPECT_THAT(harness_.watched(watcher).at(0).groups, SizeIs(2));
  harness_.watched(watcher).clear();
  const ServerReported reported = harness_.Ask<ServerReported>(Report(2, answers[2], 1));
  ASSERT_TRUE(reported.newer.has_value());
  EXPECT_EQ(reported.newer->group, answers[2].group);
  ASSERT_THAT(harness_.watched(watcher), SizeIs(1));
  ASSERT_THAT(harness_.watched(watcher)[0].groups, SizeIs(1));
  EXPECT_EQ(harness_.watched(watcher)[0].groups[0].group, answers[2].group);
  EXPECT_THAT(harness_.watched(watcher)[0].groups[0].map->shards(), SizeIs(1));
  ASSERT_THAT(Events("group-moved"), SizeIs(1));
  EXPECT_EQ(Events("group-moved")[0].subject, "rail 1 of group \"world\" of job \"gpt\"");
  // No rank of the rail may report for another one.
  EXPECT_EQ(harness_.Try(Report(2, answers[0], 1)).code(), absl::StatusCode::kNotFound);
}

TEST_F(MachineRailsTest, ALostServerMovesAllRailsThatUsedIt) {
  const std::vector<GroupJoined> answers = Open();
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "SIGTERM"});
  std::vector<GroupId> moved;
  for (const SendWatch& news : harness_.watched(watcher)) {
    for (const GroupMap& group : news.groups) moved.push_back(group.group);
  }
  EXPECT_THAT(moved, UnorderedElementsAre(answers[0].group, answers[2].group));
  for (const GroupView& group : OpenGroups()) EXPECT_THAT(group.state.shards, SizeIs(1));
}

TEST_F(MachineRailsTest, AnAbsentRankIsOfTheRailsRank) {
  const std::vector<GroupJoined> answers = Open();
  HeartbeatServer beat{.server = ServerId(1), .incarnation = Incarnation(1), .load = {}, .absent_ranks = {}};
  beat.absent_ranks.push_back({.job = job_,
                               .group = answers[2].group,
                               .epoch = answers[2].map->epoch(),
                               .rank = Rank(1),
                               .ago_ms = 0,
                               .because = "reset"});
  const WatcherId stream = harness_.WatchAs(job_, 3, 103);
  harness_.Ask<ServerRenewed>(beat);
  harness_.StepEvent(StreamClosed{stream});
  harness_.Advance(2000);
  ASSERT_THAT(Events("job-failed"), SizeIs(1));
  EXPECT_THAT(Events("job-failed")[0].reason, HasSubstr("rank 3"));
}

TEST_F(MachineRailsTest, AGroupIsClosedWhenAllItsRailsAre) {
  const std::vector<GroupJoined> answers = Open();
  EXPECT_THAT(OpenGroups(), SizeIs(2));
  Close(0, answers[0].group);
  Close(1, answers[1].group);
  EXPECT_THAT(OpenGroups(), SizeIs(1)) << "the first rail is gone";
  EXPECT_THAT(Events("group-closed"), IsEmpty());
  EXPECT_EQ(harness_.Ask<GroupJoined>(GroupAs(2)).meeting_name, answers[2].meeting_name)
      << "the name does not change when the rail after which it is called is gone";
  Close(2, answers[2].group);
  Close(3, answers[3].group);
  EXPECT_THAT(OpenGroups(), IsEmpty());
  ASSERT_THAT(Events("group-closed"), SizeIs(1));
  EXPECT_EQ(Events("group-closed")[0].subject, "group \"world\" of job \"gpt\"");
}

TEST_F(MachineRailsTest, ARequestThatIsGivenUpClosesTheRailThatItOpened) {
  Open();
  for (uint32_t rank = 0; rank < 4; ++rank) {
    harness_.Ask<Done>(CloseGroups{job_, JobRank(rank), Incarnation(100 + rank), {}, {{.number = 1}}});
  }
  EXPECT_THAT(OpenGroups(), IsEmpty());
}

TEST_F(MachineRailsTest, AGroupOfTheSameNameTakesThePlaceOfAllRails) {
  const std::vector<GroupJoined> first = Open();
  const std::vector<GroupJoined> second = Open(/*request_number=*/2);
  std::set<GroupId> ids;
  for (const GroupView& group : OpenGroups()) ids.insert(group.state.id);
  EXPECT_THAT(ids, UnorderedElementsAre(second[0].group, second[2].group));
  EXPECT_NE(second[0].meeting_name, first[0].meeting_name);
}

TEST_F(MachineRailsTest, EachRailIsListedWithItsRanks) {
  Open();
  const std::vector<GroupView> groups = OpenGroups();
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].state.name, groups[1].state.name);
  EXPECT_THAT(groups[0].state.ranks, ElementsAre(JobRank(0), JobRank(1)));
  EXPECT_THAT(groups[1].state.ranks, ElementsAre(JobRank(2), JobRank(3)));
  for (uint32_t rail = 0; rail < 2; ++rail) EXPECT_EQ(groups[rail].state.rail->index, rail);
}

TEST_F(MachineRailsTest, EachRailCountsAgainstTheLimit) {
  JobGroups groups;
  for (uint64_t id = 1; id < kMaxGroupsPerJob; ++id) {
    groups.Add({{.id = GroupId(id), .name = std::to_string(id), .ranks = {JobRank(0)}}});
  }
  EXPECT_TRUE(groups.HasRoomFor("new", 1));
  EXPECT_FALSE(groups.HasRoomFor("new", 2));
  EXPECT_TRUE(groups.HasRoomFor("7", 2)) << "it takes the place of another";
}

TEST_F(MachineRailsTest, TheyNeedServers) {
  MachineHarness harness;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    JoinJob join = Join("gpt", 4, rank, 100 + rank);
    join.node_reduce = Request(rank);
    const JobJoined joined = harness.Ask<JobJoined>(join);
    job_ = joined.job;
    EXPECT_FALSE(joined.needs_no_servers);
  }
  std::vector<RequestHandle> handles;
  for (uint32_t rank = 0; rank < 4; ++rank) handles.push_back(harness.Send(GroupAs(rank)));
  EXPECT_FALSE(harness.HasReply(handles[0]));
  harness.Ask<ServerRegistered>(Server("a", 1, 1001));
  for (const RequestHandle handle : handles) {
    EXPECT_EQ(harness.Get<GroupJoined>(handle).node_reduce, NodeReduceMode::kRails);
  }
}

}  // namespace
}  // namespace shoal::scheduler
