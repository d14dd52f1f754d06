// What a scheduler shows at --http. Pure; any thread.
#ifndef SHOAL_SCHEDULER_SCHEDULER_METRICS_H_
#define SHOAL_SCHEDULER_SCHEDULER_METRICS_H_

#include <cstdint>
#include <string>

#include "scheduler/machine/scheduler_numbers.h"

namespace shoal {

// In Prometheus' text format. `numbers`: null while the scheduler does not lead.
std::string SchedulerMetricsText(const scheduler::SchedulerNumbers* numbers, uint64_t log_events_left_out);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_SCHEDULER_METRICS_H_
