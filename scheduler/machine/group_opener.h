// Opens groups whose ranks are all there: on one node, with rails, or flat, and tells the ranks what they need to
// begin. Pure; one thread.
#ifndef SHOAL_SCHEDULER_MACHINE_GROUP_OPENER_H_
#define SHOAL_SCHEDULER_MACHINE_GROUP_OPENER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/shard_map.h"
#include "core/token.h"
#include "scheduler/machine/decisions.h"
#include "scheduler/machine/group_ends.h"
#include "scheduler/machine/group_rounds.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/node_reduce_decision.h"
#include "scheduler/machine/scheduler_state.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

// Servers that join later are shown it as well.
inline constexpr uint64_t kTokenLifetimeSeconds = uint64_t{365} * 24 * 3600;

class GroupOpener {
 public:
  struct Settings {
    std::string cluster_id;
    TokenKey token_key{};
    uint64_t port_buffer_bytes = 0;  // of ports between nodes; 0: not known
  };

  // All outlive it.
  GroupOpener(Settings settings, uint64_t next_group_id, const ServerRegistry* servers, JobRegistry* jobs,
              GroupEnds* ends, Decisions* decisions);

  // All ranks of the round get an answer: their group, or why there is none.
  void Open(const GroupRound& round, Now now);
  // Answers a rank of an open group. `rank`: in the group, or in the rail; `map` is its newest.
  void TellOpened(RequestHandle handle, const Job& job, const GroupState& group, Rank rank,
                  const std::shared_ptr<const ShardMap>& map, Now now);

  // For the state that is saved.
  uint64_t next_group_id() const { return next_group_id_; }

 private:
  void Refuse(const GroupRound& round, const absl::Status& status);
  void OpenOnNode(const GroupRound& round, const Job& job, Now now);
  void OpenOnServers(const GroupRound& round, const Job& job, const NodeReduceDecision& decision, Now now);
  // Not opened yet: a group, or one rail with some of the round's ranks; and all rails of a group.
  GroupState NewGroup(const GroupRound& round, std::vector<JobRank> ranks);
  std::vector<GroupState> NewRails(const GroupRound& round, const RailLayout& layout);
  void TellAllOpened(const GroupRound& round, const Job& job, const GroupState& group,
                     const std::shared_ptr<const ShardMap>& map, Now now);

  const Settings settings_;
  const ServerRegistry& servers_;
  JobRegistry& jobs_;
  GroupEnds& ends_;
  Decisions& decisions_;
  uint64_t next_group_id_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_GROUP_OPENER_H_
