// The part of SchedulerMachine that answers the queries of operators.
#include <algorithm>
#include <string>
#include <utility>

#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {
namespace {

void AddLoad(const WorkerLoad& more, WorkerLoad* sum) {
  sum->ops_completed += more.ops_completed;
  sum->ops_failed += more.ops_failed;
  sum->bytes_pushed += more.bytes_pushed;
  sum->bytes_pulled += more.bytes_pulled;
  sum->op_time_ns_total += more.op_time_ns_total;
}

void AddJob(const JobNumbers& more, JobNumbers* sum) {
  sum->live_ranks += more.live_ranks;
  sum->slow_ranks += more.slow_ranks;
  sum->slow_servers += more.slow_servers;
  sum->waited_share = std::max(sum->waited_share, more.waited_share);
}

}  // namespace

void SchedulerMachine::Answer(RequestHandle handle, const GetCluster&, Now now) {
  ReplyNow(handle, Response(ClusterView{.cluster_id = cluster_id_,
                                        .epoch = published_->epoch(),
                                        .servers_live = servers_.live_count(),
                                        .servers_lost = servers_.lost_count(),
                                        .jobs = jobs_.live_job_count(),
                                        .workers = jobs_.live_worker_count(),
                                        .started_at_unix_ms = started_at_unix_ms_,
                                        .lease_ttl_ms = settings_.lease_ttl_ms,
                                        .store = settings_.store,
                                        .now_unix_ms = now.unix_ms}));
}

void SchedulerMachine::Answer(RequestHandle handle, const ListServers&, Now now) {
  ReplyNow(handle, Response(servers_.Views(now)));
}

void SchedulerMachine::Answer(RequestHandle handle, const ListJobs&, Now now) {
  std::vector<JobView> views;
  for (const auto& [id, job] : jobs_.jobs()) {
    JobView& view = views.emplace_back();
    view.job = id;
    view.name = job.name;
    view.world_size = job.world_size;
    view.phase = job.phase;
    view.failure = job.failure;
    view.load_is_whole = job.AllHaveBeenHeard();
    view.started_at_unix_ms = job.started_at_unix_ms;
    for (const auto& [rank, worker] : job.workers) {
      view.ranks.push_back({.rank = rank,
                            .state = worker.state,
                            .last_heartbeat_age_ms = (now.monotonic_ns - worker.last_heartbeat_ns) / 1'000'000,
                            .load = worker.load});
    }
    view.slow_ranks = job.slow_ranks.slow();
    view.slow_servers = job.slow_servers.slow();
    for (const auto& [group_id, group] : job.groups.all()) view.groups.push_back({group.state(), true, {}});
    for (auto it = rounds_.rounds().lower_bound({id, ""}); it != rounds_.rounds().end() && it->first.first == id;
         ++it) {
      const GroupRound& round = it->second;
      GroupView& waiting = view.groups.emplace_back();
      waiting.state.name = round.name;
      waiting.state.ranks = round.ranks;
      waiting.state.max_chunk_bytes = round.max_chunk_bytes;
      waiting.state.wire = round.wire;
      waiting.missing_ranks = round.MissingRanks();
    }
  }
  ReplyNow(handle, Response(std::move(views)));
}

SchedulerNumbers SchedulerMachine::Numbers(Now now) const {
  SchedulerNumbers numbers{.epoch = published_->epoch(),
                           .servers_live = servers_.CountOf(MemberPhase::kLive, /*colocated=*/false),
                           .servers_lost = servers_.CountOf(MemberPhase::kLost, /*colocated=*/false),
                           .servers_colocated = servers_.CountOf(MemberPhase::kLive, /*colocated=*/true),
                           .jobs = jobs_.live_job_count(),
                           .workers = jobs_.live_worker_count(),
                           .moves = moves_};
  JobNumbers other{.name = kOtherJobs, .load_is_whole = false};
  std::vector<JobNumbers>& largest = numbers.largest_jobs;
  for (const auto& [id, job] : jobs_.jobs()) {
    // A failed job, whose last ranks still leave, makes room for the next one of its name.
    const bool is_shown = job.live_count > 0 || now.monotonic_ns - job.ended_ns < kEndedJobShownNs;
    if (!is_shown || jobs_.FindByName(job.name) != &job) continue;
    JobNumbers of_job{.name = job.name};
    for (const auto& [rank, worker] : job.workers) {
      AddLoad(worker.load, &of_job.load);
      if (worker.state.phase == MemberPhase::kLive) ++of_job.live_ranks;
    }
    for (const SlowRank& slow : job.slow_ranks.slow()) {
      ++of_job.slow_ranks;
      of_job.waited_share = std::max(of_job.waited_share, slow.waited_share);
    }
    of_job.slow_servers = static_cast<uint32_t>(job.slow_servers.slow().size());
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
  for (JobNumbers& job : largest) {
    job.load_is_whole = jobs_.FindByName(job.name)->AllHaveBeenHeard();
  }
  if (other.live_ranks > 0) largest.push_back(std::move(other));
  return numbers;
}

void SchedulerMachine::Answer(RequestHandle handle, const GetShardMap&, Now) { ReplyNow(handle, Response(published_)); }

}  // namespace shoal::scheduler
