#include "sim/scheduler_node.h"

#include <utility>

#include "scheduler/state_codec.h"

namespace shoal::sim {

SchedulerNode::SchedulerNode(World* world, const Profile& profile, SimControl* control, SimStore* store)
    : Node(world, "scheduler", profile.wake_delay_ns), control_(control), store_(store) {
  const std::optional<std::string> saved = *store_->Load();
  scheduler::PersistedState state;
  if (saved.has_value()) {
    state = *scheduler::DecodeState(*saved);
  } else {
    state.cluster_id = "simulated";
    for (std::byte& byte : state.token_key) byte = static_cast<std::byte>(world->random().Next());
  }
  auto machine = scheduler::SchedulerMachine::Make({.lease_ttl_ms = profile.lease_ttl_ms, .store = store_->Describe()},
                                                   state, !saved.has_value(), LocalNow());
  loop_ = std::make_unique<scheduler::SchedulerLoop>(
      *std::move(machine), control_, store_, [this](const scheduler::EventRecord& event) {
        this->world().TraceText("scheduler: " + event.kind + " " + event.subject + ": " + event.reason);
      });
  control_->SetWake([this] { Wake(); });
  store_->SetWake([this] { Wake(); });
  control_->SetUp(true);
  Wake();
}

SchedulerNode::~SchedulerNode() {
  control_->SetUp(false);
  control_->SetWake([] {});
  store_->Crash();
}

uint64_t SchedulerNode::Run(Now now) { return loop_->RunOnce(now); }

}  // namespace shoal::sim
