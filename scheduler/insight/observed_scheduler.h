// The scheduler as its loop drives it: the membership, which decides, and the insight machine, which looks on. Pure;
// one thread.
//
// Both get the events. What the membership decides goes to the insight machine; back come events that it has found, to
// be numbered and told as all are, and what a member is told with the answer to its heartbeat. Calls that change
// something, or that the caller may not make, become events as well (call_audit.h).
#ifndef SHOAL_SCHEDULER_INSIGHT_OBSERVED_SCHEDULER_H_
#define SHOAL_SCHEDULER_INSIGHT_OBSERVED_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/now.h"
#include "scheduler/insight/call_audit.h"
#include "scheduler/insight/insight_machine.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_machine.h"
#include "scheduler/machine/scheduler_numbers.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

class ObservedScheduler {
 public:
  // As SchedulerMachine::Make.
  static absl::StatusOr<std::unique_ptr<ObservedScheduler>> Make(const SchedulerMachine::Settings& settings,
                                                                 const PersistedState& state, bool is_new, Now now);

  void OnEvent(const SchedulerEvent& event, Now now, SchedulerActions* actions);
  void Tick(Now now, SchedulerActions* actions);
  uint64_t NextDeadlineNs() const;
  // Of the cluster as it is now; counts of events are not set.
  SchedulerNumbers Numbers(Now now) const { return insight_.Numbers(now); }

 private:
  // True: the caller may not ask this, and has been told.
  bool RefuseStranger(const SchedulerEvent& event, Now now, SchedulerActions* actions);
  explicit ObservedScheduler(std::unique_ptr<SchedulerMachine> membership);

  // What each of the two has done in this step, from `begin` on, goes to the other.
  void Exchange(size_t begin, Now now, SchedulerActions* actions);

  const std::unique_ptr<SchedulerMachine> membership_;
  InsightMachine insight_;
  CallAudit audit_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_OBSERVED_SCHEDULER_H_
