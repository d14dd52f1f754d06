// Poll -> Step -> Execute: drives one ObservedScheduler through its ports. One thread owns it.
#ifndef SHOAL_SCHEDULER_LOOP_SCHEDULER_LOOP_H_
#define SHOAL_SCHEDULER_LOOP_SCHEDULER_LOOP_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "scheduler/insight/observed_scheduler.h"
#include "scheduler/rpc/control_host.h"
#include "scheduler/store/store.h"

namespace shoal::scheduler {

// The most requests that are taken in one round, so that time and saves get their turn under load.
inline constexpr int kMaxEventsPerRound = 256;

class SchedulerLoop {
 public:
  using EventLog = std::function<void(const EventRecord& event)>;  // may be empty

  using NumbersSink = std::function<void(std::shared_ptr<const SchedulerNumbers> numbers)>;

  // The state as the bytes that the store keeps (scheduler/store/state_codec.h).
  using StateEncoder = std::function<std::string(const PersistedState& state)>;

  // `host` and `store` outlive the loop.
  SchedulerLoop(std::unique_ptr<ObservedScheduler> machine, ControlHost* host, Store* store, StateEncoder encode,
                EventLog log);

  // From now on numbers are published about once a second.
  void PublishNumbersTo(NumbersSink sink) { numbers_sink_ = std::move(sink); }

  // Never blocks. Returns the time at which to call it again (monotonic clock; `now` itself: more is waiting); call it
  // earlier when a port wakes.
  uint64_t RunOnce(Now now);

 private:
  void OnEvent(const SchedulerEvent& event, Now now);
  void Execute();
  // Returns when the next ones are due.
  uint64_t PublishNumbers(Now now);

  const std::unique_ptr<ObservedScheduler> machine_;
  ControlHost* const host_;
  Store* const store_;
  const StateEncoder encode_;
  const EventLog log_;
  SchedulerActions actions_;
  NumbersSink numbers_sink_;  // may be empty
  uint64_t next_numbers_ns_ = 0;
  std::array<uint64_t, kEventKindCount> event_counts_{};
  uint64_t round_ns_ = 0;       // when this round began
  uint64_t save_begun_ns_ = 0;  // of the newest save
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LOOP_SCHEDULER_LOOP_H_
