// The part of SchedulerMachine that answers the queries of operators.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "scheduler/machine/job_pages.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {
namespace {

void AddJob(const JobNumbers& more, JobNumbers* sum) {
  sum->live_ranks += more.live_ranks;
  sum->slow_ranks += more.slow_ranks;
  sum->slow_servers += more.slow_servers;
  sum->waited_share = std::max(sum->waited_share, more.waited_share);
  sum->slot_memory_bytes += more.slot_memory_bytes;
  sum->load.retained_results += more.load.retained_results;
}

}  // namespace

void SchedulerMachine::Answer(RequestHandle handle, const GetCluster&, Now now) {
  ReplyNow(handle, Response(ClusterView{.cluster_id = cluster_id_,
                                        .epoch = published_->epoch(),
                                        .servers_live = servers_.CountOf(MemberPhase::kLive, /*colocated=*/false),
                                        .servers_lost = servers_.CountOf(MemberPhase::kLost, /*colocated=*/false),
                                        .servers_colocated = servers_.CountOf(MemberPhase::kLive, /*colocated=*/true),
                                        .jobs = jobs_.live_job_count(),
                                        .workers = jobs_.live_worker_count(),
                                        .started_at_unix_ms = started_at_unix_ms_,
                                        .lease_ttl_ms = settings_.lease_ttl_ms,
                                        .store = settings_.store,
                                        .now_unix_ms = now.unix_ms,
                                        .leader = settings_.leader,
                                        .moves = moves_,
                                        .saves = save_numbers_,
                                        .newest_forgotten_event_unix_ms = journal_.newest_forgotten_unix_ms(),
                                        .refused_servers = refused_servers_.List(now),
                                        .save_failure = save_trouble_.reason(),
                                        .saves_fail_since_unix_ms = save_trouble_.since_unix_ms()}));
}

void SchedulerMachine::Answer(RequestHandle handle, const ListServers& request, Now now) {
  ReplyNow(handle, servers_.Page(request, now));
}

void SchedulerMachine::Answer(RequestHandle handle, const ListJobs& request, Now now) {
  ReplyNow(handle, PageOfJobs(request, jobs_, rounds_, servers_, now));
}

SchedulerNumbers SchedulerMachine::Numbers(Now now) const {
  SchedulerNumbers numbers{.epoch = published_->epoch(),
                           .servers_live = servers_.CountOf(MemberPhase::kLive, /*colocated=*/false),
                           .servers_lost = servers_.CountOf(MemberPhase::kLost, /*colocated=*/false),
                           .servers_colocated = servers_.CountOf(MemberPhase::kLive, /*colocated=*/true),
                           .servers_refused = static_cast<uint32_t>(refused_servers_.List(now).size()),
                           .jobs = jobs_.live_job_count(),
                           .workers = jobs_.live_worker_count(),
                           .moves = moves_,
                           .largest_jobs = {},
                           .events = {},
                           .saves = save_numbers_};
  JobNumbers other{.name = kOtherJobs, .load_is_whole = false};
  std::vector<JobNumbers>& largest = numbers.largest_jobs;
  const std::map<JobId, uint64_t> slot_memory = servers_.SlotMemoryByJob();
  for (const auto& [id, job] : jobs_.jobs()) {
    // A failed job, whose last ranks still leave, makes room for the next one of its name.
    const bool is_shown = job.live_count > 0 || now.monotonic_ns - job.ended_ns < kEndedJobShownNs;
    if (!is_shown || jobs_.FindByName(job.name) != &job) continue;
    JobNumbers of_job{.name = job.name, .load = job.load.sum()};
    of_job.load.retained_results = job.RetainedResults();
    if (const auto memory = slot_memory.find(id); memory != slot_memory.end()) {
      of_job.slot_memory_bytes = memory->second;
    }
    for (const auto& [rank, worker] : job.workers) {
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
