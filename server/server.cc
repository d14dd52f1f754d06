#include "server/server.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/overloaded.h"
#include "core/wait_report.h"
#include "net/wake_up.h"
#include "process/clock.h"
#include "process/draw_incarnation.h"
#include "process/flight_folder.h"
#include "process/listen_address.h"
#include "process/mutex.h"
#include "process/node_address.h"
#include "process/node_identity.h"
#include "process/node_name.h"
#include "process/open_files.h"
#include "process/socket_address.h"
#include "process/start_thread.h"
#include "proto/credentials.h"
#include "proto/flight_record_sender.h"
#include "proto/trace_sender.h"
#include "server/loop/lease_loop.h"
#include "server/rpc/grpc_control_link.h"
#include "server/thread/memory_nodes.h"
#include "server/thread/server_thread.h"
#include "server/thread/slot_memory.h"

namespace shoal {
namespace {

constexpr int64_t kDrainedPollNs = 100 * kNsPerMs;
constexpr int64_t kLinkPollNs = 100 * kNsPerMs;
constexpr char kSysfs[] = "/sys";

// The device that the data plane will use, as far as that is known.
std::string NetDeviceOf(const ServerConfig& config) {
  if (!config.net_device.empty()) return config.net_device;
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(config.advertise, 0);
  return address.ok() ? DeviceOfAddress(*address) : "";
}

// For WaitReadable.
std::optional<int64_t> TimeoutUntil(uint64_t deadline_ns) {
  if (deadline_ns == kNoDeadline) return std::nullopt;
  return static_cast<int64_t>(NsUntil(deadline_ns));
}

void AddCounters(uint32_t io_thread, const ServerCounters& more, ServerCounters* sum) {
  sum->bytes_in += more.bytes_in;
  sum->bytes_out += more.bytes_out;
  sum->contributions_landed += more.contributions_landed;
  sum->chunks_reduced += more.chunks_reduced;
  sum->ops_begun += more.ops_begun;
  sum->groups_failed += more.groups_failed;
  // A group is open on every I/O thread that owns chunks of it, and a worker is connected to each.
  sum->groups_open = std::max(sum->groups_open, more.groups_open);
  sum->peers = std::max(sum->peers, more.peers);
  if (more.peers > 0 || sum->transports.empty()) sum->transports = more.transports;
  sum->shared_memory_peers = std::max(sum->shared_memory_peers, more.shared_memory_peers);
  sum->slot_memory_used_bytes += more.slot_memory_used_bytes;
  sum->slots += more.slots;
  sum->slots_in_use += more.slots_in_use;
  sum->pending_pushes += more.pending_pushes;
  for (const auto& [job, bytes] : more.memory_by_job) sum->memory_by_job[job] += bytes;
  sum->reduce_ns_total += more.reduce_ns_total;
  sum->corrupted_payloads += more.corrupted_payloads;
  sum->strangers += more.strangers;
  if (!more.last_stranger.empty()) sum->last_stranger = more.last_stranger;
  sum->absent_ranks.insert(sum->absent_ranks.end(), more.absent_ranks.begin(), more.absent_ranks.end());
  for (LateRankOfGroup late : more.late_ranks) {
    late.io_thread = io_thread;
    sum->late_ranks.push_back(late);
  }
  for (size_t reason = 0; reason < sum->refusals.size(); ++reason) sum->refusals[reason] += more.refusals[reason];
}

}  // namespace

class Server::Parts {
 public:
  Parts(const ServerConfig& config, const Credentials& credentials, EventSink log,
        std::unique_ptr<WakeUp> lease_wake_up, std::unique_ptr<WakeUp> end_wake_up)
      : config_(config),
        credentials_(credentials),
        log_(std::move(log)),
        lease_wake_up_(std::move(lease_wake_up)),
        end_wake_up_(std::move(end_wake_up)) {}
  ~Parts() { Stop("the server object was destroyed"); }

