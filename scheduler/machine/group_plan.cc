#include "scheduler/machine/group_plan.h"

#include <algorithm>
#include <map>
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

}  // namespace

bool MayServe(const ServerState& server, const std::vector<std::string>& nodes) {
  return server.job == JobId() || std::find(nodes.begin(), nodes.end(), server.node) != nodes.end();
}

absl::StatusOr<GroupPlan> PlanGroup(Epoch epoch, const std::vector<const ServerState*>& servers,
                                    const std::vector<std::string>& nodes, uint32_t network_cards) {
  std::map<std::string, uint32_t> index_of_node;
  std::vector<uint32_t> ranks_of_node;
  for (const std::string& node : nodes) {
    const auto [entry, added] = index_of_node.try_emplace(node, static_cast<uint32_t>(ranks_of_node.size()));
    if (added) ranks_of_node.push_back(0);
    ++ranks_of_node[entry->second];
  }
  std::vector<const ServerState*> candidates;
  std::vector<ServerOfGroup> places;
  for (const ServerState* server : servers) {
    if (!MayServe(*server, nodes)) continue;
    ServerOfGroup place{.weight = server->weight, .io_threads = static_cast<uint32_t>(server->addresses.size())};
    const auto node = index_of_node.find(server->node);
    if (node != index_of_node.end()) place.node = node->second;
    candidates.push_back(server);
    places.push_back(place);
  }
  if (candidates.empty()) {
    return absl::InvalidArgumentError(
        "no server serves this group: start a dedicated one, or let ranks run colocated servers");
  }
  const std::vector<uint32_t> weights = PlanServerWeights(static_cast<uint32_t>(ranks_of_node.size()), places);
  std::vector<Shard> shards;
  bool within_node = ranks_of_node.size() == 1;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (weights[i] == 0) continue;
    within_node = within_node && places[i].node.has_value();
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
  return GroupPlan{.map = std::make_shared<const ShardMap>(*std::move(map)),
                   .load = LoadOfPorts(ranks_of_node, places, weights, network_cards),
                   .within_node = within_node,
                   .servers = Describe(places, weights)};
}

}  // namespace shoal::scheduler
