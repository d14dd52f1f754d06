#include "tests/unit/scheduler/machine/machine_harness.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/version.h"

namespace shoal::scheduler {

PersistedState NewState() {
  PersistedState state;
  state.cluster_id = "test";
  state.token_key.fill(std::byte{7});
  return state;
}

MachineHarness::MachineHarness(const std::optional<PersistedState>& saved, uint64_t port_buffer_bytes, bool encrypt) {
  now_.monotonic_ns = 1'000'000 * kMs;
  now_.unix_ms = 1'700'000'000'000;
  auto machine = ObservedScheduler::Make(
      {.lease_ttl_ms = kTtlMs, .port_buffer_bytes = port_buffer_bytes, .store = "test", .encrypt = encrypt},
      saved.value_or(NewState()), !saved.has_value(), now_);
  EXPECT_TRUE(machine.ok()) << machine.status();
  machine_ = *std::move(machine);
  Tick();
}

// Here, and not in each test: they take long to compile.
MachineHarness::MachineHarness(MachineHarness&&) noexcept = default;
MachineHarness& MachineHarness::operator=(MachineHarness&&) noexcept = default;
MachineHarness::~MachineHarness() = default;

void MachineHarness::FinishSave(const absl::Status& status) {
  ASSERT_TRUE(save_.has_value());
  const Persist save = *std::exchange(save_, std::nullopt);
  if (status.ok()) last_saved_ = save.state;
  StepEvent(Persisted{save.number, status});
}

void MachineHarness::StepEvent(const SchedulerEvent& event) {
  SchedulerActions actions;
  machine_->OnEvent(event, now_, &actions);
  Take(actions);
}

RequestHandle MachineHarness::Send(Request request) {
  const RequestHandle handle(next_number_++);
  StepEvent(RequestArrived{handle, std::move(request)});
  return handle;
}

absl::Status MachineHarness::StatusOf(RequestHandle handle) const {
  const auto found = replies_.find(handle);
  return found == replies_.end() ? absl::UnknownError("no reply yet") : found->second.status();
}

const Response* MachineHarness::GoodReply(RequestHandle handle) const {
  const auto found = replies_.find(handle);
  if (found != replies_.end() && found->second.ok()) return &*found->second;
  ADD_FAILURE() << "no good reply: " << StatusOf(handle);
  return nullptr;
}

std::vector<ServerView> MachineHarness::Servers() { return Ask<ServersPage>(ListServers()).servers; }

std::vector<JobView> MachineHarness::Jobs() { return Ask<JobsPage>(ListJobs()).jobs; }

void MachineHarness::GiveOldestGroupUp(JobId job, JobRank rank, Incarnation incarnation) {
  const GroupId group = Jobs().at(0).groups.at(0).state.id;
  Ask<Done>(CloseGroups{.job = job,
                        .rank = rank,
                        .incarnation = incarnation,
                        .groups = {},
                        .given_up_requests = {},
                        .failures = {{.group = group, .reason = "no"}}});
}

WatcherId MachineHarness::Watch(JobId job) {
  const WatcherId watcher(next_number_++);
  StepEvent(WatchOpened{.watcher = watcher, .job = job, .rank = {}, .incarnation = {}});
  return watcher;
}

WatcherId MachineHarness::WatchAs(JobId job, uint32_t rank, uint64_t incarnation) {
  const WatcherId watcher(next_number_++);
  StepEvent(
      WatchOpened{.watcher = watcher, .job = job, .rank = JobRank(rank), .incarnation = Incarnation(incarnation)});
  return watcher;
}

void MachineHarness::Advance(uint64_t ms) {
  const uint64_t end_ns = now_.monotonic_ns + ms * kMs;
  while (machine_->NextDeadlineNs() <= end_ns) {
    MoveTo(std::max(machine_->NextDeadlineNs(), now_.monotonic_ns));
    Tick();
  }
  MoveTo(end_ns);
}

void MachineHarness::Stall(uint64_t ms) {
  MoveTo(now_.monotonic_ns + ms * kMs);
  Tick();
}

std::vector<std::string> MachineHarness::EventKinds() const {
  std::vector<std::string> kinds;
  for (const EventRecord& event : events_) kinds.emplace_back(EventKey(event.kind));
  return kinds;
}

void MachineHarness::MoveTo(uint64_t monotonic_ns) {
  now_.unix_ms += (monotonic_ns - now_.monotonic_ns) / kMs;
  now_.monotonic_ns = monotonic_ns;
}

void MachineHarness::Tick() {
  SchedulerActions actions;
  machine_->Tick(now_, &actions);
  Take(actions);
}

void MachineHarness::Take(const SchedulerActions& actions) {
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
      (recorded->event.call == nullptr ? events_ : calls_).push_back(recorded->event);
    }
  }
  if (save_at_once_ && save_.has_value()) FinishSave();
}

RegisterServer Server(const std::string& name, uint64_t incarnation, uint32_t port) {
  RegisterServer request;
  request.control_version = kControlVersion;
  request.software_version = kSoftwareVersion;
  request.name = name;
  request.incarnation = Incarnation(incarnation);
  request.addresses = {"10.0.0.1:" + std::to_string(port)};
  request.node = "node-" + name;
  return request;
}

std::vector<JobRank> JobRanks(const std::vector<uint32_t>& numbers) {
  std::vector<JobRank> ranks;
  for (const uint32_t number : numbers) ranks.emplace_back(number);
  return ranks;
}

JoinJob Join(const std::string& job, uint32_t world_size, uint32_t rank, uint64_t incarnation) {
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

JoinGroup Group(JobId job, uint32_t rank, uint64_t incarnation, const std::vector<uint32_t>& ranks, uint64_t wait_ms) {
  JoinGroup request;
  request.job = job;
  request.rank = JobRank(rank);
  request.incarnation = Incarnation(incarnation);
  request.group_name = "world";
  request.ranks = JobRanks(ranks);
  request.wait_ms = wait_ms;
  return request;
}

HeartbeatWorker Beat(JobId job, uint32_t rank, uint64_t incarnation) {
  HeartbeatWorker request;
  request.job = job;
  request.rank = JobRank(rank);
  request.incarnation = Incarnation(incarnation);
  return request;
}

LeaveJob Leave(JobId job, uint32_t rank, uint64_t incarnation, bool failed, const std::string& reason) {
  LeaveJob request;
  request.job = job;
  request.rank = JobRank(rank);
  request.incarnation = Incarnation(incarnation);
  request.failed = failed;
  request.reason = reason;
  return request;
}

JobView OnlyJob(MachineHarness& harness) {
  const auto jobs = harness.Jobs();
  EXPECT_EQ(jobs.size(), 1u);
  return jobs.empty() ? JobView() : jobs[0];
}

void LoseAllRanksBut(MachineHarness* harness, JobId job, const std::vector<uint32_t>& ranks, ServerId server) {
  for (int i = 0; i < 4; ++i) {
    harness->Advance(kTtlMs / 3);
    for (const uint32_t rank : ranks) EXPECT_TRUE(harness->Try(Beat(job, rank, 100 + rank)).ok());
    HeartbeatServer beat;
    beat.server = server;
    beat.incarnation = Incarnation(11);
    harness->Ask<ServerRenewed>(beat);
  }
}

}  // namespace shoal::scheduler
