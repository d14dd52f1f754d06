// Which calls leave an event, and what it says.
#include "scheduler/insight/call_audit.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

const Caller kOperator{"spiffe://a/shoal/operator", Role::kOperator, ""};

class CallAuditTest : public ::testing::Test {
 protected:
  void Call(Request request, const Caller& caller, const std::string& from = "10.0.0.7:51234") {
    harness_.StepEvent(RequestArrived{RequestHandle(++handles_), std::move(request), caller, from});
  }
  const CallFacts& Last() const { return *harness_.calls().back().call; }

  MachineHarness harness_;
  uint64_t handles_ = 1'000'000;
};

TEST_F(CallAuditTest, ACallThatChangesSomethingSaysWhoFromWhereWhatAndHowItEnded) {
  Call(Server("alpha", 11, 1), {"spiffe://a/shoal/server", Role::kServer, ""});
  ASSERT_EQ(harness_.calls().size(), 1u);
  EXPECT_EQ(Last().who, "spiffe://a/shoal/server");
  EXPECT_EQ(Last().role, "server");
  EXPECT_EQ(Last().from, "10.0.0.7:51234");
  EXPECT_EQ(Last().call, "RegisterServer");
  EXPECT_EQ(Last().object, "server \"alpha\"");
  EXPECT_EQ(Last().outcome, "ok");
  EXPECT_EQ(harness_.calls().back().kind, EventKind::kCallMade);
  EXPECT_EQ(harness_.calls().back().subject, "spiffe://a/shoal/server (server)");
  EXPECT_EQ(harness_.calls().back().reason, "RegisterServer of server \"alpha\" from 10.0.0.7:51234: ok");

  Call(DrainServer{"beta"}, kOperator);
  EXPECT_EQ(Last().call, "DrainServer");
  EXPECT_EQ(Last().object, "server \"beta\"");
  EXPECT_THAT(Last().outcome, HasSubstr("NOT_FOUND: no server is named \"beta\""));
  EXPECT_EQ(harness_.calls().back().kind, EventKind::kCallMade);
  Call(DrainServer{"alpha"}, Caller(), "127.0.0.1:1");
  EXPECT_EQ(Last().who, "anybody");
  EXPECT_EQ(Last().role, "");
  EXPECT_EQ(harness_.calls().back().reason, "DrainServer of server \"alpha\" from 127.0.0.1:1: ok");
  Call(UndrainServer{"alpha"}, kOperator);
  EXPECT_EQ(Last().call, "UndrainServer");
  Call(EvictServer{"alpha"}, kOperator);
  EXPECT_EQ(Last().call, "EvictServer");
}

TEST_F(CallAuditTest, JobsAndServersHaveTheirNamesWhereACallHasTheirNumbers) {
  const Caller worker{"spiffe://a/shoal/worker/x", Role::kWorker, "x"};
  JoinJob join = Join("gpt", 2, 1, 101);
  join.tenant = "x";
  Call(join, worker);
  EXPECT_EQ(Last().object, "job \"gpt\", rank 1");
  EXPECT_EQ(Last().role, "worker of tenant x");
  const JobId job = harness_.Jobs().at(0).job;
  Call(LeaveJob{.job = job, .rank = JobRank(1), .incarnation = Incarnation(101)}, worker);
  EXPECT_EQ(Last().call, "LeaveJob");
  EXPECT_EQ(Last().object, "job \"gpt\", rank 1");
  EXPECT_EQ(Last().outcome, "ok");
  EXPECT_EQ(harness_.calls().back().ids.job, job);
}

TEST_F(CallAuditTest, QuestionsAndHeartbeatsLeaveNothing) {
  harness_.Ask<JobJoined>(Join("gpt", 2, 0, 100));
  const size_t before = harness_.calls().size();
  Call(ListServers(), kOperator);
  Call(GetCluster(), kOperator);
  Call(GetShardMap(), kOperator);
  Call(Beat(harness_.Jobs().at(0).job, 0, 100), Caller());
  EXPECT_EQ(harness_.calls().size(), before);
}

