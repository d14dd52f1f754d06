// A simulated server's link to the simulated schedulers: the ControlLink port on top of SimControl.
//
// Calls go out one after the other, as on one connection: one that is started while another (perhaps a cancelled one)
// is on its way waits for that one's end. One thread (the world's).
#ifndef SHOAL_SIM_SIM_CONTROL_LINK_H_
#define SHOAL_SIM_SIM_CONTROL_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_responses.h"
#include "server/lease/control_link.h"
#include "sim/sim_control.h"
#include "sim/world.h"

namespace shoal::sim {

class SimControlLink : public ControlLink {
 public:
  // `caller` is the server's name, by which SimControl cuts it off. `world` and `control` outlive the link.
  SimControlLink(World* world, SimControl* control, std::string caller);

  void Start(const RegisterCall& call) override;
  void Start(const RenewCall& call, const ServerCounters& load) override;
  void Start(const DeregisterCall& call) override;
  void Cancel(LeaseCallId call) override;
  void Stop() override;
  std::optional<LeaseAnswer> Poll() override;
  void SetWake(std::function<void()> wake) override { wake_ = std::move(wake); }

 private:
  using Outcome = absl::StatusOr<scheduler::Response>;
  struct OpenCall {
    scheduler::Request request;
    uint64_t deadline_ns = 0;  // of the world
    std::function<LeaseAnswer(const Outcome&)> answer;
  };

  void Begin(LeaseCallId id, scheduler::Request request, uint64_t timeout_ms,
             std::function<LeaseAnswer(const Outcome&)> answer);
  // Sends the oldest call that waits, if none is on its way.
  void SendNext();
  // No effect if the call has its answer already.
  void End(LeaseCallId id, const Outcome& outcome);

  World* const world_;
  SimControl* const control_;
  const std::string caller_;
  const std::shared_ptr<bool> alive_;
  std::map<LeaseCallId, OpenCall> calls_;
  std::deque<LeaseCallId> unsent_;
  bool sending_ = false;
  bool stopped_ = false;
  std::deque<LeaseAnswer> answers_;
  std::function<void()> wake_ = [] {};
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_CONTROL_LINK_H_
