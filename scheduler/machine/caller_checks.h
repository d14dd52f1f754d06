// Whether a caller may ask this: workers for jobs of their own tenant, servers for what they registered themselves.
// Which calls a role has was checked before (core/permissions.h). Pure.
#ifndef SHOAL_SCHEDULER_MACHINE_CALLER_CHECKS_H_
#define SHOAL_SCHEDULER_MACHINE_CALLER_CHECKS_H_

#include "absl/status/status.h"
#include "core/caller.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

// PermissionDenied says who may not act for whom. What does not exist may be asked for: the answer says that it does
// not. Jobs and servers from a time when callers were not asked for their identity are everybody's.
absl::Status CheckCaller(const Caller& caller, const Request& request, const JobRegistry& jobs,
                         const ServerRegistry& servers);
absl::Status CheckCaller(const Caller& caller, const WatchOpened& stream, const JobRegistry& jobs);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_CALLER_CHECKS_H_
