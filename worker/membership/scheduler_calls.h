// What a worker says to the scheduler, and what it is answered, as plain values: the language of SchedulerPort.
#ifndef SHOAL_WORKER_MEMBERSHIP_SCHEDULER_CALLS_H_
#define SHOAL_WORKER_MEMBERSHIP_SCHEDULER_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/colocation.h"
#include "core/connection_ticket.h"
#include "core/flow_plan.h"
#include "core/ids.h"
#include "core/node_reduce.h"
#include "core/shard_map.h"
#include "core/trace_request.h"
#include "core/wire_format.h"
#include "worker/machine/group_info.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_counters.h"
#include "worker/machine/worker_outcomes.h"

namespace shoal {

// Numbers that the machine gives to its calls and streams; never used twice, never 0.
using CallId = StrongId<struct CallIdTag, uint64_t>;
using WatchId = StrongId<struct WatchIdTag, uint64_t>;

// ---- calls ----

// What this process says for itself about reducing among the ranks of one node.
struct NodeReduceRequest {
  NodeReduceChoice choice = NodeReduceChoice::kAuto;  // for a group: the scheduler refuses it if another rank's differs
  bool possible = false;                              // the process has what it takes
  bool can_rails = false;                             // and has it for a group with several such nodes, too
  std::string node_identity;                          // process/node_identity.h
};

// Of an open job, whose ranks come and go.
struct OpenJob {
  uint32_t min_ranks = 1;  // when fewer are left, the job has failed; the same on all ranks
  std::string identity;    // who this rank is, whichever process it is now; for people
};

// This process's identity in its job.
struct JobMember {
  std::string job_name;
  JobRank rank;             // of an open job: 0
  uint32_t world_size = 0;  // of an open job: 0
  std::optional<OpenJob> open = std::nullopt;
  Incarnation incarnation;
  std::string node;
  std::string boot_id;                       // process/node_identity.h; empty: the node's name says who is on it
  Colocation colocation = Colocation::kOff;  // whether it would run a colocated server
  bool colocates_without_servers = false;    // and whether it would when no server is left
  NodeReduceRequest node_reduce;
  uint32_t local_world_size = 0;  // ranks of the job on this node, as the launcher says; 0: not known
  bool can_encrypt = false;       // what it sends and receives between nodes
};

// How a member is named in its later calls.
struct MemberId {
  JobId job;
  JobRank rank;
  Incarnation incarnation;
};

struct JoinJobCall {
  JobMember member;
  uint32_t min_servers = 0;  // that it waits for before it asks for groups, for those who look at the job
};

struct GroupRequest {
  std::string name;
  std::vector<uint32_t> ranks;   // of the job, in group order
  uint32_t max_chunk_bytes = 0;  // 0: the scheduler chooses
  LinkFacts link;                // as measured
  uint32_t network_cards = 1;    // of the node, over which its ranks are dealt
  uint32_t min_servers = 1;
  WireFormat wire = WireFormat::kAsIs;
  // Of this process; the scheduler refuses the group if those of another rank differ.
  bool checksums = false;
  uint32_t min_ranks = 0;  // GroupInfo's, as are the next two
  bool scales_sums = false;
  bool whole_op = false;
  NodeReduceRequest node_reduce;
};

struct JoinGroupCall {
  MemberId member;
  GroupRequest group;
  uint64_t request_number = 0;  // 1, 2, ... of this incarnation; a call that is repeated keeps its number
  uint64_t wait_ms = 0;         // how long the scheduler may wait for the other ranks and for servers
};

// A JoinGroupCall whose answer nobody waits for. If it opened a group, the other ranks are told.
struct GivenUpRequest {
  uint64_t number = 0;
  std::string reason;

