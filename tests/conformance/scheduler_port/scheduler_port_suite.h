// The conformance suite of worker/membership/scheduler_port.h. A test program includes this and instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Name, SchedulerPortSuite, testing::Values(SchedulerPortKind{...}), SchedulerPortKindName);
#ifndef SHOAL_TESTS_CONFORMANCE_SCHEDULER_PORT_SCHEDULER_PORT_SUITE_H_
#define SHOAL_TESTS_CONFORMANCE_SCHEDULER_PORT_SCHEDULER_PORT_SUITE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/now.h"
#include "worker/membership/scheduler_port.h"

namespace shoal {

// A port, and the scheduler that it reaches.
class SchedulerPortHarness {
 public:
  virtual ~SchedulerPortHarness() = default;
  virtual SchedulerPort& port() = 0;
  virtual void DestroyPort() = 0;
  // The clock of the port's owner.
  virtual uint64_t now_ns() = 0;
  // Lets a little time pass.
  virtual void Idle() = 0;
  // It is up at first. A scheduler that was started again has another state.
  virtual void StopScheduler() = 0;
  virtual void StartScheduler() = 0;
  // A server registers, at whichever scheduler answers.
  virtual void AddServer() = 0;
  // From now on nothing comes back over the connections that there are, and they stay; over new ones a scheduler
  // answers.
  virtual void SilenceConnections() = 0;
};

struct SchedulerPortKind {
  std::string name;
  std::function<std::unique_ptr<SchedulerPortHarness>()> make;
};

inline std::string SchedulerPortKindName(const testing::TestParamInfo<SchedulerPortKind>& info) {
  return info.param.name;
}

class SchedulerPortSuite : public testing::TestWithParam<SchedulerPortKind> {
 protected:
  using Answer = absl::StatusOr<SchedulerAnswer>;
  static constexpr uint64_t kPatienceNs = 20 * kNsPerS;

  SchedulerPortSuite() : harness_(GetParam().make()) {}

  static JobMember Rank(uint32_t rank) {
    return {.job_name = "job",
            .rank = JobRank(rank),
            .world_size = 3,
            .incarnation = Incarnation(100 + rank),
            .node = "node"};
  }
  MemberId Id(uint32_t rank) const { return {job_, JobRank(rank), Incarnation(100 + rank)}; }
  JoinGroupCall GroupOfTwo(uint64_t wait_ms) const {
    return {.member = Id(0), .group = {.name = "g", .ranks = {0, 1}}, .request_number = 1, .wait_ms = wait_ms};
  }

  CallId Start(const SchedulerCall& what, uint64_t timeout_ns = kPatienceNs) {
    const CallId call(++last_call_);
    harness_->port().StartCall(call, what, harness_->now_ns() + timeout_ns);
    return call;
  }
  WatchId Watch() {
    const WatchId watch(++last_watch_);
    harness_->port().OpenWatch(watch, Id(0));
    return watch;
  }

  void Poll() {
    for (const SchedulerPortEvent& event : harness_->port().Poll()) {
      if (const auto* ended = std::get_if<CallEnded>(&event)) {
        EXPECT_TRUE(answers_.emplace(ended->call, ended->answer).second) << "a call ended twice";
      } else if (const auto* news = std::get_if<WatchNewsCame>(&event)) {
        EXPECT_FALSE(ended_watches_.contains(news->watch)) << "news after the end";
        news_[news->watch].push_back(news->news);
      } else if (const auto* end = std::get_if<WatchEnded>(&event)) {
        EXPECT_EQ(++ended_watches_[end->watch], 1) << "a stream ended twice";
      }
    }
  }
  // False, and the test fails: it did not come to that.
  bool Until(const std::function<bool()>& reached, const std::string& what) {
    const uint64_t until_ns = harness_->now_ns() + kPatienceNs;
    while (true) {
      Poll();
      if (reached()) return true;
      if (harness_->now_ns() > until_ns) break;
      harness_->Idle();
    }
    ADD_FAILURE() << "it did not come to that: " << what;
    return false;
  }
  void Pass(uint64_t ns) {
    const uint64_t until_ns = harness_->now_ns() + ns;
    while (harness_->now_ns() < until_ns) {
      harness_->Idle();
      Poll();
    }
  }
  bool HasEnded(CallId call) const { return answers_.contains(call); }
  Answer End(CallId call) {
    if (!Until([&] { return HasEnded(call); }, "a call ends")) return absl::UnknownError("no end");
    return answers_.at(call);
  }
  Answer Ask(const SchedulerCall& what, uint64_t timeout_ns = kPatienceNs) { return End(Start(what, timeout_ns)); }

