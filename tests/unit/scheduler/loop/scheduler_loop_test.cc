// What the loop adds to the machine: its order within a round, how much it takes in, and the way to the store.
#include "scheduler/loop/scheduler_loop.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

// Events come from the test; replies are kept.
class ScriptedHost : public ControlHost {
 public:
  std::optional<SchedulerEvent> Poll() override {
    if (events.empty()) return std::nullopt;
    SchedulerEvent event = std::move(events.front());
    events.pop_front();
    return event;
  }
  void Execute(const Reply& reply) override { EXPECT_TRUE(replies.emplace(reply.handle, reply.response).second); }
  void Execute(const SendWatch& /*update*/) override {}
  void Execute(const SendEvent& /*event*/) override {}
  void Execute(const CloseStream& /*close*/) override {}
  void SetWake(std::function<void()> /*wake*/) override {}

  RequestHandle Send(Request request) {
    const RequestHandle handle(++sent_);
    events.push_back(RequestArrived{handle, std::move(request)});
    return handle;
  }

  std::deque<SchedulerEvent> events;
  std::map<RequestHandle, absl::StatusOr<Response>> replies;

 private:
  uint64_t sent_ = 0;
};

// A save ends when the test says so.
class ScriptedStore : public Store {
 public:
  absl::StatusOr<std::optional<std::string>> Load() override { return std::nullopt; }
  void StartSave(uint64_t number, std::string state) override {
    EXPECT_FALSE(under_way.has_value()) << "two saves at once";
    under_way = number;
    states.push_back(std::move(state));
  }
  std::optional<Saved> PollSaved() override { return std::exchange(saved_, std::nullopt); }
  void SetWake(std::function<void()> /*wake*/) override {}
  std::string Describe() const override { return "a test's store"; }

  void FinishSave() { saved_ = Saved{*std::exchange(under_way, std::nullopt), absl::OkStatus()}; }

  std::optional<uint64_t> under_way;
  std::vector<std::string> states;

 private:
  std::optional<Saved> saved_;
};

class SchedulerLoopTest : public ::testing::Test {
 protected:
  SchedulerLoopTest()
      : loop_(
            *ObservedScheduler::Make({.lease_ttl_ms = kTtlMs, .store = "test"}, NewState(), true, now_), &host_,
            &store_, [](const PersistedState& state) { return absl::StrCat(state.servers.size(), " servers"); },
            [this](const EventRecord& event) { logged_.emplace_back(EventKey(event.kind)); }) {
    Run();
    FinishSave();
  }

  uint64_t Run() { return loop_.RunOnce(now_); }
  void FinishSave() {
    store_.FinishSave();
    Run();
  }

  Now now_{.monotonic_ns = kNsPerS, .unix_ms = 1'700'000'000'000};
  ScriptedHost host_;
  ScriptedStore store_;
  std::vector<std::string> logged_;
  SchedulerLoop loop_;
};

TEST_F(SchedulerLoopTest, ARoundTakesABoundedNumberOfEventsAndSaysThatMoreIsWaiting) {
  for (int request = 0; request < kMaxEventsPerRound + 10; ++request) host_.Send(GetCluster{});
  EXPECT_EQ(Run(), now_.monotonic_ns);
  EXPECT_EQ(host_.replies.size(), static_cast<size_t>(kMaxEventsPerRound));
  EXPECT_GT(Run(), now_.monotonic_ns);
  EXPECT_EQ(host_.replies.size(), static_cast<size_t>(kMaxEventsPerRound) + 10);
}

TEST_F(SchedulerLoopTest, AChangeIsEncodedAndSavedBeforeItIsAnsweredAndLogged) {
  const RequestHandle asked = host_.Send(Server("a", 1, 7000));
  logged_.clear();
  Run();
  ASSERT_TRUE(store_.under_way.has_value());
  EXPECT_EQ(store_.states.back(), "1 servers");
  EXPECT_FALSE(host_.replies.contains(asked));
  EXPECT_TRUE(logged_.empty());
  FinishSave();
  ASSERT_TRUE(host_.replies.contains(asked));
  EXPECT_TRUE(host_.replies.at(asked).ok());
  EXPECT_THAT(logged_, ::testing::Contains("server-registered"));
}

TEST_F(SchedulerLoopTest, AHeartbeatThatArrivedInTimeCountsThoughTheRoundComesLate) {
  const RequestHandle asked = host_.Send(Server("a", 1, 7000));
  Run();
  FinishSave();
  const auto& registered = std::get<ServerRegistered>(*host_.replies.at(asked));
  const RequestHandle renewed = host_.Send(HeartbeatServer{.server = registered.server, .incarnation = Incarnation(1)});
  now_.monotonic_ns += kTtlMs * kNsPerMs;
  Run();
  ASSERT_TRUE(host_.replies.contains(renewed));
  EXPECT_TRUE(host_.replies.at(renewed).ok()) << host_.replies.at(renewed).status();
}

TEST_F(SchedulerLoopTest, NumbersArePublishedOnceASecondAlsoWhileNothingHappens) {
  std::vector<std::shared_ptr<const SchedulerNumbers>> published;
  loop_.PublishNumbersTo(
      [&](std::shared_ptr<const SchedulerNumbers> numbers) { published.push_back(std::move(numbers)); });
  EXPECT_LE(Run(), now_.monotonic_ns + kNsPerS);
  EXPECT_EQ(published.size(), 1u);
  host_.Send(Server("a", 1, 7000));
  Run();
  now_.monotonic_ns += 25 * kNsPerMs;  // as long as the save takes
  now_.unix_ms += 25;
  const uint64_t saved_unix_ms = now_.unix_ms;
  FinishSave();
  EXPECT_EQ(published.size(), 1u) << "not more often";
  now_.monotonic_ns += kNsPerS;
  Run();
  ASSERT_EQ(published.size(), 2u);
  EXPECT_EQ(published[1]->servers_live, 1u);
  EXPECT_EQ(published[1]->events[static_cast<size_t>(EventKind::kServerRegistered)], 1u);
  EXPECT_EQ(published[1]->saves.succeeded, 2u);
  EXPECT_EQ(published[1]->saves.total_ns, 25 * kNsPerMs);
  EXPECT_EQ(published[1]->saves.newest_ns, 25 * kNsPerMs);
  EXPECT_EQ(published[1]->saves.newest_unix_ms, saved_unix_ms);
  EXPECT_EQ(published[1]->saves.counts[3], 1u) << "from 10 to 30 ms";
}

}  // namespace
}  // namespace shoal::scheduler
