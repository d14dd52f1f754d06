// What a member tells the scheduler again and again: reports of servers, and groups that it has closed or given up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/worker/membership/membership_driver.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Call = MembershipDriver::Call;

ServerTrouble Trouble(uint64_t group, uint64_t epoch, bool reachable = false) {
  return {.group = GroupId(group), .epoch = Epoch(epoch), .server = ServerId(1), .reachable = reachable};
}

TEST_F(MembershipTest, AReportIsRepeatedUntilTheSchedulerAnswers) {
  driver_.Do(Trouble(50, 3));
  driver_.Do(Trouble(51, 3));
  for (int i = 0; i < 3; ++i) {
    driver_.AnswerNext<ReportServerCall>(absl::UnavailableError("Connection refused"), 100 * kNsPerMs);
  }
  const Call call = driver_.Await<ReportServerCall>(100 * kNsPerMs);
  EXPECT_EQ(std::get<ReportServerCall>(call.what).trouble.group, GroupId(50)) << "one after the other";
  driver_.Answer(call, ReportAnswer{.moved_groups = {{.group = GroupId(50), .map = Map(4)}}});
  EXPECT_EQ(driver_.Only<MoveGroupCommand>().group, GroupId(50));
  EXPECT_EQ(std::get<ReportServerCall>(driver_.Find<ReportServerCall>()->what).trouble.group, GroupId(51));
  driver_.AnswerNext<ReportServerCall>(ReportAnswer{.moved_groups = {{.group = GroupId(51), .map = Map(4)}}});
  driver_.RenewUntil(driver_.now_ns() + 5 * kNsPerS);
  EXPECT_FALSE(driver_.Find<ReportServerCall>().has_value()) << "those are answers";
}

// Of a rank that was declared lost, or a job that the scheduler has forgotten, no group is ever moved.
TEST_F(MembershipTest, AGroupWhoseReportsAreRefusedForGoodIsGivenUpWithTheReason) {
  driver_.Do(
      ServerTrouble{.group = GroupId(50), .epoch = Epoch(3), .server = ServerId(1), .reason = "nothing is heard"});
  driver_.AnswerNext<ReportServerCall>(absl::NotFoundError("no job has id 7 here"));
  EXPECT_THAT(driver_.All<GiveGroupUpCommand>(), IsEmpty()) << "a deposed leader may say so once";
  driver_.RenewUntil(driver_.now_ns() + kLeaseNs / 6);
  driver_.AnswerNext<ReportServerCall>(ReportAnswer{});
  driver_.RenewUntil(driver_.now_ns() + kLeaseNs / 2);
  driver_.AnswerNext<ReportServerCall>(absl::NotFoundError("no job has id 7 here"));
  EXPECT_THAT(driver_.All<GiveGroupUpCommand>(), IsEmpty()) << "one that was taken in between begins anew";
  driver_.RenewUntil(driver_.now_ns() + kLeaseNs);
  driver_.AnswerNext<ReportServerCall>(absl::NotFoundError("no job has id 7 here"));
  const GiveGroupUpCommand given_up = driver_.Only<GiveGroupUpCommand>();
  EXPECT_EQ(given_up.group, GroupId(50));
  EXPECT_EQ(
      given_up.reason,
      absl::FailedPreconditionError(
          "it can't go on with one of its servers (nothing is heard), and the scheduler at sched:7070 gives rank 2 "
          "of job \"gpt\" on node node-b no other: no job has id 7 here"));
  driver_.RenewUntil(driver_.now_ns() + 4 * kLeaseNs);
  EXPECT_FALSE(driver_.Find<ReportServerCall>().has_value());
}

// A scheduler that starts, is overloaded, does not lead or is of another version says nothing of the group.
TEST_F(MembershipTest, OnlyASchedulerThatDoesNotKnowAGroupEndsIt) {
  driver_.Do(Trouble(50, 3));
  for (const absl::Status& error :
       {absl::ResourceExhaustedError("too many calls"), absl::DeadlineExceededError("busy"),
        absl::FailedPreconditionError("not the leader"), absl::UnavailableError("starting"),
        absl::InternalError("the answer makes no sense"), absl::AbortedError("x"), absl::UnknownError("x")}) {
    for (int i = 0; i < 3; ++i) {
      driver_.AnswerNext<ReportServerCall>(error);
      driver_.RenewUntil(driver_.now_ns() + kLeaseNs);
    }
    EXPECT_THAT(driver_.All<GiveGroupUpCommand>(), IsEmpty()) << error;
  }
  driver_.AnswerNext<ReportServerCall>(absl::NotFoundError("no job has id 7 here"));
  driver_.RenewUntil(driver_.now_ns() + kLeaseNs);
  driver_.AnswerNext<ReportServerCall>(absl::UnavailableError("starting"));
  driver_.RenewUntil(driver_.now_ns() + kLeaseNs);
  EXPECT_THAT(driver_.All<GiveGroupUpCommand>(), IsEmpty());
  driver_.AnswerNext<ReportServerCall>(absl::NotFoundError("no job has id 7 here"));
  EXPECT_EQ(driver_.Only<GiveGroupUpCommand>().group, GroupId(50));
}