  void Join(uint32_t rank) {
    const Answer answer = Ask(JoinJobCall{Rank(rank)});
    ASSERT_TRUE(answer.ok()) << answer.status();
    const auto* const joined = std::get_if<JoinedJob>(&*answer);
    ASSERT_NE(joined, nullptr);
    EXPECT_GT(joined->lease_ttl_ms, 0u);
    job_ = joined->id;
  }
  std::vector<uint32_t> LostRanks(WatchId watch) const {
    std::vector<uint32_t> ranks;
    const auto found = news_.find(watch);
    if (found == news_.end()) return ranks;
    for (const WatchNews& news : found->second) {
      for (const RankLostCommand& lost : news.lost_ranks) ranks.push_back(lost.job_rank.value());
    }
    return ranks;
  }
  bool HasNews(WatchId watch) const { return news_.contains(watch); }

  const std::unique_ptr<SchedulerPortHarness> harness_;
  JobId job_;
  uint64_t last_call_ = 0;
  uint64_t last_watch_ = 0;
  std::map<CallId, Answer> answers_;
  std::map<WatchId, std::vector<WatchNews>> news_;
  std::map<WatchId, int> ended_watches_;
};

TEST_P(SchedulerPortSuite, EachKindOfCallIsAnswered) {
  Join(0);
  const Answer renewed = Ask(HeartbeatCall{.member = Id(0)});
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  ASSERT_TRUE(std::holds_alternative<HeartbeatAnswer>(*renewed));
  EXPECT_GT(std::get<HeartbeatAnswer>(*renewed).lease_ttl_ms, 0u);
  const Answer left = Ask(LeaveJobCall{.member = Id(0), .reason = "done"});
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_TRUE(std::holds_alternative<CallDone>(*left));
}

TEST_P(SchedulerPortSuite, RefusalsPassThroughWithTheirWords) {
  Join(0);
  JobMember other = Rank(1);
  other.world_size = 7;
  const Answer refused = Ask(JoinJobCall{other});
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_THAT(refused.status().message(), testing::HasSubstr("world size"));
  MemberId stranger = Id(0);
  stranger.incarnation = Incarnation(5);
  EXPECT_TRUE(absl::IsNotFound(Ask(HeartbeatCall{.member = stranger}).status()));
  EXPECT_TRUE(absl::IsNotFound(Ask(ReportServerCall{.member = stranger}).status()));
}

TEST_P(SchedulerPortSuite, AWaitThatIsOverNamesWhomItWasForAndIsNotTakenForSilence) {
  Join(0);
  const Answer answer = Ask(GroupOfTwo(/*wait_ms=*/300), 5 * kNsPerS);
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
  EXPECT_THAT(answer.status().message(), testing::HasSubstr("rank 1"));
}

TEST_P(SchedulerPortSuite, RanksOfOneNodeAreToldWhereToMeetAndRanksThatDifferAreNamed) {
  Join(0);
  Join(1);
  const auto group_as = [&](uint32_t rank, uint64_t number, NodeReduceChoice choice) {
    JoinGroupCall call = GroupOfTwo(/*wait_ms=*/15'000);
    call.member = Id(rank);
    call.request_number = number;
    call.group.node_reduce = {.choice = choice, .possible = true, .node_identity = "boot 1"};
    return call;
  };
  const CallId first = Start(group_as(0, 1, NodeReduceChoice::kHost));
  const Answer differs = Ask(group_as(1, 1, NodeReduceChoice::kOff));
  EXPECT_TRUE(absl::IsInvalidArgument(differs.status())) << differs.status();
  // Either may have come first.
  for (const char* text : {"node_reduce is ", "host on rank 0", "off on rank 1"}) {
    EXPECT_THAT(std::string(differs.status().message()), testing::HasSubstr(text));
  }
  EXPECT_EQ(End(first).status(), differs.status());
  const CallId second = Start(group_as(0, 2, NodeReduceChoice::kAuto));
  const Answer of_one = Ask(group_as(1, 2, NodeReduceChoice::kAuto));
  const Answer of_zero = End(second);
  ASSERT_TRUE(of_one.ok() && of_zero.ok()) << of_one.status() << of_zero.status();
  const auto& joined = std::get<JoinedGroup>(*of_one);
  EXPECT_EQ(joined.node_reduce, NodeReduceMode::kNodeAlone);
  EXPECT_FALSE(joined.meeting_name.empty());
  EXPECT_EQ(joined.meeting_name, std::get<JoinedGroup>(*of_zero).meeting_name);
  EXPECT_TRUE(joined.map->empty()) << "there are no servers, and none are needed";
}

TEST_P(SchedulerPortSuite, AnOpenJobGivesEachProcessARankOfItsOwn) {
  for (const uint32_t process : {0u, 1u, 1u, 2u}) {
    const JobMember member = {.job_name = "open",
                              .open = OpenJob{.min_ranks = 2, .identity = "who"},
                              .incarnation = Incarnation(200 + process),
                              .node = "node"};
    const Answer answer = Ask(JoinJobCall{member});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(std::get<JoinedJob>(*answer).rank, JobRank(process));
  }
  JobMember other = Rank(0);
  other.job_name = "open";
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(JoinJobCall{other}).status()));
}

