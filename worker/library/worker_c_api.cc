// The public C functions for jobs, groups and all-reduces (worker/include/shoal/worker.h): arguments are checked here,
// all else is WorkerClient's.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/bucket_plan.h"
#include "core/name.h"
#include "core/op_time_histogram.h"
#include "core/version.h"
#include "net/data_plane/data_plane.h"
#include "process/clock.h"
#include "process/mutex.h"
#include "process/node_identity.h"
#include "process/node_name.h"
#include "process/open_files.h"
#include "process/scheduler_address.h"
#include "worker/library/c_boundary.h"
#include "worker/library/network_card.h"
#include "worker/library/worker_client.h"
#include "worker/machine/op_plan.h"

// The handle stays when its worker is closed: a thread may be on its way into shoal_next_completion, and must learn
// there that it's over.
struct shoal_worker {
  shoal::Mutex mutex;
  std::shared_ptr<shoal::WorkerClient> client SHOAL_GUARDED_BY(mutex);  // nullptr: closed
};

struct shoal_group {
  std::shared_ptr<shoal::WorkerClient> client;
  std::shared_ptr<shoal::CallerGroup> group;
};

struct shoal_op {
  std::shared_ptr<shoal::WorkerClient> client;
  std::shared_ptr<shoal::CallerOp> op;
};

