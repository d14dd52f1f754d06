#include "scheduler/machine/group_plan.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/server_weights.h"

namespace shoal::scheduler {
namespace {

std::string Describe(const std::vector<ServerOfGroup>& servers, const std::vector<uint32_t>& weights) {
  uint32_t on_own_nodes = 0;
  uint32_t on_nodes = 0;
  std::set<uint32_t> weights_on_own_nodes;
  std::set<uint32_t> weights_on_nodes;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (weights[i] == 0) continue;
    ++(servers[i].node.has_value() ? on_nodes : on_own_nodes);
    (servers[i].node.has_value() ? weights_on_nodes : weights_on_own_nodes).insert(weights[i]);
  }
  std::vector<std::string> parts;
  if (on_own_nodes > 0) {
    parts.push_back(absl::StrCat(on_own_nodes, " servers on their own nodes (weight ",
                                 absl::StrJoin(weights_on_own_nodes, ", "), ")"));
  }
  if (on_nodes > 0) {
    parts.push_back(
        absl::StrCat(on_nodes, " servers on ranks' nodes (weight ", absl::StrJoin(weights_on_nodes, ", "), ")"));
  }
  return absl::StrJoin(parts, ", ");
}

// Those that are on one of the nodes, by node.
std::vector<uint32_t> CountOnNodes(std::span<const NodePlace> places, const NodeNumbering& nodes) {
  std::vector<uint32_t> counts(nodes.count());
  for (const NodePlace& place : places) {
    if (const std::optional<uint32_t> node = nodes.Find(place)) ++counts[*node];
  }
  return counts;
}

// PortLoad::busiest_port where each rank of the job reduces, in groups on the same nodes as this one or on others.
double BusiestPortOfJob(const NodePorts& ports, const NodeNumbering& nodes,
                        const std::vector<const ServerState*>& candidates,
                        const std::vector<ServerOfGroup>& group_servers, const std::vector<uint32_t>& weights) {
  double busiest =
      LoadOfPorts(CountOnNodes(ports.job, nodes), group_servers, weights, ports.network_cards).busiest_port;
  // Groups on other nodes have dedicated servers in common with this one, and no colocated ones.
  const double total = TotalWeight(group_servers, weights);
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i]->job != JobId()) continue;
    const double share = weights[i] * static_cast<double>(group_servers[i].io_threads) / total;
    busiest = std::max(busiest, static_cast<double>(ports.job.size()) * share);
  }
  return busiest * static_cast<double>(ports.job.size() + ports.to_come) / static_cast<double>(ports.job.size());
}

}  // namespace

bool MayServe(const ServerState& server, const NodeNumbering& nodes) {
  return server.job == JobId() || nodes.Find(PlaceOf(server)).has_value();
}

absl::StatusOr<GroupPlan> PlanGroup(Epoch epoch, const std::vector<const ServerState*>& servers,
                                    std::span<const NodePlace> places, const NodePorts& ports) {
  const NodeNumbering nodes(places);
  std::vector<const ServerState*> candidates;
  std::vector<ServerOfGroup> group_servers;
  for (const ServerState* server : servers) {
    if (!MayServe(*server, nodes)) continue;
    candidates.push_back(server);
    group_servers.push_back({.node = nodes.Find(PlaceOf(*server)),
                             .weight = server->weight,
                             .io_threads = static_cast<uint32_t>(server->addresses.size())});
  }
  if (candidates.empty()) {
    return absl::InvalidArgumentError(
        "no server serves this group: start a dedicated one, or let ranks run colocated servers");
  }
  const std::vector<uint32_t> weights = PlanServerWeights(nodes.count(), group_servers);
  std::vector<Shard> shards;
  bool within_node = nodes.count() == 1;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (weights[i] == 0) continue;
    within_node = within_node && group_servers[i].node.has_value();
    for (const std::string& address : candidates[i]->addresses) {
      shards.push_back({.server = candidates[i]->id,
                        .incarnation = candidates[i]->incarnation,
                        .server_name = candidates[i]->name,
                        .address = address,
                        .weight = weights[i]});
    }
  }
  absl::StatusOr<ShardMap> map = ShardMap::Make(epoch, std::move(shards));
  if (!map.ok()) return map.status();
  PortLoad load = LoadOfPorts(CountOnNodes(places, nodes), group_servers, weights, ports.network_cards);
  if (!ports.job.empty() && ports.job.size() + ports.to_come > places.size()) {
    if (load.busiest_link == 0) load.busiest_link = load.busiest_port;  // what this group's own ops take
    load.busiest_port = BusiestPortOfJob(ports, nodes, candidates, group_servers, weights);
  }
  return GroupPlan{.map = std::make_shared<const ShardMap>(*std::move(map)),
                   .load = load,
                   .within_node = within_node,
                   .servers = Describe(group_servers, weights)};
}

}  // namespace shoal::scheduler
