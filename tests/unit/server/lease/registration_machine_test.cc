#include "server/lease/registration_machine.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

constexpr uint64_t kStartTimeoutMs = 10'000;
constexpr uint64_t kTtlMs = 3'000;

TokenKey Key(int fill) {
  TokenKey key;
  key.fill(static_cast<std::byte>(fill));
  return key;
}

ServerLease Lease(int key = 1) {
  return {.server = ServerId(7), .ttl_ms = kTtlMs, .token_key = Key(key), .epoch = Epoch(4)};
}

RegistrationOptions Options(uint64_t random_seed) {
  return {.scheduler = "sched:7070",
          .start_timeout_ms = kStartTimeoutMs,
          .random_seed = random_seed,
          .registration = {.name = "a", .incarnation = Incarnation(9), .addresses = {"10.0.0.1:5"}}};
}

// Drives a machine by hand: what it does comes as one list after each event.
class RegistrationMachineTest : public ::testing::Test {
 protected:
  // What is due now, then the kind of call that it makes, if any.
  void Tick() { machine_.Tick(now_, &actions_); }
  template <typename Call>
  Call TakeCall() {
    Tick();
    std::vector<Call> calls = Take<Call>();
    EXPECT_EQ(calls.size(), 1u);
    return calls.empty() ? Call() : calls.front();
  }
  // All actions of this kind since the last time, oldest first.
  template <typename Kind>
  std::vector<Kind> Take() {
    std::vector<Kind> taken;
    RegistrationActions others;
    for (RegistrationAction& action : actions_) {
      if (auto* of_kind = std::get_if<Kind>(&action)) {
        taken.push_back(std::move(*of_kind));
      } else {
        others.push_back(std::move(action));
      }
    }
    actions_ = std::move(others);
    return taken;
  }
  std::vector<std::string> TakeReports() {
    std::vector<std::string> lines;
    for (const LeaseReport& report : Take<LeaseReport>()) lines.push_back(report.text);
    return lines;
  }
  template <typename Event>
  void Give(const Event& event) {
    machine_.OnEvent(event, now_, &actions_);
  }

  void AnswerRegister(const absl::StatusOr<ServerLease>& answer) {
    Give(RegisterAnswered{TakeCall<RegisterCall>().call, answer});
  }
  void AnswerRenew(const absl::StatusOr<LeaseRenewal>& answer) {
    Give(RenewAnswered{TakeCall<RenewCall>().call, answer});
  }
  void Register(int key = 1) { AnswerRegister(Lease(key)); }
  void Renew() { AnswerRenew(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(4)}); }

  // Why the machine gives up when the scheduler can't save its state, and does not answer after the first seconds.
  std::string FailTheStart(uint64_t answered_s) {
    const uint64_t silent_ns = now_.monotonic_ns + answered_s * kNsPerS;
    while (true) {
      Tick();
      for (const RegisterCall& call : Take<RegisterCall>()) {
        const bool is_answered = now_.monotonic_ns < silent_ns;
        now_.monotonic_ns += is_answered ? kNsPerMs : call.timeout_ms * kNsPerMs;
        const std::string silence = "no answer within " + std::to_string(call.timeout_ms) + " ms";
        Give(RegisterAnswered{
            call.call, is_answered ? absl::UnavailableError("the state could not be saved: No space left on device")
                                   : absl::DeadlineExceededError(silence)});
      }
      const std::vector<LeaseGivenUp> given_up = Take<LeaseGivenUp>();
      if (!given_up.empty()) return std::string(given_up[0].why.message());
      now_.monotonic_ns = std::max(now_.monotonic_ns, machine_.NextDeadlineNs());
    }
  }

  // To where the machine wants to act next; nothing is under way.
  void AdvanceToNextCall() {
    Tick();
    ASSERT_TRUE(Take<RegisterCall>().empty() && Take<RenewCall>().empty() && Take<DeregisterCall>().empty());
    ASSERT_NE(machine_.NextDeadlineNs(), kNoDeadline);
    ASSERT_GT(machine_.NextDeadlineNs(), now_.monotonic_ns);
    now_.monotonic_ns = machine_.NextDeadlineNs();
  }

  Now now_{.monotonic_ns = 50 * kNsPerS};
  RegistrationMachine machine_{Options(/*random_seed=*/1), now_};
  RegistrationActions actions_;
};