TEST_P(SchedulerPortSuite, AJobOfOneNodeIsToldThatItNeedsNoServers) {
  for (uint32_t rank = 0; rank < 3; ++rank) {
    JobMember member = Rank(rank);
    member.node_reduce = {.possible = true, .node_identity = "boot 1"};
    const Answer answer = Ask(JoinJobCall{member});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(std::get<JoinedJob>(*answer).needs_no_servers, rank == 2) << "all ranks have to be there";
  }
}

TEST_P(SchedulerPortSuite, OneRankOfEachNodeRunsAServerWhateverTheNodesAreNamed) {
  std::vector<bool> asked;
  for (const uint32_t rank : {0u, 1u, 2u}) {
    JobMember member = Rank(rank);
    member.boot_id = rank < 2 ? "boot 1" : "boot 2";
    member.colocation = Colocation::kOn;
    const Answer answer = Ask(JoinJobCall{member});
    ASSERT_TRUE(answer.ok()) << answer.status();
    asked.push_back(std::get<JoinedJob>(*answer).colocate_server);
  }
  EXPECT_EQ(asked, (std::vector<bool>{true, false, true}));
}

TEST_P(SchedulerPortSuite, ASchedulerThatIsNotThereIsUnavailable) {
  harness_->StopScheduler();
  harness_->port().UseNewConnections();
  const Answer answer = Ask(JoinJobCall{Rank(0)});
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_NE(answer.status().message(), kNoAnswer);
  harness_->StartScheduler();
  harness_->port().UseNewConnections();
  Join(0);
}

