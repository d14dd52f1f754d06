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

SumOrder OrderOfSum(const NodeLayout& layout, uint32_t ranks, const std::vector<uint32_t>& ranks_of_group) {
  std::vector<std::vector<uint32_t>> by_node;
  std::map<uint32_t, size_t> place_of;  // by number of the node
  for (uint32_t rank = 0; rank < ranks_of_group.size(); ++rank) {
    const auto [entry, added] = place_of.try_emplace(layout.NodeOf(ranks_of_group[rank], ranks), by_node.size());
    if (added) by_node.emplace_back();
    by_node[entry->second].push_back(rank);
  }
  const size_t first = by_node.front().size();
  const bool equal = std::ranges::all_of(by_node, [first](const auto& node) { return node.size() == first; });
  const bool may = layout.shares_nodes() && layout.choice != NodeReduceChoice::kOff && first > 1 && equal;
  if (may && by_node.size() > 1) return {.mode = NodeReduceMode::kRails, .sums = by_node};
  std::vector<uint32_t> all(ranks_of_group.size());
  std::iota(all.begin(), all.end(), 0);
  return {.mode = may ? NodeReduceMode::kNodeAlone : NodeReduceMode::kFlat, .sums = {all}};
}

}  // namespace shoal::sim
