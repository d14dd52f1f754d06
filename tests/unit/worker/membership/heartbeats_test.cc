// The lease and what is told over it: docs/failover.md, F3, F12, F16 and F17.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/no_leader.h"
#include "tests/unit/worker/membership/membership_driver.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Call = MembershipDriver::Call;

constexpr uint64_t kPeriodNs = kLeaseNs / 3;

TEST(Heartbeats, F3AreDueEveryThirdOfTheLease) {
  JoinedMembershipDriver driver;
  uint64_t last_ns = driver.now_ns();
  for (int i = 0; i < 5; ++i) {
    const Call call = driver.Await<HeartbeatCall>(kLeaseNs);
    EXPECT_EQ(driver.now_ns() - last_ns, kPeriodNs);
    last_ns = driver.now_ns();
    driver.Advance(kPeriodNs / 10);  // the answer's way: it delays no later heartbeat
    driver.Answer(call, driver.Renewed());
  }
}

TEST(Heartbeats, FollowTheLeaseThatTheSchedulerGrants) {
  JoinedMembershipDriver driver;
  driver.AnswerNext<HeartbeatCall>(HeartbeatAnswer{.lease_ttl_ms = 600});
  const uint64_t before_ns = driver.now_ns();
  driver.Await<HeartbeatCall>(kLeaseNs);
  EXPECT_EQ(driver.now_ns() - before_ns, 200 * kNsPerMs);
}

TEST(Heartbeats, TellTheProgramOfATrace) {
  JoinedMembershipDriver driver;
  const TraceRequest trace{.id = 5, .left_ms = 900, .most_bytes = 1000};
  driver.AnswerNext<HeartbeatCall>(HeartbeatAnswer{.lease_ttl_ms = kLeaseMs, .trace = trace});
  const std::vector<TraceAsked> asked = driver.All<TraceAsked>();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].trace, trace);
  EXPECT_EQ(asked[0].member.job, JobId(9));
  EXPECT_EQ(asked[0].member.rank, JobRank(2));
  EXPECT_EQ(asked[0].member.incarnation, Incarnation(77));
  driver.AnswerNext<HeartbeatCall>(driver.Renewed());
  EXPECT_EQ(driver.All<TraceAsked>().size(), 1u);
}

// A scheduler that is older than tickets sends none, and takes none away.
TEST(Heartbeats, BringTicketsForConnections) {
  JoinedMembershipDriver driver;
  EXPECT_TRUE(driver.All<TicketCame>().empty());
  const ConnectionTicket ticket{.bytes = {std::byte{1}}, .key = {std::byte{2}}};
  driver.AnswerNext<HeartbeatCall>(HeartbeatAnswer{.lease_ttl_ms = kLeaseMs, .ticket = ticket});
  driver.AnswerNext<HeartbeatCall>(driver.Renewed());
  const std::vector<TicketCame> came = driver.All<TicketCame>();
  ASSERT_EQ(came.size(), 1u);
  EXPECT_EQ(came[0].ticket.bytes, ticket.bytes);
  EXPECT_EQ(came[0].ticket.key, ticket.key);
}

TEST(Heartbeats, CarryTheNewestStatistics) {
  JoinedMembershipDriver driver;
  const Call call = driver.Await<HeartbeatCall>(kLeaseNs);
  const auto& heartbeat = std::get<HeartbeatCall>(call.what);
  EXPECT_EQ(heartbeat.load.ops_completed, 11u);
  EXPECT_EQ(heartbeat.member.job, JobId(9));
  EXPECT_EQ(heartbeat.member.rank, JobRank(2));
  EXPECT_EQ(heartbeat.member.incarnation, Incarnation(77));
}

TEST(Heartbeats, DoNotWaitLongForStatistics) {
  MembershipDriver driver;
  driver.reads_statistics = false;
  driver.JoinJob();
  const uint64_t joined_ns = driver.now_ns();
  driver.Await<HeartbeatCall>(kLeaseNs);
  EXPECT_LE(driver.now_ns() - joined_ns, kPeriodNs + kPeriodNs / 8);
}

