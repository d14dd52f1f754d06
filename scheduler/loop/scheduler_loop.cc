#include "scheduler/loop/scheduler_loop.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace shoal::scheduler {
namespace {

constexpr uint64_t kNumbersIntervalNs = kNsPerS;

}  // namespace

SchedulerLoop::SchedulerLoop(std::unique_ptr<ObservedScheduler> machine, ControlHost* host, Store* store,
                             StateEncoder encode, EventLog log)
    : machine_(std::move(machine)), host_(host), store_(store), encode_(std::move(encode)), log_(std::move(log)) {}

uint64_t SchedulerLoop::RunOnce(Now now) {
  round_ns_ = now.monotonic_ns;
  if (const std::optional<Store::Saved> saved = store_->PollSaved()) {
    OnEvent(Persisted{saved->number, saved->status, now.monotonic_ns - save_begun_ns_}, now);
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
  const uint64_t numbers_due_ns = PublishNumbers(now);
  return more ? now.monotonic_ns : std::min(machine_->NextDeadlineNs(), numbers_due_ns);
}

uint64_t SchedulerLoop::PublishNumbers(Now now) {
  if (!numbers_sink_) return kNoDeadline;
  if (now.monotonic_ns >= next_numbers_ns_) {
    auto numbers = std::make_shared<SchedulerNumbers>(machine_->Numbers(now));
    numbers->events = event_counts_;
    numbers_sink_(std::move(numbers));
    next_numbers_ns_ = now.monotonic_ns + kNumbersIntervalNs;
  }
  return next_numbers_ns_;
}

void SchedulerLoop::OnEvent(const SchedulerEvent& event, Now now) {
  machine_->OnEvent(event, now, &actions_);
  Execute();
}

void SchedulerLoop::Execute() {
  for (SchedulerAction& action : actions_) {
    std::visit(
        [&](auto& each) {
          using Kind = std::decay_t<decltype(each)>;
          if constexpr (std::is_same_v<Kind, Persist>) {
            save_begun_ns_ = round_ns_;
            store_->StartSave(each.number, encode_(each.state));
          } else if constexpr (std::is_same_v<Kind, EventRecorded>) {
            ++event_counts_[static_cast<size_t>(each.event.kind)];
            if (log_) log_(each.event);
          } else if constexpr (!std::is_same_v<Kind, RankGone> && !std::is_same_v<Kind, Observed>) {
            host_->Execute(each);
          }
        },
        action);
  }
  actions_.clear();
}

}  // namespace shoal::scheduler
