// Drives a MembershipMachine under virtual time, in place of its loop and port: a call that no test answers gets no
// answer.
#ifndef SHOAL_TESTS_UNIT_WORKER_MEMBERSHIP_MEMBERSHIP_DRIVER_H_
#define SHOAL_TESTS_UNIT_WORKER_MEMBERSHIP_MEMBERSHIP_DRIVER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "worker/membership/membership_machine.h"

namespace shoal {

inline constexpr uint64_t kStartNs = 1000 * kNsPerS;
inline constexpr uint64_t kLeaseMs = 3000;
inline constexpr uint64_t kLeaseNs = kLeaseMs * kNsPerMs;

inline MembershipOptions TestOptions() {
  return {.scheduler = "sched:7070",
          .member = {.job_name = "gpt",
                     .rank = JobRank(2),
                     .world_size = 4,
                     .incarnation = Incarnation(77),
                     .node = "node-b",
                     .colocation = Colocation::kAuto,
                     .colocates_without_servers = true},
          .min_servers = 1,
          .jitter_seed = 5};
}

class MembershipDriver {
 public:
  struct Call {
    CallId id;
    SchedulerCall what;
    uint64_t started_ns = 0;
    uint64_t deadline_ns = 0;
  };

  explicit MembershipDriver(MembershipOptions options = TestOptions()) : machine_(std::move(options)) {}

  uint64_t now_ns() const { return now_ns_; }
  // Since the start.
  double seconds() const { return static_cast<double>(now_ns_ - kStartNs) / 1e9; }

  template <typename Event>
  void Do(const Event& event) {
    machine_.OnEvent(event, NowIs(), &actions_);
    Tick();
  }

