// What a worker knows of a group before it opens it.
#ifndef SHOAL_WORKER_MACHINE_GROUP_INFO_H_
#define SHOAL_WORKER_MACHINE_GROUP_INFO_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/flow_plan.h"
#include "core/ids.h"
#include "core/node_reduce.h"
#include "core/shard_map.h"
#include "core/wire_format.h"

namespace shoal {

// The caller's own number of a group, chosen by the sender of OpenGroupCommand; not used again while the group is open.
using GroupHandle = StrongId<struct GroupHandleTag, uint16_t>;
inline constexpr size_t kMaxWorkerGroups = 256;

// What the scheduler answered to JoinGroup, as the data plane needs it. Does not change while the group is open.
struct GroupInfo {
  GroupId id;
  std::string name;
  Rank rank;                       // of this worker in the group
  std::vector<JobRank> job_ranks;  // by rank of the group
  std::vector<std::string> nodes;  // by rank of the group, for messages
  uint32_t max_chunk_bytes = 0;
  uint32_t credit_chunks = 0;      // to each shard, as planned; a server may give less
  uint32_t look_ahead_chunks = 0;  // core/flow_plan.h
  LinkFacts link;                  // that the group was planned with
  double busiest_port = 1;         // core/flow_plan.h
  double busiest_link = 1;         // core/flow_plan.h
  WireFormat wire = WireFormat::kAsIs;
  // Above 0: it goes on without ranks that are lost, as long as so many are left. (A rail: without nodes.)
  uint32_t min_ranks = 0;
  bool scales_sums = false;      // a sum without the contributions of some is scaled up to all of the group
  bool whole_op = false;         // an op whose chunks have different contributors is repeated
  std::vector<std::byte> token;  // in wire form
  // Of the epoch in which the scheduler answered, which is a later one than the token's if the group has moved by then.
  // Empty if the group has no servers (kNodeAlone).
  std::shared_ptr<const ShardMap> map;
  std::vector<std::byte> sealed_roster;  // of the same epoch (core/token.h); empty: all of its ranks
  NodeReduceMode node_reduce = NodeReduceMode::kFlat;
  std::string meeting_name;  // under which the ranks of one node meet; empty where they do not (kFlat)

  // Of kRails alone. The rail has the same id, token and map; what is not the whole group's is its own: its ranks, one
  // for each node, whose place in it is the node's. It has no rail in turn, and no local ranks.
  std::vector<Rank> local_ranks;          // of the own node, as ranks of the group; the own place is the local rank
  std::shared_ptr<const GroupInfo> rail;  // null if there are no rails

  GroupId whole_group = {};  // names the group on all of its ranks, though each rail has an id of its own

  // One rail of a group with rails, and not the group that callers know.
  bool is_rail() const { return node_reduce == NodeReduceMode::kRails && rail == nullptr; }
  uint32_t size() const { return static_cast<uint32_t>(job_ranks.size()); }
  // How many ranks of the group this node has, their ranks in the group, and this worker's place among them. (Where
  // there are no rails, they are all ranks.)
  uint32_t local_size() const { return rail == nullptr ? size() : static_cast<uint32_t>(local_ranks.size()); }
  Rank RankOfLocal(uint32_t local_rank) const { return rail == nullptr ? Rank(local_rank) : local_ranks[local_rank]; }
  uint32_t local_rank() const {
    if (rail == nullptr) return rank.value();
    return static_cast<uint32_t>(std::find(local_ranks.begin(), local_ranks.end(), rank) - local_ranks.begin());
  }
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_GROUP_INFO_H_
