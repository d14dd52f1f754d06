// A simulated scheduler process: the real loop and machine on the simulated control plane and store.
#ifndef SHOAL_SIM_SCHEDULER_PROCESS_H_
#define SHOAL_SIM_SCHEDULER_PROCESS_H_

#include <cstdint>
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

  // A term that an election has given it.
  struct Lead {
    uint64_t term = 0;
    std::shared_ptr<StoreWay> way;
    std::function<bool()> holds;  // asked before each round: it does nothing once its term is over
  };

  // Takes the lead with the state on the disk; both ports outlive it. Up from now on.
  SchedulerProcess(World* world, const Profile& profile, SimControl* control, SimDisk* disk, OnEvent on_event = {});
  // Has the lead.
  SchedulerProcess(World* world, const Profile& profile, SimControl* control, SimDisk* disk, OnEvent on_event,
                   Lead lead);
  // The process dies.
  ~SchedulerProcess() override = default;

  // As SimProcess's; its connections stay.
  void PauseUntil(uint64_t world_ns);
  // From now on and until then its saves don't get through.
  void CutFromStoreUntil(uint64_t world_ns) { store_.way().CutUntil(world_ns); }
  // A save was refused because another one leads.
  bool term_is_over() const { return store_.term_is_over(); }
  uint64_t host_number() const { return host_.number(); }

 protected:
  uint64_t Run(Now now) override;

 private:
  void Start(const Profile& profile, OnEvent on_event);

  const std::function<bool()> holds_lead_;  // may be empty: it always does
  SimStore store_;
  SimControlHost host_;
  std::unique_ptr<scheduler::SchedulerLoop> loop_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SCHEDULER_PROCESS_H_
