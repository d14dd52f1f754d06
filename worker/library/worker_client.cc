#include "worker/library/worker_client.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/data_plane/data_plane.h"
#include "process/clock.h"
#include "process/draw_incarnation.h"
#include "process/node_address.h"
#include "process/node_identity.h"
#include "process/socket_address.h"
#include "proto/flight_record_sender.h"
#include "reduce/finite.h"
#include "worker/library/link_turn.h"
#include "worker/local_reduce/host_local_reduce.h"
#include "worker/machine/group_words.h"
#include "worker/machine/op_layout.h"

namespace shoal {
namespace {

constexpr uint64_t kGoodbyeMs = 2000;
// How often who waits for the end of a group sees that the I/O thread still works.
constexpr uint64_t kLifeSignMs = 10'000;
constexpr std::chrono::seconds kDevicesGoodbye{1};
// Of a group, its first ones: the records of all would be too much for a scheduler, and those of a few show as much.
constexpr uint32_t kRanksThatSendRecords = 64;
// 512 KiB take that long at 4 Mbit/s.
constexpr uint64_t kMeasureTimeoutMs = 1000;
constexpr char kLinkTurn[] = "link-measurement";

NodeReduceRequest NodeReduceRequestOf(NodeReduceChoice choice, bool possible) {
  return {.choice = choice, .possible = possible, .can_rails = possible, .node_identity = NodeIdentity()};
}

bool IsOfThisNode(const std::string& address) {
  const absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(address);
  return parsed.ok() && !DeviceOfAddress(*parsed).empty();
}

// `stager`: nullptr or what copies from and to devices; its memory, which is never unmapped, is what is sent then.
absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const WorkerClientOptions& options, const CudaStager* stager,
                                                         RankKeys* keys, FlightRecorder* recorder) {
  DataPlaneOptions data_plane;
  data_plane.keys = keys;
  if (stager != nullptr) data_plane.network.region = stager->arena()->region();
  data_plane.observed.recorder = recorder;
  data_plane.network.net_device = options.net_device;
  data_plane.network.transports = options.transports;
  data_plane.same_node = !options.network_only;
  if (options.checksums) data_plane.observed.checksums = Checksums::kToAll;
  return MakeDataPlaneTransport(data_plane);
}

// nullptr: this process is to use the network alone, or can't share memory safely (and its offer says so).
absl::StatusOr<std::unique_ptr<LocalReduce>> MakeLocalReduce(const WorkerClientOptions& options,
                                                             FlightRecorder* recorder) {
  if (options.network_only) return nullptr;
  absl::StatusOr<std::unique_ptr<LocalReduce>> local_reduce = MakeHostLocalReduce(recorder);
  if (absl::IsUnimplemented(local_reduce.status())) return nullptr;
  return local_reduce;
}

// InvalidArgument: the rank's contribution has NaN or infinity. The message is for the other ranks as well.
absl::Status CheckFinite(uint32_t rank, const CallerGroup& group, const SubmitCommand& call) {
  const DataType dtype = call.layout.dtype();
  const uint64_t element_count = call.layout.element_count();
  const std::optional<uint64_t> index = FirstNonFinite(dtype, call.data, element_count);
  if (!index.has_value()) return absl::OkStatus();
  const std::byte* const element = call.data + call.layout.codec().TensorBytes(*index);
  const char* const what = std::isnan(SquareSum(dtype, element, 1)) ? "NaN" : "infinity";
  return absl::InvalidArgumentError(absl::StrCat("the contribution of rank ", rank, " of the job to all-reduce ",
                                                 group.next_op_number(), " of group \"", group.info().name, "\" (",
                                                 element_count, " ", std::string(DataTypeName(dtype)), ") has ", what,
                                                 " at element ", *index));
}

// nullopt: the group is flat.
std::optional<LocalReduction> LocalReductionOf(const CallerGroup& group, std::shared_ptr<LocalDevices> devices,
                                               const SubmitCommand& call) {
  if (devices == nullptr) return std::nullopt;
  return LocalReduction{.devices = std::move(devices),
                        .element_count = call.layout.element_count(),
                        .dtype = call.layout.dtype(),
                        .reduce_op = call.reduce_op,
                        .premul_factor = call.premul_factor,
                        .other_nodes = group.info().node_reduce == NodeReduceMode::kRails};
}

// nullptr: tensors are in host memory.
absl::StatusOr<std::unique_ptr<CudaStager>> MakeStager(const WorkerClientOptions& options) {
  if (!options.cuda) return nullptr;
  CudaStagerOptions cuda;
  // For tests, and for drivers in other places.
  if (const char* const library = std::getenv("SHOAL_CUDA_LIBRARY"); library != nullptr) cuda.library = library;
  if (options.device_memory_bytes != 0) cuda.arena_bytes = options.device_memory_bytes;
  return CudaStager::Make(cuda);
}

constexpr uint32_t kNoRankYet = UINT32_MAX;

uint32_t FirstRank(const WorkerClientOptions& options) { return options.open.has_value() ? kNoRankYet : options.rank; }

// "rank 3 of job "gpt"", or what is known of who joins an open job.
std::string WhoIs(const WorkerClientOptions& options, uint32_t rank) {
  const std::string who = rank == kNoRankYet ? absl::StrCat("process ", getpid()) : absl::StrCat("rank ", rank);
  return absl::StrCat(who, " of job \"", options.job_name, "\"");
}

}  // namespace

