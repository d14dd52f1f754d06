#include "worker/loop/membership_loop.h"

#include <utility>
#include <variant>

namespace shoal {
namespace {

// Carries out what is for the port, and hands the rest on.
struct Executor {
  SchedulerPort* port;
  MembershipOutcomes* outcomes;

  void operator()(StartCallAction& action) const { port->StartCall(action.call, action.what, action.deadline_ns); }
  void operator()(CancelCallAction& action) const { port->CancelCall(action.call); }
  void operator()(OpenWatchAction& action) const { port->OpenWatch(action.watch, action.member); }
  void operator()(CloseWatchAction& action) const { port->CloseWatch(action.watch); }
  void operator()(UseNewConnectionsAction&) const { port->UseNewConnections(); }
  template <typename Outcome>
  void operator()(Outcome& outcome) const {
    outcomes->emplace_back(std::move(outcome));
  }
};

}  // namespace

bool MembershipLoop::RunOnce(Now now, std::span<const MembershipCommand> commands, MembershipOutcomes* outcomes) {
  const auto take = [&](const auto& event) { machine_.OnEvent(event, now, &actions_); };
  const std::span<const SchedulerPortEvent> events = port_->Poll();
  for (const MembershipCommand& command : commands) std::visit(take, command);
  for (const SchedulerPortEvent& event : events) std::visit(take, event);
  machine_.Tick(now, &actions_);
  const bool progress = !commands.empty() || !events.empty() || !actions_.empty();
  for (MembershipAction& action : actions_) std::visit(Executor{port_, outcomes}, action);
  actions_.clear();
  return progress;
}

}  // namespace shoal
