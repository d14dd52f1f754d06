// Jobs are kept alive when no server is left: ranks that offered it are asked to run a colocated server each, for their
// own job (docs/adr/0015). Pure; any thread.
#ifndef SHOAL_SCHEDULER_MACHINE_COLOCATION_REQUEST_H_
#define SHOAL_SCHEDULER_MACHINE_COLOCATION_REQUEST_H_

#include <optional>

#include "scheduler/machine/job.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

// Asks one willing rank of each node of a job that lacks servers; nullopt: nobody is to be asked.
std::optional<ColocationRequest> FindColocationRequest(const Job& job, const ServerRegistry& servers);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_COLOCATION_REQUEST_H_
