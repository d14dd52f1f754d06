#include "sim/node_layout.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>

namespace shoal::sim {

uint32_t NodeLayout::NodeOf(uint32_t rank, uint32_t ranks) const {
  if (!shares_nodes()) return rank;
  const uint32_t nodes = (ranks + ranks_per_node - 1) / ranks_per_node;
  return dealt ? rank % nodes : rank / ranks_per_node;
}

SumOrder OrderOfNodes(const NodeLayout& layout, const std::vector<uint32_t>& nodes, bool goes_on) {
  std::vector<std::vector<uint32_t>> by_node;
  std::map<uint32_t, size_t> place_of;  // by number of the node
  for (uint32_t rank = 0; rank < nodes.size(); ++rank) {
    const auto [entry, added] = place_of.try_emplace(nodes[rank], by_node.size());
    if (added) by_node.emplace_back();
    by_node[entry->second].push_back(rank);
  }
  const size_t first = by_node.front().size();
  const bool equal = std::ranges::all_of(by_node, [first](const auto& node) { return node.size() == first; });
  const bool may = layout.shares_nodes() && layout.choice != NodeReduceChoice::kOff && first > 1 && equal;
  if (may && by_node.size() > 1) return {.mode = NodeReduceMode::kRails, .sums = by_node};
  std::vector<uint32_t> all(nodes.size());
  std::iota(all.begin(), all.end(), 0);
  return {.mode = may && !goes_on ? NodeReduceMode::kNodeAlone : NodeReduceMode::kFlat, .sums = {all}};
}

SumOrder OrderOfSum(const NodeLayout& layout, uint32_t ranks, const std::vector<uint32_t>& ranks_of_group) {
  std::vector<uint32_t> nodes;
  for (const uint32_t rank : ranks_of_group) nodes.push_back(layout.NodeOf(rank, ranks));
  return OrderOfNodes(layout, nodes, /*goes_on=*/false);
}

}  // namespace shoal::sim