TEST_F(RegistrationMachineTest, RegistersWithWhatItWasGivenAndRenewsAtAThirdOfTheLease) {
  const RegisterCall call = TakeCall<RegisterCall>();
  EXPECT_EQ(call.registration.name, "a");
  EXPECT_THAT(call.registration.addresses, ElementsAre("10.0.0.1:5"));
  EXPECT_EQ(machine_.NextDeadlineNs(), now_.monotonic_ns + call.timeout_ms * kNsPerMs + kCallOverdueNs)
      << "the answer comes by itself, as a rule";
  Give(RegisterAnswered{call.call, Lease()});
  const std::vector<LeaseGranted> granted = Take<LeaseGranted>();
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_EQ(granted[0].lease.server, ServerId(7));
  EXPECT_TRUE(granted[0].token_key_changed);
  for (int i = 0; i < 3; ++i) {
    const uint64_t before_ns = now_.monotonic_ns;
    AdvanceToNextCall();
    EXPECT_EQ(now_.monotonic_ns - before_ns, kTtlMs * kNsPerMs / 3);
    const RenewCall renewal = TakeCall<RenewCall>();
    EXPECT_EQ(renewal.server, ServerId(7));
    EXPECT_EQ(renewal.incarnation, Incarnation(9));
    Give(RenewAnswered{renewal.call, LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(4)}});
  }
  EXPECT_THAT(TakeReports(), IsEmpty());
}

TEST_F(RegistrationMachineTest, OneCallIsUnderWayAtATimeAndOldAnswersDoNotCount) {
  Register();
  AdvanceToNextCall();
  const RenewCall renewal = TakeCall<RenewCall>();
  now_.monotonic_ns += 60 * kNsPerS;
  Tick();
  EXPECT_THAT(Take<CancelLeaseCall>(), testing::SizeIs(1)) << "its link let the deadline pass";
  EXPECT_THAT(actions_, testing::SizeIs(1)) << "the grant alone: no second call";
  Give(RenewAnswered{LeaseCallId(renewal.call.value() - 1), absl::AbortedError("of an earlier call")});
  EXPECT_THAT(Take<LeaseGivenUp>(), IsEmpty());
  EXPECT_EQ(machine_.NextDeadlineNs(), kNoDeadline);
}

// gRPC's deadlines come late where the wall clock is set back, by as much.
TEST_F(RegistrationMachineTest, ACallThatIsOpenBeyondItsDeadlineIsCancelledAndMadeAgain) {
  Register();
  AdvanceToNextCall();
  const RenewCall renewal = TakeCall<RenewCall>();
  now_.monotonic_ns += renewal.timeout_ms * kNsPerMs + kCallOverdueNs - 1;
  Tick();
  EXPECT_THAT(Take<CancelLeaseCall>(), IsEmpty());
  now_.monotonic_ns += 1;
  Tick();
  const std::vector<CancelLeaseCall> cancelled = Take<CancelLeaseCall>();
  ASSERT_EQ(cancelled.size(), 1u);
  EXPECT_EQ(cancelled[0].call, renewal.call);
  Tick();
  EXPECT_THAT(Take<CancelLeaseCall>(), IsEmpty()) << "once";
  EXPECT_EQ(machine_.NextDeadlineNs(), kNoDeadline);
  Give(RenewAnswered{renewal.call, absl::CancelledError("")});
  EXPECT_THAT(TakeReports(), ElementsAre(HasSubstr("no answer in time")));
  AdvanceToNextCall();
  Renew();
  EXPECT_THAT(Take<LeaseRenewed>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, EachRenewalIsToldToTheThreads) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(absl::UnavailableError("Connection refused"));
  EXPECT_THAT(Take<LeaseRenewed>(), IsEmpty());
  AdvanceToNextCall();
  Renew();
  const std::vector<LeaseRenewed> renewed = Take<LeaseRenewed>();
  ASSERT_EQ(renewed.size(), 1u);
  EXPECT_EQ(renewed[0].ttl_ms, kTtlMs);
}

