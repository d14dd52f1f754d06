// The part of SchedulerMachine that answers the queries of operators.
#include <algorithm>
#include <map>
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
  AddLoad(more.load, &sum->load);
  sum->live_ranks += more.live_ranks;
}

}  // namespace

void SchedulerMachine::Answer(RequestHandle handle, const GetCluster&, Now) {
  ReplyNow(handle, Response(ClusterView{.cluster_id = cluster_id_,
                                        .epoch = published_->epoch(),
                                        .servers_live = servers_.live_count(),
                                        .servers_lost = servers_.lost_count(),
                                        .jobs = jobs_.live_job_count(),
                                        .workers = jobs_.live_worker_count(),
                                        .started_at_unix_ms = started_at_unix_ms_,
                                        .lease_ttl_ms = settings_.lease_ttl_ms,
                                        .store = settings_.store}));
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
    view.started_at_unix_ms = job.started_at_unix_ms;
    for (const auto& [rank, worker] : job.workers) {
      view.ranks.push_back({.rank = rank,
                            .state = worker.state,
                            .last_heartbeat_age_ms = (now.monotonic_ns - worker.last_heartbeat_ns) / 1'000'000,
                            .load = worker.load});
    }
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

SchedulerNumbers SchedulerMachine::Numbers() const {
  SchedulerNumbers numbers{.epoch = published_->epoch(),
                           .servers_live = servers_.live_count(),
                           .servers_lost = servers_.lost_count(),
                           .jobs = jobs_.live_job_count(),
                           .workers = jobs_.live_worker_count(),
                           .moves = moves_};
  // A name may be that of a failed job, whose last ranks still leave, and of the next one.
  std::map<std::string, JobNumbers> by_name;
  for (const auto& [id, job] : jobs_.jobs()) {
    JobNumbers of_job{.name = job.name};
    for (const auto& [rank, worker] : job.workers) {
      AddLoad(worker.load, &of_job.load);
      if (worker.state.phase == MemberPhase::kLive) ++of_job.live_ranks;
    }
    if (of_job.live_ranks > 0)
      AddJob(of_job, &by_name.try_emplace(job.name, JobNumbers{.name = job.name}).first->second);
  }
  JobNumbers other{.name = kOtherJobs};
  std::vector<JobNumbers>& largest = numbers.largest_jobs;
  for (const auto& [name, job] : by_name) {
    if (name == kOtherJobs) {
      AddJob(job, &other);
    } else {
      largest.push_back(job);
    }
  }
  std::stable_sort(largest.begin(), largest.end(), [](const JobNumbers& left, const JobNumbers& right) {
    return left.load.bytes_pushed > right.load.bytes_pushed;
  });
  for (; largest.size() > kMaxJobsInNumbers; largest.pop_back()) AddJob(largest.back(), &other);
  if (other.live_ranks > 0) largest.push_back(std::move(other));
  return numbers;
}

void SchedulerMachine::Answer(RequestHandle handle, const GetShardMap&, Now) { ReplyNow(handle, Response(published_)); }

}  // namespace shoal::scheduler
