#include "sim/node.h"

#include <algorithm>
#include <utility>

namespace shoal::sim {

Node::Node(World* world, std::string name, uint64_t wake_delay_ns)
    : world_(world),
      name_(std::move(name)),
      wake_delay_ns_(wake_delay_ns),
      clock_offset_ns_(world->random().Below(1000 * kNsPerS)),
      alive_(std::make_shared<bool>(true)) {}

Node::~Node() = default;

Now Node::LocalNow() const {
  return {.monotonic_ns = world_->now_ns() + clock_offset_ns_,
          .unix_ms = 1'700'000'000'000 + world_->now_ns() / kNsPerMs};
}

void Node::Wake() { ScheduleAt(world_->now_ns() + world_->random().Below(wake_delay_ns_ + 1)); }

void Node::PauseUntil(uint64_t world_ns) {
  paused_until_ns_ = std::max(paused_until_ns_, world_ns);
  ScheduleAt(paused_until_ns_);
}

void Node::ScheduleAt(uint64_t world_ns) {
  const uint64_t at = std::max({world_ns, paused_until_ns_, world_->now_ns()});
  if (at >= scheduled_ns_) return;
  scheduled_ns_ = at;
  world_->At(at, [this, at, alive = alive()] {
    if (alive.expired() || scheduled_ns_ != at) return;
    scheduled_ns_ = kNoDeadline;
    if (world_->now_ns() < paused_until_ns_) return ScheduleAt(paused_until_ns_);
    RunNow();
  });
}

void Node::RunNow() {
  const std::weak_ptr<bool> alive = alive_;
  const uint64_t deadline = Run(LocalNow());
  if (alive.expired() || deadline == kNoDeadline) return;
  ScheduleAt(std::max(deadline, LocalNow().monotonic_ns + 1) - clock_offset_ns_);
}

}  // namespace shoal::sim
