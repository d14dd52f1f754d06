#include "server/lease/registration_machine.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = RegistrationStep::Kind;

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

class RegistrationMachineTest : public ::testing::Test {
 protected:
  RegistrationStep Next() { return machine_.Next(now_); }
  void Advance(uint64_t ms) { now_.monotonic_ns += ms * kNsPerMs; }
  // To where the machine wants to act next.
  void AdvanceToNextCall() {
    const RegistrationStep step = Next();
    ASSERT_EQ(step.kind, Kind::kWait);
    ASSERT_GT(step.wait_until_ns, now_.monotonic_ns);
    now_.monotonic_ns = step.wait_until_ns;
  }
  void Register(int key = 1) {
    ASSERT_EQ(Next().kind, Kind::kRegister);
    machine_.OnRegistered(Lease(key), now_);
  }
  void Renew() { machine_.OnRenewed(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(4)}, now_); }

  Now now_{.monotonic_ns = 50 * kNsPerS};
  RegistrationMachine machine_{"sched:7070", kStartTimeoutMs, /*random_seed=*/1, now_};
};

TEST_F(RegistrationMachineTest, RenewsAtAThirdOfTheLease) {
  EXPECT_FALSE(machine_.was_registered());
  Register();
  EXPECT_TRUE(machine_.was_registered());
  for (int i = 0; i < 3; ++i) {
    const uint64_t before_ns = now_.monotonic_ns;
    AdvanceToNextCall();
    EXPECT_EQ(now_.monotonic_ns - before_ns, kTtlMs * kNsPerMs / 3);
    EXPECT_EQ(Next().kind, Kind::kRenew);
    Renew();
  }
  EXPECT_THAT(machine_.TakeReports(), IsEmpty());
}

TEST_F(RegistrationMachineTest, FollowsAChangedLeaseTime) {
  Register();
  AdvanceToNextCall();
  machine_.OnRenewed(LeaseRenewal{.ttl_ms = 300, .epoch = Epoch(5)}, now_);
  EXPECT_EQ(Next().wait_until_ns - now_.monotonic_ns, 100 * kNsPerMs);
  EXPECT_EQ(machine_.lease().epoch, Epoch(5));
}

TEST_F(RegistrationMachineTest, WaitsForASchedulerThatStartsLaterAndSaysSoNowAndThen) {
  int attempts = 0;
  std::vector<std::string> reports;
  const uint64_t end_ns = now_.monotonic_ns + (kStartTimeoutMs - 500) * kNsPerMs;
  while (now_.monotonic_ns < end_ns) {
    ASSERT_EQ(Next().kind, Kind::kRegister);
    ++attempts;
    machine_.OnRegistered(absl::UnavailableError("Connection refused"), now_);
    for (const std::string& line : machine_.TakeReports()) reports.push_back(line);
    AdvanceToNextCall();
  }
  EXPECT_GT(attempts, 8) << "retries come at least every second";
  EXPECT_LT(attempts, 40) << "retries back off";
  EXPECT_THAT(reports, ElementsAre("waiting for scheduler at sched:7070: Connection refused",
                                   "waiting for scheduler at sched:7070: Connection refused"));
  Register();
  EXPECT_TRUE(machine_.was_registered());
}

TEST_F(RegistrationMachineTest, GivesUpAtTheStartWhenNobodyAnswers) {
  while (Next().kind != Kind::kGiveUp) {
    if (Next().kind == Kind::kRegister) {
      EXPECT_GT(Next().timeout_ms, 0u);
      EXPECT_LE(Next().timeout_ms, kStartTimeoutMs);
      machine_.OnRegistered(absl::UnavailableError("Connection refused"), now_);
    }
    if (Next().kind == Kind::kWait) AdvanceToNextCall();
  }
  EXPECT_EQ(now_.monotonic_ns, (50 + 10) * kNsPerS) << "not later and not earlier than told";
  EXPECT_TRUE(absl::IsDeadlineExceeded(machine_.failure()));
  EXPECT_THAT(std::string(machine_.failure().message()), HasSubstr("sched:7070 within 10.0 s: Connection refused"));
}

TEST_F(RegistrationMachineTest, ARefusalAtTheStartIsFinal) {
  machine_.OnRegistered(absl::FailedPreconditionError("server speaks control version 1, this scheduler speaks 2"),
                        now_);
  EXPECT_EQ(Next().kind, Kind::kGiveUp);
  EXPECT_TRUE(absl::IsFailedPrecondition(machine_.failure()));
  EXPECT_THAT(std::string(machine_.failure().message()),
              HasSubstr("sched:7070 refused this server: server speaks control version 1, this scheduler speaks 2"));
}

