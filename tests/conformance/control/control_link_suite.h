// What every ControlLink must do (server/lease/control_link.h), against a scheduler that is really there.
//
// TEST_P over the ways to have one: over gRPC with a scheduler of this process, and under virtual time.
#ifndef SHOAL_TESTS_CONFORMANCE_CONTROL_CONTROL_LINK_SUITE_H_
#define SHOAL_TESTS_CONFORMANCE_CONTROL_CONTROL_LINK_SUITE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/lease/control_link.h"

namespace shoal {

// A scheduler and a link to it.
class LinkUnderTest {
 public:
  virtual ~LinkUnderTest() = default;

  virtual ControlLink* link() = 0;
  // From now on no process listens there.
  virtual void StopScheduler() = 0;
  // From now on what is sent arrives nowhere, and nothing says so.
  virtual void LoseWhatIsSent() = 0;
  // Lets time pass until the link wakes, but not for ever.
  virtual void AwaitWake() = 0;
  // Lets so much time pass.
  virtual void Pass(uint64_t ms) = 0;
};

struct LinkKind {
  std::string name;
  std::function<std::unique_ptr<LinkUnderTest>()> make;
};

class ControlLinkSuite : public ::testing::TestWithParam<LinkKind> {
 protected:
  static constexpr uint64_t kTimeoutMs = 5000;
  static constexpr uint64_t kShortTimeoutMs = 200;

  ControlLinkSuite() : under_test_(GetParam().make()) {}

  ControlLink& link() { return *under_test_->link(); }

  LeaseAnswer NextAnswer() {
    for (int wakes = 0; wakes < 100; ++wakes) {
      if (std::optional<LeaseAnswer> answer = link().Poll()) return *std::move(answer);
      under_test_->AwaitWake();
    }
    ADD_FAILURE() << "no answer came";
    return DeregisterAnswered{LeaseCallId(), absl::UnknownError("no answer")};
  }
  template <typename Answer>
  Answer Next() {
    LeaseAnswer answer = NextAnswer();
    if (!std::holds_alternative<Answer>(answer)) {
      ADD_FAILURE() << "an answer of another kind";
      return Answer();
    }
    return std::get<Answer>(std::move(answer));
  }
  void ExpectNoMoreAnswers() {
    under_test_->Pass(kShortTimeoutMs);
    EXPECT_FALSE(link().Poll().has_value());
  }

  RegisterCall Registration(const std::string& name = "a", uint64_t incarnation = 1, int port = 5000) {
    return {.call = LeaseCallId(++calls_),
            .registration = {.name = name,
                             .incarnation = Incarnation(incarnation),
                             .addresses = {"127.0.0.1:" + std::to_string(port)},
                             .node = "node-" + name},
            .timeout_ms = kTimeoutMs};
  }
  RenewCall Renewal(ServerId server, uint64_t incarnation = 1) {
    return {.call = LeaseCallId(++calls_),
            .server = server,
            .incarnation = Incarnation(incarnation),
            .timeout_ms = kTimeoutMs};
  }
  DeregisterCall Deregistration(ServerId server, uint64_t incarnation = 1) {
    return {.call = LeaseCallId(++calls_),
            .server = server,
            .incarnation = Incarnation(incarnation),
            .reason = "done",
            .timeout_ms = kTimeoutMs};
  }
  ServerId Register() {
    link().Start(Registration());
    const RegisterAnswered answer = Next<RegisterAnswered>();
    EXPECT_TRUE(answer.lease.ok()) << answer.lease.status();
    return answer.lease.ok() ? answer.lease->server : ServerId();
  }