WorkerClient::WorkerClient(const WorkerClientOptions& options, Incarnation incarnation,
                           std::unique_ptr<NoticeLog> notices, const Credentials& credentials)
    : options_(options),
      rank_(FirstRank(options)),
      incarnation_(incarnation),
      notices_(std::move(notices)),
      credentials_(credentials),
      traces_(
          options.scheduler, SourcesOfTraces(), [this](std::string sentence) { notices_->Say(std::move(sentence)); },
          credentials_) {}

absl::StatusOr<std::shared_ptr<WorkerClient>> WorkerClient::Connect(const WorkerClientOptions& options) {
  const std::string prefix = absl::StrCat("shoal: ", WhoIs(options, FirstRank(options)), ": ");
  absl::StatusOr<std::unique_ptr<NoticeLog>> notices = NoticeLog::Start(prefix, options.quiet);
  if (!notices.ok()) return notices.status();
  const absl::StatusOr<Incarnation> incarnation = DrawIncarnation();
  if (!incarnation.ok()) return incarnation.status();
  const absl::StatusOr<Credentials> credentials = Credentials::Load(
      options.credentials, [raw = notices->get()](const Credentials::News& news) { raw->Say(news.text); });
  if (!credentials.ok()) return credentials.status();
  std::shared_ptr<WorkerClient> client(new WorkerClient(options, *incarnation, *std::move(notices), *credentials));
  if (absl::Status status = client->Start(); !status.ok()) return status;
  return client;
}