TEST(Heartbeats, F16AnUnansweredOneIsRepeatedBeforeTheLeaseIsOverAndOverNewConnections) {
  JoinedMembershipDriver driver;
  const uint64_t granted_ns = driver.now_ns();
  driver.Do(JoinGroupCommand{.ticket = 1, .deadline_ns = granted_ns + 60 * kNsPerS});
  const CallId waiting = driver.Find<JoinGroupCall>()->id;
  const WatchId watch = driver.watch();
  const CallId first = driver.Await<HeartbeatCall>(kLeaseNs).id;
  driver.AdvanceTo(granted_ns + 2 * kPeriodNs);
  EXPECT_EQ(driver.All<UseNewConnectionsAction>().size(), 1u) << "two thirds of the lease have passed in silence";
  driver.AdvanceTo(granted_ns + kLeaseNs * 3 / 4);
  const std::optional<Call> second = driver.Find<HeartbeatCall>();
  ASSERT_TRUE(second.has_value());
  EXPECT_NE(second->id, first);
  EXPECT_LT(second->started_ns, granted_ns + kLeaseNs * 3 / 4);
  // What waits at the silent scheduler goes along.
  ASSERT_TRUE(driver.Find<JoinGroupCall>().has_value());
  EXPECT_NE(driver.Find<JoinGroupCall>()->id, waiting);
  EXPECT_NE(driver.watch(), WatchId());
  EXPECT_NE(driver.watch(), watch);
}

TEST(Heartbeats, F16ASecondSchedulerThatFallsSilentLeavesTimeForAThird) {
  JoinedMembershipDriver driver;
  const uint64_t granted_ns = driver.now_ns();
  driver.AdvanceTo(granted_ns + 3 * kPeriodNs - kPeriodNs / 8);
  EXPECT_EQ(driver.All<UseNewConnectionsAction>().size(), 2u);
  const std::optional<Call> third = driver.Find<HeartbeatCall>();
  ASSERT_TRUE(third.has_value()) << "the third attempt, within the lease";
  EXPECT_EQ(third->deadline_ns - third->started_ns, kPeriodNs) << "a slow scheduler may answer that one";
}

// The first scheduler stands still, and its connections break when its process ends: at any time until the heartbeat
// would have been given up.
TEST(Heartbeats, F16ASchedulerThatFallsSilentAfterOneWhoseConnectionsBrokeLeavesTimeForAThird) {
  for (const uint64_t silent_ns : {uint64_t{0}, kPeriodNs / 2, kPeriodNs - 1}) {
    JoinedMembershipDriver driver;
    const uint64_t granted_ns = driver.now_ns();
    const Call first = driver.Await<HeartbeatCall>(kLeaseNs);
    driver.Advance(silent_ns);
    driver.Answer(first, absl::UnavailableError("connection reset"));
    driver.AdvanceTo(granted_ns + 3 * kPeriodNs - kPeriodNs / 8);
    EXPECT_EQ(driver.All<UseNewConnectionsAction>().size(), 2u) << "it broke after " << silent_ns << " ns";
    const std::optional<Call> third = driver.Find<HeartbeatCall>();
    ASSERT_TRUE(third.has_value()) << "the third attempt, within the lease; it broke after " << silent_ns << " ns";
    EXPECT_EQ(third->deadline_ns - third->started_ns, kPeriodNs) << "a slow scheduler may answer that one";
  }
}

TEST(Heartbeats, F16OneThatWaitsIsRepeatedOverTheNewConnectionsThatAnotherCallAskedFor) {
  JoinedMembershipDriver driver;
  driver.Do(ServerTrouble{.group = GroupId(1), .epoch = Epoch(1), .server = ServerId(1)});
  const Call report = *driver.Find<ReportServerCall>();
  const Call heartbeat = driver.Await<HeartbeatCall>(kLeaseNs);
  driver.Answer(report, absl::UnavailableError("no answer"));
  EXPECT_EQ(driver.All<UseNewConnectionsAction>().size(), 1u);
  const uint64_t silent_ns = driver.now_ns();
  driver.AdvanceTo(silent_ns + kPeriodNs / 4);
  const std::optional<Call> again = driver.Find<HeartbeatCall>();
  ASSERT_TRUE(again.has_value());
  EXPECT_NE(again->id, heartbeat.id);
  EXPECT_EQ(again->started_ns, silent_ns + kPeriodNs / 8);
}