namespace shoal {
namespace {

constexpr char kDefaultTransports[] = "tcp";
constexpr uint64_t kDefaultTimeoutMs = 30'000;
// After its deadline an op waits for the network to give its memory back; then it ends.
constexpr uint64_t kOpGraceMs = 10'000;

// Keeps a closed worker's handle reachable: a few bytes for each worker that a process ever had.
void KeepClosedHandle(shoal_worker* worker) {
  static Mutex mutex;
  static auto* const closed = new std::vector<shoal_worker*>;
  const MutexLock lock(mutex);
  closed->push_back(worker);
}

absl::StatusOr<std::shared_ptr<WorkerClient>> ClientOf(shoal_worker* worker) {
  if (worker == nullptr) return absl::InvalidArgumentError("worker is NULL");
  const MutexLock lock(worker->mutex);
  if (worker->client == nullptr) return absl::CancelledError("the worker is closed");
  return worker->client;
}

// Whatever number the caller stored there, a C enum holds it, but to C++ it must not be an enum then.
template <typename Enum>
int NumberOf(const Enum& value) {
  int number = 0;
  static_assert(sizeof(value) == sizeof(number));
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

absl::StatusOr<NodeReduceChoice> ReadNodeReduce(const shoal_node_reduce& node_reduce) {
  const int number = NumberOf(node_reduce);
  if (number == SHOAL_NODE_REDUCE_BEST) return NodeReduceChoice::kAuto;
  const auto choice = number < 0 ? std::nullopt : NodeReduceChoiceFromNumber(static_cast<uint32_t>(number));
  if (choice.has_value()) return *choice;
  return absl::InvalidArgumentError(absl::StrCat("options->node_reduce is ", number, "; see shoal_node_reduce"));
}

absl::StatusOr<WorkerClientOptions> ReadOptions(const shoal_worker_options* options) {
  if (absl::Status status = CheckNotNull(options, "options"); !status.ok()) return status;
  absl::StatusOr<std::string> scheduler = RequiredText(options->scheduler, "options->scheduler", kMaxNameBytes);
  if (!scheduler.ok()) return scheduler.status();
  if (const auto target = SchedulerTarget(*scheduler); !target.ok()) return target.status();
  absl::StatusOr<std::string> job_name = RequiredText(options->job_name, "options->job_name", kMaxNameBytes);
  if (!job_name.ok()) return job_name.status();
  if (absl::Status status = CheckName("options->job_name", *job_name); !status.ok()) return status;
  const bool is_open = options->min_ranks != 0;
  if (is_open && (options->rank != 0 || options->world_size != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("options->min_ranks is ", options->min_ranks,
                                                   ", so the job is an open one, which has no size and gives each "
                                                   "process its rank; set rank and world_size to 0"));
  }
  if (is_open && (NumberOf(options->colocation) != SHOAL_COLOCATION_OFF ||
                  NumberOf(options->without_servers) != SHOAL_WITHOUT_SERVERS_WAIT)) {
    return absl::InvalidArgumentError(
        "the job is an open one, whose ranks run no colocated servers: set options->colocation to "
        "SHOAL_COLOCATION_OFF and options->without_servers to SHOAL_WITHOUT_SERVERS_WAIT");
  }
  if (!is_open && (options->world_size == 0 || options->rank >= options->world_size)) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", options->rank, " is not below the world size ",
                                                   options->world_size, "; ranks count from 0"));
  }
  const int colocation_number = NumberOf(options->colocation);
  const auto colocation =
      colocation_number < 0 ? std::nullopt : ColocationFromNumber(static_cast<uint32_t>(colocation_number));
  if (!colocation.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("options->colocation is ", colocation_number, "; see shoal_colocation"));
  }
  const int without_servers = NumberOf(options->without_servers);
  if (without_servers != SHOAL_WITHOUT_SERVERS_WAIT && without_servers != SHOAL_WITHOUT_SERVERS_COLOCATE) {
    return absl::InvalidArgumentError(
        absl::StrCat("options->without_servers is ", without_servers, "; see shoal_without_servers"));
  }
  const absl::StatusOr<NodeReduceChoice> node_reduce = ReadNodeReduce(options->node_reduce);
  if (!node_reduce.ok()) return node_reduce.status();
  const absl::StatusOr<NetworkCard> card =
      ChooseNetworkCard(OptionalText(options->net_device, ""), OptionalText(options->transports, kDefaultTransports),
                        options->local_rank, options->local_world_size);
  if (!card.ok()) return card.status();
  const int devices = NumberOf(options->devices);
  if (devices != SHOAL_DEVICES_NONE && devices != SHOAL_DEVICES_CUDA) {
    return absl::InvalidArgumentError(absl::StrCat("options->devices is ", devices, "; see shoal_devices"));
  }
  const std::string chosen_name = OptionalText(options->node_name, "");
  return WorkerClientOptions{
      .scheduler = *std::move(scheduler),
      .job_name = *std::move(job_name),
      .rank = options->rank,
      .world_size = options->world_size,
      .open = is_open ? std::optional(
                            OpenJob{.min_ranks = options->min_ranks, .identity = OptionalText(options->identity, "")})
                      : std::nullopt,
      .local_world_size = options->local_world_size,
      .node_name = chosen_name.empty() ? NodeName() : chosen_name,
      .boot_id = chosen_name.empty() ? BootId() : "",
      .min_servers = std::max(options->min_servers, 1u),
      .timeout_ms = options->timeout_ms == 0 ? kDefaultTimeoutMs : options->timeout_ms,
      .net_device = card->devices,
      .network_cards = card->card_count,
      .transports = OptionalText(options->transports, kDefaultTransports),
      .network_only = options->network_only != 0,
      .colocation = *colocation,
      .server_address = OptionalText(options->server_address, ""),
      .checksums = options->checksums != 0,
      .check_finite = options->check_finite != 0,
      .colocate_without_servers = without_servers == SHOAL_WITHOUT_SERVERS_COLOCATE,
      .quiet = options->quiet != 0,
      .node_reduce = *node_reduce,
      .cuda = devices == SHOAL_DEVICES_CUDA,
      .device_memory_bytes = options->device_memory_bytes,
      .flight_recorder = OptionalText(options->flight_recorder, kOwnFlightFolder),
      .credentials = CredentialFilesOf(*options),
  };
}