absl::Status WorkerClient::Start() {
  // First what can go wrong in this process alone: nobody else notices then.
  absl::StatusOr<std::unique_ptr<FlightFolder>> flights = FlightFolder::Start(
      options_.flight_recorder,
      [this](const FlightFolder::Record& record, uint64_t deadline_ns) { return SendFlight(record, deadline_ns); },
      [this](std::string sentence) { notices_->Say(std::move(sentence)); });
  if (!flights.ok()) return flights.status();
  flights_ = *std::move(flights);
  absl::StatusOr<std::unique_ptr<CudaStager>> stager = MakeStager(options_);
  if (!stager.ok()) return stager.status();
  absl::StatusOr<std::unique_ptr<Transport>> transport = MakeTransport(options_, stager->get(), &keys_, &recorder_);
  if (!transport.ok()) return transport.status();
  absl::StatusOr<std::unique_ptr<LocalReduce>> local_reduce = MakeLocalReduce(options_, &recorder_);
  if (!local_reduce.ok()) return local_reduce.status();
  can_node_reduce_ = *local_reduce != nullptr;
  absl::StatusOr<std::unique_ptr<IoThread>> io =
      IoThread::Start(*std::move(transport), *std::move(local_reduce), *std::move(stager), WorkerMachineOptions(),
                      &completions_, &member_queue_, notices_.get(),
                      [this](const CallerGroup& group, const absl::Status& why) { SaveFlight(group, why); });
  if (!io.ok()) return io.status();
  const MembershipOptions membership = {
      .scheduler = options_.scheduler,
      .member = {.job_name = options_.job_name,
                 .rank = JobRank(options_.rank),
                 .world_size = options_.world_size,
                 .open = options_.open,
                 .incarnation = incarnation_,
                 .node = options_.node_name,
                 .boot_id = options_.boot_id,
                 .colocation = options_.colocation,
                 .colocates_without_servers = options_.colocate_without_servers,
                 .node_reduce = NodeReduceRequestOf(options_.node_reduce, CanNodeReduce(options_.node_reduce)),
                 .local_world_size = options_.local_world_size,
                 .can_encrypt = CanEncrypt(options_.transports)},
      .min_servers = options_.min_servers,
      .timeout_ms = options_.timeout_ms,
      .jitter_seed = incarnation_.value()};
  absl::StatusOr<std::unique_ptr<MemberThread>> member = MemberThread::Start(
      membership, credentials_, ServerOptions(), &member_queue_, io->get(), &keys_, notices_.get(), &traces_);
  if (!member.ok()) return member.status();
  if (absl::Status status = (*member)->Join(DeadlineIn(options_.timeout_ms)); !status.ok()) return status;
  io_ = *std::move(io);
  member_ = *std::move(member);
  rank_ = member_->rank().value();
  return absl::OkStatus();
}

std::string WorkerClient::Describe() const { return absl::StrCat(WhoIs(options_, rank()), " on ", options_.node_name); }

std::vector<TraceSource> WorkerClient::SourcesOfTraces() {
  return {{.kind = TraceKind::kConnections,
           .name = Describe(),
           .start = [this] { recorder_.StartTrace(); },
           .stop = [this](size_t most_bytes) { return recorder_.StopTrace(ReadNowAtNextMillisecond(), most_bytes); }},
          {.kind = TraceKind::kDigests,
           .name = Describe(),
           .start = [this] { digests_.Start(); },
           .stop = [this](size_t most_bytes) { return digests_.Stop(most_bytes); }}};
}

void WorkerClient::SaveFlight(const CallerGroup& group, const absl::Status& why) {
  if (flights_ == nullptr || !flights_->HasRoom()) return;
  const std::string failure =
      absl::StrCat("group \"", group.info().name, "\" (group=", group.info().id.value(), ") failed: ", why.ToString());
  flights_->Save({.name = absl::StrCat("shoal-", options_.job_name, "-rank-", rank()),
                  .failure = failure,
                  .text = absl::StrCat(Describe(), ", ", failure, "\n", recorder_.Text(ReadNowAtNextMillisecond())),
                  .job = member_->job(),
                  .group = group.info().id,
                  .is_sent = group.info().rank.value() < kRanksThatSendRecords});
}

std::string WorkerClient::SendFlight(const FlightFolder::Record& record, uint64_t deadline_ns) const {
  v1::SendFlightRecordRequest member;
  member.set_rank(rank());
  member.set_incarnation(incarnation_.value());
  return SendFlightRecord(options_.scheduler, member, record, deadline_ns, credentials_);
}

ColocatedServerOptions WorkerClient::ServerOptions() const {
  return {.scheduler = options_.scheduler,
          .address = options_.server_address,
          .node_name = options_.node_name,
          .boot_id = options_.boot_id,
          .rank = options_.rank,
          .net_device = options_.net_device,
          .transports = options_.transports,
          .network_only = options_.network_only,
          .flight_recorder = options_.flight_recorder,
          .credentials = options_.credentials};
}

