// The part of SchedulerMachine that keeps jobs alive when no server is left: ranks that offered it are asked to host
// one each, for their own job (docs/adr/0015).
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

std::optional<HostRequest> SchedulerMachine::HostsWanted(const Job& job) const {
  if (!job.open() || job.groups.empty() || !servers_.ServersOf(job.id).empty()) return std::nullopt;
  HostRequest request;
  std::set<std::string> hosts;
  for (const auto& [rank, worker] : job.workers) {
    const bool may_host = worker.state.phase == MemberPhase::kLive && worker.state.hosts_without_servers;
    if (may_host && hosts.insert(worker.state.host).second) request.ranks.push_back(rank);
  }
  if (request.ranks.empty()) return std::nullopt;
  request.reason = servers_.DescribeLastGone();
  return request;
}

void SchedulerMachine::AskForHosts(const Now& now) {
  for (auto& [id, job] : jobs_.jobs()) {
    const std::optional<HostRequest> wanted = HostsWanted(job);
    if (!wanted.has_value()) continue;
    for (const uint32_t rank : wanted->ranks) job.workers.at(rank).hosts_server = true;
    AfterSave(PublishHostRequest{id, *wanted});
    Record(now, "hosts-wanted", absl::StrCat("job \"", job.name, "\""),
           absl::StrCat("no server is left (", wanted->reason, "): ranks ", RankList(wanted->ranks),
                        " are asked to host one each"));
  }
}

}  // namespace shoal::scheduler
