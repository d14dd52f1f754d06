// What a worker machine asks of its loop. Outcomes for callers are among the actions: one list keeps the order of all
// that comes out.
//
// Plain values. Tensor memory passes through as an address that the machine never follows.
#ifndef SHOAL_WORKER_MACHINE_WORKER_ACTIONS_H_
#define SHOAL_WORKER_MACHINE_WORKER_ACTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/frame.h"
#include "core/node_parts.h"
#include "core/transport_event.h"
#include "core/wire_codec.h"
#include "worker/machine/device_copy.h"
#include "worker/machine/local_op.h"
#include "worker/machine/staging_memory.h"
#include "worker/machine/worker_outcomes.h"

namespace shoal {

// Starts a connection; ConnectStarted answers.
struct WorkerConnectAction {
  uint32_t connection = 0;
  std::string address;
};

// Writes elements of a tensor to a place of the staging memory, as they cross the wire. A send may follow.
struct WorkerEncodeAction {
  WireCodec codec;
  std::shared_ptr<const StagingMemory> staging;  // keeps the place
  const std::byte* tensor = nullptr;
  std::byte* place = nullptr;
  uint64_t elements = 0;
};

// The other way, for a result that landed. Comes before the outcome that gives the tensor back.
struct WorkerDecodeAction {
  WireCodec codec;
  std::shared_ptr<const StagingMemory> staging;  // keeps the place
  const std::byte* place = nullptr;
  std::byte* tensor = nullptr;
  uint64_t elements = 0;
};

// The same for a tensor on a device, in either direction: it takes a while, and DeviceCopyEnded says when it is over.
struct DeviceCopyAction {
  DeviceCopy copy;
};

// Of an op of a group that is reduced within nodes: its copies are over, and well. Its device goes on.
struct DeviceCopiesOverAction {
  uint64_t ticket = 0;
};

// The group has failed, and its copies from and to devices do not end: they are to end now.
struct DeviceAbandonAction {
  GroupHandle group;
};

struct WorkerSendNoteAction {
  PeerId peer;
  Note note;
};

// A kSent event with the token follows, also where the transport did not take the payload.
struct WorkerSendAction {
  PeerId peer;
  FrameHeaderBytes header;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t token = 0;
};

// AcceptStarted answers, and a kLanded event with the token follows, also where the transport did not take it.
struct WorkerAcceptAction {
  OfferId offer;
  std::byte* data = nullptr;
  // Instead of `data`, if the transport accepts at once. Null: `data`.
  std::byte* data_at_once = nullptr;
  uint64_t bytes = 0;
  uint64_t token = 0;
};

struct WorkerDeclineAction {
  OfferId offer;
};

struct WorkerClosePeerAction {
  PeerId peer;
};

// ---- of the reduction within the node (worker/local_reduce/local_reduce.h), which also says what follows ----

struct LocalOpenAction {
  LocalGroup group;
};

struct LocalStartAction {
  LocalOp op;
};

struct LocalPublishAction {
  GroupHandle group;
  uint64_t ticket = 0;
  ElementRange elements;      // of the tensor
  uint32_t contributors = 0;  // as PublishPart has it
};

struct LocalFailAction {
  GroupHandle group;
  absl::Status why;
};

struct LocalCloseAction {
  GroupHandle group;
};

// Asks whom the group waits for; LocalRanksMissing answers.
struct LocalMissingAction {
  GroupHandle group;
};

using WorkerAction =
    std::variant<WorkerConnectAction, WorkerSendNoteAction, WorkerEncodeAction, WorkerSendAction, WorkerAcceptAction,
                 WorkerDecodeAction, DeviceCopyAction, DeviceCopiesOverAction, DeviceAbandonAction, WorkerDeclineAction,
                 WorkerClosePeerAction, LocalOpenAction, LocalStartAction, LocalPublishAction, LocalFailAction,
                 LocalCloseAction, LocalMissingAction, GroupOpened, OpDone, GroupBroken, GroupClosed, LinkMeasured,
                 ServerTrouble, GroupFailure, WaitReported, ShutdownDone>;
using WorkerActions = std::vector<WorkerAction>;

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_ACTIONS_H_
