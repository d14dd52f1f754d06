// What servers, workers and operators ask of the scheduler. Plain values; the protobuf messages of the same names
// (proto/shoal/v1) are turned into these by control_messages.h.
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_REQUESTS_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_REQUESTS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/flow_plan.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/op_time_histogram.h"
#include "core/partial_op.h"
#include "core/server_wait.h"
#include "core/trace_request.h"

namespace shoal::scheduler {

struct RegisterServer {
  uint32_t control_version = 0;
  uint32_t oldest_control_version = 0;
  std::string software_version;
  std::string name;
  Incarnation incarnation;
  std::vector<std::string> addresses;  // one per I/O thread
  uint32_t weight = 0;                 // of each I/O thread; 0 means 1
  std::string node;
  uint64_t slot_memory_bytes = 0;
  std::string transports;
  JobId job;                 // of a colocated server: the only job that it serves; 0: it serves all jobs
  std::string boot_id = {};  // as in scheduler.proto; empty: not told
  bool can_encrypt = false;
  std::string identity = {};  // of who registers it; empty: callers are not asked for theirs
};

// Slot memory that a server has reserved for the open groups of a job.
struct JobMemory {
  JobId job;
  uint64_t bytes = 0;

  friend bool operator==(const JobMemory&, const JobMemory&) = default;
};

// Counters since the start of the incarnation, gauges as they are now.
struct ServerLoad {
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t chunks_reduced = 0;
  uint64_t refusals = 0;
  uint32_t groups_open = 0;
  uint32_t peers = 0;
  uint32_t shared_memory_peers = 0;
  std::string transports;  // what the connections use now, human-readable
  uint64_t corrupted_payloads = 0;
  uint64_t slot_memory_used_bytes = 0;
  std::map<std::string, uint64_t> refusals_by_reason;
  uint64_t contributions = 0;
  uint64_t ops = 0;  // whose first chunk was summed there
  uint64_t groups_failed = 0;
  uint32_t absent_ranks = 0;
  uint32_t slots = 0;  // of the open groups
  uint32_t slots_in_use = 0;
  uint32_t pending_pushes = 0;                // that wait for a slot
  uint64_t reduce_ns_total = 0;               // for which it was summing, over all I/O threads
  std::vector<JobMemory> memory_by_job = {};  // the most first
};

// The server's connection to a rank broke, and other ranks of the group wait for that one. `rank`: of the group.
struct AbsentRankReport {
  JobId job;
  GroupId group;
  Epoch epoch;
  Rank rank;
  uint64_t ago_ms = 0;
  std::string because;
};

// For how long the other ranks of a group waited for a rank at the server, in a window; fields as in scheduler.proto.
struct LateRankReport {
  JobId job;
  GroupId group;
  Epoch epoch;
  Rank rank;
  uint32_t io_thread = 0;
  uint64_t window = 0;
  uint64_t window_ns = 0;
  uint64_t ago_ms = 0;
  uint32_t ops = 0;
  uint32_t late_ops = 0;
  uint64_t waited_ns = 0;
  uint64_t began_late_ns = 0;
  uint64_t spacing_ns = 0;
  uint64_t median_spacing_ns = 0;
};

// When it was, on this scheduler's clock, of a report that says `ago_ms`.
template <typename Report>
uint64_t TimeOf(const Report& report, Now now) {
  return now.monotonic_ns - std::min(report.ago_ms, now.monotonic_ns / kNsPerMs) * kNsPerMs;
}

struct HeartbeatServer {
  ServerId server;
  Incarnation incarnation;
  ServerLoad load;
  std::vector<AbsentRankReport> absent_ranks;
  std::vector<LateRankReport> late_ranks = {};
  uint64_t now_unix_ms = 0;  // by its clock; 0: not told
};

struct DeregisterServer {
  ServerId server;
  Incarnation incarnation;
  std::string reason;
};

// What a process says for itself about reducing among the ranks of one node.
struct NodeReduceRequest {
  uint32_t choice = 0;        // number of a NodeReduceChoice; for a group: the same on all ranks
  bool possible = false;      // the process has what it takes
  std::string node_identity;  // equal for processes that can meet; empty: not known
  bool can_rails = false;     // it has what it takes for a group with several such nodes, too

