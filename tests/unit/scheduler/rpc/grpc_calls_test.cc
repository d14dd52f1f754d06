// The table of open calls: its bounds, and that each call is finished once.
#include "scheduler/rpc/grpc_calls.h"

#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

class CountingCall : public PendingCall {
 public:
  void Complete(const absl::StatusOr<Response>& response) override {
    ++completed;
    status = response.status();
  }

  int completed = 0;
  absl::Status status;
};

TEST(GrpcCallsTest, AFullQueueRefusesUntilItIsRead) {
  GrpcCalls calls;
  int wakes = 0;
  calls.SetWake([&] { ++wakes; });
  RequestHandle handle;
  for (size_t i = 0; i < kMaxQueuedEvents; ++i) {
    ASSERT_TRUE(calls.AddCall(std::make_shared<CountingCall>(), GetCluster(), &handle).ok());
  }
  EXPECT_EQ(static_cast<size_t>(wakes), kMaxQueuedEvents);
  RequestHandle refused;
  const absl::Status status = calls.AddCall(std::make_shared<CountingCall>(), GetCluster(), &refused);
  EXPECT_EQ(status, absl::ResourceExhaustedError("the scheduler is overloaded; try again in a second"));
  WatcherId watcher;
  EXPECT_EQ(calls.AddStream(std::make_shared<WatchStream>(&calls), WatchOpened(), &watcher).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_NE(calls.CancelCall(handle), nullptr) << "a cancellation is never lost";
  ASSERT_TRUE(calls.Poll().has_value());
  ASSERT_TRUE(calls.Poll().has_value());
  EXPECT_TRUE(calls.AddCall(std::make_shared<CountingCall>(), GetCluster(), &refused).ok());
}

TEST(GrpcCallsTest, ACallBelongsToWhoTakesItFirst) {
  GrpcCalls calls;
  RequestHandle handle;
  ASSERT_TRUE(calls.AddCall(std::make_shared<CountingCall>(), GetCluster(), &handle).ok());
  EXPECT_NE(calls.TakeCall(handle), nullptr);
  EXPECT_EQ(calls.CancelCall(handle), nullptr);
  EXPECT_EQ(calls.TakeCall(handle), nullptr);
  EXPECT_TRUE(std::holds_alternative<RequestArrived>(*calls.Poll()));
  EXPECT_FALSE(calls.Poll().has_value()) << "a cancellation that came too late says nothing";
}

TEST(GrpcCallsTest, ACancelledCallIsToldToTheLoop) {
  GrpcCalls calls;
  RequestHandle handle;
  ASSERT_TRUE(calls.AddCall(std::make_shared<CountingCall>(), GetCluster(), &handle).ok());
  EXPECT_NE(calls.CancelCall(handle), nullptr);
  calls.Poll();
  const std::optional<SchedulerEvent> event = calls.Poll();
  ASSERT_TRUE(event.has_value() && std::holds_alternative<RequestCancelled>(*event));
  EXPECT_EQ(std::get<RequestCancelled>(*event).handle, handle);
}

TEST(GrpcCallsTest, ClosingEndsEverythingOnceAndRefusesTheRest) {
  GrpcCalls calls;
  const auto call = std::make_shared<CountingCall>();
  RequestHandle handle;
  ASSERT_TRUE(calls.AddCall(call, GetCluster(), &handle).ok());
  calls.CloseAll(absl::UnavailableError("stopping"));
  calls.CloseAll(absl::UnavailableError("stopping"));
  EXPECT_EQ(call->completed, 1);
  EXPECT_EQ(call->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(calls.AddCall(call, GetCluster(), &handle).code(), absl::StatusCode::kUnavailable);
}

// The streams below belong to no call, so their first write stays under way for ever: a reader as slow as can be.
template <typename Stream>
class StuckStream : public Stream {
 public:
  using Stream::Stream;
  using Stream::TakeNext;

  void Close(const absl::Status& status) override {
    closed_with.push_back(status);
    Stream::Close(status);
  }

  std::vector<absl::Status> closed_with;
};

SendEvent NumberedEvent(uint64_t sequence) {
  SendEvent event;
  event.event.sequence = sequence;
  return event;
}

TEST(GrpcCallsTest, ASlowWatcherGetsTheNewestMapAndEveryLoss) {
  GrpcCalls calls;
  StuckStream<WatchStream> stream(&calls);
  for (uint64_t epoch = 1; epoch <= 50; ++epoch) {
    SendWatch update;
    update.map = std::make_shared<const ShardMap>(*ShardMap::Make(Epoch(epoch), {}));
    stream.Send(update);
    SendWatch loss;
    loss.lost_ranks.resize(1);
    loss.lost_ranks[0].rank = JobRank(static_cast<uint32_t>(epoch));
    stream.Send(loss);
  }
  v1::WatchResponse next;
  ASSERT_TRUE(stream.TakeNext(&next));
  EXPECT_EQ(next.map().epoch(), 50u);
  ASSERT_EQ(next.lost_ranks_size(), 50) << "the first map alone went out";
  EXPECT_EQ(next.lost_ranks(49).rank(), 50u);
  EXPECT_FALSE(stream.TakeNext(&next));
}

TEST(GrpcCallsTest, AReaderWhoCanNotKeepUpLosesItsPlaceNotOurMemory) {
  GrpcCalls calls;
  StuckStream<EventStream> stream(&calls);
  uint64_t sequence = 0;
  // The first is being written, the others wait.
  while (sequence < kMaxQueuedStreamEvents + 1) stream.Send(NumberedEvent(++sequence));
  EXPECT_TRUE(stream.closed_with.empty());
  v1::Event next;
  ASSERT_TRUE(stream.TakeNext(&next)) << "what may wait is kept";
  EXPECT_EQ(next.sequence(), 2u);
  stream.Send(NumberedEvent(++sequence));
  EXPECT_TRUE(stream.closed_with.empty()) << "one was read, so that one more may wait";

  stream.Send(NumberedEvent(++sequence));  // one too many
  const std::vector<absl::Status> once = {
      absl::ResourceExhaustedError("this reader is too slow for the events; ask again from the last one that it got")};
  EXPECT_EQ(stream.closed_with, once);
  stream.Send(NumberedEvent(++sequence));  // and nothing may follow the gap
  EXPECT_EQ(stream.closed_with, once);
  EXPECT_FALSE(stream.TakeNext(&next)) << "what waited is given up: its memory is ours again";
}

}  // namespace
}  // namespace shoal::scheduler
