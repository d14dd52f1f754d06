// Coming into a job and leaving it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "core/no_leader.h"
#include "tests/unit/worker/membership/membership_driver.h"

namespace shoal {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Call = MembershipDriver::Call;

constexpr uint64_t kDeadlineNs = kStartNs + 30 * kNsPerS;

TEST(Joining, EndsWithTheFirstAnswerIfThereAreEnoughServers) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  const Call call = *driver.Find<JoinJobCall>();
  const JobMember& member = std::get<JoinJobCall>(call.what).member;
  EXPECT_EQ(member.job_name, "gpt");
  EXPECT_EQ(member.rank, JobRank(2));
  driver.Answer(call, driver.Joined());
  EXPECT_EQ(driver.Only<JoinEnded>().joined->id, JobId(9));
  EXPECT_NE(driver.watch(), WatchId());
}

// Who waits for the end of the join connects to servers next.
TEST(Joining, BringsATicketBeforeItEnds) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  JoinedJob joined = driver.Joined();
  joined.ticket = {.bytes = {std::byte{1}}, .key = {std::byte{2}}};
  driver.Answer(*driver.Find<JoinJobCall>(), joined);
  EXPECT_EQ(driver.Only<TicketCame>().ticket.bytes, joined.ticket.bytes);
  const MembershipActions& actions = driver.seen();
  const auto is_ticket = [](const MembershipAction& action) { return std::holds_alternative<TicketCame>(action); };
  const auto is_end = [](const MembershipAction& action) { return std::holds_alternative<JoinEnded>(action); };
  const auto came = std::ranges::find_if(actions, is_ticket);
  const auto ended = std::ranges::find_if(actions, is_end);
  ASSERT_NE(ended, actions.end());
  EXPECT_LT(came - actions.begin(), ended - actions.begin());
}

TEST(Joining, WaitsForNoServersOnceTheSchedulerSaysThatNoneAreNeeded) {
  MembershipOptions options = TestOptions();
  options.member.node_reduce = {
      .choice = NodeReduceChoice::kHost, .possible = true, .node_identity = "boot 1, network namespace 2"};
  MembershipDriver driver(options);
  driver.Do(JoinCommand{kDeadlineNs});
  const NodeReduceRequest offer = std::get<JoinJobCall>(driver.Find<JoinJobCall>()->what).member.node_reduce;
  EXPECT_EQ(offer.choice, NodeReduceChoice::kHost);
  EXPECT_EQ(offer.node_identity, "boot 1, network namespace 2");
  driver.AnswerNext<JoinJobCall>(driver.Joined(/*servers=*/0));
  EXPECT_THAT(driver.All<JoinEnded>(), IsEmpty()) << "another rank may be on another node";
  JoinedJob joined = driver.Joined(/*servers=*/0);
  joined.needs_no_servers = true;
  driver.AnswerNext<JoinJobCall>(joined);
  EXPECT_TRUE(driver.Only<JoinEnded>().joined.ok());
}

TEST(Joining, FollowsTheJobFromTheFirstAnswerOn) {
  MembershipOptions options = TestOptions();
  options.min_servers = 2;
  MembershipDriver driver(options);
  driver.Do(JoinCommand{kDeadlineNs});
  JoinedJob joined = driver.Joined();
  joined.server_count = 1;
  driver.AnswerNext<JoinJobCall>(joined);
  const WatchId watch = driver.watch();
  EXPECT_NE(watch, WatchId()) << "the scheduler learns from its end that the process has ended";
  const MemberId& member = driver.Only<OpenWatchAction>().member;
  EXPECT_EQ(member.job, JobId(9));
  EXPECT_EQ(member.rank, JobRank(2));
  EXPECT_EQ(member.incarnation, options.member.incarnation);
  // What is asked of a member waits until it has joined.
  driver.Do(WatchNewsCame{watch, {.colocation_wanted = {2}, .colocation_wanted_because = "server a is lost"}});
  EXPECT_THAT(driver.All<RunColocatedServer>(), IsEmpty());
  driver.AnswerNext<JoinJobCall>(joined);
  joined.server_count = 2;
  driver.AnswerNext<JoinJobCall>(joined);
  EXPECT_TRUE(driver.Only<JoinEnded>().joined.ok());
  EXPECT_EQ(driver.watch(), watch) << "one stream";
  EXPECT_EQ(driver.All<RunColocatedServer>().size(), 1u);
}