// A leader that was deposed may refuse it, and its successor would never hear of it.
TEST_F(MembershipTest, WhatARefusalDropsTakesTwoOfThemAndAnotherErrorDropsNothing) {
  driver_.Do(GroupFailure{GroupId(50), "aborted"});
  driver_.Do(GroupEnded{GroupId(50)});
  // By the next call, which comes within this time.
  const auto told_within = [&](uint64_t within_ns) {
    return std::get<CloseGroupsCall>(driver_.Await<CloseGroupsCall>(within_ns).what).failures.size();
  };
  driver_.AnswerNext<CloseGroupsCall>(absl::NotFoundError("no job has id 7 here"));
  EXPECT_FALSE(driver_.Find<CloseGroupsCall>().has_value()) << "not at once: the next leader needs a moment";
  EXPECT_EQ(told_within(kLeaseNs / 6), 1u);
  for (const absl::Status& error : {absl::ResourceExhaustedError("too many calls"), absl::UnavailableError("starting"),
                                    absl::FailedPreconditionError("not the leader")}) {
    driver_.AnswerNext<CloseGroupsCall>(error);
    driver_.RenewUntil(driver_.now_ns());
    EXPECT_EQ(told_within(kNsPerS), 1u) << error;
  }
  driver_.AnswerNext<CloseGroupsCall>(CallDone{});
  driver_.RenewUntil(driver_.now_ns() + 5 * kNsPerS);
  EXPECT_FALSE(driver_.Find<CloseGroupsCall>().has_value());
  driver_.Do(GroupFailure{GroupId(51), "aborted"});
  for (int i = 0; i < 2; ++i) {
    driver_.AnswerNext<CloseGroupsCall>(absl::NotFoundError("no job has id 7 here"));
    driver_.RenewUntil(driver_.now_ns() + kLeaseNs);
  }
  EXPECT_FALSE(driver_.Find<CloseGroupsCall>().has_value()) << "nobody there knows this rank";
}

// A program's text may be anything; the scheduler could not read the whole request, and no later one.
TEST_F(MembershipTest, AReasonIsMadeReadableBeforeItIsTold) {
  driver_.Do(GroupFailure{GroupId(50), "loss is \xff" + std::string(5 << 20, 'x')});
  const Call call = *driver_.Find<CloseGroupsCall>();
  const std::string reason = std::get<CloseGroupsCall>(call.what).failures.at(0).reason;
  EXPECT_EQ(reason, "loss is ?" + std::string(291, 'x'));
}

TEST_F(MembershipTest, AnAnswerThatThisRankCanNotUseIsToldAsGivenUp) {
  for (const absl::Status& error : {absl::InternalError("node_reduce 9"), absl::FailedPreconditionError("no"),
                                    absl::InvalidArgumentError("other options")}) {
    driver_.Forget();
    driver_.Do(Asks(1, driver_.now_ns() + 10 * kNsPerS));
    driver_.AnswerNext<JoinGroupCall>(error);
    EXPECT_EQ(driver_.Only<GroupJoinEnded>().group.status(), error);
    const Call call = driver_.Await<CloseGroupsCall>(kNsPerS);
    const std::vector<GivenUpRequest> given_up = std::get<CloseGroupsCall>(call.what).given_up_requests;
    ASSERT_EQ(given_up.size(), 1u) << error;
    EXPECT_EQ(given_up[0].reason, error.message());
    driver_.Answer(call, CallDone{});
  }
}

// The scheduler may open the group for it at this moment, and the others would wait for it there.
TEST_F(MembershipTest, ARequestThatIsUnderWayWhenTheWorkerClosesIsToldAsGivenUp) {
  driver_.Do(Asks(7, deadline_ns_));
  driver_.Do(CloseCommand());
  EXPECT_TRUE(absl::IsCancelled(driver_.Only<GroupJoinEnded>().group.status()));
  const Call call = driver_.Await<CloseGroupsCall>(kNsPerMs);
  EXPECT_THAT(std::get<CloseGroupsCall>(call.what).given_up_requests,
              ElementsAre(GivenUpRequest{1, "the worker is closed"}));
  driver_.Do(LeaveCommand{.reason = "done"});
  EXPECT_THAT(LeaveCall().given_up_requests, ElementsAre(GivenUpRequest{1, "the worker is closed"}))
      << "the first call may not have been heard";
}