WorkerClient::~WorkerClient() { Close(); }

void WorkerClient::GiveUp(const std::string& reason) {
  const MutexLock lock(close_mutex_);
  if (closed_ || io_ == nullptr) return;
  io_->GiveUp(reason);
  member_->Leave(reason, /*failed=*/true, std::nullopt);
}

void WorkerClient::Close() {
  const MutexLock lock(close_mutex_);
  if (closed_) return;
  closed_ = true;
  traces_.Stop();
  if (io_ == nullptr) return;  // never joined
  member_->Close();
  const absl::StatusOr<WorkerCounters> before = io_->Counters();
  io_->Stop(kGoodbyeMs);
  const absl::StatusOr<WorkerCounters> after = io_->Counters();
  const bool ops_were_open = before.ok() && after.ok() && after->ops_failed > before->ops_failed;
  member_->Leave(ops_were_open ? "it closed with all-reduces open" : "it closed", ops_were_open,
                 after.ok() ? std::optional(*after) : std::nullopt);
  flights_.reset();
  completions_.Close();
  // After a failure nobody waits for results: a failed op breaks its group on all ranks.
  const bool failed = after.ok() && after->ops_failed > 0;
  const std::unique_ptr<ColocatedServer> server = member_->TakeServer();
  if (server != nullptr) server->Leave(failed ? 0 : kServerGoodbyeMs);
  LocalDevices::AwaitGivenBack(kDevicesGoodbye);  // a device that does not answer keeps what NCCL had
}

LinkFacts WorkerClient::Link(uint64_t deadline_ns) {
  const MutexLock lock(link_mutex_);
  if (link_.has_value()) return *link_;
  const uint64_t measure_until_ns = std::min(deadline_ns, DeadlineIn(kMeasureTimeoutMs));
  const std::shared_ptr<const ShardMap> map = member_->WaitForMap(measure_until_ns);
  if (map == nullptr || map->empty()) return {};
  link_ = WithinOneNode();
  // Neighbours measure at different servers, as far as there are enough on other nodes.
  for (size_t i = 0; i < map->shards().size(); ++i) {
    const Shard& shard = map->shards()[(rank() + i) % map->shards().size()];
    if (IsOfThisNode(shard.address)) continue;
    const LinkTurn turn(kLinkTurn, MonotonicNs() + NsUntil(measure_until_ns) / 2);
    link_ = io_->MeasureLink(shard, std::max<uint64_t>(NsUntil(measure_until_ns) / kNsPerMs, 1));
    break;
  }
  return *link_;
}

absl::StatusOr<std::shared_ptr<CallerGroup>> WorkerClient::CreateGroup(GroupOptions group) {
  if (absl::Status status = member_->status(); !status.ok()) return status;
  if (group.ranks.empty() && options_.open.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("group \"", group.name, "\" lists no ranks; in an open job every group lists its ranks"));
  }
  if (group.ranks.empty()) {
    group.ranks.resize(options_.world_size);
    std::iota(group.ranks.begin(), group.ranks.end(), 0u);
  }
  // What a node's sum loses by rounding is no rank's own.
  const NodeReduceChoice node_reduce =
      group.error_feedback ? NodeReduceChoice::kOff : group.node_reduce.value_or(options_.node_reduce);
  const uint64_t deadline_ns = DeadlineIn(group.timeout_ms == 0 ? options_.timeout_ms : group.timeout_ms);
  const GroupRequest request = {
      .name = std::move(group.name),
      .ranks = std::move(group.ranks),
      .max_chunk_bytes = group.max_chunk_bytes,
      .link = Link(deadline_ns),
      .network_cards = options_.network_cards,
      .min_servers = options_.min_servers,
      .wire = group.wire,
      .checksums = options_.checksums,
      .min_ranks = group.min_ranks,
      .scales_sums = group.scales_sums,
      .whole_op = group.whole_op,
      .node_reduce = NodeReduceRequestOf(node_reduce, CanNodeReduce(node_reduce, /*goes_on=*/group.min_ranks > 0))};
  absl::StatusOr<GroupInfo> info = member_->JoinGroup(request, deadline_ns);
  if (!info.ok()) return info.status();
  if (!info->map->empty()) {
    const MutexLock lock(map_mutex_);
    newest_group_map_ = info->map;
  }
  absl::StatusOr<std::shared_ptr<CallerGroup>> opened =
      OpenGroup(std::make_shared<const GroupInfo>(*std::move(info)), node_reduce, deadline_ns);
  if (opened.ok() && group.error_feedback) (*opened)->UseErrorFeedback();
  return opened;
}

