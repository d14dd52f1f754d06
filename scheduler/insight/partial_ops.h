// Which all-reduces of a job have results that lack ranks, as its ranks tell with heartbeats (core/partial_op.h): each
// becomes one event. Pure; one thread.
//
// All ranks of a group tell the same of an op, since they have the same results. So one that dies before it has told
// anything takes nothing along. A scheduler that begins to lead records again what ranks still tell.
#ifndef SHOAL_SCHEDULER_INSIGHT_PARTIAL_OPS_H_
#define SHOAL_SCHEDULER_INSIGHT_PARTIAL_OPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/partial_op.h"
#include "scheduler/machine/job.h"
#include "scheduler/machine/scheduler_actions.h"

namespace shoal::scheduler {

class PartialOps {
 public:
  struct Process {
    JobRank rank;
    Incarnation incarnation;
  };

  // A rank of the job tells these. Those that can't be are passed over.
  void Hear(const Job& job, const Process& process, const std::vector<PartialOp>& ops, SchedulerActions* actions);
  // It left or was lost.
  void Forget(JobRank rank) { newest_.erase(rank); }

 private:
  // Ranks of a group tell an op within a heartbeat, and meanwhile there are few others.
  static constexpr size_t kMostRecorded = 1024;

  struct Newest {
    Incarnation incarnation;
    uint64_t number = 0;
  };

  // True: nobody has told it before.
  bool IsNew(GroupId group, OpNumber op);

  std::map<JobRank, Newest> newest_;                        // of those that the rank has told
  std::deque<std::pair<GroupId, OpNumber>> recorded_ = {};  // the newest
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_PARTIAL_OPS_H_
