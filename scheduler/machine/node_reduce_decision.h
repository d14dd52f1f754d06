// Whether the ranks of a group reduce among themselves within their node, and why not. Pure; any thread.
//
// It follows from what the ranks ask for and where they are, never from a measurement: the same layout gives the same
// answer in every run.
#ifndef SHOAL_SCHEDULER_MACHINE_NODE_REDUCE_DECISION_H_
#define SHOAL_SCHEDULER_MACHINE_NODE_REDUCE_DECISION_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "core/node_reduce.h"
#include "scheduler/machine/rail_layout.h"
#include "scheduler/machine/scheduler_requests.h"

namespace shoal::scheduler {

struct NodeReduceRank {
  JobRank rank;
  std::string_view node;                       // its name, for the reason
  const NodeReduceRequest* request = nullptr;  // null: its version cannot reduce within a node
};

struct NodeReduceDecision {
  NodeReduceMode mode = NodeReduceMode::kFlat;
  std::string reason;  // of kFlat, for operators
  RailLayout rails;    // of kRails; ranks are places among the members
};

// `members`: those of the group's ranks that are known, in group order; what it says holds as long as no other comes.
NodeReduceDecision DecideNodeReduce(size_t group_size, const std::vector<NodeReduceRank>& members);

// How many push a whole tensor between them to the servers of the rank's job: its nodes, if ranks reduce within theirs,
// else its ranks. Asked before the other ranks are known, so it takes the rank's node for one of equal nodes. It counts
// ranks where the world size is no multiple of the node's ranks, or their number is not known.
uint32_t CountPushers(const JoinJob& request);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_NODE_REDUCE_DECISION_H_
