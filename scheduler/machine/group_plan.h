// Which servers a group works with, with which shares: the shard map of one group. Pure; any thread.
#ifndef SHOAL_SCHEDULER_MACHINE_GROUP_PLAN_H_
#define SHOAL_SCHEDULER_MACHINE_GROUP_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/flow_plan.h"
#include "core/ids.h"
#include "core/shard_map.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

struct GroupPlan {
  std::shared_ptr<const ShardMap> map;
  PortLoad load;
  bool within_node = false;  // its ranks and servers are on nodes of one name
  std::string servers;       // for people: "4 servers apart (weight 7), 8 on ranks' nodes (weight 2)"
};

// Whether a group with ranks on these nodes may use the server. One in a worker's process is used only where a rank of
// the group is on its node.
bool MayServe(const ServerState& server, const std::vector<std::string>& nodes);

// `servers` are those that serve the group's job; `nodes` has the node of each rank of the group.
// InvalidArgument: none of the servers may serve it, or the map can't be made (ShardMap::Make).
absl::StatusOr<GroupPlan> PlanGroup(Epoch epoch, const std::vector<const ServerState*>& servers,
                                    const std::vector<std::string>& nodes);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_GROUP_PLAN_H_