TEST_F(MembershipTest, AProcessThatLeavesSaysWhichRequestsItGaveUp) {
  driver_.Do(Asks(7, deadline_ns_));
  driver_.Do(Asks(8, deadline_ns_));
  driver_.AnswerNext<JoinGroupCall>(absl::InternalError("it makes no sense"));
  driver_.AnswerNext<CloseGroupsCall>(CallDone{});
  driver_.Do(LeaveCommand{.reason = "done"});
  EXPECT_THAT(LeaveCall().given_up_requests, ElementsAre(GivenUpRequest{2, "the worker is closed"}))
      << "the first one has been told";
}

TEST_F(MembershipTest, AGroupThatThisRankGaveUpIsToldAtOnceAndUntilTheSchedulerAnswers) {
  driver_.Do(Trouble(50, 3));
  driver_.Do(GroupFailure{GroupId(50), "out of patience"});
  const Call first = *driver_.Find<CloseGroupsCall>();
  const auto failures_of = [](const Call& call) { return std::get<CloseGroupsCall>(call.what).failures; };
  ASSERT_EQ(failures_of(first).size(), 1u);
  EXPECT_EQ(failures_of(first)[0].group, GroupId(50));
  EXPECT_EQ(failures_of(first)[0].reason, "out of patience");
  EXPECT_THAT(std::get<CloseGroupsCall>(first.what).groups, IsEmpty()) << "it is not done with it";
  driver_.Do(GroupEnded{GroupId(50)});
  driver_.Answer(first, absl::UnavailableError("Connection refused"));
  const Call second = driver_.Await<CloseGroupsCall>(200 * kNsPerMs);
  EXPECT_EQ(failures_of(second).size(), 1u);
  EXPECT_THAT(std::get<CloseGroupsCall>(second.what).groups, ElementsAre(GroupId(50)));
  driver_.Do(GroupFailure{GroupId(51), "aborted"});
  driver_.Answer(second, CallDone{});
  const Call third = *driver_.Find<CloseGroupsCall>();
  ASSERT_EQ(failures_of(third).size(), 1u);
  EXPECT_EQ(failures_of(third)[0].group, GroupId(51));
  driver_.Answer(third, CallDone{});
  driver_.AnswerNext<ReportServerCall>(ReportAnswer{});
  driver_.RenewUntil(driver_.now_ns() + 5 * kNsPerS);
  EXPECT_FALSE(driver_.Find<CloseGroupsCall>().has_value());
  EXPECT_FALSE(driver_.Find<ReportServerCall>().has_value()) << "a group that has failed needs no other server";
}

TEST_F(MembershipTest, AProcessThatLeavesSaysWhichGroupsItGaveUpIfThatWasNotHeard) {
  driver_.Do(GroupFailure{GroupId(50), "aborted"});
  driver_.Do(GroupEnded{GroupId(50)});
  driver_.Do(LeaveCommand{.reason = "done"});
  const std::vector<GroupFailure> failures = LeaveCall().failures;
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].group, GroupId(50));
  EXPECT_EQ(failures[0].reason, "aborted");
}

// The scheduler may keep a report that it can't act on yet, and may be another one soon: it is told again, ever later.
TEST_F(MembershipTest, AReportIsRepeatedAtASlowPaceUntilTheGroupHasANewerMap) {
  driver_.Do(Trouble(50, 3));
  std::vector<uint64_t> times_ns;
  while (times_ns.size() < 8) {
    if (const auto call = driver_.Find<ReportServerCall>(); call.has_value()) {
      times_ns.push_back(driver_.now_ns());
      driver_.Answer(*call, ReportAnswer{});
    }
    driver_.RenewUntil(driver_.now_ns() + kNsPerMs);
  }
  for (size_t i = 1; i < times_ns.size(); ++i) EXPECT_LE(times_ns[i] - times_ns[i - 1], kLeaseNs / 2 + 2 * kNsPerMs);
  EXPECT_GT(times_ns.back() - times_ns.front(), 4 * kLeaseNs / 4);
  News({.moved_groups = {{.group = GroupId(51), .map = Map(4)}, {.group = GroupId(50), .map = Map(3)}}});
  driver_.RenewUntil(driver_.now_ns() + kLeaseNs);
  EXPECT_TRUE(driver_.Find<ReportServerCall>().has_value()) << "another group moved, and this one's map is not newer";
  News({.moved_groups = {{.group = GroupId(50), .map = Map(4)}}});
  driver_.AnswerNext<ReportServerCall>(ReportAnswer{});
  driver_.RenewUntil(driver_.now_ns() + 4 * kLeaseNs);
  EXPECT_FALSE(driver_.Find<ReportServerCall>().has_value());
}

