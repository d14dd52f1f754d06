// What the library's callers and the scheduler tell a worker machine.
//
// Plain values. Tensor memory passes through as an address that the machine never follows.
#ifndef SHOAL_WORKER_MACHINE_WORKER_COMMANDS_H_
#define SHOAL_WORKER_MACHINE_WORKER_COMMANDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "core/dtype.h"
#include "core/ids.h"
#include "core/shard_map.h"
#include "worker/machine/group_info.h"
#include "worker/machine/local_op.h"
#include "worker/machine/op_layout.h"

namespace shoal {

// Opens a group on the servers of its map; GroupOpened follows.
struct OpenGroupCommand {
  GroupHandle group;
  std::shared_ptr<const GroupInfo> info;
  uint64_t deadline_ns = 0;
  std::optional<DeviceMeeting> devices = std::nullopt;  // as LocalGroup has it
};

// Starts an all-reduce; OpDone follows.
struct SubmitCommand {
  GroupHandle group;
  uint64_t ticket = 0;        // given back in OpDone
  std::byte* data = nullptr;  // the library's until OpDone
  // `data` is an address on a device: no processor touches it, and it holds the contribution once TensorReadyCommand
  // says so.
  bool on_device = false;
  OpLayout layout;  // made for the group
  ReduceOp reduce_op = ReduceOp::kSum;
  double premul_factor = 1.0;
  uint64_t submitted_ns = 0;
  uint64_t deadline_ns = 0;

  uint64_t DurationNs(uint64_t now_ns) const { return now_ns - std::min(submitted_ns, now_ns); }
};

// The tensor of an op on a device holds the contribution. Of an op that has ended it says nothing.
struct TensorReadyCommand {
  GroupHandle group;
  uint64_t ticket = 0;
  absl::Status status;  // not OK: it never will, and the group fails with that
};

// The op's last work on its device is done, of a group that is reduced within nodes: what follows gathers the tensor
// from the node's devices. Of an op that has ended it says nothing.
struct DeviceDoneCommand {
  GroupHandle group;
  uint64_t ticket = 0;
  absl::Status status;  // not OK: the device has failed, and the group fails with that
};

// The scheduler gives the group another map, of a newer epoch. May come before the group is opened.
struct MoveGroupCommand {
  GroupId group;
  std::shared_ptr<const ShardMap> map;  // may be empty: no server is left
  // A rank that has closed the group knew that all ranks have all results of its ops.
  bool all_committed = false;
  std::vector<std::byte> sealed_roster = {};  // GroupInfo's, of the map's epoch
  std::optional<Rank> closed = std::nullopt;  // one that is in the epoch, and has closed the group
};

// The group can't go on, as the scheduler says. May come before the group is opened.
struct GiveGroupUpCommand {
  GroupId group;
  // Aborted: one of its ranks has given it up; ResourceExhausted: no server has the memory for it; FailedPrecondition:
  // it needs other servers, and the scheduler does not know it, or this rank, any more.
  absl::Status reason;
};

// The scheduler does not know this rank any more: no group is moved from now on.
struct NoMoreMapsCommand {
  absl::Status reason;  // the scheduler's answer
};

struct AbortGroupCommand {
  GroupHandle group;
  std::string reason;
};

// This rank is to count as lost: its groups end here. Those that go on without lost ranks do so, once the scheduler
// knows.
struct GiveUpCommand {
  std::string reason;
};

// Ends the group once its ops are done; GroupClosed follows.
struct CloseGroupCommand {
  GroupHandle group;
};

// The scheduler says that a rank of the job is gone.
struct RankLostCommand {
  JobRank job_rank;
  std::string node;
  std::string reason;
};

// Fails what is open, says goodbye to the servers; ShutdownDone follows, at the latest shortly after the deadline.
struct ShutdownCommand {
  uint64_t deadline_ns = 0;
};

// Measures the way to a server of the map; LinkMeasured follows, at the deadline at the latest. One at a time.
struct MeasureLinkCommand {
  std::string server_name;
  std::string address;
  uint64_t deadline_ns = 0;
};

using WorkerCommand =
    std::variant<MeasureLinkCommand, OpenGroupCommand, MoveGroupCommand, GiveGroupUpCommand, NoMoreMapsCommand,
                 SubmitCommand, TensorReadyCommand, DeviceDoneCommand, AbortGroupCommand, GiveUpCommand,
                 CloseGroupCommand, RankLostCommand, ShutdownCommand>;

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_COMMANDS_H_
