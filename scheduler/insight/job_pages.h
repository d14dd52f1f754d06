// The list of jobs, page by page. Pure; any thread.
//
// A page goes on at a place in an order that never changes: jobs by id, and of a job its ranks, slow servers, groups
// and groups that wait for ranks, each by id or name. A job comes as a whole, unless it has more than a page has room
// for.
#ifndef SHOAL_SCHEDULER_INSIGHT_JOB_PAGES_H_
#define SHOAL_SCHEDULER_INSIGHT_JOB_PAGES_H_

#include "absl/status/statusor.h"
#include "core/now.h"
#include "scheduler/insight/job_insight.h"
#include "scheduler/insight/server_loads.h"
#include "scheduler/machine/scheduler_machine.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_responses.h"

namespace shoal::scheduler {

// InvalidArgument: the page token is none. NotFound: no job has the name that is asked for.
absl::StatusOr<JobsPage> PageOfJobs(const ListJobs& request, const SchedulerMachine& membership,
                                    const JobInsights& insights, const ServerLoads& loads, Now now);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_JOB_PAGES_H_