absl::Status CheckMembers(const shoal_group_options& options) {
  if (options.ranks == nullptr && options.rank_count != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("options->ranks is NULL, but rank_count is ", options.rank_count, "; NULL means all ranks"));
  }
  if (options.ranks != nullptr && options.rank_count == 0) {
    return absl::InvalidArgumentError("options->rank_count is 0; list the group's ranks, this one among them");
  }
  const uint32_t chunk_bytes = options.max_chunk_bytes;
  if (chunk_bytes != 0 && (chunk_bytes < kMinChunkBytes || chunk_bytes > kMaxChunkBytes)) {
    return absl::InvalidArgumentError(absl::StrCat("options->max_chunk_bytes is ", chunk_bytes, "; give ",
                                                   kMinChunkBytes, " to ", kMaxChunkBytes, ", or 0 for the default"));
  }
  return absl::OkStatus();
}

absl::StatusOr<WireFormat> ReadWire(const shoal_group_options& options) {
  const int number = NumberOf(options.wire);
  const auto wire = number < 0 ? std::nullopt : WireFormatFromNumber(static_cast<uint32_t>(number));
  if (wire.has_value()) return *wire;
  return absl::InvalidArgumentError(absl::StrCat("options->wire is ", number, "; see shoal_wire"));
}

absl::StatusOr<GroupOptions> ReadGroupOptions(const shoal_group_options* options) {
  if (absl::Status status = CheckNotNull(options, "options"); !status.ok()) return status;
  absl::StatusOr<std::string> name = RequiredText(options->name, "options->name", kMaxNameBytes);
  if (!name.ok()) return name.status();
  if (absl::Status status = CheckName("options->name", *name); !status.ok()) return status;
  if (absl::Status status = CheckMembers(*options); !status.ok()) return status;
  const absl::StatusOr<WireFormat> wire = ReadWire(*options);
  if (!wire.ok()) return wire.status();
  const absl::StatusOr<NodeReduceChoice> node_reduce = ReadNodeReduce(options->node_reduce);
  if (!node_reduce.ok()) return node_reduce.status();
  const bool asks = NumberOf(options->node_reduce) != SHOAL_NODE_REDUCE_AUTO;
  if (options->error_feedback != 0 && *wire == WireFormat::kAsIs) {
    return absl::InvalidArgumentError(
        "options->error_feedback keeps what rounding takes, and options->wire does not round: give it one that does");
  }
  if (options->error_feedback != 0 && asks && *node_reduce != NodeReduceChoice::kOff) {
    return absl::InvalidArgumentError(
        "options->error_feedback is for ranks that do not reduce within their nodes: leave options->node_reduce 0");
  }
  return GroupOptions{
      .name = *std::move(name),
      .ranks = {options->ranks, options->ranks + options->rank_count},
      .max_chunk_bytes = options->max_chunk_bytes,
      .timeout_ms = options->timeout_ms,
      .wire = *wire,
      .node_reduce = asks ? std::optional(*node_reduce) : std::nullopt,
      .min_ranks = options->min_ranks,
      .scales_sums = options->scale_sums != 0,
      .whole_op = options->whole_op != 0,
      .error_feedback = options->error_feedback != 0,
  };
}

absl::StatusOr<ErrorFeedback*> FeedbackOf(const shoal_group* group) {
  if (group == nullptr) return absl::InvalidArgumentError("group is NULL");
  if (ErrorFeedback* const feedback = group->group->error_feedback(); feedback != nullptr) return feedback;
  return absl::FailedPreconditionError("the group was made without error_feedback");
}

absl::StatusOr<DataType> ReadDtype(const shoal_dtype& dtype, const char* name) {
  const int number = NumberOf(dtype);
  const auto type = number < 0 || number > UINT8_MAX ? std::nullopt : DataTypeFromWire(static_cast<uint8_t>(number));
  if (type.has_value()) return *type;
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", number, "; see shoal_dtype"));
}