  absl::Status Listen(int cancel_fd);
  absl::Status Register(int cancel_fd);
  absl::Status Serve();
  void Drain(std::string_view reason);
  bool drained() const;
  std::string open_groups() const;
  void Stop(std::string_view reason);

  const std::string& name() const { return registration_.name; }
  const std::vector<std::string>& addresses() const { return registration_.addresses; }
  ServerCounters counters() const;
  int end_fd() const { return end_wake_up_->fd(); }
  absl::Status failure() const;
  bool asked_to_drain() const { return asked_to_drain_; }

 private:
  // Waits until the network device has a link, and for a process that still has the port.
  absl::StatusOr<std::unique_ptr<ServerThread>> StartIoThread(const ServerThreadOptions& options, int cancel_fd);
  void KeepLease();
  // Commands, answers and time for the lease loop, and what follows for the threads.
  void StepLease();
  void OnOutcome(const LeaseOutcome& outcome);
  void NoteScheduler(const SchedulerHeard& heard, uint64_t key_period);
  // Returns when it has, or after a few seconds.
  void LeaveCluster(std::string_view reason);
  void SetDraining(bool drain);
  ServerCounters CountersForRenewal();
  // "I/O thread 0 of server alpha".
  std::string Describe(uint32_t io_thread) const;
  TraceSource SourceOfTraces(uint32_t io_thread);
  std::string SendFlight(const FlightFolder::Record& record, uint64_t deadline_ns) const;
  // Of any I/O thread.
  void SaveFlight(uint32_t io_thread, const LogEvent& failure, const FlightRecorder& recorder);
  void Log(EventKind kind, std::string text) const { log_({.kind = kind, .text = std::move(text)}); }

