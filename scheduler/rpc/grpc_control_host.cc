#include "scheduler/rpc/grpc_control_host.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <type_traits>
#include <utility>

#include "process/listen_address.h"
#include "scheduler/rpc/control_server.h"
#include "scheduler/rpc/grpc_calls.h"
#include "shoal/v1/admin.grpc.pb.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "shoal/v1/status.grpc.pb.h"

namespace shoal::scheduler {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;

// What is kept of who registers or joins. A worker's process gets no keys of servers, which would open other tenants'
// jobs to it, so it is asked for no colocated server.
template <typename Asked>
Asked WithCaller(const Caller& caller, Asked request) {
  if constexpr (std::is_same_v<Asked, RegisterServer>) request.identity = caller.identity;
  if constexpr (std::is_same_v<Asked, JoinJob>) {
    request.tenant = caller.tenant;
    if (caller.is_known()) {
      request.colocation = 0;
      request.colocates_without_servers = false;
    }
  }
  return request;
}

// A call that ends before it has begun.
template <typename Reactor>
class UnbegunCall : public Reactor {
 public:
  explicit UnbegunCall(const grpc::Status& why) { this->Finish(why); }
  void OnDone() override { delete this; }
};
using Stream = grpc::ServerWriteReactor<ByteBuffer>;

template <typename Asked, typename Answer>
grpc::ServerUnaryReactor* BeginCall(GrpcCalls* calls, const char* method, CallbackServerContext* context,
                                    const ByteBuffer* request, ByteBuffer* answer) {
  absl::StatusOr<CallOrigin> origin = calls->Admit(*context, method);
  if (!origin.ok()) return new UnbegunCall<grpc::ServerUnaryReactor>(ToGrpcStatus(origin.status()));
  Asked message;
  if (const grpc::Status parsed = ParseMessage(*request, &message); !parsed.ok()) {
    return new UnbegunCall<grpc::ServerUnaryReactor>(parsed);
  }
  const auto call = std::make_shared<UnaryCall<Answer>>(calls, answer);
  Request asked = WithCaller(origin->caller, FromMessage(message));
  call->Begin(std::move(asked), *std::move(origin));
  return call.get();
}

WatchOpened Opened(const v1::WatchRequest& request, const CallOrigin& origin) {
  return {.watcher = WatcherId(),
          .job = JobId(request.job_id()),
          .rank = JobRank(request.rank()),
          .incarnation = Incarnation(request.incarnation()),
          .caller = origin.caller,
          .from = origin.from};
}
EventsOpened Opened(const v1::ListEventsRequest& request, const CallOrigin&) {
  return {.watcher = WatcherId(), .follow = request.follow(), .after_sequence = request.after_sequence()};
}

template <typename Asked, typename Opening>
Stream* BeginStream(GrpcCalls* calls, const char* method, CallbackServerContext* context, const ByteBuffer* request) {
  const absl::StatusOr<CallOrigin> origin = calls->Admit(*context, method);
  if (!origin.ok()) return new UnbegunCall<Stream>(ToGrpcStatus(origin.status()));
  Asked message;
  if (const grpc::Status parsed = ParseMessage(*request, &message); !parsed.ok()) {
    return new UnbegunCall<Stream>(parsed);
  }
  const auto stream = std::make_shared<Opening>(calls);
  stream->Begin(Opened(message, *origin));
  return stream.get();
}

// As the classes that protoc makes of a service, whose handlers get bytes ("raw callback"): they need a class each for
// every method. Methods are named in full.
class ByteService : public grpc::Service {
 public:
  explicit ByteService(GrpcCalls* calls) : calls_(calls) {}

 protected:
  template <typename Asked, typename Answer>
  void Add(const char* method) {
    Add(method, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::CallbackUnaryHandler<ByteBuffer, ByteBuffer>(
            [calls = calls_, method](CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* answer) {
              return BeginCall<Asked, Answer>(calls, method, context, request, answer);
            }));
  }
  template <typename Asked, typename Opening>
  void AddStream(const char* method) {
    Add(method, grpc::internal::RpcMethod::SERVER_STREAMING,
        new grpc::internal::CallbackServerStreamingHandler<ByteBuffer, ByteBuffer>(
            [calls = calls_, method](CallbackServerContext* context, const ByteBuffer* request) {
              return BeginStream<Asked, Opening>(calls, method, context, request);
            }));
  }