absl::StatusOr<std::shared_ptr<CallerGroup>> WorkerClient::OpenGroup(const std::shared_ptr<const GroupInfo>& info,
                                                                     NodeReduceChoice choice, uint64_t deadline_ns) {
  if (info->node_reduce == NodeReduceMode::kFlat) return io_->OpenGroup(info, deadline_ns);
  const absl::StatusOr<DeviceMeeting> own = MeetingOnDevices(*info, choice);
  absl::StatusOr<std::shared_ptr<CallerGroup>> group =
      io_->OpenGroup(info, deadline_ns, own.ok() ? std::optional(*own) : std::nullopt);
  if (!group.ok()) return group;
  if (const std::optional<DeviceMeeting> meeting = (*group)->device_meeting()) {
    (*group)->SetLocalDevices(LocalDevices::Make(
        *Nccl(), *meeting, {.rank = info->local_rank(), .size = info->local_size()}, (*group)->node_failures()));
  } else if (choice == NodeReduceChoice::kNccl) {
    const std::string why = own.ok() ? "another rank of its node has no devices or no NCCL, which its own error names"
                                     : std::string(own.status().message());
    const absl::Status lacking = absl::FailedPreconditionError(
        absl::StrCat("group \"", info->name, "\" is to reduce within nodes by NCCL, and can't: ", why));
    AbortGroup(group->get(), std::string(lacking.message()));
    CloseGroup(group->get());
    return lacking;
  }
  return group;
}

bool WorkerClient::CanNodeReduce(NodeReduceChoice choice, bool goes_on) {
  if (!can_node_reduce_) return false;
  if (goes_on && (choice == NodeReduceChoice::kNccl || (choice == NodeReduceChoice::kAuto && options_.cuda))) {
    return false;
  }
  const bool takes_host_memory_only =
      choice == NodeReduceChoice::kAuto && options_.cuda && options_.local_world_size != 1;
  return !takes_host_memory_only || Nccl().ok();
}

absl::StatusOr<DeviceMeeting> WorkerClient::MeetingOnDevices(const GroupInfo& info, NodeReduceChoice choice) {
  if (!options_.cuda) return NoDevicesError();
  if (choice == NodeReduceChoice::kHost) return absl::UnimplementedError("node_reduce is host");
  const absl::StatusOr<std::shared_ptr<const nccl::Api>> nccl = Nccl();
  if (!nccl.ok()) return nccl.status();
  if (info.local_rank() != 0) return DeviceMeeting{};
  return LocalDevices::DrawMeeting(**nccl);
}

absl::StatusOr<std::shared_ptr<const nccl::Api>> WorkerClient::Nccl() {
  const MutexLock lock(nccl_mutex_);
  if (nccl_.has_value()) return *nccl_;
  const char* const library = std::getenv("SHOAL_NCCL_LIBRARY");
  absl::StatusOr<std::unique_ptr<const nccl::Api>> loaded = nccl::Api::Load(library == nullptr ? "" : library);
  if (loaded.ok()) {
    nccl_ = std::shared_ptr<const nccl::Api>(*std::move(loaded));
  } else {
    nccl_ = loaded.status();
    notices_->Say(absl::StrCat("ranks do not reduce within their node, since they have devices and no NCCL: ",
                               loaded.status().message()));
  }
  return *nccl_;
}

