// The part of SchedulerMachine that answers the queries of operators.
#include <utility>

#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

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
    for (const auto& [group_id, group] : job.groups.all()) view.groups.push_back({group.state, true, {}});
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

void SchedulerMachine::Answer(RequestHandle handle, const GetShardMap&, Now) { ReplyNow(handle, Response(published_)); }

}  // namespace shoal::scheduler
