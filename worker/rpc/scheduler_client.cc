#include "worker/rpc/scheduler_client.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/frame.h"
#include "core/version.h"
#include "core/wait_report.h"
#include "process/clock.h"
#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "proto/shared_messages.h"
#include "shoal/v1/scheduler.grpc.pb.h"

namespace shoal {
namespace {

constexpr uint64_t kFirstRetryNs = 50 * kNsPerMs;
constexpr uint64_t kMaxRetryNs = kNsPerS;
constexpr uint64_t kJoinAttemptNs = 5 * kNsPerS;
constexpr uint64_t kServerPollNs = 100 * kNsPerMs;
// The scheduler answers a wait that is over; its answer needs some time to get here.
constexpr uint64_t kAnswerGraceNs = 2 * kNsPerS;
constexpr uint64_t kLeaveTimeoutMs = 2000;
constexpr char kNoAnswer[] = "no answer";

std::string Seconds(uint64_t ns) { return absl::StrFormat("%.1f s", static_cast<double>(ns) / 1e9); }

uint64_t Jittered(uint64_t ns) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return ns / 2 + std::uniform_int_distribution<uint64_t>(0, ns / 2)(random);
}

absl::StatusOr<GroupInfo> ParseGroup(const v1::JoinGroupResponse& response, const GroupRequest& request) {
  GroupInfo info;
  info.id = GroupId(response.group_id());
  info.name = request.name;
  info.job_ranks = std::vector<JobRank>(request.ranks.begin(), request.ranks.end());
  info.nodes.assign(response.nodes().begin(), response.nodes().end());
  info.token.resize(response.token().size());
  std::memcpy(info.token.data(), response.token().data(), info.token.size());
  const absl::StatusOr<GroupToken> token = DecodeToken(info.token);
  if (!token.ok()) return absl::InternalError(absl::StrCat("the scheduler's token: ", token.status().message()));
  info.rank = token->rank;
  info.max_chunk_bytes = token->max_chunk_bytes;
  info.credit_chunks = token->credit_chunks;
  info.look_ahead_chunks = response.look_ahead_chunks();
  info.link = FromMessage(response.link());
  info.busiest_port = std::max(response.busiest_port(), 1.0);
  info.wire = request.wire;
  absl::StatusOr<std::shared_ptr<const ShardMap>> map = FromMessage(response.map());
  if (!map.ok()) return map.status();
  info.map = *std::move(map);
  const bool fits = token->group == info.id && token->group_size == info.job_ranks.size() &&
                    info.nodes.size() == info.job_ranks.size() && token->epoch <= info.map->epoch() &&
                    info.rank.value() < info.job_ranks.size() && !info.map->empty();
  if (fits) return info;
  return absl::InternalError(absl::StrCat("the scheduler's answer for group '", request.name, "' contradicts itself (",
                                          request.ranks.size(), " ranks, ", info.nodes.size(), " nodes, ",
                                          info.map->shards().size(), " shards, token for ", token->group_size, ")"));
}

}  // namespace

class SchedulerClient::Connection {
 public:
  explicit Connection(const std::string& target) : stub_(v1::Scheduler::NewStub(OpenSchedulerChannel(target))) {}

  v1::Scheduler::Stub& stub() { return *stub_; }

 private:
  const std::unique_ptr<v1::Scheduler::Stub> stub_;
};

// Keeps a call's context where CancelCalls finds it.
class SchedulerClient::CallScope {
 public:
  CallScope(SchedulerClient* client, CallSet* calls) : client_(client), calls_(calls) {
    const std::lock_guard lock(client_->mutex_);
    if (client_->cancelled_) context_.TryCancel();
    calls_->insert(&context_);
  }
  ~CallScope() {
    const std::lock_guard lock(client_->mutex_);
    calls_->erase(&context_);
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  grpc::ClientContext* context() { return &context_; }

 private:
  SchedulerClient* const client_;
  CallSet* const calls_;
  grpc::ClientContext context_;
};

class SchedulerClient::GrpcWatchStream : public SchedulerClient::WatchStream {
 public:
  GrpcWatchStream(SchedulerClient* client, JobId job)
      : call_(client, &client->waits_), connection_(client->connection()) {
    v1::WatchRequest request;
    request.set_job_id(job.value());
    reader_ = connection_->stub().Watch(call_.context(), request);
  }