TEST_F(RegistrationMachineTest, AnAddressThatIsStillTakenMayBecomeFree) {
  machine_.OnRegistered(absl::AlreadyExistsError("address is registered by the live server b"), now_);
  AdvanceToNextCall();
  Register();
  EXPECT_TRUE(machine_.was_registered());
}

TEST_F(RegistrationMachineTest, I6SitsOutASchedulerOutageOfAnyLength) {
  Register();
  AdvanceToNextCall();
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(Next().kind, Kind::kRenew);
    machine_.OnRenewed(absl::UnavailableError("Connection refused"), now_);
    AdvanceToNextCall();
  }
  EXPECT_THAT(machine_.TakeReports().back(), HasSubstr("no lease from the scheduler at sched:7070"));
  Renew();
  EXPECT_THAT(machine_.TakeReports(), ElementsAre(HasSubstr("the scheduler at sched:7070 is back after")));
  EXPECT_TRUE(machine_.failure().ok());
}

TEST_F(RegistrationMachineTest, RegistersAgainWhenTheSchedulerDoesNotKnowIt) {
  Register();
  AdvanceToNextCall();
  machine_.OnRenewed(absl::NotFoundError("server a is lost (no heartbeat for 3.0 s)"), now_);
  Register();
  const std::vector<std::string> reports = machine_.TakeReports();
  EXPECT_THAT(reports, ElementsAre(HasSubstr("does not know this server: server a is lost"),
                                   "registered again with the scheduler at sched:7070, epoch 4"));
  AdvanceToNextCall();
  EXPECT_EQ(Next().kind, Kind::kRenew);
}

TEST_F(RegistrationMachineTest, ARefusalAfterARegistrationIsNotFinal) {
  Register();
  AdvanceToNextCall();
  machine_.OnRenewed(absl::NotFoundError("unknown"), now_);
  machine_.OnRegistered(absl::FailedPreconditionError("this scheduler speaks control version 2"), now_);
  EXPECT_THAT(machine_.TakeReports().back(), HasSubstr("this scheduler speaks control version 2"));
  AdvanceToNextCall();
  Register();
}

TEST_F(RegistrationMachineTest, AChangedTokenKeyIsTakenAndSaidLoudly) {
  Register(1);
  AdvanceToNextCall();
  machine_.OnRenewed(absl::NotFoundError("no server has id 7 here"), now_);
  Register(2);
  EXPECT_EQ(machine_.lease().token_key, Key(2));
  EXPECT_THAT(machine_.TakeReports().back(), HasSubstr("WARNING: the scheduler at sched:7070 signs with another key"));
}

TEST_F(RegistrationMachineTest, AServerWhosePlaceWasTakenGivesUp) {
  Register();
  AdvanceToNextCall();
  machine_.OnRenewed(absl::AbortedError("another process on node b took the place of server a"), now_);
  EXPECT_EQ(Next().kind, Kind::kGiveUp);
  EXPECT_TRUE(absl::IsAborted(machine_.failure()));
  EXPECT_THAT(std::string(machine_.failure().message()), HasSubstr("node b took the place"));
}

TEST_F(RegistrationMachineTest, AServerThatIsToLeaveKeepsItsLeaseUntilItIsOutAndDoesNotComeBack) {
  Register();
  AdvanceToNextCall();
  EXPECT_FALSE(machine_.asked_to_drain());
  machine_.OnRenewed(LeaseRenewal{.ttl_ms = kTtlMs, .epoch = Epoch(5), .drain = true}, now_);
  EXPECT_TRUE(machine_.asked_to_drain());
  AdvanceToNextCall();
  EXPECT_EQ(Next().kind, Kind::kRenew);
  Renew();  // by a scheduler that does not know of it, as it was started without its state
  EXPECT_TRUE(machine_.asked_to_drain());
  AdvanceToNextCall();
  machine_.OnRenewed(absl::NotFoundError("server a is lost"), now_);
  EXPECT_EQ(Next().kind, Kind::kLeft);
}

TEST_F(RegistrationMachineTest, RetriesOfTwoServersAreSpread) {
  RegistrationMachine other("sched:7070", kStartTimeoutMs, /*random_seed=*/2, now_);
  machine_.OnRegistered(absl::UnavailableError("x"), now_);
  other.OnRegistered(absl::UnavailableError("x"), now_);
  EXPECT_NE(Next().wait_until_ns, other.Next(now_).wait_until_ns);
}

}  // namespace
}  // namespace shoal
