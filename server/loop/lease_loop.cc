#include "server/loop/lease_loop.h"

#include <optional>
#include <utility>
#include <variant>

namespace shoal {
namespace {

// Makes the calls, and hands the rest on to the process.
struct Executor {
  ControlLink* link;
  const std::function<ServerCounters()>& load;
  LeaseOutcomes* outcomes;

  void operator()(RegisterCall& call) const { link->Start(call); }
  void operator()(RenewCall& call) const { link->Start(call, load()); }
  void operator()(DeregisterCall& call) const { link->Start(call); }
  void operator()(CancelLeaseCall& cancel) const { link->Cancel(cancel.call); }
  template <typename Outcome>
  void operator()(Outcome& outcome) const {
    outcomes->emplace_back(std::move(outcome));
  }
};

}  // namespace

LeaseLoop::LeaseLoop(RegistrationOptions options, Now now, ControlLink* link, std::function<ServerCounters()> load)
    : machine_(std::move(options), now), link_(link), load_(std::move(load)) {}

void LeaseLoop::RunOnce(Now now, std::span<const LeaseCommand> commands, LeaseOutcomes* outcomes) {
  const auto take = [&](const auto& event) { machine_.OnEvent(event, now, &actions_); };
  while (const std::optional<LeaseAnswer> answer = link_->Poll()) std::visit(take, *answer);
  for (const LeaseCommand& command : commands) std::visit(take, command);
  machine_.Tick(now, &actions_);
  for (RegistrationAction& action : actions_) std::visit(Executor{link_, load_, outcomes}, action);
  actions_.clear();
}

}  // namespace shoal
