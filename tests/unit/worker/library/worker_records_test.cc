// What callers and the I/O thread share: records, completions and the submit queue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "process/clock.h"
#include "worker/library/caller_records.h"
#include "worker/library/submit_queue.h"

namespace shoal {
namespace {

std::shared_ptr<CallerGroup> MakeGroup() {
  auto info = std::make_shared<GroupInfo>();
  info->name = "g";
  return std::make_shared<CallerGroup>(GroupHandle(3), info);
}

std::shared_ptr<CallerOp> MakeOp(const std::shared_ptr<CallerGroup>& group, uint64_t ticket) {
  auto op = std::make_shared<CallerOp>(group, ticket, 4, DeadlineIn(60'000));
  EXPECT_FALSE(*op->Notify(ticket * 10));
  return op;
}

constexpr bool kLookedAfter = true;
constexpr bool kNotLookedAfter = false;

// Counts wake-ups; does nothing else.
class WakeCounter : public Transport {
 public:
  absl::StatusOr<PeerId> Connect(const std::string&) override { return absl::UnavailableError(""); }
  absl::Status SendNote(PeerId, std::span<const std::byte>) override { return absl::OkStatus(); }
  absl::Status Send(PeerId, std::span<const std::byte>, std::span<const std::byte>, uint64_t) override {
    return absl::OkStatus();
  }
  absl::Status Accept(OfferId, std::span<std::byte>, uint64_t) override { return absl::OkStatus(); }
  void Decline(OfferId) override {}
  void Close(PeerId) override {}
  std::span<const TransportEvent> Poll() override { return {}; }
  bool Arm() override { return true; }
  int wake_fd() const override { return -1; }
  void Wake() override { ++wakes; }
  std::string listen_address() const override { return ""; }
  TransportReport Report(std::span<const PeerId> peers) const override {
    return {.description = "wake counter", .peer_transports = std::vector<std::string>(peers.size(), "wake counter")};
  }

  int wakes = 0;
};

TEST(CallerOpTest, WaiterIsWokenByCompletion) {
  const auto op = MakeOp(MakeGroup(), 1);
  EXPECT_FALSE(op->WaitUntil(MonotonicNs()));
  std::thread completer([&] { EXPECT_TRUE(op->Complete(absl::AbortedError("rank 1 was lost"), 42)); });
  EXPECT_TRUE(op->WaitUntil(DeadlineIn(60'000)));
  completer.join();
  EXPECT_TRUE(absl::IsAborted(op->status()));
  EXPECT_EQ(op->duration_ns(), 42u);
}

TEST(CallerOpTest, ACompletionIsAskedForOnceBeforeOrAfterItCame) {
  const auto group = MakeGroup();
  const auto early = std::make_shared<CallerOp>(group, 1, 4, DeadlineIn(60'000));
  EXPECT_FALSE(*early->Notify(7)) << "its completion is still to come";
  EXPECT_TRUE(absl::IsFailedPrecondition(early->Notify(8).status()));
  EXPECT_TRUE(early->Complete(absl::OkStatus(), 1)) << "now it goes to the queue";
  EXPECT_EQ(early->user_data(), 7u);
  const auto late = std::make_shared<CallerOp>(group, 2, 4, DeadlineIn(60'000));
  EXPECT_FALSE(late->Complete(absl::OkStatus(), 1));
  EXPECT_TRUE(*late->Notify(9)) << "the caller gives it to the queue";
}

TEST(CallerGroupTest, AnOpThatWasTakenBackHasNoNumber) {
  const auto group = MakeGroup();
  EXPECT_EQ(group->BeginOp(), 1u);
  EXPECT_EQ(group->next_op_number(), 2u);
  EXPECT_EQ(group->BeginOp(), 2u);
  group->TakeOpBack();
  EXPECT_EQ(group->next_op_number(), 2u) << "or the numbers of this rank would not be those of the others";
}

TEST(CallerGroupTest, FirstFailureStays) {
  const auto group = MakeGroup();
  EXPECT_TRUE(group->failure().ok());
  group->SetFailure(absl::AbortedError("first"));
  group->SetFailure(absl::CancelledError("second"));
  EXPECT_EQ(group->failure(), absl::AbortedError("first"));
}

TEST(CompletionQueueTest, GivesInOrderThenEndsWhenClosed) {
  CompletionQueue queue;
  const auto group = MakeGroup();
  for (uint64_t ticket = 1; ticket <= 2; ++ticket) queue.Push(MakeOp(group, ticket));
  queue.Close();
  EXPECT_EQ((*queue.Pop(DeadlineIn(0)))->user_data(), 10u);
  EXPECT_EQ((*queue.Pop(DeadlineIn(0)))->user_data(), 20u);
  EXPECT_TRUE(absl::IsCancelled(queue.Pop(DeadlineIn(60'000)).status()));
}

TEST(CompletionQueueTest, SaysThatNoneCame) {
  CompletionQueue queue;
  EXPECT_TRUE(absl::IsDeadlineExceeded(queue.Pop(DeadlineIn(1)).status()));
}

TEST(SubmitQueueTest, WakesOnlyASleeper) {
  WakeCounter transport;
  SubmitQueue queue(&transport);
  const auto group = MakeGroup();
  ASSERT_TRUE(queue.Submit({.ticket = 1}, MakeOp(group, 1), kNotLookedAfter).ok());
  EXPECT_EQ(transport.wakes, 0);
  EXPECT_FALSE(queue.PrepareToSleep()) << "something waits";
  SubmittedBatch batch;
  queue.Take(&batch);
  ASSERT_EQ(batch.ops.size(), 1u);
  EXPECT_TRUE(queue.PrepareToSleep());
  ASSERT_TRUE(queue.Submit({.ticket = 2}, MakeOp(group, 2), kNotLookedAfter).ok());
  ASSERT_TRUE(queue.Submit({.ticket = 3}, MakeOp(group, 3), kNotLookedAfter).ok());
  EXPECT_EQ(transport.wakes, 1) << "the second submit found it awake";
}

TEST(SubmitQueueTest, CallsTheIoThreadBackUnlessTheCallerLooksAfterItsOp) {
  constexpr uint64_t kLongNs = 3600 * kNsPerS;  // waiting that out ends the test as too slow
  WakeCounter transport;
  SubmitQueue queue(&transport);
  const auto group = MakeGroup();
  queue.ComeBack();
  queue.StandBack(kLongNs);
  ASSERT_TRUE(queue.Submit({.ticket = 1}, MakeOp(group, 1), kLookedAfter).ok());
  const uint64_t start_ns = MonotonicNs();
  queue.StandBack(20 * kNsPerMs);
  EXPECT_GE(MonotonicNs() - start_ns, 20 * kNsPerMs);
  std::thread caller([&] { EXPECT_TRUE(queue.Submit({.ticket = 2}, MakeOp(group, 2), kNotLookedAfter).ok()); });
  queue.StandBack(kLongNs);
  caller.join();
  SubmittedBatch batch;
  queue.Take(&batch);
  EXPECT_EQ(batch.ops.size(), 2u);
  ASSERT_TRUE(queue.PrepareToSleep());
  ASSERT_TRUE(queue.Submit({.ticket = 3}, MakeOp(group, 3), kLookedAfter).ok());
  EXPECT_EQ(transport.wakes, 1) << "who sleeps must be woken before a caller may look after anything";
}

TEST(SubmitQueueTest, KeepsTheOrderOfCallsAndEndsWithTheShutdown) {
  WakeCounter transport;
  SubmitQueue queue(&transport);
  const auto group = MakeGroup();
  ASSERT_TRUE(queue.OpenGroup({.group = group->handle()}, group).ok());
  ASSERT_TRUE(queue.Submit({.ticket = 7}, MakeOp(group, 7), kNotLookedAfter).ok());
  ASSERT_TRUE(queue.Post(CloseGroupCommand{.group = group->handle()}).ok());
  queue.Close({.deadline_ns = 5});
  EXPECT_TRUE(absl::IsCancelled(queue.Submit({.ticket = 8}, MakeOp(group, 8), kNotLookedAfter)));
  EXPECT_TRUE(absl::IsCancelled(queue.Post(CloseGroupCommand{})));
  EXPECT_TRUE(absl::IsCancelled(queue.Ask(std::make_shared<CountersRequest>())));
  SubmittedBatch batch;
  queue.Take(&batch);
  ASSERT_EQ(batch.commands.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<OpenGroupCommand>(batch.commands[0]));
  EXPECT_TRUE(std::holds_alternative<SubmitCommand>(batch.commands[1]));
  EXPECT_TRUE(std::holds_alternative<CloseGroupCommand>(batch.commands[2]));
  EXPECT_TRUE(std::holds_alternative<ShutdownCommand>(batch.commands[3]));
}

TEST(SubmitQueueTest, ARoundTakesWhatCameSinceTheLastWhoeverWasWoken) {
  WakeCounter transport;
  SubmitQueue queue(&transport);
  SubmittedBatch batch;
  queue.Take(&batch);
  EXPECT_TRUE(batch.commands.empty());
  ASSERT_TRUE(queue.Submit({.ticket = 1}, MakeOp(MakeGroup(), 1), kLookedAfter).ok());
  queue.Take(&batch);
  EXPECT_EQ(batch.ops.size(), 1u) << "its caller looks after it, and wakes nobody";
  ASSERT_TRUE(queue.Ask(std::make_shared<CountersRequest>()).ok());
  queue.Take(&batch);
  EXPECT_TRUE(batch.ops.empty());
  EXPECT_EQ(batch.counters_requests.size(), 1u);
  queue.Take(&batch);
  EXPECT_TRUE(batch.counters_requests.empty());
}

TEST(SubmitQueueTest, ARoundThatFindsNothingEndsTheSleep) {
  WakeCounter transport;
  SubmitQueue queue(&transport);
  ASSERT_TRUE(queue.PrepareToSleep());
  SubmittedBatch batch;
  queue.Take(&batch);  // it was woken by a peer
  ASSERT_TRUE(queue.Submit({.ticket = 1}, MakeOp(MakeGroup(), 1), kNotLookedAfter).ok());
  EXPECT_EQ(transport.wakes, 0) << "it is awake";
}

TEST(CallerOpTest, NobodyReturnsWhileItsTensorIsStillCounted) {
  const auto op = MakeOp(MakeGroup(), 1);
  op->SetCountedTensor({.element_count = 7});
  std::atomic<bool> counting = false;
  std::atomic<bool> counted = false;
  std::thread first([&] {
    op->CountTensorOnce([&](const HostTensor& tensor) {
      EXPECT_EQ(tensor.element_count, 7u);
      counting = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a large tensor takes that long
      counted = true;
    });
  });
  while (!counting) std::this_thread::yield();
  op->CountTensorOnce([](const HostTensor&) { FAIL() << "a second time"; });
  EXPECT_TRUE(counted);
  first.join();
}

}  // namespace
}  // namespace shoal
