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

template <typename Message, typename RequestMessage>
grpc::ServerUnaryReactor* BeginCall(GrpcCalls* calls, const CallbackServerContext* context,
                                    const RequestMessage* request, Message* response) {
  const auto call = std::make_shared<UnaryCall<Message>>(calls, response);
  Caller caller = calls->CallerOf(*context);
  Request asked = WithCaller(caller, FromMessage(*request));
  call->Begin(std::move(asked), std::move(caller));
  return call.get();
}

class SchedulerService : public v1::Scheduler::CallbackService {
 public:
  explicit SchedulerService(GrpcCalls* calls) : calls_(calls) {}

  grpc::ServerUnaryReactor* RegisterServer(CallbackServerContext* context, const v1::RegisterServerRequest* request,
                                           v1::RegisterServerResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* HeartbeatServer(CallbackServerContext* context, const v1::HeartbeatServerRequest* request,
                                            v1::HeartbeatServerResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* DeregisterServer(CallbackServerContext* context, const v1::DeregisterServerRequest* request,
                                             v1::DeregisterServerResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* JoinJob(CallbackServerContext* context, const v1::JoinJobRequest* request,
                                    v1::JoinJobResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* JoinGroup(CallbackServerContext* context, const v1::JoinGroupRequest* request,
                                      v1::JoinGroupResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* CloseGroups(CallbackServerContext* context, const v1::CloseGroupsRequest* request,
                                        v1::CloseGroupsResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* HeartbeatWorker(CallbackServerContext* context, const v1::HeartbeatWorkerRequest* request,
                                            v1::HeartbeatWorkerResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* LeaveJob(CallbackServerContext* context, const v1::LeaveJobRequest* request,
                                     v1::LeaveJobResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* GetTicket(CallbackServerContext* context, const v1::GetTicketRequest* request,
                                      v1::GetTicketResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* ReportServer(CallbackServerContext* context, const v1::ReportServerRequest* request,
                                         v1::ReportServerResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* SendTrace(CallbackServerContext* context, const v1::SendTraceRequest* request,
                                      v1::SendTraceResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* SendFlightRecord(CallbackServerContext* context, const v1::SendFlightRecordRequest* request,
                                             v1::SendFlightRecordResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerWriteReactor<v1::WatchResponse>* Watch(CallbackServerContext* context,
                                                     const v1::WatchRequest* request) override {
    const auto stream = std::make_shared<WatchStream>(calls_);
    stream->Begin(WatchOpened{WatcherId(), JobId(request->job_id()), JobRank(request->rank()),
                              Incarnation(request->incarnation()), calls_->CallerOf(*context)});
    return stream.get();
  }

 private:
  GrpcCalls* const calls_;
};

class StatusService : public v1::Status::CallbackService {
 public:
  explicit StatusService(GrpcCalls* calls) : calls_(calls) {}

  grpc::ServerUnaryReactor* GetCluster(CallbackServerContext* context, const v1::GetClusterRequest* request,
                                       v1::Cluster* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* ListServers(CallbackServerContext* context, const v1::ListServersRequest* request,
                                        v1::ListServersResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* ListJobs(CallbackServerContext* context, const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* GetShardMap(CallbackServerContext* context, const v1::GetShardMapRequest* request,
                                        v1::ShardMap* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* GetTrace(CallbackServerContext* context, const v1::GetTraceRequest* request,
                                     v1::Trace* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* GetFlightRecords(CallbackServerContext* context, const v1::GetFlightRecordsRequest* request,
                                             v1::FlightRecords* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerWriteReactor<v1::Event>* ListEvents(CallbackServerContext*,
                                                  const v1::ListEventsRequest* request) override {
    const auto stream = std::make_shared<EventStream>(calls_);
    stream->Begin(EventsOpened{WatcherId(), request->follow(), request->after_sequence()});
    return stream.get();
  }

 private:
  GrpcCalls* const calls_;
};

class AdminService : public v1::Admin::CallbackService {
 public:
  explicit AdminService(GrpcCalls* calls) : calls_(calls) {}

  grpc::ServerUnaryReactor* DrainServer(CallbackServerContext* context, const v1::DrainServerRequest* request,
                                        v1::DrainServerResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* UndrainServer(CallbackServerContext* context, const v1::UndrainServerRequest* request,
                                          v1::UndrainServerResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* EvictServer(CallbackServerContext* context, const v1::EvictServerRequest* request,
                                        v1::EvictServerResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* AbortJob(CallbackServerContext* context, const v1::AbortJobRequest* request,
                                     v1::AbortJobResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }
  grpc::ServerUnaryReactor* TraceJob(CallbackServerContext* context, const v1::TraceJobRequest* request,
                                     v1::TraceJobResponse* response) override {
    return BeginCall(calls_, context, request, response);
  }

 private:
  GrpcCalls* const calls_;
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
    SetServing();
    return port;
  }

  void Stop() {
    if (server_ == nullptr) return;
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