TEST(Joining, IsRepeatedWhileNoSchedulerCanBeReached) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  uint64_t last_ns = driver.now_ns();
  for (int i = 0; i < 10; ++i) {
    driver.AnswerNext<JoinJobCall>(absl::UnavailableError("Connection refused"));
    EXPECT_LE(driver.now_ns() - last_ns, kNsPerS);
    last_ns = driver.now_ns();
  }
  EXPECT_GT(driver.seconds(), 2) << "ever later, up to a second";
  EXPECT_GT(driver.All<UseNewConnectionsAction>().size(), 5u);
  EXPECT_THAT(driver.All<JoinEnded>(), IsEmpty());
  driver.AnswerNext<JoinJobCall>(driver.Joined());
  EXPECT_TRUE(driver.Only<JoinEnded>().joined.ok());
}

TEST(Joining, ASchedulerThatTakesTheCallAndSaysNothingIsNoticedBeforeTheDeadline) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  const CallId first = driver.Find<JoinJobCall>()->id;
  // It may have been heard, and then a lease is running.
  driver.AdvanceTo(kStartNs + kNsPerS + 100 * kNsPerMs);
  ASSERT_TRUE(driver.Find<JoinJobCall>().has_value());
  EXPECT_NE(driver.Find<JoinJobCall>()->id, first);
  // One that is busy gets more time.
  driver.AdvanceTo(kDeadlineNs - 8 * kNsPerS);
  const Call later = driver.Await<JoinJobCall>(kNsPerS);
  EXPECT_EQ(later.deadline_ns - later.started_ns, 5 * kNsPerS);
}

// Its answer is lost, so the scheduler may have heard it, and a lease may be running.
TEST(Joining, AnAttemptThatBreaksDoesNotMakeTheNextOneLonger) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  for (int i = 0; i < 4; ++i) driver.AnswerNext<JoinJobCall>(absl::UnavailableError("connection reset"));
  const Call last = driver.Await<JoinJobCall>(kNsPerS);
  EXPECT_EQ(last.deadline_ns - last.started_ns, kNsPerS);
}

TEST(Joining, NamesTheSchedulerThatDidNotAnswer) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  while (driver.All<JoinEnded>().empty() && driver.now_ns() < kDeadlineNs) {
    if (driver.Find<JoinJobCall>().has_value()) {
      driver.Answer(*driver.Find<JoinJobCall>(), absl::UnavailableError("Connection refused"));
    }
    driver.Advance(10 * kNsPerMs);
  }
  EXPECT_EQ(driver.Only<JoinEnded>().joined.status(),
            absl::UnavailableError("no scheduler answered at sched:7070 within 30 s (Connection refused): is "
                                   "shoal-scheduler running there?"));
  ASSERT_FALSE(driver.Notices().empty());
  EXPECT_EQ(driver.Notices()[0], "waited 7.5 s for a scheduler at sched:7070 (22.5 s left): Connection refused");
  EXPECT_EQ(driver.open_calls(), 0u);
}

TEST(Joining, ARefusalIsPassedOn) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  driver.AnswerNext<JoinJobCall>(absl::AlreadyExistsError("rank 2 is held by node-c"));
  EXPECT_EQ(driver.Only<JoinEnded>().joined.status(), absl::AlreadyExistsError("rank 2 is held by node-c"));
  driver.Advance(60 * kNsPerS);
  EXPECT_EQ(driver.open_calls(), 0u) << "it was never a member";
}

