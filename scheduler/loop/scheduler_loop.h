// Poll -> Step -> Execute: drives one SchedulerMachine through its ports. One thread owns it.
#ifndef SHOAL_SCHEDULER_LOOP_SCHEDULER_LOOP_H_
#define SHOAL_SCHEDULER_LOOP_SCHEDULER_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "scheduler/machine/scheduler_machine.h"
#include "scheduler/rpc/control_host.h"
#include "scheduler/store/store.h"

namespace shoal::scheduler {

// The most requests that are taken in one round, so that time and saves get their turn under load.
inline constexpr int kMaxEventsPerRound = 256;

class SchedulerLoop {
 public:
  using EventLog = std::function<void(const EventRecord& event)>;  // may be empty

  // The state as the bytes that the store keeps (scheduler/store/state_codec.h).
  using StateEncoder = std::function<std::string(const PersistedState& state)>;

  // `host` and `store` outlive the loop.
  SchedulerLoop(std::unique_ptr<SchedulerMachine> machine, ControlHost* host, Store* store, StateEncoder encode,
                EventLog log);

  // Never blocks. Returns the time at which to call it again (monotonic clock; `now` itself: more is waiting); call it
  // earlier when a port wakes.
  uint64_t RunOnce(Now now);

 private:
  void OnEvent(const SchedulerEvent& event, Now now);
  void Execute();

  const std::unique_ptr<SchedulerMachine> machine_;
  ControlHost* const host_;
  Store* const store_;
  const StateEncoder encode_;
  const EventLog log_;
  SchedulerActions actions_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LOOP_SCHEDULER_LOOP_H_