absl::Status WorkerClient::OpenDevice(uint32_t ordinal) { return io_->OpenDevice(ordinal); }

absl::Status WorkerClient::CheckTakesDevices(const CallerGroup& group) const {
  if (!options_.cuda) return NoDevicesError();
  if (group.error_feedback() != nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("group \"", group.info().name,
                     "\" has error_feedback, which is for tensors in host memory. Copy the tensor to host memory, or "
                     "make the group without error_feedback"));
  }
  return shoal::CheckTakesDevices(group.info(), group.local_devices() != nullptr);
}

absl::StatusOr<std::shared_ptr<CallerOp>> WorkerClient::AllReduce(const std::shared_ptr<CallerGroup>& group,
                                                                  SubmitCommand call, const DevicePlace& place,
                                                                  uint64_t timeout_ms) {
  if (absl::Status failure = group->failure(); !failure.ok()) {
    if (absl::IsCancelled(failure) || absl::IsAborted(failure)) return failure;
    return absl::AbortedError(absl::StrCat("group \"", group->info().name,
                                           "\" is broken since an earlier all-reduce failed: ", failure.message()));
  }
  const DataType dtype = call.layout.dtype();
  std::shared_ptr<LocalDevices> devices;
  if (call.on_device) {
    if (absl::Status takes = CheckTakesDevices(*group); !takes.ok()) return takes;
    devices = group->local_devices();
    if (devices != nullptr) {
      absl::Status reduces = DeviceComm::CheckReduces(dtype);
      if (reduces.ok()) reduces = devices->CheckDevice(place.device);
      if (!reduces.ok()) return reduces;
    }
  } else if (options_.check_finite) {
    if (absl::Status finite = CheckFinite(rank(), *group, call); !finite.ok()) {
      AbortGroup(group.get(), std::string(finite.message()));
      return finite;
    }
  }
  const bool adds_up = call.reduce_op == ReduceOp::kSum || call.reduce_op == ReduceOp::kAvg;
  if (ErrorFeedback* const feedback = group->error_feedback();
      feedback != nullptr && adds_up && dtype == DataType::kFloat32) {
    const absl::Status applied = feedback->Apply(reinterpret_cast<float*>(call.data), call.layout.element_count());
    if (!applied.ok()) return applied;
  }
  const uint64_t op_number = group->BeginOp();
  call.group = group->handle();
  call.ticket = next_ticket_.fetch_add(1, std::memory_order_relaxed);
  // One moment for both, or a thread that is kept from running in between would have waited for less than its timeout.
  call.submitted_ns = MonotonicNs();
  call.deadline_ns = DeadlineAfter(call.submitted_ns, timeout_ms == 0 ? options_.timeout_ms : timeout_ms);
  const uint64_t bytes = call.layout.TensorBytes();
  auto op = std::make_shared<CallerOp>(group, call.ticket, bytes, call.deadline_ns);
  absl::Status status;
  if (call.on_device) {
    status = io_->SubmitOnDevice(call, op,
                                 {.ticket = call.ticket,
                                  .group = call.group,
                                  .group_id = group->info().id,
                                  .device = place.device,
                                  .stream = place.stream,
                                  .tensor = call.data,
                                  .bytes = bytes,
                                  .deadline_ns = call.deadline_ns,
                                  .local = LocalReductionOf(*group, std::move(devices), call)});
  } else {
    if (options_.check_finite || digests_.is_on()) {
      op->SetCountedTensor(
          {.data = call.data, .element_count = call.layout.element_count(), .dtype = dtype, .op_number = op_number});
    }
    status = io_->Submit(call, op);
  }
  if (!status.ok()) {
    group->TakeOpBack();
    return status;
  }
  if (call.on_device) digests_.CountOnDevice();
  return op;
}

