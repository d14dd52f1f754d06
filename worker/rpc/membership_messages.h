// A worker's calls as the messages of proto/shoal/v1, and the answers back. Pure but for the process's number.
#ifndef SHOAL_WORKER_RPC_MEMBERSHIP_MESSAGES_H_
#define SHOAL_WORKER_RPC_MEMBERSHIP_MESSAGES_H_

#include "absl/status/statusor.h"
#include "shoal/v1/scheduler.pb.h"
#include "worker/membership/scheduler_calls.h"

namespace shoal {

v1::JoinJobRequest ToMessage(const JoinJobCall& call);
v1::JoinGroupRequest ToMessage(const JoinGroupCall& call);
v1::HeartbeatWorkerRequest ToMessage(const HeartbeatCall& call);
v1::CloseGroupsRequest ToMessage(const CloseGroupsCall& call);
v1::ReportServerRequest ToMessage(const ReportServerCall& call);
v1::LeaveJobRequest ToMessage(const LeaveJobCall& call);

absl::StatusOr<SchedulerAnswer> FromMessage(const v1::JoinJobResponse& message);
// Internal: the group's map makes no sense, or it is to reduce within its nodes in an unknown way.
absl::StatusOr<SchedulerAnswer> FromMessage(const v1::JoinGroupResponse& message);
absl::StatusOr<SchedulerAnswer> FromMessage(const v1::CloseGroupsResponse& message);
absl::StatusOr<SchedulerAnswer> FromMessage(const v1::HeartbeatWorkerResponse& message);
absl::StatusOr<SchedulerAnswer> FromMessage(const v1::ReportServerResponse& message);
absl::StatusOr<SchedulerAnswer> FromMessage(const v1::LeaveJobResponse& message);

// A map that makes no sense changes nothing: groups get theirs with JoinGroup, which says what is wrong.
WatchNews FromMessage(const v1::WatchResponse& message);

}  // namespace shoal

#endif  // SHOAL_WORKER_RPC_MEMBERSHIP_MESSAGES_H_
