// How the ranks of a group that are on several nodes, as many on each, make up its rails: rail r has the r-th rank of
// every node. Pure values; any thread.
#ifndef SHOAL_SCHEDULER_MACHINE_RAIL_LAYOUT_H_
#define SHOAL_SCHEDULER_MACHINE_RAIL_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace shoal::scheduler {

struct RailLayout {
  uint32_t ranks_per_node = 0;  // as many as there are rails
  // All ranks of the group: node by node, in the order of the nodes' first ranks, and those of a node in group order.
  std::vector<Rank> by_node;

  uint32_t node_count() const { return static_cast<uint32_t>(by_node.size() / ranks_per_node); }
  std::vector<Rank> RanksOfNode(uint32_t node) const;
  // In the order of the nodes: the place of a rank in its rail is the number of its node.
  std::vector<Rank> RanksOfRail(uint32_t rail) const;
  // There are two rails and two nodes at least, and each of `group_size` ranks is on one node.
  bool IsOf(size_t group_size) const;

  friend bool operator==(const RailLayout&, const RailLayout&) = default;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_RAIL_LAYOUT_H_
