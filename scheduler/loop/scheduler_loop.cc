#include "scheduler/loop/scheduler_loop.h"

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace shoal::scheduler {

SchedulerLoop::SchedulerLoop(std::unique_ptr<SchedulerMachine> machine, ControlHost* host, Store* store,
                             StateEncoder encode, EventLog log)
    : machine_(std::move(machine)), host_(host), store_(store), encode_(std::move(encode)), log_(std::move(log)) {}

uint64_t SchedulerLoop::RunOnce(Now now) {
  if (const std::optional<Store::Saved> saved = store_->PollSaved()) {
    OnEvent(Persisted{saved->number, saved->status}, now);
  }
  // Events before time: a heartbeat that has arrived must not come too late.
  bool more = true;
  for (int taken = 0; more && taken < kMaxEventsPerRound; ++taken) {
    const std::optional<SchedulerEvent> event = host_->Poll();
    more = event.has_value();
    if (more) OnEvent(*event, now);
  }
  machine_->Tick(now, &actions_);
  Execute();
  return more ? now.monotonic_ns : machine_->NextDeadlineNs();
}

void SchedulerLoop::OnEvent(const SchedulerEvent& event, Now now) {
  std::visit([&](const auto& each) { machine_->OnEvent(each, now, &actions_); }, event);
  Execute();
}

void SchedulerLoop::Execute() {
  for (SchedulerAction& action : actions_) {
    std::visit(
        [&](auto& each) {
          using Kind = std::decay_t<decltype(each)>;
          if constexpr (std::is_same_v<Kind, Persist>) {
            store_->StartSave(each.number, encode_(each.state));
          } else if constexpr (std::is_same_v<Kind, EventRecorded>) {
            if (log_) log_(each.event);
          } else {
            host_->Execute(each);
          }
        },
        action);
  }
  actions_.clear();
}

}  // namespace shoal::scheduler
