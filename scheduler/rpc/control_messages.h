// The control plane's protobuf messages as the machine's plain structs and back, and statuses likewise. Pure; any
// thread.
#ifndef SHOAL_SCHEDULER_RPC_CONTROL_MESSAGES_H_
#define SHOAL_SCHEDULER_RPC_CONTROL_MESSAGES_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "proto/shared_messages.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_responses.h"
#include "shoal/v1/admin.pb.h"
#include "shoal/v1/scheduler.pb.h"
#include "shoal/v1/status.pb.h"

namespace shoal::scheduler {

using shoal::FromMessage;  // for messages that workers convert as well
using shoal::ToMessage;

RegisterServer FromMessage(const v1::RegisterServerRequest& message);
HeartbeatServer FromMessage(const v1::HeartbeatServerRequest& message);
DeregisterServer FromMessage(const v1::DeregisterServerRequest& message);
JoinJob FromMessage(const v1::JoinJobRequest& message);
JoinGroup FromMessage(const v1::JoinGroupRequest& message);
CloseGroups FromMessage(const v1::CloseGroupsRequest& message);
HeartbeatWorker FromMessage(const v1::HeartbeatWorkerRequest& message);
LeaveJob FromMessage(const v1::LeaveJobRequest& message);
GetTicket FromMessage(const v1::GetTicketRequest& message);
ReportServer FromMessage(const v1::ReportServerRequest& message);
DrainServer FromMessage(const v1::DrainServerRequest& message);
UndrainServer FromMessage(const v1::UndrainServerRequest& message);
EvictServer FromMessage(const v1::EvictServerRequest& message);
AbortJob FromMessage(const v1::AbortJobRequest& message);
TraceJob FromMessage(const v1::TraceJobRequest& message);
SendTrace FromMessage(const v1::SendTraceRequest& message);
GetTrace FromMessage(const v1::GetTraceRequest& message);
SendFlightRecord FromMessage(const v1::SendFlightRecordRequest& message);
GetFlightRecords FromMessage(const v1::GetFlightRecordsRequest& message);
GetCluster FromMessage(const v1::GetClusterRequest& message);
ListServers FromMessage(const v1::ListServersRequest& message);
ListJobs FromMessage(const v1::ListJobsRequest& message);
GetShardMap FromMessage(const v1::GetShardMapRequest& message);

void ToMessage(const ServerRegistered& response, v1::RegisterServerResponse* message);
void ToMessage(const ServerRenewed& response, v1::HeartbeatServerResponse* message);
void ToMessage(const Done& response, v1::DeregisterServerResponse* message);
void ToMessage(const ServerDraining& response, v1::DrainServerResponse* message);
void ToMessage(const ServerUndrained& response, v1::UndrainServerResponse* message);
void ToMessage(const ServerEvicted& response, v1::EvictServerResponse* message);
void ToMessage(const JobAborted& response, v1::AbortJobResponse* message);
void ToMessage(const TraceStarted& response, v1::TraceJobResponse* message);
void ToMessage(const Done& response, v1::SendTraceResponse* message);
void ToMessage(const TraceView& response, v1::Trace* message);
void ToMessage(const Done& response, v1::SendFlightRecordResponse* message);
void ToMessage(const FlightRecordsView& response, v1::FlightRecords* message);
void ToMessage(const JobJoined& response, v1::JoinJobResponse* message);
void ToMessage(const GroupJoined& response, v1::JoinGroupResponse* message);
void ToMessage(const WorkerRenewed& response, v1::HeartbeatWorkerResponse* message);
void ToMessage(const Done& response, v1::CloseGroupsResponse* message);
void ToMessage(const Done& response, v1::LeaveJobResponse* message);
void ToMessage(const TicketIssued& response, v1::GetTicketResponse* message);
void ToMessage(const ServerReported& response, v1::ReportServerResponse* message);
void ToMessage(const ClusterView& response, v1::Cluster* message);
void ToMessage(const ServersPage& response, v1::ListServersResponse* message);
void ToMessage(const JobsPage& response, v1::ListJobsResponse* message);
void ToMessage(const std::shared_ptr<const ShardMap>& response, v1::ShardMap* message);

void ToMessage(const GroupMap& group, v1::GroupMap* message);
void ToMessage(const ColocationRequest& request, v1::ColocationRequest* message);
void ToMessage(const RankLost& lost, v1::RankLost* message);
void ToMessage(const EventRecord& event, v1::Event* message);

// Codes are numbered alike.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_RPC_CONTROL_MESSAGES_H_