absl::Status FillPlan(const GroupInfo& group, uint64_t count, shoal_dtype dtype, shoal_plan* plan) {
  if (absl::Status status = CheckNotNull(plan, "plan"); !status.ok()) return status;
  const absl::StatusOr<DataType> type = ReadDtype(dtype, "dtype");
  if (!type.ok()) return type.status();
  const absl::StatusOr<OpPlan> op = PlanOp(group, count, *type);
  if (!op.ok()) return op.status();
  *plan = {.chunk_count = op->chunk_count,
           .chunk_bytes = op->chunk_bytes,
           .shards_used = op->shards_used,
           .window_chunks = group.credit_chunks,
           .look_ahead_chunks = group.look_ahead_chunks,
           .link_bytes_per_s = group.link.bytes_per_s,
           .round_trip_ns = group.link.round_trip_ns,
           .message_ns = group.link.message_ns,
           .predicted_ns = op->predicted_ns,
           .rails = op->rails};
  return absl::OkStatus();
}

absl::StatusOr<SubmitCommand> ReadCall(const GroupInfo& group, void* data, uint64_t count,
                                       const shoal_all_reduce_options* options) {
  if (absl::Status status = CheckNotNull(options, "options"); !status.ok()) return status;
  const absl::StatusOr<DataType> dtype = ReadDtype(options->dtype, "options->dtype");
  if (!dtype.ok()) return dtype.status();
  const int op_number = NumberOf(options->op);
  const std::optional<ReduceOp> reduce_op =
      op_number < 0 || op_number > UINT8_MAX ? std::nullopt : ReduceOpFromWire(static_cast<uint8_t>(op_number));
  if (!reduce_op.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("options->op is ", op_number, "; see shoal_reduce_op"));
  }
  if (!CanReduce(*dtype, *reduce_op)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor of ", std::string(DataTypeName(*dtype)),
                     " can't be multiplied by a factor: premul-sum is for floating types; use sum"));
  }
  if (*reduce_op == ReduceOp::kPremulSum && !std::isfinite(options->premul_factor)) {
    return absl::InvalidArgumentError(
        absl::StrCat("options->premul_factor is ", options->premul_factor, "; give a finite number"));
  }
  const size_t element_bytes = DataTypeSize(*dtype);
  if (count > 0 && data == nullptr) return absl::InvalidArgumentError("data is NULL");
  if (count > static_cast<uint64_t>(PTRDIFF_MAX) / element_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("count ", count, " of ", element_bytes, "-byte elements is more than memory can hold"));
  }
  if (reinterpret_cast<uintptr_t>(data) % element_bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data is not aligned for its elements of ", element_bytes, " bytes; copy it to memory that is"));
  }
  const absl::StatusOr<OpLayout> layout = OpLayout::Make(group, count, *dtype);
  if (!layout.ok()) return layout.status();
  return SubmitCommand{
      .data = static_cast<std::byte*>(data),
      .on_device = options->on_device != 0,
      .layout = *layout,
      .reduce_op = *reduce_op,
      .premul_factor = *reduce_op == ReduceOp::kPremulSum ? options->premul_factor : 1.0,
  };
}

template <size_t kSize>
void CopyWhatFits(const std::string& text, char (&target)[kSize]) {
  const size_t size = std::min(text.size(), kSize - 1);
  std::memcpy(target, text.data(), size);
  target[size] = '\0';
}

}  // namespace
}  // namespace shoal

extern "C" {

uint32_t shoal_abi_version(void) { return SHOAL_ABI_VERSION; }

const char* shoal_version(void) { return shoal::kSoftwareVersion; }

const char* shoal_code_name(shoal_code code) {
  static constexpr const char* kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto number = static_cast<size_t>(code);
  return number < std::size(kNames) ? kNames[number] : "no shoal_code";
}

shoal_code shoal_worker_connect(const shoal_worker_options* options, shoal_worker** worker, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (worker == nullptr) return absl::InvalidArgumentError("worker is NULL");
    const absl::StatusOr<shoal::WorkerClientOptions> read = shoal::ReadOptions(options);
    if (!read.ok()) return read.status();
    if (absl::Status status = shoal::CheckFilesLeft(shoal::kFilesToStart); !status.ok()) return status;
    shoal::MarkFutureChildren();
    auto handle = std::make_unique<shoal_worker>();
    absl::StatusOr<std::shared_ptr<shoal::WorkerClient>> client = shoal::WorkerClient::Connect(*read);
    if (!client.ok()) return client.status();
    {
      const shoal::MutexLock lock(handle->mutex);
      handle->client = *std::move(client);
    }
    *worker = handle.release();
    return absl::OkStatus();
  });
}