  // Lets time pass; calls end unanswered at their deadlines, and heartbeats get their statistics at once.
  void AdvanceTo(uint64_t ns) {
    while (true) {
      uint64_t next_ns = machine_.NextDeadlineNs();
      for (const auto& [id, call] : calls_) next_ns = std::min(next_ns, call.deadline_ns);
      if (next_ns > ns) break;
      now_ns_ = std::max(now_ns_, next_ns);
      for (const auto& [id, call] : calls_) {
        if (call.deadline_ns > now_ns_) continue;
        Answer(Call(call), absl::UnavailableError(kNoAnswer));
        break;
      }
      Tick();
      ASSERT_LT(++rounds_, 100'000) << "the machine is busy for ever";
    }
    now_ns_ = std::max(now_ns_, ns);
    Tick();
  }
  void Advance(uint64_t ns) { AdvanceTo(now_ns_ + ns); }
  // Until a call of a kind is made; fails the test if none is within the time.
  template <typename What>
  Call Await(uint64_t within_ns) {
    const uint64_t until_ns = now_ns_ + within_ns;
    while (!Find<What>().has_value()) {
      uint64_t next_ns = machine_.NextDeadlineNs();
      for (const auto& [id, call] : calls_) next_ns = std::min(next_ns, call.deadline_ns);
      if (next_ns > until_ns) {
        ADD_FAILURE() << "no such call within the time";
        return {};
      }
      AdvanceTo(next_ns);
    }
    return *Find<What>();
  }

  // All that the machine has done since Forget.
  const MembershipActions& seen() const { return seen_; }

  // The oldest open call of a kind.
  template <typename What>
  std::optional<Call> Find() const {
    for (const auto& [id, call] : calls_) {
      if (std::holds_alternative<What>(call.what)) return call;
    }
    return std::nullopt;
  }
  void Answer(const Call& call, absl::StatusOr<SchedulerAnswer> answer) {
    ASSERT_EQ(calls_.erase(call.id), 1u) << "no such call is open";
    Do(CallEnded{call.id, std::move(answer)});
  }
  template <typename What>
  void AnswerNext(absl::StatusOr<SchedulerAnswer> answer, uint64_t within_ns = 10 * kNsPerS) {
    const Call call = Await<What>(within_ns);
    if (call.id != CallId()) Answer(call, std::move(answer));
  }

  void JoinJob() {
    Do(JoinCommand{now_ns_ + 30 * kNsPerS});
    AnswerNext<JoinJobCall>(Joined());
    ASSERT_TRUE(Only<JoinEnded>().joined.ok());
    Forget();
  }
  static JoinedJob Joined(uint32_t servers = 1) {
    return {.id = JobId(9), .lease_ttl_ms = kLeaseMs, .server_count = servers};
  }
  static SchedulerAnswer Renewed(std::vector<std::string> waits = {}) { return HeartbeatAnswer{kLeaseMs, waits}; }
  // Answers every heartbeat that comes until then.
  void RenewUntil(uint64_t ns) {
    while (true) {
      const std::optional<Call> call = Find<HeartbeatCall>();
      if (call.has_value()) Answer(*call, Renewed());
      const uint64_t next_ns = std::max(machine_.NextDeadlineNs(), now_ns_);
      if (next_ns > ns) break;
      AdvanceTo(next_ns);
    }
    AdvanceTo(ns);
  }

  // ---- what came out ----

  template <typename Outcome>
  std::vector<Outcome> All() const {
    std::vector<Outcome> found;
    for (const MembershipAction& action : seen_) {
      if (const auto* outcome = std::get_if<Outcome>(&action)) found.push_back(*outcome);
    }
    return found;
  }
  // Fails the test unless there is exactly one.
  template <typename Outcome>
  Outcome Only() const {
    const std::vector<Outcome> found = All<Outcome>();
    EXPECT_EQ(found.size(), 1u);
    return found.at(0);
  }
  std::vector<std::string> Notices() const {
    std::vector<std::string> lines;
    for (const MembershipNotice& notice : All<MembershipNotice>()) lines.push_back(notice.line);
    return lines;
  }
  void Forget() { seen_.clear(); }
  // The stream that is open; 0: none.
  WatchId watch() const { return watch_; }
  size_t open_calls() const { return calls_.size(); }
  bool reads_statistics = true;

 private:
  Now NowIs() const { return {.monotonic_ns = now_ns_}; }

  void Tick() {
    machine_.Tick(NowIs(), &actions_);
    const MembershipActions actions = std::exchange(actions_, {});
    seen_.insert(seen_.end(), actions.begin(), actions.end());
    for (const MembershipAction& action : actions) {
      if (const auto* start = std::get_if<StartCallAction>(&action)) {
        calls_[start->call] = {start->call, start->what, now_ns_, start->deadline_ns};
      } else if (const auto* cancel = std::get_if<CancelCallAction>(&action)) {
        EXPECT_EQ(calls_.erase(cancel->call), 1u);
        // As a port does; it concerns nobody any more.
        Do(CallEnded{cancel->call, absl::CancelledError("the call was cancelled")});
      } else if (const auto* open = std::get_if<OpenWatchAction>(&action)) {
        EXPECT_EQ(watch_, WatchId()) << "one stream at a time";
        watch_ = open->watch;
      } else if (const auto* close = std::get_if<CloseWatchAction>(&action)) {
        EXPECT_EQ(watch_, close->watch);
        watch_ = WatchId();
      } else if (std::holds_alternative<ReadStatistics>(action) && reads_statistics) {
        Do(StatisticsRead{WorkerCounters{.ops_completed = 11}});
      }
    }
  }

 public:
  void EndWatch() { Do(WatchEnded{std::exchange(watch_, WatchId())}); }

 private:
  MembershipMachine machine_;
  uint64_t now_ns_ = kStartNs;
  int rounds_ = 0;
  MembershipActions actions_;
  std::vector<MembershipAction> seen_;
  std::map<CallId, Call> calls_;
  WatchId watch_;
};

inline std::shared_ptr<const ShardMap> Map(uint64_t epoch) {
  return std::make_shared<const ShardMap>(*ShardMap::Make(
      Epoch(epoch), {{.server = ServerId(1), .incarnation = Incarnation(1), .server_name = "a", .address = "h:1"}}));
}

inline JoinGroupCommand Asks(uint64_t ticket, uint64_t deadline_ns) {
  return {.ticket = ticket, .request = {.name = "even", .ranks = {0, 2}}, .deadline_ns = deadline_ns};
}

class JoinedMembershipDriver : public MembershipDriver {
 public:
  JoinedMembershipDriver() { JoinJob(); }
};

// A member whose group requests end at deadline_ns_.
class MembershipTest : public testing::Test {
 protected:
  MembershipTest() {
    driver_.JoinJob();
    deadline_ns_ = driver_.now_ns() + 20 * kNsPerS;
  }
  void News(WatchNews news) { driver_.Do(WatchNewsCame{driver_.watch(), std::move(news)}); }
  // The one that is under way.
  LeaveJobCall LeaveCall() {
    const std::optional<MembershipDriver::Call> call = driver_.Find<LeaveJobCall>();
    EXPECT_TRUE(call.has_value());
    return call.has_value() ? std::get<LeaveJobCall>(call->what) : LeaveJobCall();
  }

  MembershipDriver driver_;
  uint64_t deadline_ns_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_WORKER_MEMBERSHIP_MEMBERSHIP_DRIVER_H_
