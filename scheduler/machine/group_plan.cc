#include "scheduler/machine/group_plan.h"

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

std::vector<uint32_t> CountOnNodes(std::span<const NodePlace> places, const NodeNumbering& nodes) {
  std::vector<uint32_t> counts(nodes.count());
  for (const NodePlace& place : places) ++counts[*nodes.Find(place)];
  return counts;
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
  const NodeNumbering nodes_of_job(ports.job);
  std::vector<ServerOfGroup> servers_of_job = group_servers;
  for (size_t i = 0; i < candidates.size(); ++i) servers_of_job[i].node = nodes_of_job.Find(PlaceOf(*candidates[i]));
  load.busiest_port =
      LoadOfPorts(CountOnNodes(ports.job, nodes_of_job), servers_of_job, weights, ports.network_cards).busiest_port;
  return GroupPlan{.map = std::make_shared<const ShardMap>(*std::move(map)),
                   .load = load,
                   .within_node = within_node,
                   .servers = Describe(group_servers, weights)};
}

}  // namespace shoal::scheduler
