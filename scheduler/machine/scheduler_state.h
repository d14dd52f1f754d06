// What a scheduler must still know after a restart, as plain values. state_codec.h turns it into bytes and back.
//
// Times of leases are not in it: after a restart every known member gets one full lease to show up again.
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_STATE_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/flow_plan.h"
#include "core/ids.h"
#include "core/node_reduce.h"
#include "core/shard_map.h"
#include "core/token.h"
#include "core/wire_format.h"
#include "scheduler/machine/rail_layout.h"
#include "scheduler/machine/scheduler_requests.h"

namespace shoal::scheduler {

// Of a server or of a rank. Numbers are stored: never renumber.
enum class MemberPhase : uint8_t { kLive = 1, kLost = 2, kLeft = 3 };

// Of a job. kJoining: some ranks have not come yet. kFailed: a rank was lost, an operator aborted it, or all ranks left
// after a group had failed or was not made, and none was made since. kEnded: all ranks left. Never renumber.
enum class JobPhase : uint8_t { kJoining = 1, kRunning = 2, kFailed = 3, kEnded = 4 };

constexpr std::string_view MemberPhaseName(MemberPhase phase) {
  return phase == MemberPhase::kLive ? "live" : phase == MemberPhase::kLost ? "lost" : "left";
}

constexpr std::string_view JobPhaseName(JobPhase phase) {
  return phase == JobPhase::kJoining   ? "joining"
         : phase == JobPhase::kRunning ? "running"
         : phase == JobPhase::kFailed  ? "failed"
                                       : "ended";
}

struct ServerState {
  ServerId id;
  std::string name;
  Incarnation incarnation;
  Incarnation evicted_incarnation;  // the live one whose place this one took over; 0: none
  MemberPhase phase = MemberPhase::kLive;
  bool draining = false;  // this incarnation was asked to leave, so it is in no new map
  std::string reason;     // why it is not live
  std::string node;
  std::string boot_id;  // as in NodePlace
  std::vector<std::string> addresses;
  uint32_t weight = 1;
  uint64_t slot_memory_bytes = 0;
  std::string transports;
  std::string software_version;
  uint64_t registered_at_unix_ms = 0;
  JobId job;                     // of a colocated server: the only job that it serves; 0: it serves all jobs
  uint64_t gone_at_unix_ms = 0;  // since when it is not live; 0: it is, or that is not known
  std::string identity = {};     // of who registered it; empty: callers were not asked for theirs

  friend bool operator==(const ServerState&, const ServerState&) = default;
};

constexpr std::string_view ServerStateName(const ServerState& server) {
  return server.phase == MemberPhase::kLive && server.draining ? "draining" : MemberPhaseName(server.phase);
}

struct RankState {
  Incarnation incarnation;
  MemberPhase phase = MemberPhase::kLive;
  std::string reason;  // why it is not live
  std::string node;
  std::string boot_id;  // as in NodePlace
  uint32_t pid = 0;
  bool colocates_without_servers = false;  // offers to run a colocated server if its job has no other server
  std::string identity = {};               // of an open job: OpenJob::identity
  std::optional<NodeReduceRequest> node_reduce = std::nullopt;  // as it said when it joined

  friend bool operator==(const RankState&, const RankState&) = default;
};

// One life of a server that a group does not use: one of its ranks can't reach it, or it has no memory for the group.
struct ExcludedServer {
  ServerId server;
  Incarnation incarnation;
  std::string refusal = "";  // no memory: which server lacks how much, in words; empty: out of reach

  friend bool operator==(const ExcludedServer&, const ExcludedServer&) = default;
};

// Names a request for a group: a process numbers its requests, and repeats one under its number until it has the
// answer.
struct GroupRequestId {
  Incarnation incarnation;
  uint64_t number = 0;  // 0: the process does not repeat it

  friend bool operator==(const GroupRequestId&, const GroupRequestId&) = default;
};

// What a group's ranks were told when it opened, kept for ranks that did not get the answer.
struct GroupOpening {
  Epoch epoch;  // of the first map, which the tokens name
  uint32_t credit_chunks = 0;
  uint32_t look_ahead_chunks = 0;
  LinkFacts link;
  double busiest_port = 1;
  double busiest_link = 1;
  std::vector<GroupRequestId> answered;  // by rank of the group