TEST_F(RegistrationMachineTest, ATraceThatTheSchedulerAsksForIsToldToTheProcess) {
  Register();
  AdvanceToNextCall();
  const TraceRequest trace{.id = 5, .left_ms = 900, .most_bytes = 1000};
  AnswerRenew(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(4), .trace = trace});
  const std::vector<ServerTraceAsked> asked = Take<ServerTraceAsked>();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].trace, trace);
  EXPECT_EQ(asked[0].server, Lease(1).server);
  AdvanceToNextCall();
  Renew();
  EXPECT_THAT(Take<ServerTraceAsked>(), IsEmpty());
}

TEST_F(RegistrationMachineTest, ARankThatBecameAbsentIsToldAtOnceButNotWithoutAPause) {
  Register();
  now_.monotonic_ns += kNsPerS / 10;
  Give(RankBecameAbsent{});
  EXPECT_LE(machine_.NextDeadlineNs(), now_.monotonic_ns);
  const RenewCall renewal = TakeCall<RenewCall>();
  EXPECT_EQ(renewal.asked_at_ns, now_.monotonic_ns);
  // Another one while the call is under way: its answer is followed by a second call.
  Give(RankBecameAbsent{});
  now_.monotonic_ns += 20 * kNsPerMs;
  Give(RenewAnswered{renewal.call, LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(4)}});
  EXPECT_EQ(machine_.NextDeadlineNs(), renewal.asked_at_ns + 100 * kNsPerMs);
  AdvanceToNextCall();
  Renew();
  EXPECT_EQ(machine_.NextDeadlineNs(), now_.monotonic_ns + kTtlMs * kNsPerMs / 3) << "all was told";
}

TEST_F(RegistrationMachineTest, AnAbsentRankHurriesNoCallToASchedulerThatDoesNotAnswer) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(absl::UnavailableError("Connection refused"));
  const uint64_t retry_ns = machine_.NextDeadlineNs();
  Give(RankBecameAbsent{});
  EXPECT_EQ(machine_.NextDeadlineNs(), retry_ns);
}

TEST_F(RegistrationMachineTest, FollowsAChangedLeaseTime) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(LeaseRenewal{.ttl_ms = 300, .epoch = Epoch(5)});
  EXPECT_EQ(machine_.NextDeadlineNs() - now_.monotonic_ns, 100 * kNsPerMs);
}