TEST(Joining, ALeaseOfNoLengthIsRefused) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  driver.AnswerNext<JoinJobCall>(JoinedJob{.id = JobId(9), .server_count = 1});
  EXPECT_TRUE(absl::IsInternal(driver.Only<JoinEnded>().joined.status()));
}

TEST(Joining, WaitsForServersAndCountsThem) {
  MembershipOptions options = TestOptions();
  options.min_servers = 3;
  MembershipDriver driver(options);
  driver.Do(JoinCommand{kDeadlineNs});
  EXPECT_EQ(std::get<JoinJobCall>(driver.Find<JoinJobCall>()->what).min_servers, 3u);
  while (driver.now_ns() < kStartNs + 10 * kNsPerS) {
    if (driver.Find<JoinJobCall>().has_value()) driver.Answer(*driver.Find<JoinJobCall>(), driver.Joined(2));
    driver.Advance(10 * kNsPerMs);
  }
  EXPECT_THAT(driver.All<JoinEnded>(), IsEmpty());
  ASSERT_FALSE(driver.Notices().empty());
  EXPECT_THAT(driver.Notices()[0],
              StartsWith("waited 7.5 s for reduction servers (22.5 s left): 2 of 3 are registered"));
  driver.AnswerNext<JoinJobCall>(driver.Joined(3));
  EXPECT_TRUE(driver.Only<JoinEnded>().joined.ok());
}

TEST(Joining, TooFewServersLeaveTheJobAgain) {
  MembershipOptions options = TestOptions();
  options.min_servers = 3;
  MembershipDriver driver(options);
  driver.Do(JoinCommand{kDeadlineNs});
  while (driver.now_ns() < kDeadlineNs) {
    if (driver.Find<JoinJobCall>().has_value()) driver.Answer(*driver.Find<JoinJobCall>(), driver.Joined(2));
    driver.Advance(10 * kNsPerMs);
  }
  EXPECT_THAT(driver.All<JoinEnded>(), IsEmpty()) << "first the others are told";
  const Call leave = *driver.Find<LeaveJobCall>();
  EXPECT_TRUE(std::get<LeaveJobCall>(leave.what).failed);
  driver.Answer(leave, CallDone{});
  EXPECT_EQ(
      driver.Only<JoinEnded>().joined.status(),
      absl::DeadlineExceededError("2 of 3 reduction servers registered with the scheduler at sched:7070 after 30 s: "
                                  "start more, or ask for fewer"));
  driver.Advance(60 * kNsPerS);
  EXPECT_EQ(driver.open_calls(), 0u);
}

TEST(Joining, LeavingIsAnsweredAlsoWhileAFailedJoinIsBeingLeft) {
  MembershipOptions options = TestOptions();
  options.min_servers = 3;
  MembershipDriver driver(options);
  driver.Do(JoinCommand{kDeadlineNs});
  while (driver.now_ns() < kDeadlineNs) {
    if (driver.Find<JoinJobCall>().has_value()) driver.Answer(*driver.Find<JoinJobCall>(), driver.Joined(2));
    driver.Advance(10 * kNsPerMs);
  }
  const Call leave = *driver.Find<LeaveJobCall>();
  driver.Do(LeaveCommand{.reason = "it closed"});
  driver.Answer(leave, CallDone{});
  EXPECT_FALSE(driver.Only<JoinEnded>().joined.ok());
  EXPECT_TRUE(driver.Only<Left>().status.ok());
}

TEST(Joining, TheLeaseIsRenewedWhileItsColocatedServerStarts) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  JoinedJob joined = driver.Joined(0);
  joined.colocate_server = true;
  driver.AnswerNext<JoinJobCall>(joined);
  EXPECT_EQ(driver.Only<RunColocatedServer>().job, JobId(9));
  EXPECT_EQ(driver.Only<RunColocatedServer>().timeout_ms, 30'000u);
  driver.AnswerNext<HeartbeatCall>(driver.Renewed(), kLeaseNs);
  EXPECT_FALSE(driver.Find<JoinJobCall>().has_value()) << "only with that server the count is right";
  driver.Do(ColocatedServerStarted{absl::OkStatus()});
  joined.server_count = 1;
  driver.AnswerNext<JoinJobCall>(joined);
  EXPECT_TRUE(driver.Only<JoinEnded>().joined.ok());
  EXPECT_EQ(driver.All<RunColocatedServer>().size(), 1u) << "it runs already";
}

