// Drives a SchedulerMachine under virtual time and keeps what it does.
#ifndef SHOAL_TESTS_UNIT_SCHEDULER_MACHINE_MACHINE_HARNESS_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_MACHINE_MACHINE_HARNESS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

inline constexpr uint64_t kMs = 1'000'000;
inline constexpr uint64_t kTtlMs = 5000;

inline PersistedState NewState() {
  PersistedState state;
  state.cluster_id = "test";
  state.token_key.fill(std::byte{7});
  return state;
}

class MachineHarness {
 public:
  explicit MachineHarness(const std::optional<PersistedState>& saved = std::nullopt) {
    now_.monotonic_ns = 1'000'000 * kMs;
    now_.unix_ms = 1'700'000'000'000;
    auto machine = SchedulerMachine::Make({.lease_ttl_ms = kTtlMs, .store = "test"}, saved.value_or(NewState()),
                                          !saved.has_value(), now_);
    EXPECT_TRUE(machine.ok()) << machine.status();
    machine_ = *std::move(machine);
    Tick();
  }

  // With false, saves wait for FinishSave.
  void set_save_at_once(bool at_once) { save_at_once_ = at_once; }
  bool save_under_way() const { return save_.has_value(); }
  size_t saves() const { return saves_; }  // that were begun
  const std::optional<PersistedState>& last_saved() const { return last_saved_; }

  void FinishSave(const absl::Status& status = absl::OkStatus()) {
    ASSERT_TRUE(save_.has_value());
    const Persist save = *std::exchange(save_, std::nullopt);
    if (status.ok()) last_saved_ = save.state;
    StepEvent(Persisted{save.number, status});
  }

  void StepEvent(const SchedulerEvent& event) {
    SchedulerActions actions;
    std::visit([&](const auto& each) { machine_->OnEvent(each, now_, &actions); }, event);
    Take(actions);
  }

  RequestHandle Send(Request request) {
    const RequestHandle handle(next_number_++);
    StepEvent(RequestArrived{handle, std::move(request)});
    return handle;
  }

  bool HasReply(RequestHandle handle) const { return replies_.contains(handle); }

  absl::Status StatusOf(RequestHandle handle) const {
    const auto found = replies_.find(handle);
    return found == replies_.end() ? absl::UnknownError("no reply yet") : found->second.status();
  }

  template <typename Value>
  Value Get(RequestHandle handle) const {
    const auto found = replies_.find(handle);
    if (found == replies_.end() || !found->second.ok()) {
      ADD_FAILURE() << "no good reply: " << StatusOf(handle);
      return Value();
    }
    return std::get<Value>(*found->second);
  }

  template <typename Value>
  Value Ask(Request request) {
    return Get<Value>(Send(std::move(request)));
  }
  // Those of the first page, which has all of a small cluster.
  std::vector<ServerView> Servers() { return Ask<ServersPage>(ListServers()).servers; }
  std::vector<JobView> Jobs() { return Ask<JobsPage>(ListJobs()).jobs; }
  absl::Status Try(Request request) { return StatusOf(Send(std::move(request))); }

  // A rank gives up the oldest group of the first job.
  void GiveOldestGroupUp(JobId job, JobRank rank, Incarnation incarnation) {
    const GroupId group = Jobs().at(0).groups.at(0).state.id;
    Ask<Done>(CloseGroups{.job = job,
                          .rank = rank,
                          .incarnation = incarnation,
                          .groups = {},
                          .given_up_requests = {},
                          .failures = {{.group = group, .reason = "no"}}});
  }

  WatcherId Watch(JobId job = JobId()) {
    const WatcherId watcher(next_number_++);
    StepEvent(WatchOpened{.watcher = watcher, .job = job, .rank = {}, .incarnation = {}});
    return watcher;
  }
  // As a rank does.
  WatcherId WatchAs(JobId job, uint32_t rank, uint64_t incarnation) {
    const WatcherId watcher(next_number_++);
    StepEvent(
        WatchOpened{.watcher = watcher, .job = job, .rank = JobRank(rank), .incarnation = Incarnation(incarnation)});
    return watcher;
  }

  // Runs the machine at each of its deadlines on the way.
  void Advance(uint64_t ms) {
    const uint64_t end_ns = now_.monotonic_ns + ms * kMs;
    while (machine_->NextDeadlineNs() <= end_ns) {
      MoveTo(std::max(machine_->NextDeadlineNs(), now_.monotonic_ns));
      Tick();
    }
    MoveTo(end_ns);
  }

  // As if the process had been stopped for that long.
  void Stall(uint64_t ms) {
    MoveTo(now_.monotonic_ns + ms * kMs);
    Tick();
  }