TEST_F(RegistrationMachineTest, WaitsForASchedulerThatStartsLaterAndSaysSoNowAndThen) {
  int attempts = 0;
  const uint64_t end_ns = now_.monotonic_ns + (kStartTimeoutMs - 500) * kNsPerMs;
  while (now_.monotonic_ns < end_ns) {
    AnswerRegister(absl::UnavailableError("Connection refused"));
    ++attempts;
    AdvanceToNextCall();
  }
  EXPECT_GT(attempts, 8) << "retries come at least every second";
  EXPECT_LT(attempts, 40) << "retries back off";
  EXPECT_THAT(TakeReports(),
              ElementsAre("waited 0 s for the scheduler at sched:7070 (10 s left): Connection refused",
                          MatchesRegex("waited [5-9].* s for the scheduler at sched:7070 \\(.* s left\\): Connection "
                                       "refused")));
  Register();
  EXPECT_THAT(Take<LeaseGranted>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, GivesUpAtTheStartWhenNobodyAnswers) {
  std::vector<LeaseGivenUp> given_up;
  while (given_up.empty()) {
    Tick();
    for (const RegisterCall& call : Take<RegisterCall>()) {
      EXPECT_GT(call.timeout_ms, 0u);
      EXPECT_LE(call.timeout_ms, kStartTimeoutMs);
      Give(RegisterAnswered{call.call, absl::UnavailableError("Connection refused")});
    }
    given_up = Take<LeaseGivenUp>();
    if (given_up.empty()) now_.monotonic_ns = machine_.NextDeadlineNs();
  }
  EXPECT_EQ(now_.monotonic_ns, (50 + 10) * kNsPerS) << "not later and not earlier than told";
  EXPECT_TRUE(absl::IsDeadlineExceeded(given_up[0].why));
  EXPECT_THAT(std::string(given_up[0].why.message()), HasSubstr("sched:7070 within 10 s: Connection refused"));
  EXPECT_EQ(machine_.NextDeadlineNs(), kNoDeadline);
}

TEST_F(RegistrationMachineTest, ACallThatTheEndOfTheStartCutShortHidesNoAnswer) {
  EXPECT_THAT(FailTheStart(/*answered_s=*/9),
              HasSubstr("within 10 s: the state could not be saved: No space left on device. "));
}

TEST_F(RegistrationMachineTest, ASchedulerThatFallsSilentIsQuotedFromBefore) {
  EXPECT_THAT(FailTheStart(/*answered_s=*/4),
              HasSubstr("within 10 s: no answer within 2000 ms; the last answer before that was: the state could not "
                        "be saved: No space left on device. If nobody answers"));
}

TEST_F(RegistrationMachineTest, ARefusalAtTheStartIsFinal) {
  AnswerRegister(absl::FailedPreconditionError("server speaks control version 1, this scheduler speaks 2"));
  const std::vector<LeaseGivenUp> given_up = Take<LeaseGivenUp>();
  ASSERT_EQ(given_up.size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(given_up[0].why));
  EXPECT_THAT(std::string(given_up[0].why.message()),
              HasSubstr("sched:7070 refused this server: server speaks control version 1, this scheduler speaks 2"));
  now_.monotonic_ns += 60 * kNsPerS;
  Tick();
  EXPECT_THAT(actions_, IsEmpty()) << "it gave up for good";
}

TEST_F(RegistrationMachineTest, AnAddressThatIsStillTakenMayBecomeFree) {
  AnswerRegister(absl::AlreadyExistsError("address is registered by the live server b"));
  AdvanceToNextCall();
  Register();
  EXPECT_THAT(Take<LeaseGranted>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, I6SitsOutASchedulerOutageOfAnyLength) {
  Register();
  AdvanceToNextCall();
  for (int i = 0; i < 10'000; ++i) {
    AnswerRenew(absl::UnavailableError("Connection refused"));
    AdvanceToNextCall();
  }
  EXPECT_THAT(TakeReports().back(), HasSubstr("no lease from the scheduler at sched:7070"));
  Renew();
  EXPECT_THAT(TakeReports(), ElementsAre(HasSubstr("the scheduler at sched:7070 answers again after")));
  EXPECT_THAT(Take<LeaseGivenUp>(), IsEmpty());
}

// A scheduler that is back after an outage calls nobody lost within a lease.
TEST_F(RegistrationMachineTest, ARetryComesWithinAThirdOfAShortLeaseHoweverLongTheOutage) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(LeaseRenewal{.ttl_ms = 600, .epoch = Epoch(5)});
  AdvanceToNextCall();
  for (int i = 0; i < 20; ++i) {
    AnswerRenew(absl::UnavailableError("Connection refused"));
    EXPECT_LE(machine_.NextDeadlineNs() - now_.monotonic_ns, 200 * kNsPerMs);
    AdvanceToNextCall();
  }
}

TEST_F(RegistrationMachineTest, RegistersAgainWhenTheSchedulerDoesNotKnowIt) {
  Register();
  Take<LeaseGranted>();
  AdvanceToNextCall();
  AnswerRenew(absl::NotFoundError("server a is lost (no heartbeat for 3 s)"));
  Register();
  EXPECT_THAT(TakeReports(), ElementsAre(HasSubstr("does not know this server: server a is lost"),
                                         "registered again with the scheduler at sched:7070, epoch 4"));
  const std::vector<LeaseGranted> granted = Take<LeaseGranted>();
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_FALSE(granted[0].token_key_changed);
  AdvanceToNextCall();
  Renew();
}

TEST_F(RegistrationMachineTest, ARefusalAfterARegistrationIsNotFinal) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(absl::NotFoundError("unknown"));
  AnswerRegister(absl::FailedPreconditionError("this scheduler speaks control version 2"));
  EXPECT_THAT(TakeReports().back(), HasSubstr("this scheduler speaks control version 2"));
  AdvanceToNextCall();
  Register();
  EXPECT_THAT(Take<LeaseGivenUp>(), IsEmpty());
}

TEST_F(RegistrationMachineTest, AChangedTokenKeyIsTakenAndSaidLoudly) {
  Register(1);
  Take<LeaseGranted>();
  AdvanceToNextCall();
  AnswerRenew(absl::NotFoundError("no server has id 7 here"));
  Register(2);
  const std::vector<LeaseGranted> granted = Take<LeaseGranted>();
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_EQ(granted[0].lease.token_key, Key(2));
  EXPECT_TRUE(granted[0].token_key_changed);
  EXPECT_THAT(TakeReports().back(), HasSubstr("the scheduler at sched:7070 signs with another key"));
}

