// The port on which servers, workers and operators reach the scheduler.
//
// Threads: all functions from the loop's thread, but `wake` is called from any. Nothing blocks. Every RequestArrived
// gets exactly one Reply, unless RequestCancelled came first; replies to handles and sends to streams that are gone are
// ignored.
#ifndef SHOAL_SCHEDULER_RPC_CONTROL_HOST_H_
#define SHOAL_SCHEDULER_RPC_CONTROL_HOST_H_

#include <functional>
#include <optional>

#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_events.h"

namespace shoal::scheduler {

class ControlHost {
 public:
  virtual ~ControlHost() = default;

  // What peers did since the last call, oldest first; nullopt if nothing.
  virtual std::optional<SchedulerEvent> Poll() = 0;

  virtual void Execute(const Reply& reply) = 0;
  // A watcher that reads slowly gets the newest map only; lost ranks are never dropped.
  virtual void Execute(const SendWatch& update) = 0;
  // A reader of events that is too slow is closed with RESOURCE_EXHAUSTED.
  virtual void Execute(const SendEvent& event) = 0;
  virtual void Execute(const CloseStream& close) = 0;

  // `wake` is called when Poll may have something.
  virtual void SetWake(std::function<void()> wake) = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_RPC_CONTROL_HOST_H_
