#include "server/rpc/grpc_control_link.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/version.h"
#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "shoal/v1/scheduler.grpc.pb.h"

namespace shoal {
namespace {

std::string ShortText(const grpc::Status& status, uint64_t timeout_ms) {
  const std::string& text = status.error_message();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::StrCat("no answer within ", timeout_ms, " ms");
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return absl::StrCat("what answers there is no scheduler of Shoal (", text, ")");
  }
  return ShortReason(text);
}

v1::ServerLoad MakeLoad(const ServerCounters& counters) {
  v1::ServerLoad load;
  load.set_bytes_in(counters.bytes_in);
  load.set_bytes_out(counters.bytes_out);
  load.set_chunks_reduced(counters.chunks_reduced);
  load.set_refusals(counters.RefusalTotal());
  load.set_groups_open(counters.groups_open);
  load.set_peers(counters.peers);
  load.set_shared_memory_peers(counters.shared_memory_peers);
  load.set_transports(counters.transports);
  load.set_corrupted_payloads(counters.corrupted_payloads);
  load.set_slot_memory_used_bytes(counters.slot_memory_used_bytes);
  for (size_t reason = 0; reason < counters.refusals.size(); ++reason) {
    if (counters.refusals[reason] == 0) continue;
    (*load.mutable_refusals_by_reason())[std::string(RefusalName(static_cast<Refusal>(reason)))] =
        counters.refusals[reason];
  }
  return load;
}

class GrpcControlLink : public ControlLink {
 public:
  explicit GrpcControlLink(std::string target) : target_(std::move(target)) { Reconnect(); }

  absl::StatusOr<ServerLease> Register(const ServerRegistration& registration, uint64_t timeout_ms) override {
    v1::RegisterServerRequest request;
    request.set_control_version(kControlVersion);
    request.set_software_version(kSoftwareVersion);
    request.set_name(registration.name);
    request.set_incarnation(registration.incarnation.value());
    for (const std::string& address : registration.addresses) request.add_addresses(address);
    request.set_weight(registration.weight);
    request.set_node(registration.node);
    request.set_slot_memory_bytes(registration.slot_memory_bytes);
    request.set_transports(registration.transports);
    request.set_job_id(registration.job.value());
    v1::RegisterServerResponse response;
    const absl::Status status = Call(&v1::Scheduler::Stub::RegisterServer, request, timeout_ms, true, &response);
    if (!status.ok()) return status;
    ServerLease lease{
        .server = ServerId(response.server_id()), .ttl_ms = response.lease_ttl_ms(), .epoch = Epoch(response.epoch())};
    if (response.token_key().size() != lease.token_key.size() || lease.ttl_ms == 0) {
      return absl::InternalError(absl::StrCat("the scheduler's answer has a token key of ", response.token_key().size(),
                                              " bytes and a lease of ", lease.ttl_ms, " ms"));
    }
    std::memcpy(lease.token_key.data(), response.token_key().data(), lease.token_key.size());
    return lease;
  }

  absl::StatusOr<LeaseRenewal> Renew(ServerId server, Incarnation incarnation, const ServerCounters& load,
                                     uint64_t timeout_ms) override {
    v1::HeartbeatServerRequest request;
    request.set_server_id(server.value());
    request.set_incarnation(incarnation.value());
    *request.mutable_load() = MakeLoad(load);
    v1::HeartbeatServerResponse response;
    const absl::Status status = Call(&v1::Scheduler::Stub::HeartbeatServer, request, timeout_ms, true, &response);
    if (!status.ok()) return status;
    if (response.lease_ttl_ms() == 0) return absl::InternalError("the scheduler's answer has a lease of 0 ms");
    return LeaseRenewal{.ttl_ms = response.lease_ttl_ms(), .epoch = Epoch(response.epoch()), .drain = response.drain()};
  }

  absl::Status Deregister(ServerId server, Incarnation incarnation, const std::string& reason,
                          uint64_t timeout_ms) override {
    v1::DeregisterServerRequest request;
    request.set_server_id(server.value());
    request.set_incarnation(incarnation.value());
    request.set_reason(reason);
    v1::DeregisterServerResponse response;
    return Call(&v1::Scheduler::Stub::DeregisterServer, request, timeout_ms, false, &response);
  }

  void StopRenewing() override {
    const std::lock_guard lock(mutex_);
    renewing_stopped_ = true;
    if (cancellable_call_ != nullptr) cancellable_call_->TryCancel();
  }

 private:
  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, uint64_t timeout_ms, bool cancellable, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
    if (cancellable) {
      const std::lock_guard lock(mutex_);
      if (renewing_stopped_) return absl::CancelledError("the server stops");
      cancellable_call_ = &context;
    }
    const grpc::Status status = ((*stub_).*method)(&context, request, response);
    if (cancellable) {
      const std::lock_guard lock(mutex_);
      cancellable_call_ = nullptr;
    }
    // Who calls decides when to try again, so a connection that failed is not left to gRPC.
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
        status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      Reconnect();
    }
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), ShortText(status, timeout_ms));
  }

  void Reconnect() { stub_ = v1::Scheduler::NewStub(OpenSchedulerChannel(target_)); }

  const std::string target_;
  std::unique_ptr<v1::Scheduler::Stub> stub_;
  std::mutex mutex_;
  bool renewing_stopped_ = false;                    // under mutex_
  grpc::ClientContext* cancellable_call_ = nullptr;  // under mutex_
};

}  // namespace

std::unique_ptr<ControlLink> MakeGrpcControlLink(const std::string& scheduler) {
  return std::make_unique<GrpcControlLink>(*SchedulerTarget(scheduler));
}

}  // namespace shoal