void shoal_worker_give_up(shoal_worker* worker, const char* reason) {
  if (worker == nullptr) return;
  shoal::Guarded(nullptr, [&]() -> absl::Status {
    std::shared_ptr<shoal::WorkerClient> client;
    {
      const shoal::MutexLock lock(worker->mutex);
      client = worker->client;
    }
    if (client != nullptr) client->GiveUp(shoal::OptionalText(reason, "no reason given"));
    return absl::OkStatus();
  });
}

void shoal_worker_close(shoal_worker* worker) {
  if (worker == nullptr) return;
  shoal::Guarded(nullptr, [&]() -> absl::Status {
    std::shared_ptr<shoal::WorkerClient> client;
    {
      const shoal::MutexLock lock(worker->mutex);
      client = std::exchange(worker->client, nullptr);
    }
    if (client == nullptr) return absl::OkStatus();
    client->Close();
    shoal::KeepClosedHandle(worker);
    return absl::OkStatus();
  });
}

shoal_code shoal_worker_open_device(shoal_worker* worker, uint32_t device, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    const absl::StatusOr<std::shared_ptr<shoal::WorkerClient>> client = shoal::ClientOf(worker);
    return client.ok() ? (*client)->OpenDevice(device) : client.status();
  });
}

uint32_t shoal_worker_rank(shoal_worker* worker) {
  const absl::StatusOr<std::shared_ptr<shoal::WorkerClient>> client = shoal::ClientOf(worker);
  return client.ok() ? (*client)->rank() : 0;
}

shoal_code shoal_group_create(shoal_worker* worker, const shoal_group_options* options, shoal_group** group,
                              shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (group == nullptr) return absl::InvalidArgumentError("group is NULL");
    absl::StatusOr<shoal::GroupOptions> read = shoal::ReadGroupOptions(options);
    if (!read.ok()) return read.status();
    const absl::StatusOr<std::shared_ptr<shoal::WorkerClient>> client = shoal::ClientOf(worker);
    if (!client.ok()) return client.status();
    auto handle = std::make_unique<shoal_group>();
    handle->client = *client;
    absl::StatusOr<std::shared_ptr<shoal::CallerGroup>> created = (*client)->CreateGroup(*std::move(read));
    if (!created.ok()) return created.status();
    handle->group = *std::move(created);
    *group = handle.release();
    return absl::OkStatus();
  });
}

uint32_t shoal_group_rank(const shoal_group* group) { return group == nullptr ? 0 : group->group->info().rank.value(); }

uint32_t shoal_group_size(const shoal_group* group) { return group == nullptr ? 0 : group->group->info().size(); }

int shoal_group_takes_devices(const shoal_group* group) {
  if (group == nullptr) return 0;
  if (!group->client->CheckTakesDevices(*group->group).ok()) return 0;
  return group->group->local_devices() != nullptr ? 2 : 1;
}

shoal_code shoal_group_plan(const shoal_group* group, uint64_t count, shoal_dtype dtype, shoal_plan* plan,
                            shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (group == nullptr) return absl::InvalidArgumentError("group is NULL");
    return shoal::FillPlan(group->group->info(), count, dtype, plan);
  });
}

void shoal_group_abort(shoal_group* group, const char* reason) {
  if (group == nullptr) return;
  shoal::Guarded(nullptr, [&]() -> absl::Status {
    group->client->AbortGroup(group->group.get(), shoal::OptionalText(reason, "no reason given"));
    return absl::OkStatus();
  });
}

shoal_code shoal_group_failure(const shoal_group* group, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (group == nullptr) return absl::InvalidArgumentError("group is NULL");
    return group->group->failure_or_break();
  });
}