bool WorkerClient::Wait(CallerOp* op, uint64_t deadline_ns) {
  if (!io_->Wait(op, deadline_ns)) return false;
  CountResult(op);
  return true;
}

void WorkerClient::CountResult(CallerOp* op) {
  op->CountTensorOnce([&](const HostTensor& tensor) {
    if (!op->status().ok()) return;
    digests_.Add(op->group().info(), tensor);
    if (!options_.check_finite) return;
    const double square_sum = SquareSum(tensor.dtype, tensor.data, tensor.element_count);
    // One that is not finite would hide all that come after it.
    if (!std::isfinite(square_sum)) return;
    const MutexLock lock(squares_mutex_);
    result_square_sum_ += square_sum;
  });
}

absl::Status WorkerClient::WaitOnStream(const CallerOp& op, DeviceStream stream) {
  if (op.device_op() == nullptr) {
    return absl::InvalidArgumentError("the all-reduce is not of a tensor on a device; wait for it with shoal_op_wait");
  }
  return io_->WaitOnStream(op, stream);
}

absl::Status WorkerClient::Notify(const std::shared_ptr<CallerOp>& op, uint64_t user_data) {
  const absl::StatusOr<bool> complete = op->Notify(user_data);
  if (!complete.ok()) return complete.status();
  if (*complete) {
    completions_.Push(op);
  } else {
    io_->queue().ComeBack();  // no caller looks after it any more
  }
  return absl::OkStatus();
}

void WorkerClient::AbortGroup(CallerGroup* group, const std::string& reason) { io_->FailGroup(group, reason); }

void WorkerClient::CloseGroup(CallerGroup* group) {
  group->SetFailure(absl::CancelledError("the group is closed"));
  if (WholeOps* const whole_ops = group->whole_ops(); whole_ops != nullptr) {
    while (!whole_ops->WaitUntilIdle(DeadlineIn(kLifeSignMs)) && io_->Counters().ok()) continue;
  }
  io_->queue().Post(CloseGroupCommand{.group = group->handle()}).IgnoreError();
  // How long that takes is a matter of the ops' deadlines and the other ranks, as long as the I/O thread works.
  while (!group->WaitClosed(DeadlineIn(kLifeSignMs))) {
    if (io_->Counters().ok()) continue;
    notices_->Say(absl::StrCat("group \"", group->info().name,
                               "\" is left behind: the worker's I/O thread does not answer; please report this"));
    break;
  }
  group->TakeLocalDevices().reset();
}

absl::StatusOr<WorkerStatistics> WorkerClient::Statistics() {
  absl::StatusOr<WorkerCounters> counters = io_->Counters();
  if (!counters.ok()) return counters.status();
  WorkerStatistics statistics;
  statistics.counters = *std::move(counters);
  {
    const MutexLock lock(squares_mutex_);
    statistics.result_square_sum = result_square_sum_;
  }
  const std::shared_ptr<const ShardMap> map = NewestMap();
  if (map == nullptr) return statistics;
  statistics.map_epoch = map->epoch().value();
  statistics.shard_count = static_cast<uint32_t>(map->shards().size());
  std::set<ServerId> servers;
  for (const Shard& shard : map->shards()) servers.insert(shard.server);
  statistics.server_count = static_cast<uint32_t>(servers.size());
  return statistics;
}

std::shared_ptr<const ShardMap> WorkerClient::NewestMap() const {
  const std::shared_ptr<const ShardMap> published = member_->map();
  const MutexLock lock(map_mutex_);
  if (published == nullptr || newest_group_map_ == nullptr) {
    return published == nullptr ? newest_group_map_ : published;
  }
  return published->epoch() > newest_group_map_->epoch() ? published : newest_group_map_;
}

}  // namespace shoal
