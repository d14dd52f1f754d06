// Poll -> Step -> Execute: drives one SchedulerMachine through its ports. One thread owns it.
#ifndef SHOAL_SCHEDULER_LOOP_SCHEDULER_LOOP_H_
#define SHOAL_SCHEDULER_LOOP_SCHEDULER_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "scheduler/machine/scheduler_machine.h"
#include "scheduler/rpc/control_host.h"
#include "scheduler/store/store.h"

namespace shoal::scheduler {

// Requests taken in one round, so that time and saves get their turn under load.
inline constexpr int kMaxEventsPerRound = 256;

class SchedulerLoop {
 public:
  using EventLog = std::function<void(const EventRecord& event)>;  // may be empty

  // `host` and `store` must outlive the loop.
  SchedulerLoop(std::unique_ptr<SchedulerMachine> machine, ControlHost* host, Store* store, EventLog log);

  // Never blocks. Returns when it wants to be called again (monotonic clock; `now` itself: more is waiting), which is
  // also due when a port wakes.
  uint64_t RunOnce(const Now& now);

 private:
  void Execute(std::vector<Action> actions);

  const std::unique_ptr<SchedulerMachine> machine_;
  ControlHost* const host_;
  Store* const store_;
  const EventLog log_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LOOP_SCHEDULER_LOOP_H_