shoal_code shoal_group_read_feedback(const shoal_group* group, uint32_t index, float* values, uint64_t* count,
                                     shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    const absl::StatusOr<shoal::ErrorFeedback*> feedback = shoal::FeedbackOf(group);
    if (!feedback.ok()) return feedback.status();
    if (count == nullptr) return absl::InvalidArgumentError("count is NULL");
    return (*feedback)->Read(index, values, count);
  });
}

shoal_code shoal_group_add_feedback(shoal_group* group, const float* values, uint64_t count, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    const absl::StatusOr<shoal::ErrorFeedback*> feedback = shoal::FeedbackOf(group);
    if (!feedback.ok()) return feedback.status();
    if (values == nullptr) return absl::InvalidArgumentError("values is NULL");
    return (*feedback)->Add({values, values + count});
  });
}

void shoal_group_close(shoal_group* group) {
  if (group == nullptr) return;
  shoal::Guarded(nullptr, [&]() -> absl::Status {
    const std::unique_ptr<shoal_group> freed(group);
    group->client->CloseGroup(group->group.get());
    return absl::OkStatus();
  });
}

shoal_code shoal_all_reduce(shoal_group* group, void* data, uint64_t count, const shoal_all_reduce_options* options,
                            shoal_op** op, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (group == nullptr) return absl::InvalidArgumentError("group is NULL");
    if (op == nullptr) return absl::InvalidArgumentError("op is NULL: nobody could learn when the memory is free");
    const absl::StatusOr<shoal::SubmitCommand> call = shoal::ReadCall(group->group->info(), data, count, options);
    if (!call.ok()) return call.status();
    auto handle = std::make_unique<shoal_op>();
    absl::StatusOr<std::shared_ptr<shoal::CallerOp>> started = group->client->AllReduce(
        group->group, *call, {.device = options->device, .stream = options->stream}, options->timeout_ms);
    if (!started.ok()) return started.status();
    handle->client = group->client;
    handle->op = *std::move(started);
    *op = handle.release();
    return absl::OkStatus();
  });
}

shoal_code shoal_op_wait(shoal_op* op, uint64_t timeout_ms, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (op == nullptr) return absl::InvalidArgumentError("op is NULL");
    shoal::CallerOp& waited = *op->op;
    const bool until_its_deadline = timeout_ms == UINT64_MAX;
    const uint64_t deadline_ns =
        until_its_deadline ? waited.deadline_ns() + shoal::kOpGraceMs * shoal::kNsPerMs : shoal::DeadlineIn(timeout_ms);
    if (op->client->Wait(&waited, deadline_ns)) return waited.status();
    return absl::DeadlineExceededError(
        until_its_deadline ? "the all-reduce is open long after its deadline; please report this"
                           : absl::StrCat("the all-reduce is still open after waiting ", timeout_ms, " ms"));
  });
}

int shoal_op_done(const shoal_op* op) {
  if (op == nullptr || !op->op->done()) return 0;
  // The program may change its tensor from now on.
  shoal::Guarded(nullptr, [&]() -> absl::Status {
    op->client->CountResult(op->op.get());
    return absl::OkStatus();
  });
  return 1;
}

shoal_code shoal_op_wait_on_stream(shoal_op* op, void* stream, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (op == nullptr) return absl::InvalidArgumentError("op is NULL");
    return op->client->WaitOnStream(*op->op, stream);
  });
}

shoal_code shoal_op_notify(shoal_op* op, uint64_t user_data, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (op == nullptr) return absl::InvalidArgumentError("op is NULL");
    return op->client->Notify(op->op, user_data);
  });
}

uint64_t shoal_op_duration_ns(const shoal_op* op) {
  return op != nullptr && op->op->done() ? op->op->duration_ns() : 0;
}

void shoal_op_contributors(const shoal_op* op, uint32_t* least, uint32_t* most) {
  const bool is_known = op != nullptr && op->op->done();
  const shoal::Contributors contributors = is_known ? op->op->contributors() : shoal::Contributors();
  if (least != nullptr) *least = contributors.least;
  if (most != nullptr) *most = contributors.most;
}

void shoal_op_release(shoal_op* op) {
  if (!shoal::IsMarkedChild()) delete op;
}

