// What every ControlHost must do (scheduler/rpc/control_host.h), seen from both of its sides.
//
// TEST_P over the ways to have one: over gRPC with real clients, and under virtual time.
#ifndef SHOAL_TESTS_CONFORMANCE_CONTROL_HOST_CONTROL_HOST_SUITE_H_
#define SHOAL_TESTS_CONFORMANCE_CONTROL_HOST_CONTROL_HOST_SUITE_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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
    std::optional<absl::Status> end;   // nullopt: the stream is open
  };
  struct SeenEvents {
    std::vector<uint64_t> sequences;  // in the order in which they arrived
    std::string reasons;              // of all of them, one after the other
    std::optional<absl::Status> end;
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

  // Any number of readers of events. Returns the reader's number. One that does not read takes nothing of what comes
  // until it is told to read, and some time later none the less.
  virtual size_t OpenEvents(bool follow, uint64_t after_sequence, bool reads = true) = 0;
  virtual void Read(size_t reader) = 0;
  virtual void CloseEvents(size_t reader) = 0;
  virtual SeenEvents SeenBy(size_t reader) = 0;

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

  static SendEvent EventFor(WatcherId reader, uint64_t sequence, const std::string& reason = "") {
    return {.watcher = reader, .event = {.sequence = sequence, .subject = "server alpha", .reason = reason}};
  }
  HostUnderTest::SeenEvents AwaitEnd(size_t reader) {
    EXPECT_TRUE(under_test_->Await([&] { return under_test_->SeenBy(reader).end.has_value(); })) << "no end came";
    return under_test_->SeenBy(reader);
  }
  static std::vector<uint64_t> UpTo(uint64_t last) {
    std::vector<uint64_t> sequences(last);
    std::iota(sequences.begin(), sequences.end(), 1);
    return sequences;
  }
  void ExpectThatTheHostGoesOn() {
    const size_t call = under_test_->StartHeartbeat(1, kTimeoutMs);
    host().Execute(Granting(Next<RequestArrived>().handle, 111));
    EXPECT_EQ(*AwaitAnswer(call), 111u) << "the host goes on";
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
  ExpectThatTheHostGoesOn();
}

TEST_P(ControlHostSuite, AWatchThatIsRefusedEndsWithCodeAndText) {
  under_test_->OpenWatch(JobId(5));
  const auto opened = Next<WatchOpened>();
  host().Execute(Update(opened.watcher, 1, 1));
  const absl::Status refusal = absl::NotFoundError("no job has id 5 here; join the job first");
  host().Execute(CloseStream{opened.watcher, refusal});
  EXPECT_EQ(Next<StreamClosed>().watcher, opened.watcher);
  EXPECT_TRUE(under_test_->Await([&] { return under_test_->SeenByWatch().end.has_value(); }));
  EXPECT_EQ(under_test_->SeenByWatch().end, refusal);
  EXPECT_EQ(under_test_->SeenByWatch().newest_epoch, 1u) << "what was sent before comes first";
}

TEST_P(ControlHostSuite, AReaderGetsTheEventsThatAreSentToItInOrderAndThenItsEnd) {
  constexpr uint64_t kEvents = 500;
  const size_t last_ones = under_test_->OpenEvents(/*follow=*/false, /*after_sequence=*/17);
  const auto opened = Next<EventsOpened>();
  EXPECT_FALSE(opened.follow);
  EXPECT_EQ(opened.after_sequence, 17u);
  const size_t follower = under_test_->OpenEvents(/*follow=*/true, /*after_sequence=*/0);
  const auto opened_second = Next<EventsOpened>();
  EXPECT_TRUE(opened_second.follow);
  EXPECT_EQ(opened_second.after_sequence, 0u);
  EXPECT_NE(opened.watcher, opened_second.watcher);

  for (uint64_t sequence = 1; sequence <= kEvents; ++sequence) {
    host().Execute(EventFor(opened.watcher, sequence, sequence <= 2 ? absl::StrCat("reason ", sequence, ". ") : ""));
  }
  host().Execute(EventFor(opened_second.watcher, 7, "lease"));
  host().Execute(CloseStream{opened.watcher, absl::OkStatus()});

  const HostUnderTest::SeenEvents seen = AwaitEnd(last_ones);
  EXPECT_EQ(seen.end, absl::OkStatus());
  EXPECT_EQ(seen.sequences, UpTo(kEvents));
  EXPECT_EQ(seen.reasons, "reason 1. reason 2. ");
  EXPECT_EQ(Next<StreamClosed>().watcher, opened.watcher);
  EXPECT_TRUE(under_test_->Await([&] { return !under_test_->SeenBy(follower).sequences.empty(); }));
  EXPECT_EQ(under_test_->SeenBy(follower).sequences, std::vector<uint64_t>{7});
  EXPECT_EQ(under_test_->SeenBy(follower).reasons, "lease");
  EXPECT_FALSE(under_test_->SeenBy(follower).end.has_value()) << "another reader's end is not its own";
}

TEST_P(ControlHostSuite, AReaderOfEventsThatIsGoneIsReportedAndHearsNoMore) {
  host().Execute(EventFor(WatcherId(123456), 1));
  const size_t reader = under_test_->OpenEvents(/*follow=*/true, /*after_sequence=*/0);
  const auto opened = Next<EventsOpened>();
  host().Execute(EventFor(opened.watcher, 1));
  EXPECT_TRUE(under_test_->Await([&] { return !under_test_->SeenBy(reader).sequences.empty(); }));
  under_test_->CloseEvents(reader);
  EXPECT_EQ(Next<StreamClosed>().watcher, opened.watcher);
  host().Execute(EventFor(opened.watcher, 2));
  ExpectThatTheHostGoesOn();
  EXPECT_EQ(under_test_->SeenBy(reader).sequences, UpTo(1));
}

TEST_P(ControlHostSuite, AReaderThatIsTooSlowIsEndedWithResourceExhaustedAndSeesNoGap) {
  const size_t slow = under_test_->OpenEvents(/*follow=*/true, /*after_sequence=*/0, /*reads=*/false);
  const WatcherId slow_id = Next<EventsOpened>().watcher;
  const size_t other = under_test_->OpenEvents(/*follow=*/true, /*after_sequence=*/0);
  const WatcherId other_id = Next<EventsOpened>().watcher;
  // More than may wait and what lies in the network's buffers.
  constexpr uint64_t kSent = 3 * kMaxQueuedStreamEvents;
  for (uint64_t sequence = 1; sequence <= kSent; ++sequence) {
    host().Execute(EventFor(slow_id, sequence, std::string(1024, 'x')));
  }
  host().Execute(EventFor(other_id, 1));
  EXPECT_TRUE(under_test_->Await([&] { return !under_test_->SeenBy(other).sequences.empty(); }));
  EXPECT_TRUE(under_test_->SeenBy(slow).sequences.empty()) << "it reads already, so this test shows nothing";

  under_test_->Read(slow);
  const HostUnderTest::SeenEvents seen = AwaitEnd(slow);
  EXPECT_EQ(seen.end, ReaderTooSlowError());
  EXPECT_EQ(seen.sequences, UpTo(seen.sequences.size())) << "there is a gap";
  EXPECT_LT(seen.sequences.size(), kSent);
  EXPECT_EQ(Next<StreamClosed>().watcher, slow_id);
  EXPECT_FALSE(under_test_->SeenBy(other).end.has_value());
  ExpectThatTheHostGoesOn();
}

TEST_P(ControlHostSuite, AReaderThatPausesGetsAllThatMayWait) {
  const size_t reader = under_test_->OpenEvents(/*follow=*/true, /*after_sequence=*/0, /*reads=*/false);
  const WatcherId id = Next<EventsOpened>().watcher;
  for (uint64_t sequence = 1; sequence <= kMaxQueuedStreamEvents; ++sequence) {
    host().Execute(EventFor(id, sequence, std::string(1024, 'x')));
  }
  host().Execute(CloseStream{id, absl::OkStatus()});
  under_test_->Read(reader);
  const HostUnderTest::SeenEvents seen = AwaitEnd(reader);
  EXPECT_EQ(seen.end, absl::OkStatus());
  EXPECT_EQ(seen.sequences, UpTo(kMaxQueuedStreamEvents));
}

TEST_P(ControlHostSuite, WhatComesWhileTooMuchWaitsForPollIsRefusedWithResourceExhausted) {
  std::vector<size_t> calls;
  const auto call = [&] { calls.push_back(under_test_->StartHeartbeat(1, 6 * kTimeoutMs)); };
  for (size_t i = 0; i < kMaxQueuedEvents; ++i) call();
  // Nobody polls. The calls that are too many are answered, and no other.
  const absl::Status overloaded = OverloadedError();
  const auto refused = [&] {
    return std::count_if(calls.begin(), calls.end(), [&](size_t each) {
      const std::optional<HostUnderTest::Answer> answer = under_test_->AnswerTo(each);
      return answer.has_value() && answer->status() == overloaded;
    });
  };
  call();
  EXPECT_TRUE(under_test_->Await([&] { return refused() == 1; }));
  const size_t reader = under_test_->OpenEvents(/*follow=*/true, /*after_sequence=*/0);
  EXPECT_EQ(AwaitEnd(reader).end, overloaded);

  std::vector<RequestHandle> handles;
  while (std::optional<SchedulerEvent> event = host().Poll()) {
    ASSERT_TRUE(std::holds_alternative<RequestArrived>(*event)) << "of what was refused nothing is told";
    handles.push_back(std::get<RequestArrived>(*event).handle);
  }
  EXPECT_EQ(handles.size(), kMaxQueuedEvents);
  EXPECT_EQ(refused(), 1);
  ExpectThatTheHostGoesOn();
}

TEST_P(ControlHostSuite, AHostThatClosesEndsOpenCallsAndStreamsAsUnavailable) {
  const size_t call = under_test_->StartHeartbeat(1, kTimeoutMs);
  Next<RequestArrived>();
  under_test_->OpenWatch(JobId(5));
  Next<WatchOpened>();
  const size_t reader = under_test_->OpenEvents(/*follow=*/true, /*after_sequence=*/0);
  Next<EventsOpened>();
  under_test_->CloseHost();
  EXPECT_TRUE(absl::IsUnavailable(AwaitAnswer(call).status()));
  EXPECT_TRUE(under_test_->Await([&] { return under_test_->SeenByWatch().end.has_value(); }));
  EXPECT_TRUE(absl::IsUnavailable(under_test_->SeenByWatch().end.value_or(absl::OkStatus())));
  EXPECT_TRUE(absl::IsUnavailable(AwaitEnd(reader).end.value_or(absl::OkStatus())));
}

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_CONFORMANCE_CONTROL_HOST_CONTROL_HOST_SUITE_H_
