// How groups end: a rank closes them or gives them up, an operator aborts their job, or no server has the memory. Pure;
// one thread.
//
// The groups own their state (JobGroups). This notes what their end means for the job, and tells ranks and operators.
#ifndef SHOAL_SCHEDULER_MACHINE_GROUP_ENDS_H_
#define SHOAL_SCHEDULER_MACHINE_GROUP_ENDS_H_

#include <string>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "scheduler/machine/decisions.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

EventIds IdsOf(const Job& job, const GroupState& group);

class GroupEnds {
 public:
  // Both outlive it.
  GroupEnds(JobRegistry* jobs, Decisions* decisions) : jobs_(*jobs), decisions_(*decisions) {}

  // The group ends with that reason, and so do its other rails, which can't go on without it.
  void Fail(const Job& job, const GroupState& group, const std::string& failure, bool lacks_memory, Now now);
  // The rank has given these up.
  void GiveUp(const Job& job, JobRank rank, const std::vector<GroupFailure>& failures, Now now);
  // The rank closes these, and knows that all ranks have all their results. Before the groups are closed.
  void NoteAllCommitted(const Job& job, JobRank rank, const std::vector<GroupId>& groups);
  // The rank closes the group.
  void Close(const Job& job, GroupId id, JobRank rank, Now now);
  // A rank has closed the group, or left the job with it open: the others are told where they may not know it.
  void TellClosed(const Job& job, GroupId id);

  // For Job::failure: a group of these ranks failed or was not made; or was made.
  void NoteFailed(JobId job, const std::vector<JobRank>& ranks, const std::string& why);
  void NoteWorks(JobId job, const std::vector<JobRank>& ranks);

 private:
  // Tells the ranks what there is to be told of the group, if anything.
  void PublishMapOf(const Job& job, const GroupState& group);

  JobRegistry& jobs_;
  Decisions& decisions_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_GROUP_ENDS_H_