  const ServerConfig config_;
  const Credentials credentials_;
  const EventSink log_;
  const std::unique_ptr<WakeUp> lease_wake_up_;  // for the thread that runs the lease loop
  const std::unique_ptr<WakeUp> end_wake_up_;
  uint64_t start_time_left_ns_ = config_.timeout_ms * kNsPerMs;  // for a link, then for registering
  ServerRegistration registration_;
  std::atomic<uint64_t> server_id_ = 0;    // 0: not registered yet
  std::unique_ptr<FlightFolder> flights_;  // null: none. Outlives the threads
  std::vector<std::unique_ptr<ServerThread>> threads_;
  std::optional<TraceSender> traces_;  // once all threads listen
  // Of the starting thread until control_thread_ runs, then of that, as are the next ones.
  std::unique_ptr<ControlLink> control_link_;
  std::optional<LeaseLoop> lease_loop_;
  std::optional<TokenKey> token_key_;  // once the server is registered
  uint64_t lease_ttl_ns_ = 0;          // likewise
  bool left_ = false;                  // the cluster
  uint32_t logged_peers_ = 0;
  uint32_t logged_shared_memory_peers_ = 0;
  uint64_t logged_corrupted_payloads_ = 0;
  uint64_t logged_strangers_ = 0;
  std::thread control_thread_;
  std::atomic<bool> asked_to_drain_ = false;
  std::atomic<bool> rank_became_absent_ = false;  // and the lease loop has not been told
  mutable Mutex mutex_;
  absl::Status failure_ SHOAL_GUARDED_BY(mutex_);
  std::vector<LeaseCommand> commands_ SHOAL_GUARDED_BY(mutex_);
};

std::string Server::Parts::Describe(uint32_t io_thread) const {
  return absl::StrCat("I/O thread ", io_thread, " of server ", registration_.name);
}

TraceSource Server::Parts::SourceOfTraces(uint32_t io_thread) {
  FlightRecorder* const recorder = &threads_[io_thread]->recorder();
  return {
      .kind = TraceKind::kConnections,
      .name = Describe(io_thread),
      .start = [recorder] { recorder->StartTrace(); },
      .stop = [recorder](size_t most_bytes) { return recorder->StopTrace(ReadNowAtNextMillisecond(), most_bytes); }};
}

void Server::Parts::SaveFlight(uint32_t io_thread, const LogEvent& failure, const FlightRecorder& recorder) {
  if (!flights_->HasRoom()) return;
  const uint64_t group = failure.ids.group.value();
  const std::string what = absl::StrCat("a group (group=", group, ") failed: ", failure.text);
  flights_->Save(
      {.name = absl::StrCat("shoal-server-", registration_.name, "-group-", group),
       .failure = what,
       .text = absl::StrCat(Describe(io_thread), ", ", what, "\n", recorder.Text(ReadNowAtNextMillisecond())),
       .job = failure.ids.job,
       .group = failure.ids.group,
       .io_thread = io_thread});
}

std::string Server::Parts::SendFlight(const FlightFolder::Record& record, uint64_t deadline_ns) const {
  v1::SendFlightRecordRequest member;
  member.set_server_id(server_id_);
  member.set_incarnation(registration_.incarnation.value());
  return SendFlightRecord(config_.scheduler, member, record, deadline_ns, credentials_);
}

absl::StatusOr<std::unique_ptr<ServerThread>> Server::Parts::StartIoThread(const ServerThreadOptions& options,
                                                                           int cancel_fd) {
  const uint64_t since_ns = MonotonicNs();
  const uint64_t until_ns = since_ns + start_time_left_ns_;
  const uint64_t port_until_ns = std::min(until_ns, since_ns + kListenPatienceNs);
  WaitReport wait(since_ns, until_ns);
  WaitReport wait_for_port(since_ns, port_until_ns);
  for (bool is_first = true;; is_first = false) {
    absl::StatusOr<std::unique_ptr<ServerThread>> thread = ServerThread::Start(options);
    const bool is_taken = absl::IsAlreadyExists(thread.status()) && MonotonicNs() < port_until_ns;
    if (!absl::IsUnavailable(thread.status()) && !is_taken) return thread;
    const uint64_t now_ns = MonotonicNs();
    start_time_left_ns_ = until_ns - std::min(until_ns, now_ns);
    if (start_time_left_ns_ == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat("waited ", wait.Elapsed(now_ns), " in vain: ", thread.status().message()));
    }
    if (is_taken) {
      const bool is_due = wait_for_port.TakeDue(now_ns);
      if (is_first || is_due) {
        Log(EventKind::kAddressTaken, absl::StrCat(wait_for_port.WaitedFor("the port of an I/O thread", now_ns), ": ",
                                                   thread.status().message()));
      }
    } else if (wait.TakeDue(now_ns)) {
      Log(EventKind::kLinkMissing, absl::StrCat(wait.WaitedFor("a link", now_ns), ": ", thread.status().message()));
    }
    const int64_t pause_ns = std::min(kLinkPollNs, static_cast<int64_t>(start_time_left_ns_));
    if (cancel_fd < 0) {
      WaitReadable({}, pause_ns);
    } else if (WaitReadable({cancel_fd}, pause_ns)) {
      return absl::CancelledError(absl::StrCat("stopped while it waited: ", thread.status().message()));
    }
  }
}

