// What every ControlHost must do (scheduler/rpc/control_host.h), seen from both of its sides.
//
// TEST_P over the ways to have one: over gRPC with real clients, and under virtual time.
#ifndef SHOAL_TESTS_CONFORMANCE_CONTROL_HOST_CONTROL_HOST_SUITE_H_
#define SHOAL_TESTS_CONFORMANCE_CONTROL_HOST_CONTROL_HOST_SUITE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/rpc/control_host.h"

namespace shoal::scheduler {

// A host, and clients of it. Clients make one kind of call: a rank's heartbeat, whose answer is the lease's length.
class HostUnderTest {
 public:
  using Answer = absl::StatusOr<uint64_t>;
  struct Seen {
    uint64_t newest_epoch = 0;
    std::vector<uint32_t> lost_ranks;  // in the order in which they arrived
  };

  virtual ~HostUnderTest() = default;

  virtual ControlHost* host() = 0;
  // Calls and streams that are open break.
  virtual void CloseHost() = 0;

  // Returns the call's number, for AnswerTo.
  virtual size_t StartHeartbeat(uint32_t rank, uint64_t timeout_ms) = 0;
  // nullopt: it has not ended.
  virtual std::optional<Answer> AnswerTo(size_t call) = 0;

  // Rank 2 of the job follows it. One stream at a time.
  virtual void OpenWatch(JobId job) = 0;
  static WatchOpened OpenedBy(JobId job) {
    return {.watcher = WatcherId(), .job = job, .rank = JobRank(2), .incarnation = Incarnation(22)};
  }
  virtual void CloseWatch() = 0;
  // What it told so far.
  virtual Seen SeenByWatch() = 0;

  // Lets time pass until the condition holds; false: it does not for ten seconds. Looks at it again when the host wakes
  // and when a client hears something, and at no other time.
  virtual bool Await(const std::function<bool()>& condition) = 0;
};

struct HostKind {
  std::string name;
  std::function<std::unique_ptr<HostUnderTest>()> make;
};

class ControlHostSuite : public ::testing::TestWithParam<HostKind> {
 protected:
  static constexpr uint64_t kTimeoutMs = 10'000;

  ControlHostSuite() : under_test_(GetParam().make()) {}

  ControlHost& host() { return *under_test_->host(); }

  template <typename Event>
  Event Next() {
    std::optional<SchedulerEvent> event;
    const bool came = under_test_->Await([&] {
      event = host().Poll();
      return event.has_value();
    });
    if (!came || !std::holds_alternative<Event>(*event)) {
      ADD_FAILURE() << (came ? "an event of another kind" : "no event came");
      return Event();
    }
    return std::get<Event>(*std::move(event));
  }
  HostUnderTest::Answer AwaitAnswer(size_t call) {
    EXPECT_TRUE(under_test_->Await([&] { return under_test_->AnswerTo(call).has_value(); }));
    return under_test_->AnswerTo(call).value_or(absl::UnknownError("no answer came"));
  }
  static uint32_t RankOf(const RequestArrived& arrived) {
    const auto* heartbeat = std::get_if<HeartbeatWorker>(&arrived.request);
    EXPECT_NE(heartbeat, nullptr);
    return heartbeat == nullptr ? 0 : heartbeat->rank.value();
  }
  static Reply Granting(RequestHandle handle, uint64_t lease_ttl_ms) {
    return Reply{handle, Response(WorkerRenewed{.lease_ttl_ms = lease_ttl_ms})};
  }
  static SendWatch Update(WatcherId watcher, uint64_t epoch, uint32_t lost_rank) {
    SendWatch update{.watcher = watcher};
    update.map = std::make_shared<const ShardMap>(*ShardMap::Make(Epoch(epoch), {}));
    update.lost_ranks = {{.job = JobId(5), .rank = JobRank(lost_rank), .node = "n", .reason = "r"}};
    return update;
  }

