#include "scheduler/machine/colocation_request.h"

#include <set>
#include <vector>

#include "scheduler/machine/node_place.h"

namespace shoal::scheduler {

std::optional<ColocationRequest> FindColocationRequest(const Job& job, const ServerRegistry& servers) {
  if (!job.open() || !job.groups.AnyNeedsServers() || !servers.ServersOf(job.id).empty()) return std::nullopt;
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
  request.reason = servers.DescribeLastGone();
  return request;
}

}  // namespace shoal::scheduler
