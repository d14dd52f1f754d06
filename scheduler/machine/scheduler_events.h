// What the scheduler's machine takes and gives: requests and events in, actions out. Plain values without behaviour;
// the protobuf messages of the same names (proto/shoal/v1) are turned into these and back by control_messages.h.
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_EVENTS_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/flow_plan.h"
#include "core/frame.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/shard_map.h"
#include "core/token.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

using shoal::kNoDeadline;
using shoal::Now;

using RequestHandle = StrongId<struct RequestHandleTag, uint64_t>;  // a call that waits for its reply
using WatcherId = StrongId<struct WatcherIdTag, uint64_t>;          // an open stream

// ---- requests ----

struct RegisterServer {
  uint32_t control_version = 0;
  std::string software_version;
  std::string name;
  Incarnation incarnation;
  std::vector<std::string> addresses;  // one per I/O thread
  uint32_t weight = 0;                 // of each I/O thread; 0 means 1
  std::string node;
  uint64_t slot_memory_bytes = 0;
  std::string transports;
  JobId job;  // of a server in a worker's process: the only one that it serves; 0: serves all
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
  std::string transports;  // what the connections use now, for people
  uint64_t corrupted_payloads = 0;
  uint64_t slot_memory_used_bytes = 0;
  std::map<std::string, uint64_t> refusals_by_reason;
};

struct HeartbeatServer {
  ServerId server;
  Incarnation incarnation;
  ServerLoad load;
};

struct DeregisterServer {
  ServerId server;
  Incarnation incarnation;
  std::string reason;
};

struct JoinJob {
  uint32_t control_version = 0;
  std::string software_version;
  std::string job_name;
  uint32_t world_size = 0;
  uint32_t rank = 0;
  Incarnation incarnation;
  std::string node;
  uint32_t pid = 0;
  uint32_t colocation = 0;  // number of a Colocation
  bool colocates_without_servers = false;
};

struct JoinGroup {
  JobId job;
  uint32_t rank = 0;  // of the job
  Incarnation incarnation;
  std::string group_name;
  std::vector<uint32_t> ranks;   // of the job, in group order
  uint32_t max_chunk_bytes = 0;  // 0: chosen by core/flow_plan.h
  uint32_t min_servers = 0;      // 0 means 1
  uint64_t wait_ms = 0;
  LinkFacts link;
  uint32_t wire = 0;            // number of a WireFormat
  uint64_t request_number = 0;  // see GroupRequestId
};

struct WorkerLoad {
  uint64_t ops_completed = 0;
  uint64_t ops_failed = 0;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  uint64_t op_time_ns_total = 0;
  std::string transports;  // by which it reaches its servers, for people
};

struct HeartbeatWorker {
  JobId job;
  uint32_t rank = 0;
  Incarnation incarnation;
  WorkerLoad load;
};

struct LeaveJob {
  JobId job;
  uint32_t rank = 0;
  Incarnation incarnation;
  std::string reason;
  bool failed = false;
};

struct ReportServer {
  JobId job;
  uint32_t rank = 0;
  Incarnation incarnation;  // of the rank's process
  GroupId group;
  Epoch epoch;
  ServerId server;
  Incarnation server_incarnation;
  bool reachable = false;
  std::string reason;
};

struct DrainServer {
  std::string name;
};

struct GetCluster {};
struct ListServers {};
struct ListJobs {};
struct GetShardMap {};

using Request = std::variant<RegisterServer, HeartbeatServer, DeregisterServer, JoinJob, JoinGroup, HeartbeatWorker,
                             LeaveJob, ReportServer, DrainServer, GetCluster, ListServers, ListJobs, GetShardMap>;

// ---- replies ----

struct ServerRegistered {
  ServerId server;
  uint64_t lease_ttl_ms = 0;
  TokenKey token_key{};
  Epoch epoch;
};

struct ServerRenewed {
  uint64_t lease_ttl_ms = 0;
  Epoch epoch;
  bool drain = false;  // it is to leave
};

struct ServerDraining {
  ServerId server;
  Incarnation incarnation;
  bool was_draining = false;
  uint32_t groups_kept = 0;  // that have no other server
};

struct JobJoined {
  JobId job;
  uint64_t lease_ttl_ms = 0;
  uint32_t server_count = 0;     // that serve the job
  bool colocate_server = false;  // the process is to run one
};

