// What the scheduler answers to requests. Plain values; control_messages.h turns them into the protobuf messages.
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_RESPONSES_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_RESPONSES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/connection_ticket.h"
#include "core/flow_plan.h"
#include "core/frame.h"
#include "core/ids.h"
#include "core/node_reduce.h"
#include "core/op_time_histogram.h"
#include "core/shard_map.h"
#include "core/token.h"
#include "core/trace_request.h"
#include "scheduler/machine/scheduler_numbers.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

struct ServerRegistered {
  ServerId server;
  uint64_t lease_ttl_ms = 0;
  TokenKey token_key{};
  Epoch epoch;
  bool is_colocated = false;  // this scheduler runs inside a worker
  uint64_t key_period = 0;    // core/connection_ticket.h
};

struct ServerRenewed {
  uint64_t lease_ttl_ms = 0;
  Epoch epoch;
  bool drain = false;         // an operator wants it to leave
  bool is_colocated = false;  // this scheduler runs inside a worker
  std::optional<TraceRequest> trace = std::nullopt;
  uint64_t key_period = 0;  // core/connection_ticket.h
};

struct ServerDraining {
  ServerId server;
  uint64_t registered_at_unix_ms = 0;  // of the process that was asked
  bool was_draining = false;
  uint32_t groups_kept = 0;  // open groups that have no other server
};

struct ServerUndrained {
  ServerId server;
  bool was_draining = false;
};

struct ServerEvicted {
  ServerId server;
  uint32_t groups_kept = 0;  // open groups that have not moved: no other server can take them, or not yet
};

struct JobAborted {
  JobId job;
  uint32_t groups_failed = 0;
  uint32_t live_ranks = 0;  // that are told
};

struct TraceStarted {
  uint64_t trace = 0;
  uint64_t ends_in_ms = 0;
  uint32_t members = 0;   // records that are to come
  uint32_t left_out = 0;  // members beyond kMostTraceMembers
};

struct TraceView {
  struct Member {
    std::string name;
    bool has_sent = false;
    bool is_gone = false;  // its process has left or is lost
  };

  uint64_t trace = 0;
  std::string job_name;
  uint64_t ends_in_ms = 0;  // 0: it has ended
  std::vector<Member> members = {};
  std::string record = "";  // of the member that was asked for; empty: it has not come
};

struct FlightRecordsView {
  GroupId group;
  std::string job_name;
  std::vector<std::string> members = {};   // that have sent one, in words
  std::vector<GroupId> other_groups = {};  // of the same job, of which there are records as well
  std::string record = "";                 // of the member that was asked for
};

struct JobJoined {
  JobId job;
  JobRank rank;  // which it asked for, or which an open job gave it
  uint64_t lease_ttl_ms = 0;
  uint32_t server_count = 0;      // that serve the job
  bool colocate_server = false;   // the process is to run a colocated server
  bool needs_no_servers = false;  // all ranks have joined, and can reduce among themselves on one node
  ConnectionTicket ticket = {};   // for its connections to servers
};

struct GroupJoined {
  GroupId group;
  std::array<std::byte, kGroupTokenBytes> token{};
  std::shared_ptr<const ShardMap> map;
  std::vector<std::string> nodes;  // by rank of the group
  uint32_t look_ahead_chunks = 0;  // core/flow_plan.h
  LinkFacts link;                  // that the group was planned with
  double busiest_port = 1;         // core/flow_plan.h
  double busiest_link = 1;         // core/flow_plan.h
  NodeReduceMode node_reduce = NodeReduceMode::kFlat;
  std::string meeting_name = "";  // not empty: under which the ranks of one node meet
  // With rails alone, as ranks of the group: those of the own node in local order, and of the own rail, node by node.
  // All the above is of the rail then, but for `nodes` and the meeting name.
  std::vector<Rank> local_ranks = {};
  std::vector<Rank> rail_ranks = {};
  GroupId whole_group = {};                   // the same on all ranks of the group
  std::vector<std::byte> sealed_roster = {};  // GroupMap's
};

struct WorkerRenewed {
  uint64_t lease_ttl_ms = 0;
  std::vector<std::string> waits;      // a line for each of its group requests that has waited for a while
  std::vector<std::string> news = {};  // for rank 0: of its job, not told yet
  std::optional<TraceRequest> trace = std::nullopt;
  ConnectionTicket ticket = {};  // in place of the one before
};

struct TicketIssued {
  ConnectionTicket ticket;
};

struct GroupMap {
  GroupId group;
  std::shared_ptr<const ShardMap> map;
  std::string failure = "";                   // not empty: the group is given up, and why
  bool ends_with_aborted = false;             // its ops, and not with RESOURCE_EXHAUSTED
  bool all_committed = false;                 // all ranks have all results of its ops
  std::vector<std::byte> sealed_roster = {};  // of the map's epoch (core/token.h)
  std::optional<Rank> closed = std::nullopt;  // one that is in the epoch, and has closed the group
};

struct ServerReported {
  // The group's map, if it is newer than the report, or the group was given up, or all of it is committed.
  std::optional<GroupMap> newer;
};

struct Done {};

// Per second, lately.
struct ServerRates {
  double bytes_in = 0;
  double bytes_out = 0;
  double chunks_reduced = 0;
  double ops = 0;
  double refusals = 0;
  double reducing = 0;  // seconds of summing
};