shoal_code shoal_next_completion(shoal_worker* worker, uint64_t timeout_ms, shoal_completion* completion) {
  return shoal::Guarded(nullptr, [&]() -> absl::Status {
    if (completion == nullptr) return absl::InvalidArgumentError("completion is NULL");
    const absl::StatusOr<std::shared_ptr<shoal::WorkerClient>> client = shoal::ClientOf(worker);
    if (!client.ok()) return client.status();
    const absl::StatusOr<std::shared_ptr<shoal::CallerOp>> op =
        (*client)->completions().Pop(shoal::DeadlineIn(timeout_ms));
    if (!op.ok()) return op.status();
    (*client)->CountResult(op->get());
    completion->user_data = (*op)->user_data();
    completion->duration_ns = (*op)->duration_ns();
    shoal::Report((*op)->status(), &completion->result);
    return absl::OkStatus();
  });
}

shoal_code shoal_worker_statistics(shoal_worker* worker, shoal_statistics* statistics) {
  return shoal::Guarded(nullptr, [&]() -> absl::Status {
    if (absl::Status status = shoal::CheckNotNull(statistics, "statistics"); !status.ok()) return status;
    const absl::StatusOr<std::shared_ptr<shoal::WorkerClient>> client = shoal::ClientOf(worker);
    if (!client.ok()) return client.status();
    const absl::StatusOr<shoal::WorkerStatistics> now = (*client)->Statistics();
    if (!now.ok()) return now.status();
    *statistics = {.ops_completed = now->counters.ops_completed,
                   .ops_failed = now->counters.ops_failed,
                   .bytes_pushed = now->counters.bytes_pushed,
                   .bytes_pulled = now->counters.bytes_pulled,
                   .chunks_pushed = now->counters.chunks_pushed,
                   .refusals = now->counters.refusals,
                   .op_time_ns_total = now->counters.op_time_ns_total,
                   .map_epoch = now->map_epoch,
                   .shard_count = now->shard_count,
                   .server_count = now->server_count,
                   .waits_reported = now->counters.waits_reported,
                   .bytes_on_node = now->counters.bytes_on_node,
                   .result_square_sum = now->result_square_sum,
                   .op_time_bounds_ns = {},
                   .op_time_counts = {}};
    static_assert(SHOAL_OP_TIME_BUCKETS == shoal::kOpTimeBuckets);
    std::ranges::copy(shoal::kOpTimeBoundsNs, statistics->op_time_bounds_ns);
    statistics->op_time_bounds_ns[SHOAL_OP_TIME_BUCKETS - 1] = UINT64_MAX;
    std::ranges::copy(now->counters.op_times.counts, statistics->op_time_counts);
    return absl::OkStatus();
  });
}

uint32_t shoal_worker_server_statistics(shoal_worker* worker, shoal_server_statistics* entries, uint32_t capacity) {
  uint32_t shard_count = 0;
  shoal::Guarded(nullptr, [&]() -> absl::Status {
    const absl::StatusOr<std::shared_ptr<shoal::WorkerClient>> client = shoal::ClientOf(worker);
    if (!client.ok()) return client.status();
    const absl::StatusOr<shoal::WorkerStatistics> now = (*client)->Statistics();
    if (!now.ok()) return now.status();
    const std::vector<shoal::ShardTraffic>& shards = now->counters.shards;
    for (size_t i = 0; entries != nullptr && i < std::min<size_t>(capacity, shards.size()); ++i) {
      shoal::CopyWhatFits(shards[i].server_name, entries[i].name);
      shoal::CopyWhatFits(shards[i].address, entries[i].address);
      entries[i].bytes_pushed = shards[i].bytes_pushed;
      entries[i].bytes_pulled = shards[i].bytes_pulled;
      shoal::CopyWhatFits(shards[i].transport, entries[i].transport);
    }
    shard_count = static_cast<uint32_t>(shards.size());
    return absl::OkStatus();
  });
  return shard_count;
}

}  // extern "C"