absl::Status Server::Parts::Listen(int cancel_fd) {
  absl::StatusOr<std::unique_ptr<FlightFolder>> flights = FlightFolder::Start(
      config_.flight_recorder,
      [this](const FlightFolder::Record& record, uint64_t deadline_ns) { return SendFlight(record, deadline_ns); },
      [this](std::string sentence) { Log(EventKind::kFlightRecorded, std::move(sentence)); });
  if (!flights.ok()) return flights.status();
  flights_ = *std::move(flights);
  const MemoryNodes nodes = MemoryNodes::Read(kSysfs, NetDeviceOf(config_), AllowedCpus());
  Log(EventKind::kServerNode, nodes.description());
  for (uint32_t i = 0; i < config_.io_threads; ++i) {
    ServerThreadOptions options;
    options.index = i;
    options.transport.listen_ip = config_.advertise;
    options.transport.port = config_.port_base == 0 ? uint16_t{0} : static_cast<uint16_t>(config_.port_base + i);
    options.transport.net_device = config_.net_device;
    options.transport.transports = config_.transports;
    options.same_node = !config_.network_only;
    options.slot_memory_bytes = config_.slot_memory_bytes / config_.io_threads;
    options.place = nodes.PlaceOf(i);
    options.log = log_;
    if (flights_ != nullptr) {
      options.on_group_failed = [this, i](const LogEvent& failure, const FlightRecorder& recorder) {
        SaveFlight(i, failure, recorder);
      };
    }
    options.on_rank_absent = [this] {
      rank_became_absent_ = true;
      lease_wake_up_->Signal();
    };
    absl::StatusOr<std::unique_ptr<ServerThread>> thread = StartIoThread(options, cancel_fd);
    if (!thread.ok()) return thread.status();
    if (!(*thread)->placed().ok()) Log(EventKind::kServerMisplaced, std::string((*thread)->placed().message()));
    registration_.addresses.push_back((*thread)->address());
    registration_.transports = (*thread)->transport_name();
    threads_.push_back(*std::move(thread));
  }
  const absl::StatusOr<Incarnation> incarnation = DrawIncarnation();
  if (!incarnation.ok()) return incarnation.status();
  registration_.incarnation = *incarnation;
  registration_.node = config_.node_name.empty() ? NodeName() : config_.node_name;
  registration_.boot_id = config_.node_name.empty() ? BootId() : config_.boot_id;
  const std::string& first = registration_.addresses.front();
  registration_.name =
      config_.name.empty() ? absl::StrCat(registration_.node, "-", first.substr(first.rfind(':') + 1)) : config_.name;
  Log(EventKind::kServerNode, absl::StrCat("data plane: ", registration_.transports));
  registration_.can_encrypt = CanEncrypt(config_.transports);
  registration_.weight = config_.weight;
  registration_.slot_memory_bytes = config_.slot_memory_bytes;
  registration_.job = config_.job;
  return absl::OkStatus();
}

absl::Status Server::Parts::Register(int cancel_fd) {
  std::vector<TraceSource> sources;
  sources.reserve(threads_.size());
  for (uint32_t i = 0; i < threads_.size(); ++i) sources.push_back(SourceOfTraces(i));
  traces_.emplace(
      config_.scheduler, std::move(sources),
      [this](std::string sentence) { Log(EventKind::kTraceUnsent, std::move(sentence)); }, credentials_);
  control_link_ = MakeGrpcControlLink(config_.scheduler, credentials_);
  control_link_->SetWake([this] { lease_wake_up_->Signal(); });
  lease_loop_.emplace(RegistrationOptions{.scheduler = config_.scheduler,
                                          .start_timeout_ms = std::max<uint64_t>(start_time_left_ns_ / kNsPerMs, 1),
                                          .random_seed = registration_.incarnation.value(),
                                          .registration = registration_},
                      ReadNow(), control_link_.get(), [this] { return CountersForRenewal(); });
  while (true) {
    lease_wake_up_->Drain();
    StepLease();
    if (token_key_.has_value()) return absl::OkStatus();
    if (const absl::Status given_up = failure(); !given_up.ok()) return given_up;
    const std::optional<int64_t> timeout_ns = TimeoutUntil(lease_loop_->NextDeadlineNs());
    // A call that is under way is waited for: the scheduler may have taken it, and would keep a server in its maps that
    // ended without a word. One that succeeds starts, and leaves in good order.
    if (cancel_fd < 0 || lease_loop_->is_calling()) {
      WaitReadable({lease_wake_up_->fd()}, timeout_ns);
      continue;
    }
    WaitReadable({lease_wake_up_->fd(), cancel_fd}, timeout_ns);
    if (WaitReadable({cancel_fd}, 0)) {
      return absl::CancelledError(absl::StrCat("stopped before the scheduler at ", config_.scheduler, " answered"));
    }
  }
}