  friend bool operator==(const GroupOpening&, const GroupOpening&) = default;
};

// Of a rail: the group that it is a part of.
struct RailState {
  GroupId first_rail;                // names the whole group, also when that rail is closed
  uint32_t index = 0;                // of the rail
  std::vector<JobRank> group_ranks;  // of the whole group, in group order
  RailLayout layout;

  friend bool operator==(const RailState&, const RailState&) = default;
};

// A group, or one rail of a group: rails share a name and differ in all else.
struct GroupState {
  GroupId id;
  std::string name;
  Epoch epoch;                // of its map
  std::vector<Shard> shards;  // of its map; none if it uses no servers
  std::vector<ExcludedServer> excluded;
  std::vector<JobRank> ranks;  // in group order; of a rail: node by node
  std::set<JobRank> gone;      // of these: have closed it, or left the job
  uint32_t min_ranks = 0;      // above 0: it goes on without lost ranks, as long as so many of `ranks` are left
  std::set<JobRank> lost;      // of `gone`: not in its epoch, or in the next one
  std::vector<std::byte> sealed_roster;  // of its epoch, for which `lost` may have grown since (core/token.h)
  uint32_t max_chunk_bytes = 0;
  WireFormat wire = WireFormat::kAsIs;
  GroupOpening opening;
  // Not empty: given up by one of its ranks, or since no server that is left has the memory for it. Its ops end with
  // RESOURCE_EXHAUSTED then, or with ABORTED.
  std::string failure;
  bool ends_with_aborted = false;
  bool all_committed = false;  // a rank that has closed it knew that all ranks have all results of its ops
  NodeReduceMode node_reduce = NodeReduceMode::kFlat;
  std::optional<RailState> rail;  // of kRails alone

  // Of the whole group, of which this may be a rail.
  const std::vector<JobRank>& RanksOfWhole() const { return rail.has_value() ? rail->group_ranks : ranks; }

  // False: it has no map, and what becomes of servers is nothing to it.
  bool UsesServers() const { return node_reduce != NodeReduceMode::kNodeAlone; }
  // It has not failed, either: nothing keeps it on the servers of its map.
  bool NeedsServers() const { return UsesServers() && failure.empty(); }

  // How many ranks of its epoch have closed it, and the first of them.
  size_t ClosedCount() const { return gone.size() - lost.size(); }
  std::optional<Rank> FirstClosed() const {
    const auto first =
        std::ranges::find_if(ranks, [this](JobRank rank) { return gone.contains(rank) && !lost.contains(rank); });
    return first == ranks.end() ? std::nullopt : std::optional(Rank(static_cast<uint32_t>(first - ranks.begin())));
  }

  // The request by which a rank got the group; nullopt: not known.
  std::optional<GroupRequestId> RequestOf(JobRank rank) const {
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    const auto index = static_cast<size_t>(place - ranks.begin());
    if (place == ranks.end() || index >= opening.answered.size()) return std::nullopt;
    return opening.answered[index];
  }

  friend bool operator==(const GroupState&, const GroupState&) = default;
};

struct JobState {
  JobId id;
  std::string name;
  uint32_t world_size = 0;
  uint32_t min_ranks = 0;  // as Job has both
  JobPhase phase = JobPhase::kJoining;
  std::string failure;  // likewise
  uint64_t started_at_unix_ms = 0;
  std::map<JobRank, RankState> ranks;  // those that joined
  std::vector<GroupState> groups;      // open ones
  std::string tenant = {};             // likewise

  friend bool operator==(const JobState&, const JobState&) = default;
};

// Where a new cluster starts to count servers, jobs and groups: a scheduler that lost its state must not give out ids
// that servers and running jobs still use. Takes any random number; the result has ten digits at most.
inline uint64_t FirstIdOfNewCluster(uint64_t random) { return 1 + random % (uint64_t{1} << 31); }

struct PersistedState {
  std::string cluster_id;
  TokenKey token_key{};
  Epoch epoch;
  uint64_t next_server_id = 1;
  uint64_t next_job_id = 1;
  uint64_t next_group_id = 1;
  uint64_t reserved_event_numbers = 0;  // EventNumbers::reserved
  std::vector<ServerState> servers;     // by id
  std::vector<JobState> jobs;           // by id; only those with a live rank

  friend bool operator==(const PersistedState&, const PersistedState&) = default;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_STATE_H_