TEST_F(RegistrationMachineTest, AServerWhosePlaceWasTakenGivesUp) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(absl::AbortedError("another process on node b took the place of server a"));
  const std::vector<LeaseGivenUp> given_up = Take<LeaseGivenUp>();
  ASSERT_EQ(given_up.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(given_up[0].why));
  EXPECT_THAT(std::string(given_up[0].why.message()), HasSubstr("node b took the place"));
}

TEST_F(RegistrationMachineTest, AServerThatWasEvictedBeforeItRegisteredAgainGivesUp) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(absl::NotFoundError("no server has id 7 here"));
  Tick();
  const RegisterCall call = TakeCall<RegisterCall>();
  Give(RegisterAnswered{call.call, absl::AbortedError("an operator evicted server a")});
  ASSERT_EQ(Take<LeaseGivenUp>().size(), 1u);
}

TEST_F(RegistrationMachineTest, AServerThatIsToLeaveKeepsItsLeaseUntilItIsOutAndDoesNotComeBack) {
  Register();
  AdvanceToNextCall();
  EXPECT_THAT(Take<DrainAsked>(), IsEmpty());
  AnswerRenew(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(5), .drain = true});
  EXPECT_THAT(Take<DrainAsked>(), testing::SizeIs(1));
  EXPECT_THAT(TakeReports(), ElementsAre("an operator asked this server to leave; it opens no new group"));
  AdvanceToNextCall();
  AnswerRenew(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(5), .drain = true});
  EXPECT_THAT(Take<DrainAsked>(), IsEmpty()) << "said once";
  AdvanceToNextCall();
  AnswerRenew(absl::NotFoundError("server a is lost"));
  Tick();
  EXPECT_THAT(Take<LeftCluster>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, AServerThatIsToStayAfterAllKeepsItsPlace) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(5), .drain = true});
  TakeReports();
  AdvanceToNextCall();
  Renew();
  EXPECT_THAT(Take<DrainWithdrawn>(), testing::SizeIs(1));
  EXPECT_THAT(TakeReports(), ElementsAre("an operator asked this server to stay; it takes groups in again"));
  Give(GroupsEnded{});  // seen before the threads knew
  Tick();
  EXPECT_THAT(Take<DeregisterCall>(), IsEmpty());
  AdvanceToNextCall();
  AnswerRenew(absl::NotFoundError("server a is lost"));
  Tick();
  EXPECT_THAT(Take<RegisterCall>(), testing::SizeIs(1)) << "it registers again, as any other";
}

TEST_F(RegistrationMachineTest, AServerThatLeavesAlreadyIsNotCalledBack) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(5), .drain = true});
  AdvanceToNextCall();
  const RenewCall renewal = TakeCall<RenewCall>();
  Give(GroupsEnded{});
  Give(RenewAnswered{renewal.call, LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(5)}});
  EXPECT_THAT(Take<DrainWithdrawn>(), IsEmpty());
  Tick();
  EXPECT_THAT(Take<DeregisterCall>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, ADrainedServerLeavesWhenItsGroupsHaveEnded) {
  Register();
  Give(GroupsEnded{});
  Tick();
  EXPECT_THAT(Take<DeregisterCall>(), IsEmpty()) << "no operator asked for it";
  AdvanceToNextCall();
  AnswerRenew(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(5), .drain = true});
  Give(GroupsEnded{});
  const DeregisterCall call = TakeCall<DeregisterCall>();
  EXPECT_EQ(call.server, ServerId(7));
  EXPECT_EQ(call.reason, "shoalctl drain");
  Give(DeregisterAnswered{call.call, absl::OkStatus()});
  EXPECT_THAT(Take<LeftCluster>(), testing::SizeIs(1));
  Give(LeaveRequested{"shoalctl drain"});
  Tick();
  EXPECT_THAT(Take<DeregisterCall>(), IsEmpty()) << "it is out already";
}