absl::Status Server::Parts::Serve() {
  const ServerMachineOptions options{.server_name = registration_.name,
                                     .incarnation = registration_.incarnation,
                                     .token_key = *token_key_,
                                     .lease_ttl_ns = lease_ttl_ns_};
  for (const std::unique_ptr<ServerThread>& thread : threads_) thread->Serve(options);
  absl::StatusOr<std::thread> started = StartThread("shoal-control", [this] { KeepLease(); });
  if (!started.ok()) return started.status();
  control_thread_ = *std::move(started);
  return absl::OkStatus();
}

void Server::Parts::KeepLease() {
  while (true) {
    lease_wake_up_->Drain();
    StepLease();
    if (left_) return;
    std::optional<int64_t> timeout_ns = TimeoutUntil(lease_loop_->NextDeadlineNs());
    if (asked_to_drain_) timeout_ns = std::min(timeout_ns.value_or(kDrainedPollNs), kDrainedPollNs);
    WaitReadable({lease_wake_up_->fd()}, timeout_ns);
  }
}

void Server::Parts::StepLease() {
  std::vector<LeaseCommand> commands;
  {
    const MutexLock lock(mutex_);
    commands = std::exchange(commands_, {});
  }
  if (asked_to_drain_ && drained()) commands.emplace_back(GroupsEnded{});
  if (rank_became_absent_.exchange(false)) commands.emplace_back(RankBecameAbsent{});
  LeaseOutcomes outcomes;
  lease_loop_->RunOnce(ReadNow(), commands, &outcomes);
  for (const LeaseOutcome& outcome : outcomes) OnOutcome(outcome);
}

void Server::Parts::OnOutcome(const LeaseOutcome& outcome) {
  std::visit(
      Overloaded{
          [this](const LeaseReport& report) { Log(report.kind, report.text); },
          [this](const LeaseGranted& granted) {
            NoteScheduler(
                {.lease_ttl_ns = granted.lease.ttl_ms * kNsPerMs, .is_colocated = granted.lease.scheduler_is_colocated},
                granted.lease.key_period);
            const bool first = !token_key_.has_value();
            token_key_ = granted.lease.token_key;
            server_id_ = granted.lease.server.value();
            if (first || !granted.token_key_changed) return;
            for (const std::unique_ptr<ServerThread>& thread : threads_) thread->SetTokenKey(*token_key_);
          },
          [this](const LeaseRenewed& renewed) {
            NoteScheduler({.lease_ttl_ns = renewed.ttl_ms * kNsPerMs, .is_colocated = renewed.scheduler_is_colocated},
                          renewed.key_period);
          },
          [this](const ServerTraceAsked& asked) {
            traces_->Begin(asked.trace, {.server = asked.server, .incarnation = registration_.incarnation});
          },
          [this](const DrainAsked&) {
            SetDraining(true);
            asked_to_drain_ = true;
            end_wake_up_->Signal();
          },
          [this](const DrainWithdrawn&) {
            asked_to_drain_ = false;
            end_wake_up_->Drain();
            SetDraining(false);
          },
          [this](const LeaseGivenUp& given_up) {
            {
              const MutexLock lock(mutex_);
              failure_ = given_up.why;
            }
            end_wake_up_->Signal();
          },
          [this](const LeftCluster&) { left_ = true; },
      },
      outcome);
}

void Server::Parts::NoteScheduler(const SchedulerHeard& heard, uint64_t key_period) {
  lease_ttl_ns_ = heard.lease_ttl_ns;
  for (const std::unique_ptr<ServerThread>& thread : threads_) thread->NoteScheduler(heard, key_period);
}