TEST_F(MembershipTest, NoMoreIsReportedOfAGroupThatEndedOrWasGivenUp) {
  driver_.Do(Trouble(50, 3));
  driver_.Do(Trouble(51, 3));
  driver_.Do(GroupEnded{GroupId(50)});
  News({.given_up_groups = {{.group = GroupId(51), .reason = absl::AbortedError("rank 1: aborted")}}});
  EXPECT_EQ(driver_.Only<GiveGroupUpCommand>().reason, absl::AbortedError("rank 1: aborted"));
  driver_.AnswerNext<ReportServerCall>(ReportAnswer{});
  driver_.RenewUntil(driver_.now_ns() + 4 * kLeaseNs);
  EXPECT_FALSE(driver_.Find<ReportServerCall>().has_value());
}

TEST_F(MembershipTest, ANewerReportOfAServerTakesThePlaceOfOneThatWaits) {
  driver_.Do(Trouble(50, 3));  // under way
  driver_.Do(Trouble(50, 3, true));
  driver_.Do(Trouble(50, 4));
  std::vector<uint64_t> epochs;
  while (driver_.Find<ReportServerCall>().has_value()) {
    const Call call = *driver_.Find<ReportServerCall>();
    epochs.push_back(std::get<ReportServerCall>(call.what).trouble.epoch.value());
    driver_.Answer(call, ReportAnswer{});
  }
  EXPECT_THAT(epochs, ElementsAre(3, 4));
}

TEST_F(MembershipTest, ClosedGroupsAreToldTogetherUntilTheSchedulerAnswers) {
  driver_.Do(GroupEnded{GroupId(50)});
  const Call first = *driver_.Find<CloseGroupsCall>();
  EXPECT_THAT(std::get<CloseGroupsCall>(first.what).groups, ElementsAre(GroupId(50)));
  driver_.Do(GroupEnded{GroupId(51)});
  driver_.Answer(first, absl::UnavailableError("Connection refused"));
  const Call second = driver_.Await<CloseGroupsCall>(200 * kNsPerMs);
  EXPECT_THAT(std::get<CloseGroupsCall>(second.what).groups, ElementsAre(GroupId(50), GroupId(51)));
  driver_.Do(GroupEnded{GroupId(52)});
  driver_.Answer(second, CallDone{});
  const Call third = *driver_.Find<CloseGroupsCall>();
  EXPECT_THAT(std::get<CloseGroupsCall>(third.what).groups, ElementsAre(GroupId(52)));
  driver_.Answer(third, CallDone{});
  driver_.RenewUntil(driver_.now_ns() + 5 * kNsPerS);
  EXPECT_FALSE(driver_.Find<CloseGroupsCall>().has_value());
}

TEST_F(MembershipTest, AGroupThatNobodyWaitsForAnyMoreIsClosedByTheNumberOfItsRequest) {
  driver_.Do(Asks(7, driver_.now_ns() + kNsPerS));
  while (driver_.All<GroupJoinEnded>().empty()) {
    if (driver_.Find<JoinGroupCall>().has_value()) {
      driver_.Answer(*driver_.Find<JoinGroupCall>(), absl::UnavailableError("Connection refused"));
    }
    driver_.RenewUntil(driver_.now_ns() + 50 * kNsPerMs);
  }
  const Call call = driver_.Await<CloseGroupsCall>(kNsPerS);
  EXPECT_THAT(std::get<CloseGroupsCall>(call.what).groups, IsEmpty());
  EXPECT_THAT(std::get<CloseGroupsCall>(call.what).given_up_requests,
              ElementsAre(GivenUpRequest{1, std::string(driver_.Only<GroupJoinEnded>().group.status().message())}));
}

