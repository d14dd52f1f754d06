// Where a scheduler's events and numbers go. Both are called from the scheduler's loop, `log` from other threads as
// well, and may be empty.
#ifndef SHOAL_SCHEDULER_LEADING_SCHEDULER_SINKS_H_
#define SHOAL_SCHEDULER_LEADING_SCHEDULER_SINKS_H_

#include "core/log_event.h"
#include "scheduler/loop/scheduler_loop.h"

namespace shoal::scheduler {

struct SchedulerSinks {
  EventSink log;
  SchedulerLoop::NumbersSink numbers;  // takes null when this scheduler leads no longer
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LEADING_SCHEDULER_SINKS_H_