struct ServerView {
  ServerState state;
  bool heard = false;  // its load is known to this scheduler
  uint64_t last_heartbeat_age_ms = 0;
  ServerLoad load;
  std::optional<ServerRates> rates;                      // nullopt: not known yet
  std::optional<int64_t> clock_ahead_ms = std::nullopt;  // of the scheduler's; nullopt: not known
};

struct ServersPage {
  std::vector<ServerView> servers;
  std::string next_page_token = "";  // empty: this is the last page
};

// Per second, but for the times.
struct JobRates {
  double ops = 0;
  double failed_ops = 0;
  double bytes_pushed = 0;
  double bytes_pulled = 0;
  uint64_t mean_op_ns = 0;   // of ops that ended well meanwhile; 0: none did
  OpTimeHistogram op_times;  // of them; empty: a rank does not tell
};

// Per second.
struct RankRates {
  double ops = 0;
  double bytes_pushed = 0;
  double bytes_pulled = 0;
};

enum class SlowCause : uint8_t {
  kLateCompute,  // it calls its collectives later than others: it computes, reads data, or writes for longer
  kSlowReader,   // it was not away for longer, and its chunks come as close together as others': results reach it late
  kSlowLink      // its chunks come further apart than others'
};
constexpr std::string_view SlowCauseName(SlowCause cause) {
  return cause == SlowCause::kLateCompute  ? "late-compute"
         : cause == SlowCause::kSlowReader ? "slow-reader"
                                           : "slow-link";
}
// What it means and where to look.
constexpr std::string_view SlowCauseText(SlowCause cause) {
  switch (cause) {
    case SlowCause::kLateCompute:
      return "it calls its collectives later than the other ranks: look at its computation and its data loading";
    case SlowCause::kSlowReader:
      return "results reach it late, or small tensors from it do: look at its node's network, and at whether its "
             "threads get processor time";
    case SlowCause::kSlowLink:
      return "what it sends arrives slowly: look at its node's network link, and at whether its threads get processor "
             "time";
  }
  return "";
}

struct SlowRank {
  JobRank rank;
  double waited_share = 0;        // of the time, in the newest window; 0 to 1
  uint64_t waited_ns_per_op = 0;  // in the mean of that window
  SlowCause cause = SlowCause::kLateCompute;
  uint64_t since_unix_ms = 0;
};

struct SlowServer {
  ServerId server;
  Incarnation incarnation;
  std::string name;
  std::string node;
  double waited_share = 0;  // of the time, in the newest windows, for the mean of the ranks that say so; 0 to 1
  std::optional<JobRank> late_rank = std::nullopt;  // the way from it to the server is slow
  uint64_t since_unix_ms = 0;

  std::string_view CauseName() const { return late_rank.has_value() ? "slow-way" : "slow-server"; }
  // What it means and where to look.
  std::string Advice() const {
    if (late_rank.has_value()) {
      return absl::StrCat("it waits for what rank ", late_rank->value(),
                          " sends, which reaches the other servers in time: look at the network between the two");
    }
    return "its results come later than those of the other servers: look at its node's network link, at what else "
           "that carries, and at whether its threads get processor time";
  }
};

// Servers that are waited for, while there are too few.
struct MissingServers {
  uint32_t registered = 0;  // that serve the job, and do not drain
  uint32_t wanted = 0;

  friend bool operator==(const MissingServers&, const MissingServers&) = default;
};

struct RankView {
  JobRank rank;
  RankState state;
  uint64_t last_heartbeat_age_ms = 0;
  WorkerLoad load;
  std::optional<RankRates> rates = std::nullopt;  // not known yet, or the rank is not live
};

struct GroupView {
  GroupState state;
  bool open = false;  // false: it waits for ranks or servers and has no id yet
  std::vector<JobRank> missing_ranks;
  std::optional<MissingServers> missing_servers = std::nullopt;  // while it waits, and no rank is missing
};

// Or a part of one, if no page has room for all of it: then the next page goes on with it.
struct JobView {
  JobId job;
  std::string name;
  uint32_t world_size = 0;  // of an open job: its live ranks
  uint32_t min_ranks = 0;   // of an open job; 0: it is a fixed one
  JobPhase phase = JobPhase::kJoining;
  std::string failure;         // kFailed: why
  bool load_is_whole = false;  // that of every live rank is known to this scheduler
  uint64_t started_at_unix_ms = 0;
  uint64_t slot_memory_bytes = 0;  // on all live servers together
  WorkerLoad load;                 // of all ranks together: see JobLoad
  std::optional<JobRates> rates;   // nullopt: not known yet, or a rank has not been heard
  // Of ranks that wait for servers before they ask for groups: the most that any of them wants.
  std::optional<MissingServers> missing_servers = std::nullopt;
  std::vector<RankView> ranks;
  std::vector<GroupView> groups;
  std::vector<SlowRank> slow_ranks;
  std::vector<SlowServer> slow_servers;
};

struct JobsPage {
  std::vector<JobView> jobs;
  std::string next_page_token = "";  // empty: this is the last page
};

using Response =
    std::variant<Done, ServerRegistered, ServerRenewed, ServerDraining, ServerUndrained, ServerEvicted, JobAborted,
                 TraceStarted, TraceView, FlightRecordsView, JobJoined, GroupJoined, WorkerRenewed, TicketIssued,
                 ServerReported, ClusterView, ServersPage, JobsPage, std::shared_ptr<const ShardMap>>;

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_RESPONSES_H_