 private:
  void Add(const char* method, grpc::internal::RpcMethod::RpcType type, grpc::internal::MethodHandler* handler) {
    AddMethod(new grpc::internal::RpcServiceMethod(method, type, nullptr));
    MarkMethodRawCallback(count_++, handler);
  }

  GrpcCalls* const calls_;
  int count_ = 0;
};

class SchedulerService : public ByteService {
 public:
  explicit SchedulerService(GrpcCalls* calls) : ByteService(calls) {
    Add<v1::RegisterServerRequest, v1::RegisterServerResponse>("/shoal.v1.Scheduler/RegisterServer");
    Add<v1::HeartbeatServerRequest, v1::HeartbeatServerResponse>("/shoal.v1.Scheduler/HeartbeatServer");
    Add<v1::DeregisterServerRequest, v1::DeregisterServerResponse>("/shoal.v1.Scheduler/DeregisterServer");
    Add<v1::JoinJobRequest, v1::JoinJobResponse>("/shoal.v1.Scheduler/JoinJob");
    Add<v1::JoinGroupRequest, v1::JoinGroupResponse>("/shoal.v1.Scheduler/JoinGroup");
    Add<v1::CloseGroupsRequest, v1::CloseGroupsResponse>("/shoal.v1.Scheduler/CloseGroups");
    Add<v1::HeartbeatWorkerRequest, v1::HeartbeatWorkerResponse>("/shoal.v1.Scheduler/HeartbeatWorker");
    Add<v1::LeaveJobRequest, v1::LeaveJobResponse>("/shoal.v1.Scheduler/LeaveJob");
    Add<v1::GetTicketRequest, v1::GetTicketResponse>("/shoal.v1.Scheduler/GetTicket");
    Add<v1::ReportServerRequest, v1::ReportServerResponse>("/shoal.v1.Scheduler/ReportServer");
    Add<v1::SendTraceRequest, v1::SendTraceResponse>("/shoal.v1.Scheduler/SendTrace");
    Add<v1::SendFlightRecordRequest, v1::SendFlightRecordResponse>("/shoal.v1.Scheduler/SendFlightRecord");
    AddStream<v1::WatchRequest, WatchStream>("/shoal.v1.Scheduler/Watch");
  }
};

class StatusService : public ByteService {
 public:
  explicit StatusService(GrpcCalls* calls) : ByteService(calls) {
    Add<v1::GetClusterRequest, v1::Cluster>("/shoal.v1.Status/GetCluster");
    Add<v1::ListServersRequest, v1::ListServersResponse>("/shoal.v1.Status/ListServers");
    Add<v1::ListJobsRequest, v1::ListJobsResponse>("/shoal.v1.Status/ListJobs");
    Add<v1::GetShardMapRequest, v1::ShardMap>("/shoal.v1.Status/GetShardMap");
    Add<v1::GetTraceRequest, v1::Trace>("/shoal.v1.Status/GetTrace");
    Add<v1::GetFlightRecordsRequest, v1::FlightRecords>("/shoal.v1.Status/GetFlightRecords");
    AddStream<v1::ListEventsRequest, EventStream>("/shoal.v1.Status/ListEvents");
  }
};

class AdminService : public ByteService {
 public:
  explicit AdminService(GrpcCalls* calls) : ByteService(calls) {
    Add<v1::DrainServerRequest, v1::DrainServerResponse>("/shoal.v1.Admin/DrainServer");
    Add<v1::UndrainServerRequest, v1::UndrainServerResponse>("/shoal.v1.Admin/UndrainServer");
    Add<v1::EvictServerRequest, v1::EvictServerResponse>("/shoal.v1.Admin/EvictServer");
    Add<v1::AbortJobRequest, v1::AbortJobResponse>("/shoal.v1.Admin/AbortJob");
    Add<v1::TraceJobRequest, v1::TraceJobResponse>("/shoal.v1.Admin/TraceJob");
  }
};

}  // namespace