  friend bool operator==(const NodeReduceRequest&, const NodeReduceRequest&) = default;
};

// What a process says that joins an open job: one whose ranks come and go. It is told which rank it has; numbers are
// never used again.
struct OpenJob {
  uint32_t min_ranks = 0;     // the same on all ranks, 1 at least: when fewer are left, the job has failed
  std::string identity = {};  // who it is, whichever process it is now; for people

  friend bool operator==(const OpenJob&, const OpenJob&) = default;
};

struct JoinJob {
  uint32_t control_version = 0;
  uint32_t oldest_control_version = 0;
  std::string software_version;
  std::string job_name;
  uint32_t world_size = 0;
  JobRank rank;
  Incarnation incarnation;
  std::string node;
  uint32_t pid = 0;
  uint32_t colocation = 0;  // number of a Colocation
  bool colocates_without_servers = false;
  std::optional<NodeReduceRequest> node_reduce = std::nullopt;  // nullopt: its version cannot reduce within a node
  uint32_t min_servers = 0;       // that it waits for before it asks for groups; 0: its version does not say
  uint32_t local_world_size = 0;  // ranks on its node, as its launcher says; 0: not known, or its version does not say
  std::string boot_id = {};       // as in scheduler.proto; empty: not told
  bool can_encrypt = false;
  std::optional<OpenJob> open = std::nullopt;  // then world_size and rank are 0; nullopt: a job of fixed size
  std::string tenant = {};                     // of who joins; empty: callers are not asked for their identity
};

// What all ranks of a group must have alike, though each process is told for itself.
struct SharedOptions {
  bool checksums = false;
  uint32_t min_ranks = 0;  // above 0: the group goes on without ranks that are lost, as long as so many are left
  bool scales_sums = false;
  bool whole_op = false;

  friend bool operator==(const SharedOptions&, const SharedOptions&) = default;
};

struct JoinGroup {
  JobId job;
  JobRank rank;
  Incarnation incarnation;
  std::string group_name;
  std::vector<JobRank> ranks;    // in group order
  uint32_t max_chunk_bytes = 0;  // 0: chosen by core/flow_plan.h
  uint32_t min_servers = 0;      // 0 means 1
  uint32_t network_cards = 0;    // of the rank's node, over which its ranks are dealt; 0 means 1
  uint64_t wait_ms = 0;
  LinkFacts link;
  uint32_t wire = 0;                                    // number of a WireFormat
  uint64_t request_number = 0;                          // see GroupRequestId
  std::optional<SharedOptions> options = std::nullopt;  // nullopt: the process is older than these
  std::optional<NodeReduceRequest> node_reduce = std::nullopt;
};

// The rank has given the group up: the others are to be told.
struct GroupFailure {
  GroupId group;
  std::string reason;
  bool lacks_memory = false;  // then that is how the others' ops end, too
  // It has lost its node's other ranks, or they have lost it: in a group that goes on the other nodes do so.
  bool others_go_on = false;
};

// A JoinGroup request whose answer the rank does not wait for any more: the group that it opened is given up and
// closed.
struct GivenUpRequest {
  uint64_t number = 0;  // of a GroupRequestId
  std::string reason;
};

// The rank is done with these groups of its own.
struct CloseGroups {
  JobId job;
  JobRank rank;
  Incarnation incarnation;
  std::vector<GroupId> groups;
  std::vector<GivenUpRequest> given_up_requests;
  std::vector<GroupFailure> failures = {};
  std::vector<GroupId> committed_groups = {};  // of `groups`: it knew that all ranks have all results of its ops
};

struct WorkerLoad {
  uint64_t ops_completed = 0;
  uint64_t ops_failed = 0;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  uint64_t op_time_ns_total = 0;
  uint64_t away_ns_total = 0;     // no op was under way
  uint64_t counted_ns_total = 0;  // the time in which away_ns_total grew
  std::string transports = "";    // by which it reaches its servers, human-readable
  OpTimeHistogram op_times = {};  // of the ops that ended well
  uint64_t refusals = 0;
  uint64_t bytes_on_node = 0;     // of tensors that were reduced within its node
  uint64_t retained_results = 0;  // chunks whose results it keeps for other ranks, now