ServerCounters Server::Parts::CountersForRenewal() {
  const ServerCounters now = counters();
  if (now.corrupted_payloads != logged_corrupted_payloads_) {
    logged_corrupted_payloads_ = now.corrupted_payloads;
    Log(EventKind::kPayloadCorrupted,
        absl::StrCat(now.corrupted_payloads,
                     " contributions so far arrived with a wrong checksum; their connections were closed and the ranks "
                     "send them again; check memory, network cards and cables"));
  }
  if (now.strangers != logged_strangers_) {
    logged_strangers_ = now.strangers;
    Log(EventKind::kStrangersTurnedAway,
        absl::StrCat(now.strangers, " connections so far were closed, the last one from ", now.last_stranger,
                     "; if workers can't connect, compare the versions, else find out who connects to this port"));
  }
  if (now.peers != logged_peers_ || now.shared_memory_peers != logged_shared_memory_peers_) {
    logged_peers_ = now.peers;
    logged_shared_memory_peers_ = now.shared_memory_peers;
    Log(EventKind::kConnections, absl::StrCat(now.peers, " connected, ", now.shared_memory_peers,
                                              " of them by shared memory; data plane: ", now.transports));
  }
  return now;
}

void Server::Parts::LeaveCluster(std::string_view reason) {
  if (!control_thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    commands_.emplace_back(LeaveRequested{std::string(reason)});
  }
  lease_wake_up_->Signal();
  control_thread_.join();
}

void Server::Parts::Drain(std::string_view reason) {
  LeaveCluster(reason);
  SetDraining(true);
}

void Server::Parts::SetDraining(bool drain) {
  for (const std::unique_ptr<ServerThread>& thread : threads_) thread->SetDraining(drain);
}

bool Server::Parts::drained() const {
  return std::all_of(threads_.begin(), threads_.end(), [](const auto& thread) { return thread->drained(); });
}

std::string Server::Parts::open_groups() const {
  OpenGroups open;
  for (const std::unique_ptr<ServerThread>& thread : threads_) AddOpenGroups(thread->open_groups(), &open);
  return DescribeOpenGroups(open);
}

void Server::Parts::Stop(std::string_view reason) {
  if (traces_.has_value()) traces_->Stop();
  LeaveCluster(reason);
  threads_.clear();
}

ServerCounters Server::Parts::counters() const {
  ServerCounters sum;
  for (size_t i = 0; i < threads_.size(); ++i) {
    AddCounters(static_cast<uint32_t>(i), threads_[i]->counters(), &sum);
  }
  return sum;
}

absl::Status Server::Parts::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, EventSink log, int cancel_fd) {
  absl::Status status = CheckServerConfig(config);
  if (status.ok()) status = CheckFilesLeft(kFilesToStart);
  if (status.ok()) status = CheckSlotMemoryFits(config.slot_memory_bytes);
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> address = FindAdvertisedAddress(config.advertise);
  if (!address.ok()) return address.status();
  ServerConfig resolved = config;
  resolved.advertise = *address;
  absl::StatusOr<std::unique_ptr<WakeUp>> lease_wake_up = WakeUp::Make();
  if (!lease_wake_up.ok()) return lease_wake_up.status();
  absl::StatusOr<std::unique_ptr<WakeUp>> end_wake_up = WakeUp::Make();
  if (!end_wake_up.ok()) return end_wake_up.status();
  const absl::StatusOr<Credentials> credentials = Credentials::Load(config.credentials, ReportTo(log));
  if (!credentials.ok()) return credentials.status();
  auto parts = std::make_unique<Parts>(resolved, *credentials, std::move(log), *std::move(lease_wake_up),
                                       *std::move(end_wake_up));
  status = parts->Listen(cancel_fd);
  if (status.ok()) status = parts->Register(cancel_fd);
  if (status.ok()) status = parts->Serve();
  if (!status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() = default;

const std::string& Server::name() const { return parts_->name(); }
std::vector<std::string> Server::addresses() const { return parts_->addresses(); }
ServerCounters Server::counters() const { return parts_->counters(); }
void Server::Drain(std::string_view reason) { parts_->Drain(reason); }
bool Server::drained() const { return parts_->drained(); }
std::string Server::open_groups() const { return parts_->open_groups(); }
void Server::Stop(std::string_view reason) { parts_->Stop(reason); }
int Server::end_fd() const { return parts_->end_fd(); }
absl::Status Server::failure() const { return parts_->failure(); }
bool Server::asked_to_drain() const { return parts_->asked_to_drain(); }

}  // namespace shoal
