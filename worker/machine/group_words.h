// Ranks and ops of a group in the words that lines about waits and errors share, whichever way the group reduces. Pure.
#ifndef SHOAL_WORKER_MACHINE_GROUP_WORDS_H_
#define SHOAL_WORKER_MACHINE_GROUP_WORDS_H_

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/now.h"
#include "worker/machine/group_info.h"
#include "worker/machine/worker_op.h"
#include "worker/machine/worker_outcomes.h"

namespace shoal {

// "rank 3 on node-b" (core/rank_text.h); of a rail "rank 3 of the job on node-b"
std::string RankOnNode(const GroupInfo& group, Rank rank);
// What a server says of the group's ranks, with the names that users know.
std::string WithRanksNamed(const GroupInfo& group, absl::string_view text);
// "rank 3 on node-b, rank 4 on node-b and 2 more": of `count` ranks those that are listed.
std::string RanksOnNodes(const GroupInfo& group, std::span<const Rank> listed, uint32_t count);
// "rank 3 of the job on node-b": as the scheduler names it.
std::string JobRankOnNode(JobRank rank, absl::string_view node);
// Whether the text begins with the name of a rank of the group, or of the job.
bool BeginsWithARank(const GroupInfo& group, absl::string_view text);

// "all-reduce 7 of group "world" (100 float32)"
std::string OpOfGroup(const GroupInfo& group, const WorkerOp& op);
// "all-reduce 7 of group "world" (100 float32) is not done after 5 s"
std::string OpNotDone(const GroupInfo& group, const WorkerOp& op, Now now);

// Whether a rank gave a group up for want of memory. That is what it is for all ranks; any other reason is ABORTED for
// the others (docs/failover.md, F21).
bool LacksMemory(const absl::Status& why);
// What the scheduler is told.
GroupFailure FailureToTell(GroupId group, const absl::Status& why);
// Aborted: a rank is gone.
absl::Status RankLostError(JobRank rank, absl::string_view node, absl::string_view reason);
// The error of an op whose group has failed. `what` names the op, and says how far it came.
absl::Status FailureOfOp(const absl::Status& failure, absl::string_view what);
// InvalidArgument: the op was cut into chunks for another group.
absl::Status CheckLayout(const GroupInfo& group, const SubmitCommand& command);
// Unimplemented: the group takes no tensors on devices, because of its wire or because it is reduced within nodes.
// `devices_meet`: its ranks on this node can reduce among their devices.
absl::Status CheckTakesDevices(const GroupInfo& group, bool devices_meet);
// FailedPrecondition: a tensor on a device where the worker has no devices.
absl::Status NoDevicesError();

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_GROUP_WORDS_H_
