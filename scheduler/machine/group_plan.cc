#include "scheduler/machine/group_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/hybrid_plan.h"

namespace shoal::scheduler {
namespace {

std::string Describe(const std::vector<HybridServer>& servers, const std::vector<uint32_t>& weights) {
  uint32_t apart = 0;
  uint32_t on_hosts = 0;
  std::set<uint32_t> weights_apart;
  std::set<uint32_t> weights_on_hosts;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (weights[i] == 0) continue;
    ++(servers[i].host.has_value() ? on_hosts : apart);
    (servers[i].host.has_value() ? weights_on_hosts : weights_apart).insert(weights[i]);
  }
  std::vector<std::string> parts;
  if (apart > 0)
    parts.push_back(absl::StrCat(apart, " servers apart (weight ", absl::StrJoin(weights_apart, ", "), ")"));
  if (on_hosts > 0) {
    parts.push_back(
        absl::StrCat(on_hosts, " servers on ranks' hosts (weight ", absl::StrJoin(weights_on_hosts, ", "), ")"));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

bool MayServe(const ServerState& server, const std::vector<std::string>& hosts) {
  return server.job == JobId() || std::find(hosts.begin(), hosts.end(), server.host) != hosts.end();
}

absl::StatusOr<GroupPlan> PlanGroup(Epoch epoch, const std::vector<const ServerState*>& servers,
                                    const std::vector<std::string>& hosts) {
  std::map<std::string, uint32_t> index_of_host;
  std::vector<uint32_t> ranks_of_host;
  for (const std::string& host : hosts) {
    const auto [entry, added] = index_of_host.try_emplace(host, static_cast<uint32_t>(ranks_of_host.size()));
    if (added) ranks_of_host.push_back(0);
    ++ranks_of_host[entry->second];
  }
  std::vector<const ServerState*> candidates;
  std::vector<HybridServer> places;
  for (const ServerState* server : servers) {
    if (!MayServe(*server, hosts)) continue;
    HybridServer place{.weight = server->weight, .io_threads = static_cast<uint32_t>(server->addresses.size())};
    const auto host = index_of_host.find(server->host);
    if (host != index_of_host.end()) place.host = host->second;
    candidates.push_back(server);
    places.push_back(place);
  }
  if (candidates.empty()) {
    return absl::InvalidArgumentError("no server serves this group: start a dedicated one, or let ranks host servers");
  }
  const std::vector<uint32_t> weights = PlanHybridWeights(static_cast<uint32_t>(ranks_of_host.size()), places);
  std::vector<Shard> shards;
  bool within_host = ranks_of_host.size() == 1;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (weights[i] == 0) continue;
    within_host = within_host && places[i].host.has_value();
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
                   .load = HybridPortLoad(ranks_of_host, places, weights),
                   .within_host = within_host,
                   .servers = Describe(places, weights)};
}

}  // namespace shoal::scheduler
