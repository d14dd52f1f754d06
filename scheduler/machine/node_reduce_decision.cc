#include "scheduler/machine/node_reduce_decision.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace shoal::scheduler {
namespace {

// Places of members, in group order, that can meet.
using Node = std::vector<Rank>;

std::string NodeName(const NodeReduceRank& member) { return std::string(member.node); }

// "": the rank can reduce with others on its node. Asked of every member at each poll for servers, so no text is made
// before one is needed.
std::string WhatHinders(const NodeReduceRank& member) {
  const auto process = [&] { return absl::StrCat("rank ", member.rank.value(), "'s process"); };
  if (member.request == nullptr) return absl::StrCat(process(), " runs a version that cannot reduce within a node");
  if (member.request->choice == static_cast<uint32_t>(NodeReduceChoice::kOff)) return "node_reduce is off";
  if (!member.request->possible)
    return absl::StrCat(process(),
                        " can't reduce within its node: it may use the network alone (network_only, or a kernel or "
                        "security profile that refuses shared memory, memfd_create), or has devices and no NCCL");
  if (!member.request->node_identity.empty()) return "";
  return absl::StrCat(process(), " (on node ", NodeName(member),
                      ") can't tell which node it is on (boot id, namespaces)");
}

// In the order of their first ranks.
std::vector<Node> NodesOf(const std::vector<NodeReduceRank>& members) {
  std::map<std::string_view, size_t> index_of_identity;
  std::vector<Node> nodes;
  for (uint32_t i = 0; i < members.size(); ++i) {
    const auto [entry, added] = index_of_identity.try_emplace(members[i].request->node_identity, nodes.size());
    if (added) nodes.emplace_back();
    nodes[entry->second].emplace_back(i);
  }
  return nodes;
}

std::string WhereApart(const NodeReduceRank& first, const NodeReduceRank& other) {
  if (first.node == other.node) {
    return absl::StrCat("ranks ", first.rank.value(), " and ", other.rank.value(), " are both on node ",
                        NodeName(other), " but can't meet there: they differ in network namespace, user or kernel");
  }
  return absl::StrCat("rank ", other.rank.value(), " is on another node (", NodeName(other), ") than rank ",
                      first.rank.value(), " (", NodeName(first), ")");
}

std::string RanksOn(const NodeReduceRank& first, size_t count) {
  return absl::StrCat(count, count == 1 ? " rank" : " ranks", " where rank ", first.rank.value(), " is (node ",
                      NodeName(first), ")");
}

// "": the ranks, which are on several nodes, make up rails.
std::string WhyNoRails(const std::vector<NodeReduceRank>& members, const std::vector<Node>& nodes) {
  const auto unable =
      std::ranges::find_if(members, [](const NodeReduceRank& member) { return !member.request->can_rails; });
  if (unable != members.end()) {
    return absl::StrCat("rank ", unable->rank.value(), "'s process can't reduce within several nodes of one group");
  }
  const Node& first = nodes.front();
  const auto unequal = std::ranges::find_if(nodes, [&](const Node& node) { return node.size() != first.size(); });
  if (unequal != nodes.end()) {
    return absl::StrCat("the group has ", RanksOn(members[first[0].value()], first.size()), " and ",
                        RanksOn(members[(*unequal)[0].value()], unequal->size()));
  }
  return first.size() == 1 ? "no node has two of its ranks" : "";
}

}  // namespace

NodeReduceDecision DecideNodeReduce(size_t group_size, const std::vector<NodeReduceRank>& members) {
  if (group_size < 2) return {NodeReduceMode::kFlat, "it has one rank", {}};
  if (members.empty()) return {NodeReduceMode::kFlat, "none of its ranks is known", {}};
  for (const NodeReduceRank& member : members) {
    if (std::string hindrance = WhatHinders(member); !hindrance.empty()) {
      return {NodeReduceMode::kFlat, std::move(hindrance), {}};
    }
  }
  const std::vector<Node> nodes = NodesOf(members);
  if (nodes.size() == 1) return {NodeReduceMode::kNodeAlone, "", {}};
  if (const std::string why = WhyNoRails(members, nodes); !why.empty()) {
    return {NodeReduceMode::kFlat,
            absl::StrCat(WhereApart(members.front(), members[nodes[1].front().value()]), ", and ", why),
            {}};
  }
  NodeReduceDecision decision{NodeReduceMode::kRails, "", {}};
  decision.rails.ranks_per_node = static_cast<uint32_t>(nodes.front().size());
  for (const Node& node : nodes) decision.rails.by_node.insert(decision.rails.by_node.end(), node.begin(), node.end());
  return decision;
}

uint32_t CountPushers(const JoinJob& request) {
  const uint32_t ranks_of_node = request.local_world_size;
  if (ranks_of_node < 2 || request.world_size % ranks_of_node != 0) return request.world_size;
  const NodeReduceRequest* const offer = request.node_reduce.has_value() ? &*request.node_reduce : nullptr;
  if (!WhatHinders({request.rank, request.node, offer}).empty()) return request.world_size;
  const uint32_t nodes = request.world_size / ranks_of_node;
  return nodes == 1 || offer->can_rails ? nodes : request.world_size;
}

}  // namespace shoal::scheduler
