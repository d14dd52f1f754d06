// What a worker machine is told, what it asks of its loop, and what it tells the library's callers.
//
// Plain values. Tensor memory passes through as an address that the machine never follows.
#ifndef SHOAL_WORKER_MACHINE_WORKER_EVENTS_H_
#define SHOAL_WORKER_MACHINE_WORKER_EVENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/flow_plan.h"
#include "core/frame.h"
#include "core/shard_map.h"
#include "core/transport_event.h"
#include "core/wire_format.h"
#include "worker/machine/staging_memory.h"

namespace shoal {

// The caller's own number of a group, chosen by whoever sends OpenGroupCommand; not used again while the group is open.
using GroupHandle = StrongId<struct GroupHandleTag, uint16_t>;
inline constexpr size_t kMaxWorkerGroups = 256;

// What the scheduler answered to JoinGroup, as the data plane needs it.
struct GroupInfo {
  GroupId id;
  std::string name;
  Rank rank;                        // of this worker in the group
  std::vector<uint32_t> job_ranks;  // by rank of the group
  std::vector<std::string> nodes;   // by rank of the group, for messages
  uint32_t max_chunk_bytes = 0;
  uint32_t credit_chunks = 0;      // to each shard, as planned; a server may give less
  uint32_t look_ahead_chunks = 0;  // core/flow_plan.h
  LinkFacts link;                  // that the group was planned with
  double busiest_port = 1;         // core/flow_plan.h
  WireFormat wire = WireFormat::kAsIs;
  std::vector<std::byte> token;         // in wire form
  std::shared_ptr<const ShardMap> map;  // not empty
};

struct OpenGroupCommand {
  GroupHandle group;
  std::shared_ptr<const GroupInfo> info;
  uint64_t deadline_ns = 0;
};

struct SubmitCommand {
  GroupHandle group;
  uint64_t ticket = 0;        // given back in OpDone
  std::byte* data = nullptr;  // the library's until OpDone
  uint64_t element_count = 0;
  DataType dtype = DataType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
  double premul_factor = 1.0;
  uint64_t submitted_ns = 0;
  uint64_t deadline_ns = 0;
};

// The scheduler gives the group another map, of a newer epoch. May come before the group is opened.
struct MoveGroupCommand {
  GroupId group;
  std::shared_ptr<const ShardMap> map;  // may be empty: no server is left
};

struct AbortGroupCommand {
  GroupHandle group;
  std::string reason;
};

// Ends the group once its ops are done; GroupClosed follows.
struct CloseGroupCommand {
  GroupHandle group;
};

// The scheduler says that a rank of the job is gone.
struct RankLostCommand {
  uint32_t job_rank = 0;
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

using WorkerCommand = std::variant<MeasureLinkCommand, OpenGroupCommand, MoveGroupCommand, SubmitCommand,
                                   AbortGroupCommand, CloseGroupCommand, RankLostCommand, ShutdownCommand>;

struct GroupOpened {
  GroupHandle group;
  absl::Status status;  // not OK: the group is gone again
};

struct OpDone {
  GroupHandle group;
  uint64_t ticket = 0;
  uint64_t duration_ns = 0;
  absl::Status status;
};

struct GroupClosed {
  GroupHandle group;
};

struct LinkMeasured {
  LinkFacts link;  // zeros where nothing could be measured
};

// The group can't go on with a server in this epoch: the scheduler must be told, who then gives the group a new map.
struct ServerTrouble {
  GroupId group;
  Epoch epoch;
  ServerId server;
  Incarnation incarnation;
  bool reachable = false;  // a new connection stands: it may stay in the map
  std::string reason;
};

// A wait lasts: a line for people that names whom it is for.
struct StillWaiting {
  std::string line;
};

struct ShutdownDone {};

using WorkerOutcome =
    std::variant<GroupOpened, OpDone, GroupClosed, LinkMeasured, ServerTrouble, StillWaiting, ShutdownDone>;
using WorkerOutcomes = std::vector<WorkerOutcome>;

struct WorkerConnectAction {
  uint32_t connection = 0;  // WorkerMachine::ConnectionAddress knows where to
};

// Writes float32 numbers of a tensor to a place of the staging memory, as numbers of `type`. A send may follow.
struct WorkerNarrowAction {
  DataType type = DataType::kBfloat16;
  std::shared_ptr<const StagingMemory> staging;  // keeps the place
  const std::byte* tensor = nullptr;
  std::byte* place = nullptr;
  uint64_t elements = 0;
};

// The other way, for a result that landed. Comes before the outcome that gives the tensor back.
struct WorkerWidenAction {
  DataType type = DataType::kBfloat16;
  std::shared_ptr<const StagingMemory> staging;  // keeps the place
  const std::byte* place = nullptr;
  std::byte* tensor = nullptr;
  uint64_t elements = 0;
};

// Copies a result from where it landed to its tensor, or one of a tensor to where it is kept. As for the order: as
// above.
struct WorkerCopyAction {
  std::shared_ptr<const StagingMemory> staging;  // keeps the place
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t bytes = 0;
};

struct WorkerSendNoteAction {
  PeerId peer;
  Note note;
};

struct WorkerSendAction {
  PeerId peer;
  FrameHeaderBytes header;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t token = 0;
};

struct WorkerAcceptAction {
  OfferId offer;
  std::byte* data = nullptr;
  // Instead of `data`, if the transport accepts at once; WorkerMachine::OnAccepted is told which. Null: `data`.
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

using WorkerAction =
    std::variant<WorkerConnectAction, WorkerSendNoteAction, WorkerNarrowAction, WorkerSendAction, WorkerAcceptAction,
                 WorkerCopyAction, WorkerWidenAction, WorkerDeclineAction, WorkerClosePeerAction>;
using WorkerActions = std::vector<WorkerAction>;

struct ShardTraffic {
  std::string server_name;
  std::string address;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  PeerId peer;            // while it is up, else 0
  std::string transport;  // what moves the bytes, while it is up; WorkerLoop adds it
};

struct WorkerCounters {
  uint64_t ops_completed = 0;
  uint64_t ops_failed = 0;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  uint64_t chunks_pushed = 0;
  uint64_t refusals = 0;
  uint64_t results_handed_over = 0;  // to servers that asked after a move
  uint64_t op_time_ns_total = 0;
  uint64_t waits_reported = 0;       // StillWaiting
  uint64_t map_epoch = 0;            // of the newest group
  std::vector<ShardTraffic> shards;  // every shard ever connected to
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_EVENTS_H_
