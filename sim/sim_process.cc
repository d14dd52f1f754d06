#include "sim/sim_process.h"

#include <algorithm>
#include <utility>

namespace shoal::sim {
namespace {

constexpr uint64_t kMillion = 1'000'000;

}  // namespace

SimProcess::SimProcess(World* world, std::string name, const Profile& profile)
    : world_(world),
      name_(std::move(name)),
      wake_delay_ns_(profile.wake_delay_ns),
      clock_offset_ns_(world->random().Below(1000 * kNsPerS)),
      clock_rate_(kMillion - profile.clock_drift_per_million +
                  world->random().Below(2 * profile.clock_drift_per_million + 1)),
      unix_offset_ms_(1'700'000'000'000 + world->random().Below(3'600'000)),
      alive_(std::make_shared<bool>(true)) {}

SimProcess::~SimProcess() = default;

Now SimProcess::LocalNow() const {
  const uint64_t now = world_->now_ns();
  return {.monotonic_ns = clock_offset_ns_ + now / kMillion * clock_rate_ + now % kMillion * clock_rate_ / kMillion,
          .unix_ms = unix_offset_ms_ + now / kNsPerMs};
}

// Not before the process's clock shows `local_ns`.
uint64_t SimProcess::WorldTime(uint64_t local_ns) const {
  const uint64_t elapsed = local_ns - std::min(local_ns, clock_offset_ns_);
  return elapsed / clock_rate_ * kMillion + (elapsed % clock_rate_ * kMillion + clock_rate_ - 1) / clock_rate_ + 1;
}

void SimProcess::Wake() { ScheduleAt(world_->now_ns() + world_->random().Below(wake_delay_ns_ + 1)); }

void SimProcess::After(uint64_t delay_ns, std::function<void()> what) {
  RunAt(WorldTime(LocalNow().monotonic_ns + delay_ns), std::move(what));
}

void SimProcess::RunAt(uint64_t world_ns, std::function<void()> what) {
  world_->At(world_ns, [this, alive = alive(), what = std::move(what)] {
    if (alive.expired()) return;
    if (world_->now_ns() < paused_until_ns_) return RunAt(paused_until_ns_, what);
    what();
  });
}

void SimProcess::PauseUntil(uint64_t world_ns) {
  paused_until_ns_ = std::max(paused_until_ns_, world_ns);
  ScheduleAt(paused_until_ns_);
}

void SimProcess::ScheduleAt(uint64_t world_ns) {
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

void SimProcess::RunNow() {
  const std::weak_ptr<bool> alive = alive_;
  const uint64_t deadline = Run(LocalNow());
  if (alive.expired() || deadline == kNoDeadline) return;
  ScheduleAt(std::max(WorldTime(deadline), world_->now_ns() + 1));
}

}  // namespace shoal::sim
