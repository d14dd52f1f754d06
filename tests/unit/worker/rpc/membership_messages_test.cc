#include "worker/rpc/membership_messages.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

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

TEST(MembershipMessagesTest, ARankThatJoinsTellsHowManyRanksItsNodeHas) {
  JobMember member;
  member.local_world_size = 4;
  EXPECT_EQ(ToMessage(JoinJobCall{.member = member}).local_world_size(), 4u);
}

}  // namespace
}  // namespace shoal