TEST_P(SchedulerPortSuite, CallsThatWaitEndWhenTheSchedulerGoes) {
  Join(0);
  const CallId waiting = Start(GroupOfTwo(/*wait_ms=*/15'000));
  Pass(100 * kNsPerMs);
  EXPECT_FALSE(HasEnded(waiting));
  harness_->StopScheduler();
  EXPECT_TRUE(absl::IsUnavailable(End(waiting).status()));
}

TEST_P(SchedulerPortSuite, SilenceEndsAtTheDeadlineAndNotBefore) {
  Join(0);
  harness_->SilenceConnections();
  const uint64_t before_ns = harness_->now_ns();
  constexpr uint64_t kTimeoutNs = 300 * kNsPerMs;
  // Several, since an implementation may have more than one connection.
  std::vector<CallId> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(Start(HeartbeatCall{.member = Id(0)}, kTimeoutNs));
  bool silent = false;
  for (const CallId call : calls) {
    const Answer answer = End(call);
    if (answer.ok() || absl::IsNotFound(answer.status())) continue;
    silent = true;
    EXPECT_EQ(answer.status(), absl::UnavailableError(kNoAnswer));
    EXPECT_GE(harness_->now_ns() - before_ns, kTimeoutNs);
  }
  EXPECT_TRUE(silent);
}

TEST_P(SchedulerPortSuite, NewConnectionsLeadAwayFromSilenceAndLeaveOldCallsWhereTheyAre) {
  Join(0);
  harness_->SilenceConnections();
  std::vector<CallId> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(Start(HeartbeatCall{.member = Id(0)}, 3 * kNsPerS));
  Pass(500 * kNsPerMs);
  std::erase_if(calls, [this](CallId call) { return HasEnded(call); });
  ASSERT_FALSE(calls.empty());
  harness_->port().UseNewConnections();
  for (int i = 0; i < 20; ++i) {
    const Answer answer = Ask(JoinJobCall{Rank(1)}, 2 * kNsPerS);
    EXPECT_TRUE(answer.ok()) << answer.status();
  }
  for (const CallId call : calls) EXPECT_EQ(End(call).status(), absl::UnavailableError(kNoAnswer));
}

TEST_P(SchedulerPortSuite, CancelEndsACallOnce) {
  Join(0);
  const CallId call = Start(GroupOfTwo(/*wait_ms=*/15'000));
  Pass(50 * kNsPerMs);
  harness_->port().CancelCall(call);
  harness_->port().CancelCall(call);
  EXPECT_TRUE(absl::IsCancelled(End(call).status()));
  Pass(200 * kNsPerMs);  // Poll fails the test if it ended twice
}

TEST_P(SchedulerPortSuite, CancelOfACallThatHasEndedChangesNothing) {
  const CallId call = Start(JoinJobCall{Rank(0)});
  EXPECT_TRUE(End(call).ok());
  harness_->port().CancelCall(call);
  Pass(200 * kNsPerMs);
}

TEST_P(SchedulerPortSuite, ManyCallsAtOnceEndOnceEach) {
  Join(0);
  std::vector<CallId> calls;
  for (int i = 0; i < 60; ++i) calls.push_back(Start(HeartbeatCall{.member = Id(0)}));
  for (size_t i = 0; i < calls.size(); i += 3) harness_->port().CancelCall(calls[i]);
  for (size_t i = 0; i < calls.size(); ++i) {
    const Answer answer = End(calls[i]);
    const bool may_be_cancelled = i % 3 == 0 && absl::IsCancelled(answer.status());
    EXPECT_TRUE(answer.ok() || may_be_cancelled) << answer.status();
  }
  Pass(200 * kNsPerMs);
  EXPECT_EQ(answers_.size(), 61u);
}

TEST_P(SchedulerPortSuite, AWatchBeginsWithThePresentState) {
  Join(0);
  const WatchId watch = Watch();
  Until([&] { return HasNews(watch); }, "the first news come");
  EXPECT_NE(news_.at(watch).front().map, nullptr);
}

TEST_P(SchedulerPortSuite, AWatchTellsOfLossesInTheirOrder) {
  for (uint32_t rank = 0; rank < 3; ++rank) Join(rank);
  const WatchId watch = Watch();
  Until([&] { return HasNews(watch); }, "the first news come");
  EXPECT_TRUE(Ask(LeaveJobCall{.member = Id(2), .reason = "it broke", .failed = true}).ok());
  Until([&] { return LostRanks(watch).size() == 1; }, "the loss is told");
  EXPECT_TRUE(Ask(LeaveJobCall{.member = Id(1), .reason = "it broke too", .failed = true}).ok());
  Until([&] { return LostRanks(watch).size() == 2; }, "the other loss is told");
  EXPECT_EQ(LostRanks(watch), (std::vector<uint32_t>{2, 1}));
  // One that is opened later begins with both.
  const WatchId later = Watch();
  Until([&] { return LostRanks(later).size() == 2; }, "a later stream tells of both");
}

TEST_P(SchedulerPortSuite, AGroupThatARankGivesUpIsToldWithItsReasonAndCode) {
  Join(0);
  Join(1);
  const auto open = [&](const std::string& name, uint64_t number) {
    JoinGroupCall call = GroupOfTwo(/*wait_ms=*/15'000);
    call.request_number = number;
    call.group.name = name;
    call.group.node_reduce = {.possible = true, .node_identity = "boot 1"};
    const CallId first = Start(call);
    call.member = Id(1);
    const Answer second = Ask(call);
    EXPECT_TRUE(End(first).ok() && second.ok()) << second.status();
    return second.ok() ? std::get<JoinedGroup>(*second).id : GroupId();
  };
  const GroupId refused = open("refused", 1);
  const GroupId aborted = open("aborted", 2);
  const GroupId too_late = open("too-late", 3);
  const GroupId closed_meanwhile = open("closed-meanwhile", 4);
  const WatchId watch = Watch();
  Until([&] { return HasNews(watch); }, "the first news come");
  const auto given_up = [&] {
    std::map<GroupId, absl::Status> reasons;
    for (const WatchNews& news : news_.at(watch)) {
      for (const GiveGroupUpCommand& group : news.given_up_groups) reasons[group.group] = group.reason;
    }
    return reasons;
  };
  EXPECT_TRUE(
      Ask(CloseGroupsCall{.member = Id(1),
                          .groups = {},
                          .given_up_requests = {{3, "too late"}},
                          .failures = {{.group = refused, .reason = "server b has no memory", .lacks_memory = true}}})
          .ok());
  EXPECT_TRUE(Ask(LeaveJobCall{.member = Id(1),
                               .reason = "done",
                               .failures = {{.group = aborted, .reason = "enough"}},
                               .given_up_requests = {{4, "closed"}}})
                  .ok());
  Until([&] { return given_up().size() == 4; }, "all are told");
  EXPECT_EQ(given_up().at(refused), absl::ResourceExhaustedError("rank 1 on node: server b has no memory"));
  EXPECT_EQ(given_up().at(aborted), absl::AbortedError("rank 1 on node: enough"));
  EXPECT_EQ(given_up().at(too_late),
            absl::AbortedError("rank 1 on node: it gave its request for the group up: too late"));
  EXPECT_EQ(given_up().at(closed_meanwhile),
            absl::AbortedError("rank 1 on node: it gave its request for the group up: closed"));
}

TEST_P(SchedulerPortSuite, ThatAllRanksHaveAllResultsOfAClosedGroupIsTold) {
  Join(0);
  Join(1);
  harness_->AddServer();
  std::vector<GroupId> groups;
  for (const std::string name : {"closed", "left"}) {
    JoinGroupCall call = GroupOfTwo(/*wait_ms=*/15'000);
    call.request_number = 1 + groups.size();
    call.group.name = name;
    const CallId first = Start(call);
    call.member = Id(1);
    const Answer second = Ask(call);
    ASSERT_TRUE(End(first).ok() && second.ok()) << second.status();
    groups.push_back(std::get<JoinedGroup>(*second).id);
  }
  EXPECT_TRUE(Ask(CloseGroupsCall{
                      .member = Id(1), .groups = {groups[0]}, .given_up_requests = {}, .committed_groups = {groups[0]}})
                  .ok());
  EXPECT_TRUE(Ask(LeaveJobCall{.member = Id(1), .reason = "done", .committed_groups = {groups[1]}}).ok());
  const WatchId watch = Watch();
  std::map<GroupId, bool> committed;
  Until(
      [&] {
        for (const WatchNews& news : news_[watch]) {
          for (const MoveGroupCommand& group : news.moved_groups) committed[group.group] = group.all_committed;
        }
        return committed.size() == 2;
      },
      "both groups are told");
  for (const GroupId group : groups) EXPECT_TRUE(committed[group]) << group.value();
}

TEST_P(SchedulerPortSuite, AWatchEndsOnceWhenTheSchedulerGoes) {
  Join(0);
  const WatchId watch = Watch();
  Until([&] { return HasNews(watch); }, "the first news come");
  harness_->StopScheduler();
  Until([&] { return ended_watches_.contains(watch); }, "the stream ends");
  Pass(200 * kNsPerMs);
}

TEST_P(SchedulerPortSuite, AWatchWithoutASchedulerEnds) {
  Join(0);
  harness_->StopScheduler();
  harness_->port().UseNewConnections();
  const WatchId watch = Watch();
  Until([&] { return ended_watches_.contains(watch); }, "the stream ends");
  EXPECT_FALSE(HasNews(watch));
}

TEST_P(SchedulerPortSuite, NothingComesOfAWatchThatWasClosed) {
  for (uint32_t rank = 0; rank < 2; ++rank) Join(rank);
  const WatchId watch = Watch();
  Until([&] { return HasNews(watch); }, "the first news come");
  const size_t before = news_.at(watch).size();
  // What has arrived and was not asked for is gone as well.
  const CallId leave = Start(LeaveJobCall{.member = Id(1), .reason = "it broke", .failed = true});
  harness_->Idle();
  harness_->port().CloseWatch(watch);
  harness_->port().CloseWatch(watch);
  EXPECT_TRUE(End(leave).ok());
  Pass(200 * kNsPerMs);
  harness_->StopScheduler();
  Pass(200 * kNsPerMs);
  EXPECT_EQ(news_.at(watch).size(), before);
  EXPECT_FALSE(ended_watches_.contains(watch));
}

TEST_P(SchedulerPortSuite, APortMayGoWithCallsAndStreamsOpen) {
  Join(0);
  Start(GroupOfTwo(/*wait_ms=*/15'000));
  Start(HeartbeatCall{.member = Id(0)});
  Watch();
  harness_->Idle();
  harness_->DestroyPort();
  harness_->Idle();
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_SCHEDULER_PORT_SCHEDULER_PORT_SUITE_H_