  friend bool operator==(const GivenUpRequest&, const GivenUpRequest&) = default;
};

struct CloseGroupsCall {
  MemberId member;
  std::vector<GroupId> groups;
  std::vector<GivenUpRequest> given_up_requests;
  std::vector<GroupFailure> failures = {};     // the other ranks are told
  std::vector<GroupId> committed_groups = {};  // of `groups`: all ranks have all results of its ops
};

struct HeartbeatCall {
  MemberId member;
  WorkerCounters load;
  uint64_t made_ns = 0;  // on the clock of load.server_waits
};

struct ReportServerCall {
  MemberId member;
  ServerTrouble trouble;
};

struct LeaveJobCall {
  MemberId member;
  std::string reason;
  bool failed = false;  // the other ranks are told that this one is lost
  // What no CloseGroupsCall has told yet.
  std::vector<GroupFailure> failures = {};
  std::vector<GivenUpRequest> given_up_requests = {};
  std::vector<GroupId> committed_groups = {};
  std::optional<WorkerCounters> load = {};  // all that it has counted
};

using SchedulerCall =
    std::variant<JoinJobCall, JoinGroupCall, CloseGroupsCall, HeartbeatCall, ReportServerCall, LeaveJobCall>;

// ---- answers ----

struct JoinedJob {
  JobId id;
  JobRank rank;  // which an open job has given; of a fixed one an older scheduler's answer has none
  uint64_t lease_ttl_ms = 0;
  uint32_t server_count = 0;      // registered now that serve this job
  bool colocate_server = false;   // this process is to run a colocated server for the job
  bool needs_no_servers = false;  // all its ranks have joined, and can reduce among themselves on one node
  ConnectionTicket ticket = {};   // for connections to servers
};

struct JoinedGroup {
  GroupId id;
  std::vector<std::byte> token;         // core/frame.h GroupToken in wire form
  std::shared_ptr<const ShardMap> map;  // that the group works with; never null, empty if it has no servers
  std::vector<std::string> nodes;       // by rank of the group
  uint32_t look_ahead_chunks = 0;       // core/flow_plan.h
  LinkFacts link;                       // that the group was planned with
  double busiest_port = 1;              // core/flow_plan.h
  double busiest_link = 0;              // core/flow_plan.h; 0: as busiest_port
  NodeReduceMode node_reduce = NodeReduceMode::kFlat;
  std::string meeting_name;  // under which the ranks of one node meet
  // With rails alone, as ranks of the group: those of the own node in local order, and of the own rail, node by node.
  std::vector<Rank> local_ranks;
  std::vector<Rank> rail_ranks;
  GroupId whole_group = {};                   // the same on all ranks; 0: `id` is that
  std::vector<std::byte> sealed_roster = {};  // of the map's epoch (core/token.h)
};

struct HeartbeatAnswer {
  uint64_t lease_ttl_ms = 0;
  std::vector<std::string> waits;  // groups that this rank waits for already some time, and for whom; human-readable
  std::vector<std::string> news = {};  // of the job, for its rank 0; human-readable
  std::optional<TraceRequest> trace = std::nullopt;
  ConnectionTicket ticket = {};  // in place of the one before
};

// To ReportServerCall: what the group's ranks were told since the report's epoch, if anything.
struct ReportAnswer {
  std::vector<MoveGroupCommand> moved_groups;
  std::vector<GiveGroupUpCommand> given_up_groups;
};

struct CallDone {};  // to CloseGroupsCall and LeaveJobCall

using SchedulerAnswer = std::variant<CallDone, JoinedJob, JoinedGroup, HeartbeatAnswer, ReportAnswer>;

// ---- what a Watch stream tells ----

// Each part is empty if nothing changed.
struct WatchNews {
  std::shared_ptr<const ShardMap> map;
  std::vector<RankLostCommand> lost_ranks;
  std::vector<MoveGroupCommand> moved_groups;
  std::vector<GiveGroupUpCommand> given_up_groups;
  // Ranks that are to run a colocated server, as none is left; and why that is so.
  std::vector<uint32_t> colocation_wanted;
  std::string colocation_wanted_because;
};

// ---- events ----

// The only end of a call. The errors are those of SchedulerPort.
struct CallEnded {
  CallId call;
  absl::StatusOr<SchedulerAnswer> answer;
};

struct WatchNewsCame {
  WatchId watch;
  WatchNews news;
};

// The stream broke or the scheduler closed it: nothing more comes of it.
struct WatchEnded {
  WatchId watch;
};

using SchedulerPortEvent = std::variant<CallEnded, WatchNewsCame, WatchEnded>;

// How a port says that a call's deadline passed in silence.
inline constexpr char kNoAnswer[] = "no answer";

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_SCHEDULER_CALLS_H_