  const Now& now() const { return now_; }
  const SchedulerMachine& machine() const { return *machine_; }
  std::vector<SendWatch>& watched(WatcherId watcher) { return watched_[watcher]; }
  const std::map<WatcherId, absl::Status>& closed() const { return closed_; }
  const std::map<WatcherId, std::vector<EventRecord>>& followed() const { return followed_; }
  const std::vector<EventRecord>& events() const { return events_; }

  std::vector<std::string> EventKinds() const {
    std::vector<std::string> kinds;
    for (const EventRecord& event : events_) kinds.emplace_back(EventKey(event.kind));
    return kinds;
  }

 private:
  void MoveTo(uint64_t monotonic_ns) {
    now_.unix_ms += (monotonic_ns - now_.monotonic_ns) / kMs;
    now_.monotonic_ns = monotonic_ns;
  }

  void Tick() {
    SchedulerActions actions;
    machine_->Tick(now_, &actions);
    Take(actions);
  }

  void Take(const SchedulerActions& actions) {
    for (const SchedulerAction& action : actions) {
      if (const auto* save = std::get_if<Persist>(&action)) {
        ASSERT_FALSE(save_.has_value()) << "two saves at once";
        ++saves_;
        save_ = *save;
      } else if (const auto* reply = std::get_if<Reply>(&action)) {
        EXPECT_TRUE(replies_.emplace(reply->handle, reply->response).second) << "two replies to one request";
      } else if (const auto* watch = std::get_if<SendWatch>(&action)) {
        watched_[watch->watcher].push_back(*watch);
      } else if (const auto* event = std::get_if<SendEvent>(&action)) {
        followed_[event->watcher].push_back(event->event);
      } else if (const auto* close = std::get_if<CloseStream>(&action)) {
        closed_[close->watcher] = close->status;
      } else if (const auto* recorded = std::get_if<EventRecorded>(&action)) {
        events_.push_back(recorded->event);
      }
    }
    if (save_at_once_ && save_.has_value()) FinishSave();
  }

  Now now_;
  std::unique_ptr<SchedulerMachine> machine_;
  bool save_at_once_ = true;
  std::optional<Persist> save_;
  std::optional<PersistedState> last_saved_;
  uint64_t next_number_ = 1;
  std::map<RequestHandle, absl::StatusOr<Response>> replies_;
  std::map<WatcherId, std::vector<SendWatch>> watched_;
  std::map<WatcherId, std::vector<EventRecord>> followed_;
  std::map<WatcherId, absl::Status> closed_;
  std::vector<EventRecord> events_;
  size_t saves_ = 0;
};

inline RegisterServer Server(const std::string& name, uint64_t incarnation, uint32_t port) {
  RegisterServer request;
  request.control_version = kControlVersion;
  request.software_version = kSoftwareVersion;
  request.name = name;
  request.incarnation = Incarnation(incarnation);
  request.addresses = {"10.0.0.1:" + std::to_string(port)};
  request.node = "node-" + name;
  return request;
}

inline std::vector<JobRank> JobRanks(const std::vector<uint32_t>& numbers) {
  std::vector<JobRank> ranks;
  for (const uint32_t number : numbers) ranks.emplace_back(number);
  return ranks;
}

inline JoinJob Join(const std::string& job, uint32_t world_size, uint32_t rank, uint64_t incarnation) {
  JoinJob request;
  request.control_version = kControlVersion;
  request.job_name = job;
  request.world_size = world_size;
  request.rank = JobRank(rank);
  request.incarnation = Incarnation(incarnation);
  request.node = "node" + std::to_string(rank);
  request.pid = 1000 + rank;
  return request;
}

inline JoinGroup Group(JobId job, uint32_t rank, uint64_t incarnation, const std::vector<uint32_t>& ranks,
                       uint64_t wait_ms = 3000) {
  JoinGroup request;
  request.job = job;
  request.rank = JobRank(rank);
  request.incarnation = Incarnation(incarnation);
  request.group_name = "world";
  request.ranks = JobRanks(ranks);
  request.wait_ms = wait_ms;
  return request;
}

inline HeartbeatWorker Beat(JobId job, uint32_t rank, uint64_t incarnation) {
  HeartbeatWorker request;
  request.job = job;
  request.rank = JobRank(rank);
  request.incarnation = Incarnation(incarnation);
  return request;
}

inline LeaveJob Leave(JobId job, uint32_t rank, uint64_t incarnation, bool failed = false,
                      const std::string& reason = "") {
  LeaveJob request;
  request.job = job;
  request.rank = JobRank(rank);
  request.incarnation = Incarnation(incarnation);
  request.failed = failed;
  request.reason = reason;
  return request;
}

inline JobView OnlyJob(MachineHarness& harness) {
  const auto jobs = harness.Jobs();
  EXPECT_EQ(jobs.size(), 1u);
  return jobs.empty() ? JobView() : jobs[0];
}

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_MACHINE_MACHINE_HARNESS_H_
