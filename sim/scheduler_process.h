// A simulated scheduler process: the real loop and machine on the simulated control plane and store.
#ifndef SHOAL_SIM_SCHEDULER_PROCESS_H_
#define SHOAL_SIM_SCHEDULER_PROCESS_H_

#include <functional>
#include <memory>
#include <string>

#include "scheduler/loop/scheduler_loop.h"
#include "sim/profile.h"
#include "sim/sim_control.h"
#include "sim/sim_process.h"
#include "sim/sim_store.h"

namespace shoal::sim {

class SchedulerProcess : public SimProcess {
 public:
  using OnEvent = std::function<void(const scheduler::EventRecord&)>;  // may be empty

  // Takes the lead with the state on the disk; both ports outlive it. Up from now on.
  SchedulerProcess(World* world, const Profile& profile, SimControl* control, SimDisk* disk, OnEvent on_event = {});
  // The process dies.
  ~SchedulerProcess() override = default;

  // As SimProcess's; its connections stay.
  void PauseUntil(uint64_t world_ns);

 protected:
  uint64_t Run(Now now) override;

 private:
  SimStore store_;
  SimControlHost host_;
  std::unique_ptr<scheduler::SchedulerLoop> loop_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SCHEDULER_PROCESS_H_