TEST(Heartbeats, AnOldCallThatBreaksLateDoesNotGiveUpTheNewConnections) {
  JoinedMembershipDriver driver;
  driver.Do(ServerTrouble{.group = GroupId(1), .epoch = Epoch(1), .server = ServerId(1)});
  const Call report = *driver.Find<ReportServerCall>();
  const Call heartbeat = driver.Await<HeartbeatCall>(kLeaseNs);
  driver.Answer(heartbeat, absl::UnavailableError("connection reset"));
  EXPECT_EQ(driver.All<UseNewConnectionsAction>().size(), 1u);
  driver.Answer(report, absl::UnavailableError("connection reset"));
  EXPECT_EQ(driver.All<UseNewConnectionsAction>().size(), 1u) << "that call was made over the old ones";
}

TEST(Heartbeats, ARefusedOneIsRepeatedAtTheUsualPace) {
  JoinedMembershipDriver driver;
  for (int i = 0; i < 4; ++i) {
    const uint64_t before_ns = driver.now_ns();
    driver.AnswerNext<HeartbeatCall>(absl::UnavailableError("Connection refused"));
    EXPECT_EQ(driver.now_ns() - before_ns, kPeriodNs);
  }
}

// One that has lost the lead and can't reach the store refuses for as long as that lasts, and the others may know
// better.
TEST(Heartbeats, F16OneThatASchedulerWithoutALeaderRefusedAsksTheNextOneAtOnceAndBothAgainSoon) {
  for (const char* const refusal : {kNobodyLeads, kLeadsNoLonger, kAnotherLeads}) {
    JoinedMembershipDriver driver;
    driver.AnswerNext<HeartbeatCall>(absl::UnavailableError(refusal));
    const uint64_t refused_ns = driver.now_ns();
    const std::optional<Call> next = driver.Find<HeartbeatCall>();
    ASSERT_TRUE(next.has_value()) << "nothing is waited for, and another call might take the next one's turn";
    driver.Answer(*next, absl::UnavailableError(refusal));
    EXPECT_FALSE(driver.Find<HeartbeatCall>().has_value()) << "nobody may lead";
    const Call again = driver.Await<HeartbeatCall>(kLeaseNs);
    EXPECT_EQ(driver.now_ns() - refused_ns, kPeriodNs / 4) << refusal;
    EXPECT_THAT(driver.All<UseNewConnectionsAction>(), IsEmpty()) << "those that there are take turns: " << refusal;
    driver.Answer(again, driver.Renewed());
    driver.Await<HeartbeatCall>(kLeaseNs);
    EXPECT_EQ(driver.now_ns() - refused_ns, kPeriodNs / 4 + kPeriodNs);
  }
}

// Calls take turns with the schedulers: a heartbeat that comes later may meet the same one again, if the worker makes
// two other calls in between every time.
TEST(Heartbeats, F16OneThatASchedulerRefusedThatIsCutOffFromTheLeaderAsksTheNextOneAtOnce) {
  JoinedMembershipDriver driver;
  const absl::Status cut_off = absl::UnavailableError(kLeaderIsSilent);
  driver.AnswerNext<HeartbeatCall>(cut_off);
  for (int round = 0; round < 2; ++round) {
    const uint64_t refused_ns = driver.now_ns();
    for (int i = 0; i < 3; ++i) {
      const std::optional<Call> again = driver.Find<HeartbeatCall>();
      ASSERT_TRUE(again.has_value()) << "nothing is waited for, and another call might take the next one's turn";
      driver.Answer(*again, cut_off);
    }
    EXPECT_FALSE(driver.Find<HeartbeatCall>().has_value()) << "all schedulers may be cut off";
    const Call again = driver.Await<HeartbeatCall>(kLeaseNs);
    EXPECT_EQ(driver.now_ns() - refused_ns, kPeriodNs / 4);
    driver.Answer(again, cut_off);
  }
  EXPECT_THAT(driver.All<UseNewConnectionsAction>(), IsEmpty());
  driver.Answer(*driver.Find<HeartbeatCall>(), driver.Renewed());
  const uint64_t renewed_ns = driver.now_ns();
  driver.Await<HeartbeatCall>(kLeaseNs);
  EXPECT_EQ(driver.now_ns() - renewed_ns, kPeriodNs);
}