TEST(Joining, AColocatedServerThatDoesNotStartLeavesTheJobAgain) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  JoinedJob joined = driver.Joined(0);
  joined.colocate_server = true;
  driver.AnswerNext<JoinJobCall>(joined);
  driver.Do(ColocatedServerStarted{absl::UnavailableError("no memory for slots")});
  const Call leave = *driver.Find<LeaveJobCall>();
  EXPECT_EQ(std::get<LeaveJobCall>(leave.what).reason, "no memory for slots");
  driver.Answer(leave, absl::NotFoundError("gone"));
  EXPECT_EQ(driver.Only<JoinEnded>().joined.status(), absl::UnavailableError("no memory for slots"));
}

TEST(Leaving, IsTriedTwiceAndTheSecondTimeOverNewConnections) {
  JoinedMembershipDriver driver;
  driver.Do(LeaveCommand{.reason = "it closed", .failed = true});
  const uint64_t since_ns = driver.now_ns();
  const Call first = *driver.Find<LeaveJobCall>();
  driver.AdvanceTo(first.deadline_ns);
  EXPECT_EQ(driver.All<UseNewConnectionsAction>().size(), 1u);
  const Call second = *driver.Find<LeaveJobCall>();
  EXPECT_NE(second.id, first.id);
  EXPECT_TRUE(std::get<LeaveJobCall>(second.what).failed);
  EXPECT_EQ(second.deadline_ns, since_ns + 2 * kNsPerS);
  driver.Answer(second, CallDone{});
  EXPECT_TRUE(driver.Only<Left>().status.ok());
  EXPECT_THAT(driver.Notices(), IsEmpty());
}

TEST(Leaving, EndsWithinTwoSecondsIfNobodyHearsIt) {
  JoinedMembershipDriver driver;
  driver.Do(LeaveCommand{.reason = "it closed"});
  driver.Advance(2 * kNsPerS);
  EXPECT_TRUE(absl::IsUnavailable(driver.Only<Left>().status));
  ASSERT_EQ(driver.Notices().size(), 1u);
  EXPECT_THAT(driver.Notices()[0], HasSubstr("it will notice when the lease has run out"));
  EXPECT_EQ(driver.open_calls(), 0u);
}

// With two of three schedulers cut off from the leader, the one that hears it may be the third. A rank whose word was
// lost would be declared lost itself, and its job would end.
TEST(Leaving, F16OneThatASchedulerRefusedThatDoesNotLeadTellsTheNextOneAtOnce) {
  for (const char* const refusal : {kLeaderIsSilent, kNobodyLeads, kLeadsNoLonger, kAnotherLeads}) {
    JoinedMembershipDriver driver;
    driver.Do(LeaveCommand{.reason = "it closed", .failed = true});
    const uint64_t since_ns = driver.now_ns();
    for (int i = 0; i < 3; ++i) {
      const std::optional<Call> refused = driver.Find<LeaveJobCall>();
      ASSERT_TRUE(refused.has_value()) << refusal;
      driver.Answer(*refused, absl::UnavailableError(refusal));
    }
    const std::optional<Call> heard = driver.Find<LeaveJobCall>();
    ASSERT_TRUE(heard.has_value()) << refusal;
    EXPECT_TRUE(std::get<LeaveJobCall>(heard->what).failed);
    driver.Answer(*heard, CallDone{});
    EXPECT_EQ(driver.now_ns(), since_ns);
    EXPECT_TRUE(driver.Only<Left>().status.ok());
    EXPECT_THAT(driver.All<UseNewConnectionsAction>(), IsEmpty()) << "those that there are take turns: " << refusal;
  }
}