// Overloaded, or of another version: it is there, so it need not be found again, and more calls would not help.
TEST(ToldGroups, WhatTheSchedulerAnswersWithAnErrorIsRepeatedAtThePaceOfTheLease) {
  constexpr uint64_t kLongLeaseMs = 60'000;
  MembershipDriver driver;
  driver.Do(JoinCommand{driver.now_ns() + 30 * kNsPerS});
  JoinedJob joined = MembershipDriver::Joined();
  joined.lease_ttl_ms = kLongLeaseMs;
  driver.AnswerNext<JoinJobCall>(joined);
  driver.Do(GroupFailure{GroupId(50), "aborted"});
  for (uint32_t answers = 1; answers < 8; ++answers) {
    driver.AnswerNext<CloseGroupsCall>(absl::InternalError("no"));
    const uint64_t answered_ns = driver.now_ns();
    const uint64_t pause_ns = std::min<uint64_t>(5 * kNsPerS << (answers - 1), 30 * kNsPerS);
    const Call call = driver.Await<CloseGroupsCall>(pause_ns + kNsPerMs);
    EXPECT_GE(call.started_ns - answered_ns, pause_ns / 2) << answers;
    EXPECT_EQ(std::get<CloseGroupsCall>(call.what).failures.size(), 1u);
  }
}

TEST_F(MembershipTest, WhatIsToldTakesBoundedMemoryAndTheNewestIsKept) {
  constexpr uint64_t kEnded = 20'000;
  constexpr uint64_t kKept = 16'384;
  for (uint64_t id = 1; id <= kEnded; ++id) {
    driver_.Do(GroupFailure{GroupId(id), "aborted"});
    driver_.Do(GroupEnded{GroupId(id)});
  }
  // The call that is under way since the first of them told of that one alone.
  driver_.AnswerNext<CloseGroupsCall>(CallDone{});
  std::vector<GroupId> ended;
  std::vector<GroupId> failed;
  while (driver_.Find<CloseGroupsCall>().has_value()) {
    const Call call = *driver_.Find<CloseGroupsCall>();
    const auto& told = std::get<CloseGroupsCall>(call.what);
    ended.insert(ended.end(), told.groups.begin(), told.groups.end());
    for (const GroupFailure& failure : told.failures) failed.push_back(failure.group);
    driver_.Answer(call, CallDone{});
  }
  for (const std::vector<GroupId>& groups : {ended, failed}) {
    ASSERT_EQ(groups.size(), kKept);
    EXPECT_EQ(groups.front(), GroupId(kEnded - kKept + 1));
    EXPECT_EQ(groups.back(), GroupId(kEnded));
    EXPECT_TRUE(std::is_sorted(groups.begin(), groups.end()));
  }
}

// It would refuse all of it.
TEST_F(MembershipTest, AProcessThatLeavesSaysNoMoreThanTheSchedulerTakes) {
  constexpr uint64_t kFailed = 5000;
  for (uint64_t id = 1; id <= kFailed; ++id) driver_.Do(GroupFailure{GroupId(id), "aborted"});
  driver_.Do(LeaveCommand{.reason = "done"});
  const std::vector<GroupFailure> failures = LeaveCall().failures;
  ASSERT_EQ(failures.size(), 4096u);
  EXPECT_EQ(failures.back().group, GroupId(kFailed));
}

TEST_F(MembershipTest, OfAClosedGroupItIsToldWhetherAllHaveItsResults) {
  driver_.Do(GroupEnded{GroupId(50), /*all_committed=*/true});
  const Call first = *driver_.Find<CloseGroupsCall>();
  EXPECT_THAT(std::get<CloseGroupsCall>(first.what).committed_groups, ElementsAre(GroupId(50)));
  driver_.Do(GroupEnded{GroupId(51)});
  driver_.Do(GroupEnded{GroupId(52), /*all_committed=*/true});
  driver_.Answer(first, CallDone{});
  const Call second = *driver_.Find<CloseGroupsCall>();
  EXPECT_THAT(std::get<CloseGroupsCall>(second.what).groups, ElementsAre(GroupId(51), GroupId(52)));
  EXPECT_THAT(std::get<CloseGroupsCall>(second.what).committed_groups, ElementsAre(GroupId(52)));
  // Other ranks may wait for it, and nobody has answered that call.
  driver_.Do(LeaveCommand{.reason = "done"});
  EXPECT_THAT(LeaveCall().committed_groups, ElementsAre(GroupId(52)));
}

TEST_F(MembershipTest, AProcessThatLeavesHasNoMoreToSayOfItsGroups) {
  driver_.Do(GroupEnded{GroupId(50)});
  driver_.Do(LeaveCommand{.reason = "done"});
  EXPECT_FALSE(driver_.Find<CloseGroupsCall>().has_value());
  EXPECT_TRUE(driver_.Find<LeaveJobCall>().has_value());
}

}  // namespace
}  // namespace shoal
