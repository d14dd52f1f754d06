// Which ranks of a simulated job share a node, and what follows for its groups: how they are to reduce, and in which
// order (docs/numerics.md, Nodes). Worked out here once more, and not asked of the scheduler. Pure.
#ifndef SHOAL_SIM_NODE_LAYOUT_H_
#define SHOAL_SIM_NODE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "core/node_reduce.h"

namespace shoal::sim {

struct NodeLayout {
  uint32_t ranks_per_node = 0;  // at most; 0: each rank is on a node of its own, and can't reduce with others
  bool dealt = false;           // ranks are dealt to the nodes in turn; else neighbours share a node
  NodeReduceChoice choice = NodeReduceChoice::kAuto;

  bool shares_nodes() const { return ranks_per_node > 0; }
  // Of a rank of a job with so many ranks.
  uint32_t NodeOf(uint32_t rank, uint32_t ranks) const;
};

// How a group reduces.
struct SumOrder {
  NodeReduceMode mode = NodeReduceMode::kFlat;
  // Ranks of the group whose contributions are summed first, in order; these sums are then summed in order. Only kRails
  // has several, or the last one that is left of several.
  std::vector<std::vector<uint32_t>> sums;
};

// Of a group whose ranks are on these nodes. `goes_on`: without lost ranks.
SumOrder OrderOfNodes(const NodeLayout& layout, const std::vector<uint32_t>& nodes, bool goes_on);
// Of the group that has these ranks of a job with so many ranks.
SumOrder OrderOfSum(const NodeLayout& layout, uint32_t ranks, const std::vector<uint32_t>& ranks_of_group);

}  // namespace shoal::sim

#endif  // SHOAL_SIM_NODE_LAYOUT_H_
