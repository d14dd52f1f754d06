// A worker's SchedulerPort under virtual time: its calls go to the real machines of a simulated scheduler.
#ifndef SHOAL_SIM_SIM_SCHEDULER_PORT_H_
#define SHOAL_SIM_SIM_SCHEDULER_PORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/sim_control.h"
#include "worker/membership/scheduler_port.h"

namespace shoal::sim {

class SimSchedulerPort : public SchedulerPort {
 public:
  // `caller`: under which name the control plane knows it. `clock`: the owner's monotonic clock. `wake` is called when
  // Poll may have something. All outlive it.
  SimSchedulerPort(World* world, SimControl* control, std::string caller, std::function<uint64_t()> clock,
                   std::function<void()> wake);
  ~SimSchedulerPort() override = default;

  void StartCall(CallId call, const SchedulerCall& what, uint64_t deadline_ns) override;
  void CancelCall(CallId call) override;
  void OpenWatch(WatchId watch, const MemberId& member) override;
  void CloseWatch(WatchId watch) override;
  void UseNewConnections() override { connected_ns_ = world_->now_ns(); }
  std::span<const SchedulerPortEvent> Poll() override;

 private:
  SimControl::Caller AsCaller() const { return {alive_, caller_, connected_ns_}; }
  template <typename Event>
  void Arrive(Event event) {
    arrived_.emplace_back(std::move(event));
    wake_();
  }

  World* const world_;
  SimControl* const control_;
  const std::string caller_;
  const std::function<uint64_t()> clock_;
  const std::function<void()> wake_;
  uint64_t connected_ns_;
  std::map<CallId, scheduler::RequestHandle> calls_;
  std::map<WatchId, scheduler::WatcherId> watches_;
  std::vector<SchedulerPortEvent> arrived_;
  std::vector<SchedulerPortEvent> polled_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_SCHEDULER_PORT_H_