struct GroupJoined {
  GroupId group;
  std::array<std::byte, kGroupTokenBytes> token{};
  std::shared_ptr<const ShardMap> map;
  std::vector<std::string> nodes;  // by rank of the group
  uint32_t look_ahead_chunks = 0;  // core/flow_plan.h
  LinkFacts link;                  // that the group was planned with
  double busiest_port = 1;         // core/flow_plan.h
};

struct WorkerRenewed {
  uint64_t lease_ttl_ms = 0;
  std::vector<std::string> waits;  // for people: of its requests for groups, those that wait already some time
};

struct Done {};

struct ClusterView {
  std::string cluster_id;
  Epoch epoch;
  uint32_t servers_live = 0;
  uint32_t servers_lost = 0;
  uint32_t jobs = 0;
  uint32_t workers = 0;
  uint64_t started_at_unix_ms = 0;
  uint64_t lease_ttl_ms = 0;
  std::string store;
};

struct ServerView {
  ServerState state;
  uint64_t last_heartbeat_age_ms = 0;
  ServerLoad load;
};

struct RankView {
  uint32_t rank = 0;
  RankState state;
  uint64_t last_heartbeat_age_ms = 0;
  WorkerLoad load;
};

struct GroupView {
  GroupState state;
  bool open = false;  // false: waits for ranks or servers, has no id yet
  std::vector<uint32_t> missing_ranks;
};

struct JobView {
  JobId job;
  std::string name;
  uint32_t world_size = 0;
  JobPhase phase = JobPhase::kJoining;
  uint64_t started_at_unix_ms = 0;
  std::vector<RankView> ranks;
  std::vector<GroupView> groups;
};

using Response =
    std::variant<Done, ServerRegistered, ServerRenewed, ServerDraining, JobJoined, GroupJoined, WorkerRenewed,
                 ClusterView, std::vector<ServerView>, std::vector<JobView>, std::shared_ptr<const ShardMap>>;

// ---- events ----

struct RequestArrived {
  RequestHandle handle;
  Request request;
};
struct RequestCancelled {  // the caller hung up: forget the handle, no reply
  RequestHandle handle;
};
struct WatchOpened {
  WatcherId watcher;
  JobId job;  // 0: map changes only
};
struct EventsOpened {
  WatcherId watcher;
  bool follow = false;
  uint64_t after_sequence = 0;
};
struct StreamClosed {  // either kind of stream, by its reader
  WatcherId watcher;
};
struct Persisted {
  uint64_t number = 0;  // of the Persist
  absl::Status status;
};

using SchedulerEvent =
    std::variant<RequestArrived, RequestCancelled, WatchOpened, EventsOpened, StreamClosed, Persisted>;

// ---- actions ----

struct RankLost {
  JobId job;
  uint32_t rank = 0;
  std::string node;
  std::string reason;
  Incarnation incarnation;
};

// Something that happened, for people.
struct EventRecord {
  uint64_t sequence = 0;
  uint64_t at_unix_ms = 0;
  std::string kind;
  std::string subject;
  std::string reason;
  Epoch epoch;
};

struct Persist {  // save it, then report Persisted with the number; at most one is under way
  uint64_t number = 0;
  PersistedState state;
};
struct Reply {
  RequestHandle handle;
  absl::StatusOr<Response> response;
};
struct GroupMap {
  GroupId group;
  std::shared_ptr<const ShardMap> map;
};
// No server is left that serves the job: these ranks are to run one each.
struct ColocationRequest {
  std::vector<uint32_t> ranks;
  std::string reason;
};
struct SendWatch {
  WatcherId watcher;
  std::shared_ptr<const ShardMap> map = nullptr;  // null: unchanged
  std::vector<RankLost> lost_ranks = {};
  std::vector<GroupMap> groups = {};  // of the watched job, those whose map changed
  std::optional<ColocationRequest> colocation = std::nullopt;
};
struct SendEvent {
  WatcherId watcher;
  EventRecord event;
};
struct CloseStream {
  WatcherId watcher;
  absl::Status status;
};
struct EventRecorded {  // for the log
  EventRecord event;
};

using Action = std::variant<Persist, Reply, SendWatch, SendEvent, CloseStream, EventRecorded>;

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_EVENTS_H_