TEST_F(RegistrationMachineTest, ADrainedServerThatCouldNotSaySoTriesOnceMoreWhenItsProcessEnds) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(5), .drain = true});
  TakeReports();
  Give(GroupsEnded{});
  Give(DeregisterAnswered{TakeCall<DeregisterCall>().call, absl::UnavailableError("Connection refused")});
  EXPECT_THAT(TakeReports(),
              ElementsAre(HasSubstr("could not tell the scheduler at sched:7070 that this server leaves")));
  Give(GroupsEnded{});
  Tick();
  EXPECT_THAT(Take<DeregisterCall>(), IsEmpty());
  EXPECT_EQ(machine_.NextDeadlineNs(), kNoDeadline);
  Give(LeaveRequested{"shoalctl drain"});
  Give(DeregisterAnswered{TakeCall<DeregisterCall>().call, absl::OkStatus()});
  EXPECT_THAT(Take<LeftCluster>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, LeavingCutsTheRenewalShortAndDeregistersAfterIt) {
  Register();
  AdvanceToNextCall();
  const RenewCall renewal = TakeCall<RenewCall>();
  Give(LeaveRequested{"SIGTERM"});
  const std::vector<CancelLeaseCall> cancelled = Take<CancelLeaseCall>();
  ASSERT_EQ(cancelled.size(), 1u);
  EXPECT_EQ(cancelled[0].call, renewal.call);
  Tick();
  EXPECT_THAT(Take<DeregisterCall>(), IsEmpty()) << "what was asked before comes first";
  Give(RenewAnswered{renewal.call, absl::CancelledError("the call was cancelled")});
  const DeregisterCall call = TakeCall<DeregisterCall>();
  EXPECT_EQ(call.reason, "SIGTERM");
  EXPECT_EQ(call.incarnation, Incarnation(9));
  Give(DeregisterAnswered{call.call, absl::NotFoundError("nothing to deregister")});
  EXPECT_THAT(TakeReports(), IsEmpty()) << "a call that it cancelled itself is no outage";
  EXPECT_THAT(Take<LeftCluster>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, AServerThatCannotSayThatItLeavesLeavesAllTheSame) {
  Register();
  Give(LeaveRequested{"SIGTERM"});
  Give(DeregisterAnswered{TakeCall<DeregisterCall>().call, absl::DeadlineExceededError("no answer within 2000 ms")});
  EXPECT_THAT(TakeReports(), ElementsAre(HasSubstr("(no answer within 2000 ms); the scheduler will notice")));
  EXPECT_THAT(Take<LeftCluster>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, AServerThatGaveUpIsDeregisteredWhenItsProcessEnds) {
  Register();
  AdvanceToNextCall();
  AnswerRenew(absl::AbortedError("another process took the place of server a"));
  Give(LeaveRequested{"lost its place"});
  Give(DeregisterAnswered{TakeCall<DeregisterCall>().call, absl::NotFoundError("no such incarnation")});
  EXPECT_THAT(Take<LeftCluster>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, AServerThatNeverRegisteredJustLeaves) {
  AnswerRegister(absl::UnavailableError("Connection refused"));
  Give(LeaveRequested{"SIGTERM"});
  EXPECT_THAT(Take<LeftCluster>(), testing::SizeIs(1));
}

TEST_F(RegistrationMachineTest, ARegistrationThatSucceededInSpiteOfItsCancellationIsUndone) {
  const RegisterCall call = TakeCall<RegisterCall>();
  Give(LeaveRequested{"SIGTERM"});
  EXPECT_THAT(Take<CancelLeaseCall>(), testing::SizeIs(1));
  Give(RegisterAnswered{call.call, Lease()});
  EXPECT_EQ(TakeCall<DeregisterCall>().server, ServerId(7));
}

TEST_F(RegistrationMachineTest, RetriesOfTwoServersAreSpread) {
  RegistrationMachine other(Options(/*random_seed=*/2), now_);
  RegistrationActions actions;
  other.Tick(now_, &actions);
  other.OnEvent(RegisterAnswered{std::get<RegisterCall>(actions.at(0)).call, absl::UnavailableError("x")}, now_,
                &actions);
  AnswerRegister(absl::UnavailableError("x"));
  EXPECT_NE(machine_.NextDeadlineNs(), other.NextDeadlineNs());
}

}  // namespace
}  // namespace shoal
