// The part of SchedulerMachine that keeps jobs alive when no server is left: ranks that offered it are asked to run a
// colocated server each, for their own job (docs/adr/0015).
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

std::optional<ColocationRequest> SchedulerMachine::ColocationWanted(const Job& job) const {
  if (!job.open() || !job.groups.AnyNeedsServers() || !servers_.ServersOf(job.id).empty()) return std::nullopt;
  ColocationRequest request;
  std::vector<JobRank> willing;
  for (const auto& [rank, worker] : job.workers) {
    const bool may_colocate = worker.state.phase == MemberPhase::kLive && worker.state.colocates_without_servers;
    if (may_colocate) willing.push_back(rank);
  }
  const std::vector<NodePlace> places = job.PlacesOf(willing);
  const NodeNumbering nodes(places);
  std::set<uint32_t> nodes_asked;
  for (size_t i = 0; i < willing.size(); ++i) {
    if (nodes_asked.insert(*nodes.Find(places[i])).second) request.ranks.push_back(willing[i]);
  }
  if (request.ranks.empty()) return std::nullopt;
  request.reason = servers_.DescribeLastGone();
  return request;
}

void SchedulerMachine::AskForColocation(Now now) {
  for (const auto& [id, job] : jobs_.jobs()) {
    const std::optional<ColocationRequest> wanted = ColocationWanted(job);
    if (!wanted.has_value()) continue;
    jobs_.NoteColocatedServers(id, wanted->ranks);
    AfterSave(PublishColocationRequest{id, *wanted});
    Record(EventKind::kColocationRequested, absl::StrCat("job \"", job.name, "\""),
           absl::StrCat("no server is left (", wanted->reason, "): asked each of the ranks ", RankList(wanted->ranks),
                        " to run a colocated server"),
           now, {.job = id});
  }
}

}  // namespace shoal::scheduler