  const std::unique_ptr<HostUnderTest> under_test_;
};

TEST_P(ControlHostSuite, EachRequestArrivesOnceAndItsReplyGoesToItsCaller) {
  const size_t first = under_test_->StartHeartbeat(1, kTimeoutMs);
  const auto arrived_first = Next<RequestArrived>();
  const size_t second = under_test_->StartHeartbeat(2, kTimeoutMs);
  const auto arrived_second = Next<RequestArrived>();
  EXPECT_EQ(RankOf(arrived_first), 1u);
  EXPECT_EQ(RankOf(arrived_second), 2u);
  EXPECT_NE(arrived_first.handle, arrived_second.handle);
  EXPECT_FALSE(host().Poll().has_value());

  host().Execute(Granting(arrived_second.handle, 222));
  EXPECT_EQ(*AwaitAnswer(second), 222u);
  EXPECT_FALSE(under_test_->AnswerTo(first).has_value());
  host().Execute(Granting(arrived_first.handle, 111));
  EXPECT_EQ(*AwaitAnswer(first), 111u);
}

TEST_P(ControlHostSuite, ARefusalArrivesWithCodeAndText) {
  const size_t call = under_test_->StartHeartbeat(1, kTimeoutMs);
  host().Execute(Reply{Next<RequestArrived>().handle, absl::NotFoundError("no job has id 5 here; join the job first")});
  const HostUnderTest::Answer answer = AwaitAnswer(call);
  EXPECT_EQ(answer.status(), absl::NotFoundError("no job has id 5 here; join the job first"));
}

TEST_P(ControlHostSuite, RepliesToHandlesThatAreGoneAreIgnored) {
  host().Execute(Granting(RequestHandle(123456), 1));
  const size_t call = under_test_->StartHeartbeat(1, kTimeoutMs);
  const RequestHandle handle = Next<RequestArrived>().handle;
  host().Execute(Granting(handle, 111));
  EXPECT_EQ(*AwaitAnswer(call), 111u);
  host().Execute(Granting(handle, 222));
  const size_t next = under_test_->StartHeartbeat(2, kTimeoutMs);
  host().Execute(Granting(Next<RequestArrived>().handle, 333));
  EXPECT_EQ(*AwaitAnswer(next), 333u);
  EXPECT_EQ(**under_test_->AnswerTo(call), 111u);
}

TEST_P(ControlHostSuite, ACallerThatHangsUpIsCancelledAndNeedsNoReply) {
  const size_t call = under_test_->StartHeartbeat(1, /*timeout_ms=*/300);
  const RequestHandle handle = Next<RequestArrived>().handle;
  EXPECT_EQ(Next<RequestCancelled>().handle, handle);
  host().Execute(Granting(handle, 111));
  EXPECT_FALSE(AwaitAnswer(call).ok());
}

TEST_P(ControlHostSuite, AWatcherHearsAllLossesInOrderAndTheNewestMap) {
  constexpr uint32_t kUpdates = 50;
  under_test_->OpenWatch(JobId(5));
  const auto opened = Next<WatchOpened>();
  EXPECT_EQ(opened.job, JobId(5));
  EXPECT_EQ(opened.rank, JobRank(2));
  EXPECT_EQ(opened.incarnation, Incarnation(22));
  std::vector<uint32_t> expected;
  for (uint32_t i = 1; i <= kUpdates; ++i) {
    host().Execute(Update(opened.watcher, i, i));
    expected.push_back(i);
  }
  EXPECT_TRUE(under_test_->Await([&] { return under_test_->SeenByWatch().lost_ranks.size() >= kUpdates; }));
  EXPECT_EQ(under_test_->SeenByWatch().lost_ranks, expected);
  EXPECT_EQ(under_test_->SeenByWatch().newest_epoch, kUpdates);
}

TEST_P(ControlHostSuite, AWatcherThatIsGoneIsReportedAndHearsNoMore) {
  host().Execute(Update(WatcherId(123456), 1, 1));
  host().Execute(CloseStream{WatcherId(123456), absl::OkStatus()});
  under_test_->OpenWatch(JobId(5));
  const auto opened = Next<WatchOpened>();
  host().Execute(Update(opened.watcher, 1, 1));
  EXPECT_TRUE(under_test_->Await([&] { return under_test_->SeenByWatch().newest_epoch == 1; }));
  under_test_->CloseWatch();
  host().Execute(Update(opened.watcher, 2, 2));
  EXPECT_EQ(Next<StreamClosed>().watcher, opened.watcher);
  host().Execute(Update(opened.watcher, 3, 3));
  const size_t call = under_test_->StartHeartbeat(1, kTimeoutMs);
  host().Execute(Granting(Next<RequestArrived>().handle, 111));
  EXPECT_EQ(*AwaitAnswer(call), 111u) << "the host goes on";
}

TEST_P(ControlHostSuite, AHostThatClosesEndsOpenCallsAsUnavailable) {
  const size_t call = under_test_->StartHeartbeat(1, kTimeoutMs);
  Next<RequestArrived>();
  under_test_->CloseHost();
  EXPECT_TRUE(absl::IsUnavailable(AwaitAnswer(call).status()));
}

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_CONFORMANCE_CONTROL_HOST_CONTROL_HOST_SUITE_H_
