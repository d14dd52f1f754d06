#include "scheduler/insight/insight_machine.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"
#include "core/failure_detection.h"

namespace shoal::scheduler {
namespace {

// Of one heartbeat: those of several I/O threads.
constexpr size_t kMaxLateRanksTaken = 2048;

void AddJob(const JobNumbers& more, JobNumbers* sum) {
  sum->live_ranks += more.live_ranks;
  sum->slow_ranks += more.slow_ranks;
  sum->slow_servers += more.slow_servers;
  sum->waited_share = std::max(sum->waited_share, more.waited_share);
  sum->slot_memory_bytes += more.slot_memory_bytes;
  sum->load.retained_results += more.load.retained_results;
}

}  // namespace

// ---- events ----

void InsightMachine::OnEvent(const RequestArrived& event, Now now, SchedulerActions* actions) {
  if (const auto* inquiry = std::get_if<Inquiry>(&event.request)) {
    absl::StatusOr<Response> answer =
        std::visit([&](const auto& request) { return Answer(request, now, actions); }, *inquiry);
    actions->push_back(Reply{event.handle, std::move(answer)});
  } else if (const auto* of_server = std::get_if<HeartbeatServer>(&event.request)) {
    Hear(*of_server, now, actions);
  } else if (const auto* of_rank = std::get_if<HeartbeatWorker>(&event.request)) {
    Hear(*of_rank, now, actions);
  } else if (const auto* last = std::get_if<LeaveJob>(&event.request)) {
    Hear(*last, now, actions);
  }
}

void InsightMachine::OnEvent(const RankGone& event, Now, SchedulerActions*) {
  const Job* const job = membership_.jobs().Find(event.job);
  if (job == nullptr) return;
  JobInsight& insight = jobs_.At(job->id, membership_.jobs());
  insight.stragglers.Forget(event.rank, job->live_count == 0);
  insight.partial_ops.Forget(event.rank);
}

// ---- what members tell ----

void InsightMachine::Hear(const HeartbeatServer& request, Now now, SchedulerActions* actions) {
  const ServerState* const server = membership_.servers().FindLive(request.server);
  if (server == nullptr || server->incarnation != request.incarnation) return;
  servers_.OnHeartbeat(request, membership_.servers(), now);
  const JobRegistry& jobs = membership_.jobs();
  const uint64_t heartbeat_ns = HeartbeatPeriodNs(membership_.lease_ttl_ns());
  std::set<JobId> concerned;
  const size_t taken = std::min(request.late_ranks.size(), kMaxLateRanksTaken);
  for (const LateRankReport& late : std::span(request.late_ranks).first(taken)) {
    const Job* const job = jobs.Find(late.job);
    if (job == nullptr) continue;
    jobs_.At(late.job, jobs).stragglers.OnRankLate(*job, *server, late, heartbeat_ns, now);
    concerned.insert(late.job);
  }
  for (const JobId id : concerned) {
    jobs_.At(id, jobs).stragglers.Judge(*jobs.Find(id), membership_.servers(), heartbeat_ns, now, actions);
  }
}

void InsightMachine::Hear(const HeartbeatWorker& request, Now now, SchedulerActions* actions) {
  const JobRegistry& jobs = membership_.jobs();
  const absl::StatusOr<const Job*> job = jobs.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return;
  const uint64_t heartbeat_ns = HeartbeatPeriodNs(membership_.lease_ttl_ns());
  JobInsight& insight = jobs_.At(request.job, jobs);
  insight.load.Take(request.rank, request.incarnation, request.load, now);
  insight.stragglers.OnHeartbeat(**job, request, heartbeat_ns, now);
  insight.stragglers.Judge(**job, membership_.servers(), heartbeat_ns, now, actions);
  insight.partial_ops.Hear(**job, {request.rank, request.incarnation}, request.partial_ops, actions);
}

void InsightMachine::Hear(const LeaveJob& request, Now now, SchedulerActions* actions) {
  const JobRegistry& jobs = membership_.jobs();
  const absl::StatusOr<const Job*> job = jobs.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return;
  JobInsight& insight = jobs_.At(request.job, jobs);
  if (request.load.has_value()) insight.load.Take(request.rank, request.incarnation, *request.load, now);
  insight.partial_ops.Hear(**job, {request.rank, request.incarnation}, request.partial_ops, actions);
}

void InsightMachine::Complete(const Request& request, Now now, Response* response) {
  if (auto* of_server = std::get_if<ServerRenewed>(response)) {
    const auto& beat = std::get<HeartbeatServer>(request);
    of_server->trace = traces_.RequestFor({.server = beat.server, .incarnation = beat.incarnation}, now);
  } else if (auto* of_rank = std::get_if<WorkerRenewed>(response)) {
    const auto& beat = std::get<HeartbeatWorker>(request);
    of_rank->trace = traces_.RequestFor({.job = beat.job, .rank = beat.rank, .incarnation = beat.incarnation}, now);
    if (beat.rank != JobRank(0)) return;
    of_rank->news = jobs_.At(beat.job, membership_.jobs()).stragglers.TakeNews();
  }
}

// ---- inquiries ----

absl::StatusOr<Response> InsightMachine::Answer(const TraceJob& request, Now now, SchedulerActions* actions) {
  const absl::StatusOr<const Job*> job = membership_.jobs().FindOpen(request.name, "trace");
  if (!job.ok()) return job.status();
  // A heartbeat may be a little late.
  const uint64_t begun_in_ms = HeartbeatPeriodNs(membership_.lease_ttl_ns()) * 5 / 4 / kNsPerMs;
  const absl::StatusOr<TraceStarted> started = traces_.Start(request, **job, membership_.servers(), begun_in_ms, now);
  if (!started.ok()) return started.status();
  const bool compares = static_cast<TraceKind>(request.kind) == TraceKind::kDigests;
  actions->push_back(Observed{EventKind::kJobTraced,
                              absl::StrCat("job \"", (*job)->name, "\""),
                              absl::StrCat(compares ? "an operator has the results of its ranks compared for "
                                                    : "an operator has it recorded for ",
                                           Seconds(request.duration_ms * kNsPerMs)),
                              {.job = (*job)->id}});
  return started;
}

absl::StatusOr<Response> InsightMachine::Answer(const GetCluster&, Now now, SchedulerActions*) {
  ClusterView cluster = membership_.Cluster(now);
  cluster.newest_forgotten_event_unix_ms = journal_.newest_forgotten_unix_ms();
  return cluster;
}

// ---- numbers ----

JobNumbers InsightMachine::NumbersOf(const Job& job) const {
  const JobInsight& insight = jobs_.Of(job.id);
  JobNumbers numbers{.name = job.name,
                     .live_ranks = static_cast<uint32_t>(job.live_count),
                     .load = insight.load.sum(),
                     .load_is_whole = insight.load.IsWhole(job)};
  numbers.load.retained_results = insight.load.RetainedResults(job);
  for (const SlowRank& slow : insight.stragglers.slow_ranks()) {
    ++numbers.slow_ranks;
    numbers.waited_share = std::max(numbers.waited_share, slow.waited_share);
  }
  numbers.slow_servers = static_cast<uint32_t>(insight.stragglers.slow_servers().size());
  return numbers;
}

SchedulerNumbers InsightMachine::Numbers(Now now) const {
  SchedulerNumbers numbers{membership_.Cluster(now)};
  const JobRegistry& jobs = membership_.jobs();
  JobNumbers other{.name = kOtherJobs, .load_is_whole = false};
  std::vector<JobNumbers>& largest = numbers.largest_jobs;
  std::map<JobId, uint64_t> slot_memory = servers_.SlotMemoryByJob(membership_.servers());
  for (const auto& [id, job] : jobs.jobs()) {
    // A failed job, whose last ranks still leave, makes room for the next one of its name.
    const bool is_shown = job.live_count > 0 || now.monotonic_ns - job.ended_ns < kEndedJobShownNs;
    if (!is_shown || jobs.FindByName(job.name) != &job) continue;
    JobNumbers of_job = NumbersOf(job);
    of_job.slot_memory_bytes = slot_memory[id];
    if (job.name == kOtherJobs) {
      AddJob(of_job, &other);
    } else {
      largest.push_back(std::move(of_job));
    }
  }
  std::stable_sort(largest.begin(), largest.end(), [](const JobNumbers& left, const JobNumbers& right) {
    return left.load.bytes_pushed > right.load.bytes_pushed;
  });
  for (; largest.size() > kMaxJobsInNumbers; largest.pop_back()) AddJob(largest.back(), &other);
  if (other.live_ranks > 0) largest.push_back(std::move(other));
  return numbers;
}

}  // namespace shoal::scheduler
