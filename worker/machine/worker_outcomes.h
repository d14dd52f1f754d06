// What a worker machine tells the library's callers. Plain values.
#ifndef SHOAL_WORKER_MACHINE_WORKER_OUTCOMES_H_
#define SHOAL_WORKER_MACHINE_WORKER_OUTCOMES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/flow_plan.h"
#include "core/ids.h"
#include "worker/machine/group_info.h"
#include "worker/machine/local_op.h"

namespace shoal {

struct GroupOpened {
  GroupHandle group;
  absl::Status status;  // not OK: the group is gone again
  // As LocalGroupMet has them.
  std::optional<DeviceMeeting> devices = std::nullopt;
  std::shared_ptr<const NodeFailures> failures = nullptr;
};

// How many ranks' contributions the results of an op's chunks have.
struct Contributors {
  uint32_t least = 0;  // 0: not known
  uint32_t most = 0;

  friend bool operator==(const Contributors&, const Contributors&) = default;
};

struct OpDone {
  GroupHandle group;
  uint64_t ticket = 0;
  uint64_t duration_ns = 0;
  absl::Status status;
  Contributors contributors = {};
};

// An open group takes no more ops. Those that were open have ended before with texts of their own, or end soon.
struct GroupBroken {
  GroupHandle group;
  absl::Status status;
};

struct GroupClosed {
  GroupHandle group;
  bool all_committed = false;  // it was closed with the knowledge that all ranks have all results of its ops
};

struct LinkMeasured {
  LinkFacts link;  // zeros where nothing could be measured
};

// The group can't go on, or be opened, with a server in this epoch: the scheduler must be told, again and again until
// it gives the group a new map.
struct ServerTrouble {
  GroupId group;
  Epoch epoch;
  ServerId server;
  Incarnation incarnation;
  bool reachable = false;  // a new connection stands: it may stay in the map
  std::string reason;
  bool refused = false;  // it is reached, and has no memory for the group
  // Nothing is wrong with it: it has said that this rank has left the group and does not call an op that is open. Of a
  // group that goes on without lost ranks alone.
  std::optional<Rank> left = std::nullopt;
};

// This rank has given the group up, by itself and not because others did: the scheduler must be told, since there may
// be no server that hears it.
struct GroupFailure {
  GroupId group;
  std::string reason;
  bool lacks_memory = false;  // then ops of the other ranks end with RESOURCE_EXHAUSTED, else with ABORTED
  // Its node is out of the group, since one of its ranks was lost or has given the group up: the other nodes go on.
  bool others_go_on = false;
};

// A wait has lasted long enough for a line in the log, which names what is waited for (core/wait_report.h).
struct WaitReported {
  std::string line;
};

struct ShutdownDone {};

using WorkerOutcome = std::variant<GroupOpened, OpDone, GroupBroken, GroupClosed, LinkMeasured, ServerTrouble,
                                   GroupFailure, WaitReported, ShutdownDone>;
using WorkerOutcomes = std::vector<WorkerOutcome>;

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_OUTCOMES_H_
