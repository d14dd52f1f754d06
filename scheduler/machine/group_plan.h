// Which servers a group works with, with which shares: the shard map of one group. Pure; any thread.
#ifndef SHOAL_SCHEDULER_MACHINE_GROUP_PLAN_H_
#define SHOAL_SCHEDULER_MACHINE_GROUP_PLAN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/flow_plan.h"
#include "core/ids.h"
#include "core/shard_map.h"
#include "scheduler/machine/node_place.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

struct GroupPlan {
  std::shared_ptr<const ShardMap> map;
  PortLoad load;             // busiest_port: where all ranks of the job reduce at the same time
  bool within_node = false;  // all its ranks and servers are on one node
  std::string servers;  // in words: "4 servers on their own nodes (weight 7), 8 servers on ranks' nodes (weight 2)"
};

// Whether a group with ranks on these nodes may use the server. A colocated server is used only by groups that have a
// rank on its node.
bool MayServe(const ServerState& server, const NodeNumbering& nodes);

// What may meet at the ports while a group reduces. The job's other ranks have groups as well, which mostly start at
// the same time: the replicas of hybrid sharding, or of tensor parallelism within nodes, the stages of a pipeline.
struct NodePorts {
  std::span<const NodePlace> job;  // where each of the job's live ranks is; empty: the group is alone
  uint32_t to_come = 0;            // ranks of the job that have not joined yet; they may be anywhere
  uint32_t network_cards = 1;      // of each node; its ranks are dealt over them
};

// `servers` are those that serve the group's job; `places` says where each rank of the group is. `ports` matters for
// GroupPlan::load alone.
// InvalidArgument: none of the servers may serve the group, or the map can't be made (ShardMap::Make).
absl::StatusOr<GroupPlan> PlanGroup(Epoch epoch, const std::vector<const ServerState*>& servers,
                                    std::span<const NodePlace> places, const NodePorts& ports = {});

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_GROUP_PLAN_H_
