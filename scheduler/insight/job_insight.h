// What the insight machine knows of jobs beyond the membership. Pure, one thread.
#ifndef SHOAL_SCHEDULER_INSIGHT_JOB_INSIGHT_H_
#define SHOAL_SCHEDULER_INSIGHT_JOB_INSIGHT_H_

#include <map>

#include "core/ids.h"
#include "scheduler/insight/job_load.h"
#include "scheduler/insight/partial_ops.h"
#include "scheduler/insight/stragglers.h"
#include "scheduler/machine/job_registry.h"

namespace shoal::scheduler {

struct JobInsight {
  JobLoad load;  // of all its ranks, those included that others have replaced
  Stragglers stragglers;
  PartialOps partial_ops;
};

class JobInsights {
 public:
  // Of a job that the registry has.
  JobInsight& At(JobId job, const JobRegistry& jobs) {
    JobInsight& insight = jobs_[job];
    // Those that the registry has forgotten go, so there are never more here than there.
    if (jobs_.size() > jobs.jobs().size()) {
      std::erase_if(jobs_, [&](const auto& entry) { return jobs.Find(entry.first) == nullptr; });
    }
    return insight;
  }
  // An empty one, if nothing was told of the job.
  const JobInsight& Of(JobId job) const {
    static const JobInsight kNothing;
    const auto found = jobs_.find(job);
    return found == jobs_.end() ? kNothing : found->second;
  }

 private:
  std::map<JobId, JobInsight> jobs_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_JOB_INSIGHT_H_