  // False: op_times lack some of the ops, because the process, or one of several, is too old to tell.
  bool HasOpTimes() const { return op_times.Total() == ops_completed; }
};

// For how long a rank's ops in a group waited for single servers, in a window; fields as in scheduler.proto.
struct ServerWaitReport {
  GroupId group;
  Epoch epoch;
  uint64_t window = 0;
  uint64_t window_ns = 0;
  uint64_t ago_ms = 0;
  uint32_t bursts = 0;
  std::vector<ServerWait> servers = {};
};

struct HeartbeatWorker {
  JobId job;
  JobRank rank;
  Incarnation incarnation;
  WorkerLoad load;
  std::vector<ServerWaitReport> server_waits = {};
  std::vector<PartialOp> partial_ops = {};
};

struct LeaveJob {
  JobId job;
  JobRank rank;
  Incarnation incarnation;
  std::string reason;
  bool failed = false;
  std::vector<GroupFailure> failures = {};
  std::vector<GivenUpRequest> given_up_requests = {};
  std::vector<GroupId> committed_groups = {};  // as in CloseGroups, of groups that no CloseGroups has told
  std::optional<WorkerLoad> load = {};         // all that it has counted; nullopt: not told
  std::vector<PartialOp> partial_ops = {};
};

struct ReportServer {
  JobId job;
  JobRank rank;
  Incarnation incarnation;  // of the rank's process
  GroupId group;
  Epoch epoch;
  ServerId server;
  Incarnation server_incarnation;
  bool reachable = false;
  std::string reason;
  bool refused = false;                     // it is reached, and has no memory for the group
  std::optional<Rank> left = std::nullopt;  // it says that this rank has left, and does not call an op that is open
};

struct DrainServer {
  std::string name;
};

struct UndrainServer {
  std::string name;
};
struct EvictServer {
  std::string name;
};
struct AbortJob {
  std::string name;
  std::string reason;  // in the operator's words; may be empty
};

struct TraceJob {
  std::string name;
  uint64_t duration_ms = 0;
  uint32_t kind = 0;  // number of a TraceKind
};
// What a member has recorded.
struct SendTrace {
  uint64_t trace = 0;
  TraceMemberId member;
  uint32_t io_thread = 0;  // of a server
  std::string record;
};
struct GetTrace {
  uint64_t trace = 0;
  uint32_t member = 0;  // whose record is wanted, counted from 1; 0: none
};

// What a member's connections did before a group failed on it.
struct SendFlightRecord {
  JobId job;  // of the group
  GroupId group;
  JobRank rank;             // of a rank
  ServerId server;          // of a server; 0: of a rank
  uint32_t io_thread = 0;   // of a server
  Incarnation incarnation;  // of the member's process
  std::string record;
};
struct GetFlightRecords {
  std::string job_name;  // empty: of any job
  GroupId group;         // 0: the one that failed last
  uint32_t member = 0;   // whose record is wanted, counted from 1; 0: none
};

struct GetCluster {};
struct ListServers {
  std::string name = {};        // empty: all
  uint32_t page_size = 0;       // 0: as many as a page has room for
  std::string page_token = {};  // empty: the first page
};
struct ListJobs {
  std::string name = {};        // empty: all; else those of this name
  uint32_t page_size = 0;       // as above
  std::string page_token = {};  // as above
  bool without_groups = false;
};
struct GetShardMap {};

// A ticket for somebody who measures the way to servers, and belongs to no job.
struct GetTicket {};

// What the insight machine answers, and the membership does not look at.
using Inquiry =
    std::variant<TraceJob, SendTrace, GetTrace, SendFlightRecord, GetFlightRecords, GetCluster, ListServers, ListJobs>;
using Request = std::variant<RegisterServer, HeartbeatServer, DeregisterServer, JoinJob, JoinGroup, CloseGroups,
                             HeartbeatWorker, LeaveJob, GetTicket, ReportServer, DrainServer, UndrainServer,
                             EvictServer, AbortJob, GetShardMap, Inquiry>;

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_REQUESTS_H_
