// What the program tells a MembershipMachine. Plain values.
#ifndef SHOAL_WORKER_MEMBERSHIP_MEMBERSHIP_EVENTS_H_
#define SHOAL_WORKER_MEMBERSHIP_MEMBERSHIP_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "worker/membership/scheduler_calls.h"

namespace shoal {

// ---- what the program tells the machine ----

// Joins the job; JoinEnded follows. Once.
struct JoinCommand {
  uint64_t deadline_ns = 0;
};

// Asks for a group; GroupJoinEnded with the same ticket follows. `ticket` is not used twice.
struct JoinGroupCommand {
  uint64_t ticket = 0;
  GroupRequest request;
  uint64_t deadline_ns = 0;
};

// This process is done with a group that it joined.
struct GroupEnded {
  GroupId group;
  bool all_committed = false;  // as in GroupClosed
};

// The worker is being closed: calls that wait for a group, or to join, end with Cancelled. The lease is renewed, and
// the Watch followed, until LeaveCommand.
struct CloseCommand {};

// Leaves the job; Left follows within two seconds, and nothing after that.
struct LeaveCommand {
  std::string reason;
  bool failed = false;                          // the other ranks are told that this one is lost
  std::optional<WorkerCounters> counters = {};  // all that the worker has counted, where that is known
};

// Answers ReadStatistics.
struct StatisticsRead {
  WorkerCounters counters;
};

// Answers RunColocatedServer: OK once the server is registered.
struct ColocatedServerStarted {
  absl::Status status;
};

using MembershipCommand = std::variant<JoinCommand, JoinGroupCommand, GroupEnded, CloseCommand, LeaveCommand,
                                       StatisticsRead, ColocatedServerStarted, ServerTrouble, GroupFailure>;

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_MEMBERSHIP_EVENTS_H_