TEST(Heartbeats, NotFoundMustComeTwiceBeforeTheMembershipEnds) {
  JoinedMembershipDriver driver;
  driver.AnswerNext<HeartbeatCall>(absl::NotFoundError("no such member"));
  const uint64_t refused_ns = driver.now_ns();
  EXPECT_THAT(driver.All<MembershipEnded>(), IsEmpty());
  const Call again = driver.Await<HeartbeatCall>(kPeriodNs);
  EXPECT_EQ(driver.now_ns() - refused_ns, kPeriodNs / 8) << "soon: the lease is running";
  driver.Answer(again, driver.Renewed());
  driver.AnswerNext<HeartbeatCall>(absl::NotFoundError("no such member"));
  EXPECT_THAT(driver.All<MembershipEnded>(), IsEmpty()) << "one that was renewed in between begins anew";
  driver.AnswerNext<HeartbeatCall>(absl::NotFoundError("its lease ran out"));
  EXPECT_EQ(
      driver.Only<MembershipEnded>().status,
      absl::FailedPreconditionError("the scheduler at sched:7070 ended this worker's membership in job \"gpt\": its "
                                    "lease ran out; connect again"));
  driver.Forget();
  driver.Do(JoinGroupCommand{.ticket = 3, .deadline_ns = driver.now_ns() + kNsPerS});
  EXPECT_TRUE(absl::IsFailedPrecondition(driver.Only<GroupJoinEnded>().group.status()));
  driver.Advance(10 * kLeaseNs);
  EXPECT_EQ(driver.open_calls(), 0u) << "nothing is asked of the scheduler any more";
}

TEST(Heartbeats, F17ASchedulerThatIsAwayIsNamedAfterTenSecondsAndWhenItIsBack) {
  JoinedMembershipDriver driver;
  driver.AnswerNext<HeartbeatCall>(absl::UnavailableError("Connection refused"));
  const uint64_t since_ns = driver.now_ns();
  driver.AdvanceTo(since_ns + 10 * kNsPerS - 1);
  EXPECT_THAT(driver.Notices(), IsEmpty());
  driver.AdvanceTo(since_ns + 10 * kNsPerS);
  ASSERT_EQ(driver.Notices().size(), 1u);
  EXPECT_THAT(driver.Notices()[0], testing::StartsWith("waited 10 s for the scheduler at sched:7070 ("));
  EXPECT_THAT(driver.Notices()[0], HasSubstr("open groups go on"));
  driver.AdvanceTo(since_ns + 30 * kNsPerS);
  EXPECT_EQ(driver.Notices().size(), 2u) << "again after as long";
  driver.Forget();
  driver.AnswerNext<HeartbeatCall>(driver.Renewed());
  ASSERT_EQ(driver.Notices().size(), 1u);
  EXPECT_THAT(driver.Notices()[0], testing::StartsWith("the scheduler at sched:7070 is back after "));
}

TEST(Heartbeats, AShortAbsenceIsNotSpokenOf) {
  JoinedMembershipDriver driver;
  driver.AnswerNext<HeartbeatCall>(absl::UnavailableError("Connection refused"));
  driver.AnswerNext<HeartbeatCall>(driver.Renewed());
  driver.RenewUntil(driver.now_ns() + 30 * kNsPerS);
  EXPECT_THAT(driver.Notices(), IsEmpty());
}

TEST(Heartbeats, F17WaitsOfGroupsThatTheSchedulerTellsAreSaidAtOnceAndThenEverMoreSeldom) {
  JoinedMembershipDriver driver;
  for (int i = 0; i < 30; ++i) driver.AnswerNext<HeartbeatCall>(driver.Renewed({"for rank 3"}));
  ASSERT_FALSE(driver.Notices().empty());
  EXPECT_EQ(driver.Notices().front(), "for rank 3");
  EXPECT_GT(driver.Notices().size(), 3u);
  EXPECT_LT(driver.Notices().size(), 10u);
  driver.Forget();
  driver.AnswerNext<HeartbeatCall>(driver.Renewed());
  driver.AnswerNext<HeartbeatCall>(driver.Renewed({"for rank 1"}));
  EXPECT_THAT(driver.Notices(), ElementsAre("for rank 1")) << "another wait";
}

TEST(Heartbeats, GoOnWhileTheWorkerClosesUntilItLeaves) {
  JoinedMembershipDriver driver;
  driver.Do(CloseCommand{});
  driver.AnswerNext<HeartbeatCall>(driver.Renewed(), kLeaseNs);
  driver.Do(LeaveCommand{.reason = "it closed"});
  driver.AnswerNext<LeaveJobCall>(CallDone{});
  driver.Advance(10 * kLeaseNs);
  EXPECT_EQ(driver.open_calls(), 0u);
}

}  // namespace
}  // namespace shoal
