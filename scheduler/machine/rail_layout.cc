#include "scheduler/machine/rail_layout.h"

#include <set>

namespace shoal::scheduler {

std::vector<Rank> RailLayout::RanksOfNode(uint32_t node) const {
  const auto first = by_node.begin() + static_cast<std::ptrdiff_t>(size_t{node} * ranks_per_node);
  return {first, first + ranks_per_node};
}

std::vector<Rank> RailLayout::RanksOfRail(uint32_t rail) const {
  std::vector<Rank> ranks;
  ranks.reserve(node_count());
  for (size_t place = rail; place < by_node.size(); place += ranks_per_node) ranks.push_back(by_node[place]);
  return ranks;
}

bool RailLayout::IsOf(size_t group_size) const {
  if (ranks_per_node < 2 || by_node.size() != group_size || group_size % ranks_per_node != 0 || node_count() < 2) {
    return false;
  }
  const std::set<Rank> ranks(by_node.begin(), by_node.end());
  return ranks.size() == group_size && ranks.rbegin()->value() < group_size;
}

}  // namespace shoal::scheduler
