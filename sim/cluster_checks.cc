// The part of Cluster that checks runs, and what is left at the end.
#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "scheduler/store/state_codec.h"
#include "sim/cluster.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kRetainedEveryNs = 500 * kNsPerMs;
// A worker's round looks twice at each connection. Beside the shards that are there at a time, it may know as many and
// a half that have gone and are still in a group's map.
constexpr uint64_t kVisitsOfAShard = 5;
// A rank of an open job has the map of its next group while its last one, with another map, still ends.
constexpr uint64_t kVisitsOfAShardInOpenJobs = 2 * kVisitsOfAShard;
// Whose end the scheduler may not have heard of.
constexpr size_t kGroupsJustClosed = 3;

}  // namespace

void Cluster::CheckRuns() {
  for (const Worker& worker : workers_) {
    if (worker.process == nullptr) continue;
    const WorkerCounters counters = worker.process->Counters();
    hand_overs_ += counters.results_handed_over;
    const uint64_t visits = worker.place.job.is_open() ? kVisitsOfAShardInOpenJobs : kVisitsOfAShard;
    if (counters.most_connections_visited > visits * most_shards_) {
      checkers_.Fail(absl::StrCat(worker.process->name(), " looked at ", counters.most_connections_visited,
                                  " connections in a round, where there were never more than ", most_shards_,
                                  " shards (steps)"));
    }
    if (!worker.process->finished())
      checkers_.Fail(absl::StrCat("never ended (liveness): ", worker.process->Describe()));
    if (worker.place.job.options_differ && worker.place.job.ranks > 1) {
      checkers_.MayFailFor(worker.place.run, "");
      if (!worker.process->opened_none()) {
        checkers_.Fail(absl::StrCat(worker.process->name(), " opened a group with ranks of other options (options)"));
      }
    }
    if (worker.process->refused_memory()) checkers_.Excuse(ExcusableCheck::kIsolation, worker.place.run);
  }
  const auto may_fail = [this](uint32_t run) {
    return EndedForMemory(run) || checkers_.MayFail(run) || checkers_.IsExcused(ExcusableCheck::kIsolation, run);
  };
  for (uint32_t run = 0; run < runs_; ++run) {
    const std::string error = checkers_.first_error_of(run);
    if (may_fail(run) || error.empty()) continue;
    checkers_.Fail(absl::StrCat("run ", run, " had failed ops though nothing destructive hit it (isolation): ", error));
  }
  for (const Worker& worker : workers_) {
    if (worker.process == nullptr || may_fail(worker.place.run) || worker.process->did_everything()) continue;
    checkers_.Fail(absl::StrCat("left work undone (isolation): ", worker.process->Describe()));
  }
}

// F20: the servers that are left have too little memory.
bool Cluster::EndedForMemory(uint32_t run) const {
  return profile_.lacks_memory() && absl::StrContains(checkers_.first_error_of(run), Checkers::kNoMemory);
}

uint64_t Cluster::ended_for_memory() const {
  uint64_t count = 0;
  for (uint32_t run = 0; run < runs_; ++run) count += EndedForMemory(run) ? 1 : 0;
  return count;
}

void Cluster::CheckRetained() {
  if (world_.now_ns() < next_retained_check_ns_) return;
  next_retained_check_ns_ = world_.now_ns() + kRetainedEveryNs;
  std::map<std::string, size_t> most;
  for (const Worker& worker : workers_) {
    if (worker.process == nullptr || worker.place.job.short_groups == 0) continue;
    // The scheduler counts each rail.
    const size_t rails = std::max(worker.place.job.nodes.ranks_per_node, 1u);
    size_t& of_job = most[worker.place.job_name];
    of_job = std::max(of_job, rails * (worker.process->groups_open() + kGroupsJustClosed));
  }
  if (most.empty() || world_.now_ns() < fault_log_.last_end_ns() + HealingNs(profile_)) return;
  if (!SomebodyLeads() || !disk_.state().has_value()) return;
  scheduler_audit_.CheckRetained(*scheduler::DecodeState(*disk_.state()), most);
}

void Cluster::CheckEnd() {
  scheduler_audit_.CheckEnd();
  CheckRuns();
  for (const auto& [name, node] : local_nodes_) {
    if (!WorkersOn(name).empty() || node->groups_open() == 0) continue;
    checkers_.Fail(absl::StrCat(node->groups_open(), " groups of ", name, " hold memory there (local memory)"));
  }
  rogues_.clear();
  workers_.clear();
  world_.RunUntil(world_.now_ns() + kNsPerS);
  for (const Server& server : servers_) {
    if (server.process == nullptr) continue;
    server.process->CheckAtEnd();
    if (!server.process->draining() || server.process->drained()) continue;
    checkers_.Fail(absl::StrCat(server.process->name(), " was never drained (liveness)"));
  }
  checkers_.CheckGraves();
  checkers_.CheckNetwork(network_);
}

}  // namespace shoal::sim
