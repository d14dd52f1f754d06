#include "server/rpc/grpc_control_link.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/now.h"
#include "core/version.h"
#include "process/mutex.h"
#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "proto/shared_messages.h"
#include "server/rpc/load_message.h"
#include "shoal/v1/scheduler.grpc.pb.h"

namespace shoal {
namespace {

std::string ShortText(const grpc::Status& status, uint64_t timeout_ms) {
  const std::string& text = status.error_message();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::StrCat("no answer within ", timeout_ms, " ms");
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return absl::StrCat("what answers there is not a scheduler of Shoal (", text, ")");
  }
  return ShortReason(text);
}

v1::RegisterServerRequest ToMessage(const ServerRegistration& registration) {
  v1::RegisterServerRequest request;
  request.set_control_version(kControlVersion);
  request.set_oldest_control_version(kOldestControlVersion);
  request.set_software_version(kSoftwareVersion);
  request.set_name(registration.name);
  request.set_incarnation(registration.incarnation.value());
  for (const std::string& address : registration.addresses) request.add_addresses(address);
  request.set_weight(registration.weight);
  request.set_node(registration.node);
  request.set_boot_id(registration.boot_id);
  request.set_slot_memory_bytes(registration.slot_memory_bytes);
  request.set_transports(registration.transports);
  request.set_can_encrypt(registration.can_encrypt);
  request.set_job_id(registration.job.value());
  return request;
}

absl::StatusOr<ServerLease> LeaseOf(const v1::RegisterServerResponse& response) {
  ServerLease lease{.server = ServerId(response.server_id()),
                    .ttl_ms = response.lease_ttl_ms(),
                    .key_period = response.key_period(),
                    .epoch = Epoch(response.epoch()),
                    .scheduler_is_colocated = response.scheduler_is_colocated()};
  if (response.token_key().size() != lease.token_key.size() || lease.ttl_ms == 0) {
    return absl::InternalError(absl::StrCat("the scheduler's answer has a token key of ", response.token_key().size(),
                                            " bytes and a lease of ", lease.ttl_ms, " ms"));
  }
  std::memcpy(lease.token_key.data(), response.token_key().data(), lease.token_key.size());
  return lease;
}

absl::StatusOr<LeaseRenewal> RenewalOf(const v1::HeartbeatServerResponse& response) {
  if (response.lease_ttl_ms() == 0) return absl::InternalError("the scheduler's answer has a lease of 0 ms");
  return LeaseRenewal{.ttl_ms = response.lease_ttl_ms(),
                      .key_period = response.key_period(),
                      .epoch = Epoch(response.epoch()),
                      .drain = response.drain(),
                      .scheduler_is_colocated = response.scheduler_is_colocated(),
                      .trace = TraceOf(response)};
}

// gRPC makes the calls on threads of its own, which only convert and queue the answers. Calls are destroyed by the
// owner's thread alone (in Poll and at the end), so that a pointer to one stays good in any other function.
class GrpcControlLink : public ControlLink {
 public:
  GrpcControlLink(std::string target, const Credentials& credentials)
      : target_(std::move(target)), credentials_(credentials) {}

  ~GrpcControlLink() override {
    GrpcControlLink::Stop();
    MutexLock lock(mutex_);
    idle_.wait(lock, [this]() SHOAL_REQUIRES(mutex_) { return calls_.empty(); });
  }

  void Start(const RegisterCall& call) override {
    Begin<v1::RegisterServerResponse>(
        call.timeout_ms, call.call, ToMessage(call.registration),
        [](v1::Scheduler::Stub* stub, auto... arguments) { stub->async()->RegisterServer(arguments...); },
        [id = call.call](const absl::Status& status, const v1::RegisterServerResponse& response) -> LeaseAnswer {
          if (!status.ok()) return RegisterAnswered{id, status};
          return RegisterAnswered{id, LeaseOf(response)};
        });
  }

  void Start(const RenewCall& call, const ServerCounters& load) override {
    v1::HeartbeatServerRequest request;
    request.set_server_id(call.server.value());
    request.set_incarnation(call.incarnation.value());
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    request.set_now_unix_ms(
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count()));
    ToMessage(load, request.mutable_load());
    for (const AbsentRank& absent : load.absent_ranks) {
      v1::AbsentRank* const reported = request.add_absent_ranks();
      reported->set_job_id(absent.job.value());
      reported->set_group_id(absent.group.value());
      reported->set_epoch(absent.epoch.value());
      reported->set_rank(absent.rank.value());
      reported->set_ago_ms((call.asked_at_ns - std::min(absent.since_ns, call.asked_at_ns)) / kNsPerMs);
      reported->set_because(absent.because);
    }
    for (const LateRankOfGroup& late : load.late_ranks) {
      if (late.IsOld(call.asked_at_ns)) continue;
      v1::LateRank* const reported = request.add_late_ranks();
      reported->set_io_thread(late.io_thread);
      reported->set_job_id(late.job.value());
      reported->set_group_id(late.group.value());
      reported->set_epoch(late.epoch.value());
      reported->set_rank(late.late.rank.value());
      reported->set_window(late.window);
      reported->set_window_ns(late.window_ns);
      reported->set_ago_ms((call.asked_at_ns - std::min(late.window_end_ns, call.asked_at_ns)) / kNsPerMs);
      reported->set_ops(late.ops);
      reported->set_late_ops(late.late.late_ops);
      reported->set_waited_ns(late.late.waited_ns);
      reported->set_began_late_ns(late.late.began_late_ns);
      reported->set_spacing_ns(late.late.spacing_ns);
      reported->set_median_spacing_ns(late.median_spacing_ns);
    }
    Begin<v1::HeartbeatServerResponse>(
        call.timeout_ms, call.call, request,
        [](v1::Scheduler::Stub* stub, auto... arguments) { stub->async()->HeartbeatServer(arguments...); },
        [id = call.call](const absl::Status& status, const v1::HeartbeatServerResponse& response) -> LeaseAnswer {
          if (!status.ok()) return RenewAnswered{id, status};
          return RenewAnswered{id, RenewalOf(response)};
        });
  }