  ~GrpcWatchStream() override {
    call_.context()->TryCancel();
    v1::WatchResponse response;
    while (reader_->Read(&response)) {
    }
    reader_->Finish();
  }

  bool Read(WatchNews* news) override {
    v1::WatchResponse response;
    if (!reader_->Read(&response)) return false;
    *news = WatchNews();
    if (response.has_map()) {
      // A map that makes no sense changes nothing; groups get theirs with JoinGroup, which says what is wrong.
      absl::StatusOr<std::shared_ptr<const ShardMap>> map = FromMessage(response.map());
      if (map.ok()) news->map = *std::move(map);
    }
    for (const v1::GroupMap& group : response.groups()) {
      absl::StatusOr<std::shared_ptr<const ShardMap>> map = FromMessage(group.map());
      if (map.ok()) news->moved_groups.push_back({.group = GroupId(group.group_id()), .map = *std::move(map)});
    }
    news->colocation_wanted.assign(response.colocation().ranks().begin(), response.colocation().ranks().end());
    news->colocation_wanted_because = response.colocation().reason();
    for (const v1::RankLost& lost : response.lost_ranks()) {
      news->lost_ranks.push_back({.job_rank = JobRank(lost.rank()), .node = lost.node(), .reason = lost.reason()});
    }
    return true;
  }

 private:
  CallScope call_;  // first: who replaces the connection cancels it
  const std::shared_ptr<Connection> connection_;
  std::unique_ptr<grpc::ClientReader<v1::WatchResponse>> reader_;
};

SchedulerClient::SchedulerClient(std::string address, NoticeLog* notices)
    : address_(std::move(address)),
      target_(*SchedulerTarget(address_)),
      notices_(notices),
      connection_(std::make_shared<Connection>(target_)) {}

SchedulerClient::~SchedulerClient() = default;

std::shared_ptr<SchedulerClient::Connection> SchedulerClient::connection() {
  const std::lock_guard lock(mutex_);
  return connection_;
}

void SchedulerClient::Reconnect(const std::shared_ptr<Connection>& broken) {
  const std::lock_guard lock(mutex_);
  if (connection_ != broken) return;
  connection_ = std::make_shared<Connection>(target_);
  for (grpc::ClientContext* context : waits_) context->TryCancel();
}

bool SchedulerClient::Sleep(uint64_t ns) {
  std::unique_lock lock(mutex_);
  return !cancelled_changed_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return cancelled_; });
}