  const std::unique_ptr<LinkUnderTest> under_test_;
  uint64_t calls_ = 0;
};

TEST_P(ControlLinkSuite, EachCallHasOneAnswerUnderItsId) {
  const RegisterCall registration = Registration();
  link().Start(registration);
  const RegisterAnswered registered = Next<RegisterAnswered>();
  EXPECT_EQ(registered.call, registration.call);
  ASSERT_TRUE(registered.lease.ok()) << registered.lease.status();
  EXPECT_NE(registered.lease->server, ServerId());
  EXPECT_GT(registered.lease->ttl_ms, 0u);
  EXPECT_NE(registered.lease->token_key, TokenKey());

  const RenewCall renewal = Renewal(registered.lease->server);
  link().Start(renewal, ServerCounters());
  const RenewAnswered renewed = Next<RenewAnswered>();
  EXPECT_EQ(renewed.call, renewal.call);
  ASSERT_TRUE(renewed.renewal.ok()) << renewed.renewal.status();
  EXPECT_EQ(renewed.renewal->ttl_ms, registered.lease->ttl_ms);
  EXPECT_FALSE(renewed.renewal->drain);

  const DeregisterCall deregistration = Deregistration(registered.lease->server);
  link().Start(deregistration);
  const DeregisterAnswered left = Next<DeregisterAnswered>();
  EXPECT_EQ(left.call, deregistration.call);
  EXPECT_TRUE(left.status.ok()) << left.status;
  ExpectNoMoreAnswers();
}

TEST_P(ControlLinkSuite, TheSchedulersRefusalsArriveWithCodeAndText) {
  const ServerId server = Register();
  link().Start(Registration("b", 2));
  RegisterAnswered answer = Next<RegisterAnswered>();
  EXPECT_TRUE(absl::IsAlreadyExists(answer.lease.status()));
  EXPECT_THAT(std::string(answer.lease.status().message()), ::testing::HasSubstr("registered by the live server a"));

  link().Start(Registration(""));
  answer = Next<RegisterAnswered>();
  EXPECT_TRUE(absl::IsInvalidArgument(answer.lease.status()));
  EXPECT_THAT(std::string(answer.lease.status().message()), ::testing::HasSubstr("server name"));

  link().Start(Renewal(ServerId(server.value() + 1)), ServerCounters());
  EXPECT_TRUE(absl::IsNotFound(Next<RenewAnswered>().renewal.status()));
  link().Start(Renewal(server, 7), ServerCounters());
  EXPECT_TRUE(absl::IsAborted(Next<RenewAnswered>().renewal.status()));
  link().Start(Deregistration(server, 7));
  EXPECT_TRUE(absl::IsNotFound(Next<DeregisterAnswered>().status));
}

TEST_P(ControlLinkSuite, ASchedulerThatIsNotThereIsUnavailableAndSaysSoInAFewWords) {
  const ServerId server = Register();
  under_test_->StopScheduler();
  link().Start(Renewal(server), ServerCounters());
  const absl::Status status = Next<RenewAnswered>().renewal.status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(status.message().empty());
  EXPECT_LT(status.message().size(), 80u) << status;
}

TEST_P(ControlLinkSuite, AnAnswerThatDoesNotComeEndsTheCallInTime) {
  const ServerId server = Register();
  under_test_->LoseWhatIsSent();
  RenewCall renewal = Renewal(server);
  renewal.timeout_ms = kShortTimeoutMs;
  link().Start(renewal, ServerCounters());
  EXPECT_FALSE(link().Poll().has_value());
  const RenewAnswered answer = Next<RenewAnswered>();
  EXPECT_EQ(answer.call, renewal.call);
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.renewal.status())) << answer.renewal.status();
  EXPECT_FALSE(answer.renewal.status().message().empty());
  ExpectNoMoreAnswers();
}

TEST_P(ControlLinkSuite, ACancelledCallEndsAtOnceAndOthersGoOn) {
  const ServerId server = Register();
  const RenewCall renewal = Renewal(server);
  link().Start(renewal, ServerCounters());
  link().Cancel(renewal.call);
  const RenewAnswered answer = Next<RenewAnswered>();
  EXPECT_EQ(answer.call, renewal.call);
  // Its answer may have been there before.
  EXPECT_TRUE(answer.renewal.ok() || absl::IsCancelled(answer.renewal.status())) << answer.renewal.status();
  link().Cancel(renewal.call);
  link().Start(Deregistration(server));
  EXPECT_TRUE(Next<DeregisterAnswered>().status.ok());
  ExpectNoMoreAnswers();
}

TEST_P(ControlLinkSuite, ACallThatWouldWaitLongEndsAtOnceWhenItIsCancelled) {
  const ServerId server = Register();
  under_test_->LoseWhatIsSent();
  RenewCall renewal = Renewal(server);
  renewal.timeout_ms = 3'600'000;
  link().Start(renewal, ServerCounters());
  under_test_->Pass(kShortTimeoutMs);
  EXPECT_FALSE(link().Poll().has_value());
  link().Cancel(renewal.call);
  EXPECT_TRUE(absl::IsCancelled(Next<RenewAnswered>().renewal.status()));
}

TEST_P(ControlLinkSuite, StopCancelsWhatIsOpenAndWhatIsStartedLater) {
  const ServerId server = Register();
  under_test_->LoseWhatIsSent();
  RenewCall renewal = Renewal(server);
  renewal.timeout_ms = 3'600'000;
  link().Start(renewal, ServerCounters());
  link().Stop();
  const RenewAnswered open = Next<RenewAnswered>();
  EXPECT_EQ(open.call, renewal.call);
  EXPECT_TRUE(absl::IsCancelled(open.renewal.status())) << open.renewal.status();
  const DeregisterCall late = Deregistration(server);
  link().Start(late);
  const DeregisterAnswered later = Next<DeregisterAnswered>();
  EXPECT_EQ(later.call, late.call);
  EXPECT_TRUE(absl::IsCancelled(later.status)) << later.status;
  ExpectNoMoreAnswers();
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_CONTROL_CONTROL_LINK_SUITE_H_
