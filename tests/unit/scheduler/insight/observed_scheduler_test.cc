// Whoever looks on changes nothing of what the membership decides.
#include "scheduler/insight/observed_scheduler.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

constexpr ServerId kServer(1);
constexpr JobId kJob(1);
constexpr GroupId kGroup(1);

// Saves end at once.
template <typename Machine>
class Driven {
 public:
  Driven() : machine_(*Machine::Make({.lease_ttl_ms = kTtlMs, .store = "test"}, NewState(), /*is_new=*/true, now_)) {}

  template <typename Event>
  void Step(const Event& event) {
    SchedulerActions actions;
    machine_->OnEvent(event, now_, &actions);
    Take(std::move(actions));
  }
  void Send(Request request) { Step(RequestArrived{RequestHandle(++requests_), std::move(request)}); }
  void Advance(uint64_t ms) {
    now_.monotonic_ns += ms * kMs;
    now_.unix_ms += ms;
    SchedulerActions actions;
    machine_->Tick(now_, &actions);
    Take(std::move(actions));
  }

  std::vector<PersistedState> saved;
  std::map<RequestHandle, absl::Status> answers;
  std::vector<JobRank> lost;
  std::vector<std::string> events;

 private:
  void Take(SchedulerActions actions) {
    for (SchedulerAction& action : actions) {
      if (auto* save = std::get_if<Persist>(&action)) {
        saved.push_back(std::move(save->state));
        Step(Persisted{save->number, absl::OkStatus()});
      } else if (const auto* reply = std::get_if<Reply>(&action)) {
        answers[reply->handle] = reply->response.status();
      } else if (const auto* watch = std::get_if<SendWatch>(&action)) {
        for (const RankLost& each : watch->lost_ranks) lost.push_back(each.rank);
      } else if (const auto* recorded = std::get_if<EventRecorded>(&action)) {
        events.emplace_back(EventKey(recorded->event.kind));
      }
    }
  }

  Now now_{.monotonic_ns = 1000 * kNsPerS, .unix_ms = 1'700'000'000'000};
  std::unique_ptr<Machine> machine_;
  uint64_t requests_ = 0;
};

// Rank 2 is late all the time, and is lost in the end.
template <typename Machine>
Driven<Machine> Drive() {
  Driven<Machine> scheduler;
  scheduler.Advance(0);
  scheduler.Send(Server("a", 11, 1));
  for (uint32_t rank = 0; rank < 3; ++rank) scheduler.Send(Join("gpt", 3, rank, 100 + rank));
  scheduler.Step(WatchOpened{.watcher = WatcherId(1), .job = kJob, .rank = {}, .incarnation = {}});
  for (uint32_t rank = 0; rank < 3; ++rank) scheduler.Send(Group(kJob, rank, 100 + rank, {0, 1, 2}));
  for (uint64_t window = 1; window <= 10; ++window) {
    scheduler.Advance(kTtlMs / 3);
    const LateRankReport late = {.job = kJob,
                                 .group = kGroup,
                                 .epoch = scheduler.saved.back().jobs[0].groups.at(0).epoch,
                                 .rank = Rank(2),
                                 .window = window,
                                 .window_ns = kNsPerS,
                                 .ops = 20,
                                 .late_ops = 20,
                                 .waited_ns = kNsPerS / 2,
                                 .began_late_ns = kNsPerS / 2};
    scheduler.Send(HeartbeatServer{
        .server = kServer, .incarnation = Incarnation(11), .load = {}, .absent_ranks = {}, .late_ranks = {late}});
    for (uint32_t rank = 0; rank < (window < 5 ? 3 : 2); ++rank) scheduler.Send(Beat(kJob, rank, 100 + rank));
    scheduler.Send(TraceJob{.name = "gpt", .duration_ms = 1000});
    scheduler.Send(ListJobs());
  }
  return scheduler;
}

TEST(ObservedSchedulerTest, TheMembershipDecidesTheSameWhetherSomebodyLooksOnOrNot) {
  const auto alone = Drive<SchedulerMachine>();
  const auto observed = Drive<ObservedScheduler>();
  EXPECT_EQ(std::ranges::count(observed.events, "rank-slow"), 1) << "there was something to see";
  EXPECT_EQ(std::ranges::count(observed.events, "job-traced"), 1);
  EXPECT_EQ(alone.lost, std::vector<JobRank>{JobRank(2)});
  EXPECT_EQ(observed.lost, alone.lost);
  EXPECT_EQ(observed.saved, alone.saved);
  for (const auto& [request, status] : alone.answers) EXPECT_EQ(observed.answers.at(request), status);
  std::vector<std::string> of_membership = observed.events;
  std::erase_if(of_membership, [](const std::string& kind) {
    return kind == "rank-slow" || kind == "rank-slow-no-more" || kind == "job-traced" || kind == "call";
  });
  EXPECT_EQ(of_membership, alone.events);
}

}  // namespace
}  // namespace shoal::scheduler