  void Start(const DeregisterCall& call) override {
    v1::DeregisterServerRequest request;
    request.set_server_id(call.server.value());
    request.set_incarnation(call.incarnation.value());
    request.set_reason(call.reason);
    Begin<v1::DeregisterServerResponse>(
        call.timeout_ms, call.call, request,
        [](v1::Scheduler::Stub* stub, auto... arguments) { stub->async()->DeregisterServer(arguments...); },
        [id = call.call](const absl::Status& status, const v1::DeregisterServerResponse&) -> LeaseAnswer {
          return DeregisterAnswered{id, status};
        });
  }

  void Cancel(LeaseCallId call) override {
    OpenCall* open = nullptr;
    {
      const MutexLock lock(mutex_);
      if (const auto found = calls_.find(call); found != calls_.end()) open = found->second.get();
    }
    if (open != nullptr) open->context.TryCancel();
  }

  void Stop() override {
    std::vector<OpenCall*> open;
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
      for (const auto& [id, call] : calls_) open.push_back(call.get());
    }
    for (OpenCall* const call : open) call->context.TryCancel();
  }

  std::optional<LeaseAnswer> Poll() override {
    std::vector<std::unique_ptr<OpenCall>> ended;  // destroyed without the lock
    const MutexLock lock(mutex_);
    ended.swap(ended_);
    if (answers_.empty()) return std::nullopt;
    LeaseAnswer answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }

  void SetWake(std::function<void()> wake) override {
    const MutexLock lock(mutex_);
    wake_ = std::move(wake);
  }

 private:
  // Lives until its owner's thread destroys it: gRPC's thread must not destroy a connection that it is working on.
  struct OpenCall {
    virtual ~OpenCall() = default;
    std::shared_ptr<v1::Scheduler::Stub> stub;
    grpc::ClientContext context;
  };
  template <typename Request, typename Response>
  struct CallWithMessages : OpenCall {
    Request request;
    Response response;
  };

  // `begin` makes the call; `answer` makes its answer of the outcome.
  template <typename Response, typename Request, typename BeginCall, typename MakeAnswer>
  void Begin(uint64_t timeout_ms, LeaseCallId id, const Request& request, BeginCall begin, MakeAnswer answer) {
    auto made = std::make_unique<CallWithMessages<Request, Response>>();
    CallWithMessages<Request, Response>* const call = made.get();
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
    call->request = request;
    {
      const MutexLock lock(mutex_);
      if (stopped_) return Push(answer(absl::CancelledError("the server is stopping"), call->response));
      // The caller decides when to try again, so a connection that failed is not left to gRPC.
      if (stub_ == nullptr) stub_ = v1::Scheduler::NewStub(OpenSchedulerChannel(target_, credentials_));
      call->stub = stub_;
      calls_[id] = std::move(made);
    }
    begin(call->stub.get(), &call->context, &call->request, &call->response,
          [this, id, timeout_ms, call, answer](const grpc::Status& status) {
            const auto code = static_cast<absl::StatusCode>(status.error_code());
            const absl::Status outcome(code, status.ok() ? "" : ShortText(status, timeout_ms));
            const MutexLock lock(mutex_);
            // One that was cancelled may have been so for want of an answer.
            const bool connection_failed =
                absl::IsDeadlineExceeded(outcome) || absl::IsUnavailable(outcome) || absl::IsCancelled(outcome);
            if (connection_failed && stub_ == call->stub) stub_.reset();
            Push(answer(outcome, call->response));
            ended_.push_back(std::move(calls_.extract(id).mapped()));
            idle_.notify_all();
          });
  }

  void Push(LeaseAnswer answer) SHOAL_REQUIRES(mutex_) {
    answers_.push_back(std::move(answer));
    if (wake_) wake_();
  }

  const std::string target_;
  const Credentials credentials_;
  Mutex mutex_;
  std::condition_variable idle_;
  bool stopped_ SHOAL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<v1::Scheduler::Stub> stub_ SHOAL_GUARDED_BY(mutex_);  // null: the next call opens a connection
  std::map<LeaseCallId, std::unique_ptr<OpenCall>> calls_ SHOAL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<OpenCall>> ended_ SHOAL_GUARDED_BY(mutex_);  // to be destroyed
  std::deque<LeaseAnswer> answers_ SHOAL_GUARDED_BY(mutex_);
  std::function<void()> wake_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<ControlLink> MakeGrpcControlLink(const std::string& scheduler, const Credentials& credentials) {
  return std::make_unique<GrpcControlLink>(*SchedulerTarget(scheduler), credentials);
}

}  // namespace shoal
