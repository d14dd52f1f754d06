#include "worker/rpc/membership_messages.h"

#include <gtest/gtest.h>

#include <memory>
#include <variant>

#include "core/connection_ticket.h"
#include "proto/shared_messages.h"
#include "scheduler/rpc/control_messages.h"

namespace shoal {
namespace {

TEST(MembershipMessagesTest, AGroupIsPlannedAsTheSchedulerSays) {
  const scheduler::GroupJoined told = {.group = GroupId(7),
                                       .map = std::make_shared<const ShardMap>(),
                                       .nodes = {"a", "b"},
                                       .look_ahead_chunks = 3,
                                       .link = {.bytes_per_s = 4, .round_trip_ns = 5, .message_ns = 6},
                                       .busiest_port = 1.25,
                                       .busiest_link = 1.5};
  v1::JoinGroupResponse message;
  ToMessage(told, &message);
  const absl::StatusOr<SchedulerAnswer> answer = FromMessage(message);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const JoinedGroup& heard = std::get<JoinedGroup>(*answer);
  EXPECT_EQ(heard.id, told.group);
  EXPECT_EQ(heard.nodes, told.nodes);
  EXPECT_EQ(heard.look_ahead_chunks, told.look_ahead_chunks);
  EXPECT_EQ(heard.link, told.link);
  EXPECT_EQ(heard.busiest_port, told.busiest_port);
  EXPECT_EQ(heard.busiest_link, told.busiest_link);
}

TEST(MembershipMessagesTest, AHeartbeatTellsWhatTheWorkerHasCounted) {
  HeartbeatCall call;
  call.load.ops_completed = 2;
  call.load.op_times.Count(3 * kNsPerMs);
  call.load.op_times.Count(kNsPerS);
  call.load.refusals = 5;
  call.load.bytes_on_node = 6;
  call.load.retained_results = 7;
  const v1::WorkerLoad load = ToMessage(call).load();
  EXPECT_EQ(OpTimeHistogramOf(load.op_time_counts()), call.load.op_times);
  EXPECT_EQ(load.refusals(), 5u);
  EXPECT_EQ(load.bytes_on_node(), 6u);
  EXPECT_EQ(load.retained_results(), 7u);
}

TEST(MembershipMessagesTest, WhoseContributionsResultsHaveComesAsItWasTold) {
  PartialOp op = {.number = 1, .group = GroupId(2), .epoch = Epoch(3), .op = OpNumber(4), .is_cut = true};
  op.ranges = {{.first = 0, .count = 5, .contributors = 6}, {.first = 5, .count = 7, .contributors = 8}};
  PartialOp next = op;
  next.number = 2;
  HeartbeatCall call;
  call.load.partial_ops = {op, next};
  EXPECT_EQ(scheduler::FromMessage(ToMessage(call)).partial_ops, call.load.partial_ops);
  const LeaveJobCall last = {.member = {}, .load = call.load};
  EXPECT_EQ(scheduler::FromMessage(ToMessage(last)).partial_ops, call.load.partial_ops);

  call.load.partial_ops.assign(kMostPartialOps + 1, op);
  call.load.partial_ops[0].ranges.assign(kMostContributedRanges + 1, op.ranges[0]);
  const std::vector<PartialOp> heard = scheduler::FromMessage(ToMessage(call)).partial_ops;
  EXPECT_EQ(heard.size(), kMostPartialOps);
  EXPECT_EQ(heard[0].ranges.size(), kMostContributedRanges) << "and no more, whatever a peer sends";
}

TEST(MembershipMessagesTest, ARankThatLeavesTellsAllThatItHasCounted) {
  LeaveJobCall call;
  EXPECT_FALSE(ToMessage(call).has_load());
  call.load = WorkerCounters();
  call.load->ops_failed = 3;
  EXPECT_EQ(ToMessage(call).load().ops_failed(), 3u);
}

TEST(MembershipMessagesTest, ARankThatJoinsTellsHowManyServersItWaitsFor) {
  EXPECT_EQ(ToMessage(JoinJobCall{.member = {}, .min_servers = 3}).min_servers(), 3u);
}

TEST(MembershipMessagesTest, ATicketComesAsItWasIssued) {
  const ConnectionTicket issued =
      IssueTicket(TokenKey{}, 5, {.job = JobId(1), .rank = JobRank(2), .incarnation = Incarnation(3)}, true);
  v1::JoinJobResponse message;
  ToMessage(issued, message.mutable_ticket());
  const ConnectionTicket ticket = std::get<JoinedJob>(*FromMessage(message)).ticket;
  EXPECT_EQ(ticket.bytes, issued.bytes);
  EXPECT_EQ(ticket.key, issued.key);
  EXPECT_TRUE(ticket.seals);
  // Of a scheduler that makes no sense, or has none to give.
  message.mutable_ticket()->set_key("short");
  EXPECT_TRUE(std::get<JoinedJob>(*FromMessage(message)).ticket.bytes.empty());
  EXPECT_TRUE(std::get<JoinedJob>(*FromMessage(v1::JoinJobResponse())).ticket.bytes.empty());
}

TEST(MembershipMessagesTest, ARankThatJoinsTellsHowManyRanksItsNodeHas) {
  JobMember member;
  member.local_world_size = 4;
  EXPECT_EQ(ToMessage(JoinJobCall{.member = member}).local_world_size(), 4u);
}

}  // namespace
}  // namespace shoal
