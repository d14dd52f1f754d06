// What a MembershipMachine asks of its port, and what it tells the program around it. Plain values.
#ifndef SHOAL_WORKER_MEMBERSHIP_MEMBERSHIP_ACTIONS_H_
#define SHOAL_WORKER_MEMBERSHIP_MEMBERSHIP_ACTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/membership/scheduler_calls.h"

namespace shoal {

// ---- what the machine asks of its port ----

struct StartCallAction {
  CallId call;
  SchedulerCall what;
  uint64_t deadline_ns = 0;
};

struct CancelCallAction {
  CallId call;
};

struct OpenWatchAction {
  WatchId watch;
  MemberId member;
};

struct CloseWatchAction {
  WatchId watch;
};

struct UseNewConnectionsAction {};

// ---- what the machine tells the program ----

// The errors are the scheduler's own (AlreadyExists: another process holds the rank; InvalidArgument: the world size
// differs; ...), Unavailable: no scheduler answered; DeadlineExceeded: too few servers, and the job is left again;
// those of ColocatedServerStarted; Cancelled: closed.
struct JoinEnded {
  absl::StatusOr<JoinedJob> joined;
};

// The errors are the scheduler's own (DeadlineExceeded names who is missing), Unavailable: no scheduler answered;
// FailedPrecondition: the membership has ended; Internal: the answer contradicts itself; Cancelled: closed.
struct GroupJoinEnded {
  uint64_t ticket = 0;
  absl::StatusOr<GroupInfo> group;
};

// The scheduler has ended the membership: no group will be joined any more, those that are open go on with the maps
// that they have (NoMoreMapsCommand).
struct MembershipEnded {
  absl::Status status;
};

// The newest map of the cluster's servers.
struct MapPublished {
  std::shared_ptr<const ShardMap> map;
};

// Connections to servers that are made from now on are proved with this ticket.
struct TicketCame {
  ConnectionTicket ticket;
};

// A heartbeat is due and wants the newest counters: give StatisticsRead soon, or it goes out with older ones.
struct ReadStatistics {};

// Start a colocated server for the job and say how that went: ColocatedServerStarted.
struct RunColocatedServer {
  JobId job;
  uint64_t timeout_ms = 0;  // for its registration
};

struct Left {
  absl::Status status;
};

// An operator traces the job; said again by each heartbeat until the trace has ended.
struct TraceAsked {
  MemberId member;
  TraceRequest trace;
};

// A line for the program's standard error.
struct MembershipNotice {
  std::string line;
};

// RankLostCommand, MoveGroupCommand and GiveGroupUpCommand are for the WorkerMachine.
using MembershipOutcome = std::variant<JoinEnded, GroupJoinEnded, MembershipEnded, MapPublished, TicketCame,
                                       ReadStatistics, RunColocatedServer, Left, TraceAsked, MembershipNotice,
                                       RankLostCommand, MoveGroupCommand, GiveGroupUpCommand>;
using MembershipOutcomes = std::vector<MembershipOutcome>;

using MembershipAction = std::variant<StartCallAction, CancelCallAction, OpenWatchAction, CloseWatchAction,
                                      UseNewConnectionsAction, JoinEnded, GroupJoinEnded, MembershipEnded, MapPublished,
                                      TicketCame, ReadStatistics, RunColocatedServer, Left, TraceAsked,
                                      MembershipNotice, RankLostCommand, MoveGroupCommand, GiveGroupUpCommand>;
using MembershipActions = std::vector<MembershipAction>;

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_MEMBERSHIP_ACTIONS_H_