template <typename Method, typename Request, typename Response>
absl::Status SchedulerClient::Call(Method method, const Request& request, uint64_t deadline_ns, CallSet* calls,
                                   Response* response) {
  const std::chrono::nanoseconds timeout(NsUntil(deadline_ns));
  const auto deadline = std::chrono::system_clock::now() + timeout;
  std::shared_ptr<Connection> connection;
  grpc::Status status;
  if (calls != nullptr) {
    CallScope call(this, calls);  // before the connection is known: who replaces it cancels the call
    connection = this->connection();
    call.context()->set_deadline(deadline);
    status = (connection->stub().*method)(call.context(), request, response);
  } else {
    grpc::ClientContext context;
    connection = this->connection();
    context.set_deadline(deadline);
    status = (connection->stub().*method)(&context, request, response);
  }
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      // gRPC's own words: the deadline passed here. The scheduler's words name whom it waited for.
      if (status.error_message() != "Deadline Exceeded") break;
      // The connection may lead to a node that is gone without a word; gRPC would keep it for many minutes.
      Reconnect(connection);
      return absl::UnavailableError(kNoAnswer);
    case grpc::StatusCode::UNAVAILABLE:
      // Who calls decides when to try again. gRPC would wait for seconds before it tries, which a lease may not have.
      Reconnect(connection);
      return absl::UnavailableError(ShortReason(status.error_message()));
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::FailedPreconditionError(absl::StrCat("what answers at ", address_,
                                                        " is not a Shoal scheduler of this version (",
                                                        status.error_message(), "); check the address"));
    case grpc::StatusCode::CANCELLED: {
      const std::lock_guard lock(mutex_);
      return cancelled_ ? absl::CancelledError("the worker is closed") : absl::UnavailableError(kNoAnswer);
    }
    default:
      break;
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

template <typename Attempt>
absl::Status SchedulerClient::TryUntil(uint64_t deadline_ns, bool waits_for_others, Attempt attempt) {
  uint64_t since_ns = MonotonicNs();
  WaitReport wait(since_ns, deadline_ns);
  std::string reason;
  for (uint64_t retry_ns = kFirstRetryNs;; retry_ns = std::min(2 * retry_ns, kMaxRetryNs)) {
    const absl::Status status = attempt();
    if (!absl::IsUnavailable(status)) return status;
    if (waits_for_others && reason.empty()) {
      // Until now it waited for them, not for a scheduler.
      since_ns = MonotonicNs();
      wait = WaitReport(since_ns, deadline_ns);
    }
    // The last attempt may be cut short by the deadline; then an earlier one knew more.
    if (reason.empty() || status.message() != kNoAnswer) reason = std::string(status.message());
    if (const uint64_t now_ns = MonotonicNs(); wait.TakeDue(now_ns)) {
      notices_->Say(absl::StrCat("waiting for a scheduler at ", address_, " since ", wait.Text(now_ns), ": ", reason));
    }
    const uint64_t left_ns = NsUntil(deadline_ns);
    if (left_ns == 0) {
      return absl::UnavailableError(absl::StrCat("no scheduler answered at ", address_, " within ",
                                                 Seconds(MonotonicNs() - since_ns), " (", reason,
                                                 "): is shoal-scheduler running there?"));
    }
    if (!Sleep(std::min(Jittered(retry_ns), left_ns))) return absl::CancelledError("the worker is closed");
  }
}

absl::StatusOr<JoinedJob> SchedulerClient::JoinJob(const JobMember& member, uint32_t min_servers,
                                                   uint64_t deadline_ns) {
  v1::JoinJobRequest request;
  request.set_control_version(kControlVersion);
  request.set_software_version(kSoftwareVersion);
  request.set_job_name(member.job_name);
  request.set_world_size(member.world_size);
  request.set_rank(member.rank);
  request.set_incarnation(member.incarnation.value());
  request.set_node(member.node);
  request.set_pid(static_cast<uint32_t>(getpid()));
  request.set_colocation(static_cast<uint32_t>(member.colocation));
  request.set_colocates_without_servers(member.colocates_without_servers);
  const uint64_t timeout_ns = NsUntil(deadline_ns);
  WaitReport wait(MonotonicNs(), deadline_ns);
  JoinedJob joined;
  // Joining again under the same incarnation changes nothing, renews the lease and counts the servers.
  do {
    v1::JoinJobResponse response;
    const absl::Status status = TryUntil(deadline_ns, false, [&] {
      // A scheduler that stands still takes the call and says nothing: that is to be noticed before the deadline.
      const uint64_t attempt_ns = std::min(deadline_ns, MonotonicNs() + kJoinAttemptNs);
      return Call(&v1::Scheduler::Stub::JoinJob, request, attempt_ns, &calls_, &response);
    });
    // When the time ran out during a later call, what the earlier one said is the better answer.
    if (absl::IsUnavailable(status) && joined.lease_ttl_ms > 0) break;
    if (!status.ok()) return status;
    if (response.lease_ttl_ms() == 0) return absl::InternalError("the scheduler's answer has a lease of 0 ms");
    joined = {.id = JobId(response.job_id()),
              .lease_ttl_ms = response.lease_ttl_ms(),
              .server_count = response.server_count(),
              .colocate_server = response.colocate_server()};
    if (joined.server_count >= min_servers) return joined;
    if (const uint64_t now_ns = MonotonicNs(); wait.TakeDue(now_ns)) {
      notices_->Say(absl::StrCat("waiting for reduction servers since ", wait.Text(now_ns), ": ", joined.server_count,
                                 " of ", min_servers, " are registered with the scheduler at ", address_));
    }
    if (!Sleep(std::min(kServerPollNs, NsUntil(deadline_ns)))) return absl::CancelledError("the worker is closed");
  } while (NsUntil(deadline_ns) > 0);
  const std::string missing =
      absl::StrCat(joined.server_count, " of ", min_servers, " reduction servers registered with the scheduler at ",
                   address_, " after ", Seconds(timeout_ns));
  LeaveJob(member, joined.id, missing, true, DeadlineIn(kLeaveTimeoutMs)).IgnoreError();
  return absl::DeadlineExceededError(absl::StrCat(missing, ": start more, or ask for fewer"));
}

absl::StatusOr<GroupInfo> SchedulerClient::JoinGroup(const JobMember& member, JobId job, const GroupRequest& group,
                                                     uint64_t deadline_ns) {
  v1::JoinGroupRequest request;
  request.set_job_id(job.value());
  request.set_rank(member.rank);
  request.set_incarnation(member.incarnation.value());
  request.set_group_name(group.name);
  for (const uint32_t rank : group.ranks) request.add_ranks(rank);
  request.set_max_chunk_bytes(group.max_chunk_bytes);
  request.set_min_servers(group.min_servers);
  ToMessage(group.link, request.mutable_link());
  request.set_wire(static_cast<uint32_t>(group.wire));
  request.set_request_number(group_requests_.fetch_add(1, std::memory_order_relaxed) + 1);
  v1::JoinGroupResponse response;
  const absl::Status status = TryUntil(deadline_ns, true, [&] {
    request.set_wait_ms(std::max<uint64_t>(NsUntil(deadline_ns) / kNsPerMs, 1));
    return Call(&v1::Scheduler::Stub::JoinGroup, request, deadline_ns + kAnswerGraceNs, &waits_, &response);
  });
  if (!status.ok()) return status;
  return ParseGroup(response, group);
}

absl::Status SchedulerClient::ReportServer(const JobMember& member, JobId job, const ServerTrouble& trouble,
                                           uint64_t deadline_ns) {
  v1::ReportServerRequest request;
  request.set_job_id(job.value());
  request.set_rank(member.rank);
  request.set_incarnation(member.incarnation.value());
  request.set_group_id(trouble.group.value());
  request.set_epoch(trouble.epoch.value());
  request.set_server_id(trouble.server.value());
  request.set_server_incarnation(trouble.incarnation.value());
  request.set_reachable(trouble.reachable);
  request.set_reason(trouble.reason);
  v1::ReportServerResponse response;
  return Call(&v1::Scheduler::Stub::ReportServer, request, deadline_ns, &calls_, &response);
}

absl::StatusOr<HeartbeatAnswer> SchedulerClient::Heartbeat(const JobMember& member, JobId job,
                                                           const WorkerCounters& load, uint64_t deadline_ns) {
  v1::HeartbeatWorkerRequest request;
  request.set_job_id(job.value());
  request.set_rank(member.rank);
  request.set_incarnation(member.incarnation.value());
  request.mutable_load()->set_ops_completed(load.ops_completed);
  request.mutable_load()->set_ops_failed(load.ops_failed);
  request.mutable_load()->set_bytes_pushed(load.bytes_pushed);
  request.mutable_load()->set_bytes_pulled(load.bytes_pulled);
  request.mutable_load()->set_op_time_ns_total(load.op_time_ns_total);
  std::set<std::string> transports;
  for (const ShardTraffic& shard : load.shards) {
    if (!shard.transport.empty()) transports.insert(shard.transport);
  }
  request.mutable_load()->set_transports(absl::StrJoin(transports, ","));
  v1::HeartbeatWorkerResponse response;
  const absl::Status status = Call(&v1::Scheduler::Stub::HeartbeatWorker, request, deadline_ns, &calls_, &response);
  if (!status.ok()) return status;
  if (response.lease_ttl_ms() == 0) return absl::InternalError("the scheduler's answer has a lease of 0 ms");
  return HeartbeatAnswer{.ttl_ms = response.lease_ttl_ms(),
                         .waits = {response.waits().begin(), response.waits().end()}};
}

absl::Status SchedulerClient::LeaveJob(const JobMember& member, JobId job, const std::string& reason, bool failed,
                                       uint64_t deadline_ns) {
  v1::LeaveJobRequest request;
  request.set_job_id(job.value());
  request.set_rank(member.rank);
  request.set_incarnation(member.incarnation.value());
  request.set_reason(reason);
  request.set_failed(failed);
  v1::LeaveJobResponse response;
  return Call(&v1::Scheduler::Stub::LeaveJob, request, deadline_ns, nullptr, &response);
}

std::unique_ptr<SchedulerClient::WatchStream> SchedulerClient::Watch(JobId job) {
  return std::make_unique<GrpcWatchStream>(this, job);
}

void SchedulerClient::CancelCalls() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : calls_) context->TryCancel();
  for (grpc::ClientContext* context : waits_) context->TryCancel();
  cancelled_changed_.notify_all();
}

}  // namespace shoal