class GrpcControlHost::Services {
 public:
  explicit Services(std::shared_ptr<Doorkeeper> doorkeeper)
      : doorkeeper_(std::move(doorkeeper)),
        calls_(doorkeeper_.get()),
        scheduler_(&calls_),
        admin_(&calls_),
        status_(&calls_) {}

  GrpcCalls& calls() { return calls_; }

  // The port that is listened on; 0 if it can't be.
  int Start(const std::string& listen, bool reflection) {
    // gRPC offers both as settings of the whole process only.
    grpc::EnableDefaultHealthCheckService(true);
    if (reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    int port = 0;
    ListenOn(listen, &builder, &port, doorkeeper_);
    builder.RegisterService(&scheduler_);
    builder.RegisterService(&admin_);
    builder.RegisterService(&status_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return 0;
    if (doorkeeper_ != nullptr) {
      doorkeeper_->TellRefusalsTo([this](const CallFacts& call) { return calls_.AddRefusal(call); });
    }
    SetServing();
    return port;
  }

  void Stop() {
    if (server_ == nullptr) return;
    if (doorkeeper_ != nullptr) doorkeeper_->TellRefusalsTo(nullptr);
    if (auto* health = server_->GetHealthCheckService()) health->Shutdown();
    calls_.CloseAll(absl::UnavailableError("the scheduler is stopping"));
    server_->Shutdown(std::chrono::system_clock::now() + kStopPatience);
    server_->Wait();
    server_.reset();
  }

 private:
  void SetServing() {
    auto* health = server_->GetHealthCheckService();
    if (health == nullptr) return;
    health->SetServingStatus(v1::Scheduler::service_full_name(), true);
    health->SetServingStatus(v1::Status::service_full_name(), true);
  }

  const std::shared_ptr<Doorkeeper> doorkeeper_;  // null: callers are not asked for their identity
  GrpcCalls calls_;
  SchedulerService scheduler_;
  AdminService admin_;
  StatusService status_;
  std::unique_ptr<grpc::Server> server_;
};

absl::StatusOr<std::unique_ptr<GrpcControlHost>> GrpcControlHost::Listen(const std::string& listen, bool reflection,
                                                                         std::shared_ptr<Doorkeeper> doorkeeper) {
  if (absl::Status status = CheckListenAddress(listen); !status.ok()) return status;
  std::unique_ptr<GrpcControlHost> host(new GrpcControlHost(std::move(doorkeeper)));
  const int port = host->services_->Start(listen, reflection);
  if (port == 0) return CannotListen(listen);
  host->address_ = WithPort(listen, port);
  return host;
}

GrpcControlHost::GrpcControlHost(std::shared_ptr<Doorkeeper> doorkeeper)
    : services_(std::make_unique<Services>(std::move(doorkeeper))) {}

GrpcControlHost::~GrpcControlHost() { Stop(); }

void GrpcControlHost::Stop() { services_->Stop(); }

std::optional<SchedulerEvent> GrpcControlHost::Poll() { return services_->calls().Poll(); }

void GrpcControlHost::Execute(const Reply& reply) {
  if (const auto call = services_->calls().TakeCall(reply.handle)) call->Complete(reply.response);
}

void GrpcControlHost::Execute(const SendWatch& update) {
  if (const auto stream = services_->calls().FindStream(update.watcher)) stream->Send(update);
}

void GrpcControlHost::Execute(const SendEvent& event) {
  if (const auto stream = services_->calls().FindStream(event.watcher)) stream->Send(event);
}

void GrpcControlHost::Execute(const CloseStream& close) {
  if (const auto stream = services_->calls().FindStream(close.watcher)) stream->Close(close.status);
}

void GrpcControlHost::SetWake(std::function<void()> wake) { services_->calls().SetWake(std::move(wake)); }

}  // namespace shoal::scheduler