// Also a heartbeat, if it is not his job.
TEST_F(CallAuditTest, WhatACallerMayNotDoIsToldWhateverItIs) {
  JoinJob join = Join("gpt", 2, 0, 100);
  join.tenant = "x";
  Call(join, {"spiffe://a/shoal/worker/x", Role::kWorker, "x"});
  const JobId job = harness_.Jobs().at(0).job;
  const Caller other{"spiffe://a/shoal/worker/y", Role::kWorker, "y"};
  Call(Beat(job, 0, 100), other, "10.0.0.9:1 by way of 10.0.0.1:2");
  EXPECT_EQ(harness_.calls().back().kind, EventKind::kCallRefused);
  EXPECT_EQ(Last().call, "HeartbeatWorker");
  EXPECT_EQ(Last().from, "10.0.0.9:1 by way of 10.0.0.1:2");
  EXPECT_EQ(Last().object, "job \"gpt\", rank 0");
  EXPECT_THAT(Last().outcome, HasSubstr("PERMISSION_DENIED: spiffe://a/shoal/worker/y (worker of tenant y) may not"));
  harness_.StepEvent(WatchOpened{.watcher = WatcherId(7), .job = job, .rank = {}, .incarnation = {}, .caller = other});
  EXPECT_EQ(harness_.calls().back().kind, EventKind::kCallRefused);
  EXPECT_EQ(Last().call, "Watch");
  EXPECT_EQ(Last().object, "job \"gpt\"");
}

TEST_F(CallAuditTest, ACallIsToldWhenItEndsAndOnce) {
  harness_.Ask<ServerRegistered>(Server("a", 11, 1));
  harness_.Ask<JobJoined>(Join("gpt", 2, 0, 100));
  harness_.Ask<JobJoined>(Join("gpt", 2, 1, 101));
  const JobId job = harness_.Jobs().at(0).job;
  const size_t before = harness_.calls().size();
  const RequestHandle waiting = harness_.Send(Group(job, 0, 100, {0, 1}));
  EXPECT_EQ(harness_.calls().size(), before) << "it waits for the other rank";
  harness_.Send(Group(job, 1, 101, {0, 1}));
  EXPECT_EQ(harness_.calls().size(), before + 2);
  harness_.StepEvent(RequestCancelled{waiting});
  EXPECT_EQ(harness_.calls().size(), before + 2);

  JoinGroup other = Group(job, 0, 100, {0, 1});
  other.group_name = "other";
  const RequestHandle given_up = harness_.Send(other);
  harness_.StepEvent(RequestCancelled{given_up});
  EXPECT_EQ(harness_.calls().size(), before + 3);
  EXPECT_THAT(Last().outcome, HasSubstr("CANCELLED: "));
}

TEST_F(CallAuditTest, AFloodOfBadCallsIsBoundedAndCounted) {
  for (int i = 0; i < 5000; ++i) Call(EvictServer{"x" + std::to_string(i)}, kOperator);
  EXPECT_EQ(harness_.calls().size(), kMostRefusedCallsAMinute);
  harness_.Advance(61'000);
  Call(DrainServer{"x"}, kOperator);
  ASSERT_EQ(harness_.calls().size(), kMostRefusedCallsAMinute + 2);
  const CallFacts& overdue = *harness_.calls()[kMostRefusedCallsAMinute].call;
  EXPECT_EQ(overdue.object, "server \"x4999\"");
  EXPECT_EQ(overdue.left_out, 5000 - kMostRefusedCallsAMinute - 1);
}

// Whoever calls meanwhile is told at once, so that nothing grows.
TEST_F(CallAuditTest, WhileNothingCanBeSavedCallsAreToldAllTheSame) {
  harness_.Ask<ServerRegistered>(Server("a", 11, 1));
  harness_.set_save_at_once(false);
  Call(DrainServer{"a"}, kOperator);
  const size_t before = harness_.calls().size();
  harness_.FinishSave(absl::UnavailableError("disk full"));
  ASSERT_EQ(harness_.calls().size(), before + 1);
  EXPECT_THAT(Last().outcome, HasSubstr("UNAVAILABLE: the state could not be saved: disk full"));
}

TEST_F(CallAuditTest, ARefusalOfTheControlHostIsAnEventAsWell) {
  CallFacts call;
  call.who = "spiffe://a/shoal/viewer";
  call.role = "viewer";
  call.call = "AbortJob";
  call.outcome = "PERMISSION_DENIED: no";
  call.is_refused = true;
  harness_.StepEvent(CallRefused{call});
  ASSERT_EQ(harness_.calls().size(), 1u);
  EXPECT_EQ(harness_.calls().back().kind, EventKind::kCallRefused);
  EXPECT_EQ(harness_.calls().back().subject, "spiffe://a/shoal/viewer (viewer)");
}

}  // namespace
}  // namespace shoal::scheduler