// While another scheduler is about to lead, each refuses it.
TEST(Leaving, F16AsksAgainForTwoSecondsWhileNobodyLeads) {
  for (const bool leads_in_time : {true, false}) {
    JoinedMembershipDriver driver;
    driver.Do(LeaveCommand{.reason = "it closed"});
    const uint64_t since_ns = driver.now_ns();
    uint32_t refusals = 0;
    while (driver.All<Left>().empty() && !(leads_in_time && driver.now_ns() - since_ns >= kNsPerS)) {
      if (const std::optional<Call> refused = driver.Find<LeaveJobCall>(); refused.has_value()) {
        driver.Answer(*refused, absl::UnavailableError(kNobodyLeads));
        ++refusals;
      } else {
        driver.Advance(10 * kNsPerMs);
      }
    }
    if (leads_in_time) driver.AnswerNext<LeaveJobCall>(CallDone{});
    EXPECT_EQ(driver.Only<Left>().status.ok(), leads_in_time);
    EXPECT_LE(driver.now_ns() - since_ns, 2 * kNsPerS);
    if (!leads_in_time) {
      EXPECT_GE(driver.now_ns() - since_ns, 3 * kNsPerS / 2);
    }
    EXPECT_LE(refusals, 4u * 8) << "all ranks of a job may leave at that time";
    EXPECT_EQ(driver.open_calls(), 0u);
  }
}

// The leader saved it and was deposed before it answered.
TEST(Leaving, WhatASchedulerKnewAlreadyWasHeard) {
  JoinedMembershipDriver driver;
  driver.Do(LeaveCommand{.reason = "it closed"});
  driver.AnswerNext<LeaveJobCall>(absl::UnavailableError(kAnotherLeads));
  driver.Advance(kNsPerS);
  driver.AnswerNext<LeaveJobCall>(absl::NotFoundError("rank 0 has left"));
  EXPECT_TRUE(driver.Only<Left>().status.ok());
  EXPECT_THAT(driver.Notices(), IsEmpty());
}

TEST(Leaving, ASchedulerThatIsSilentAfterAnotherOneRefusedLeavesTimeForNewConnections) {
  JoinedMembershipDriver driver;
  driver.Do(LeaveCommand{.reason = "it closed"});
  const uint64_t since_ns = driver.now_ns();
  driver.Advance(kNsPerS / 2);
  driver.AnswerNext<LeaveJobCall>(absl::UnavailableError(kLeaderIsSilent));
  const std::optional<Call> silent = driver.Find<LeaveJobCall>();
  ASSERT_TRUE(silent.has_value());
  EXPECT_EQ(silent->deadline_ns, since_ns + 3 * kNsPerS / 2);
  driver.AdvanceTo(silent->deadline_ns);
  EXPECT_EQ(driver.All<UseNewConnectionsAction>().size(), 1u);
  const std::optional<Call> last = driver.Find<LeaveJobCall>();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->deadline_ns, since_ns + 2 * kNsPerS);
  driver.Answer(*last, CallDone{});
  EXPECT_TRUE(driver.Only<Left>().status.ok());
}

TEST(Leaving, ARefusalIsNotRepeated) {
  JoinedMembershipDriver driver;
  driver.Do(LeaveCommand{.reason = "it closed"});
  driver.AnswerNext<LeaveJobCall>(absl::NotFoundError("no such member"));
  EXPECT_TRUE(absl::IsNotFound(driver.Only<Left>().status));
  EXPECT_EQ(driver.open_calls(), 0u);
}

TEST(Leaving, ClosingWhileJoiningTellsWhoeverWaits) {
  MembershipDriver driver;
  driver.Do(JoinCommand{kDeadlineNs});
  driver.Do(CloseCommand{});
  EXPECT_TRUE(absl::IsCancelled(driver.Only<JoinEnded>().joined.status()));
  driver.Do(LeaveCommand{});
  EXPECT_TRUE(driver.Only<Left>().status.ok()) << "there is nothing to leave";
}

}  // namespace
}  // namespace shoal
