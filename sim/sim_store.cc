#include "sim/sim_store.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kSaveTakesNs = 3 * kNsPerMs;   // at most, if the store is not slow
constexpr uint64_t kSlowestSaveNs = 3 * kNsPerS;  // if it is
constexpr uint64_t kSaveTimeoutNs = 5 * kNsPerS;  // as scheduler/store/etcd_store.cc

}  // namespace

void SimDisk::Call(const std::shared_ptr<StoreWay>& way, uint64_t takes_ns, uint64_t timeout_ns,
                   std::function<void()> arrived, std::function<void(bool answered)> ended) {
  const uint64_t deadline_ns = world_->now_ns() + timeout_ns;
  const uint64_t there_ns = world_->random().Below(takes_ns);
  const uint64_t back_ns = takes_ns - there_ns;
  const uint64_t arrival_ns = way->ThroughNs(world_->now_ns() + there_ns);
  const auto end_at = [this, ended = std::move(ended)](uint64_t at_ns, bool answered) {
    world_->At(at_ns, [ended, answered] { ended(answered); });
  };
  if (arrival_ns >= deadline_ns) return end_at(deadline_ns, false);
  world_->At(arrival_ns, [this, way, deadline_ns, back_ns, end_at, arrived = std::move(arrived)] {
    const uint64_t now_ns = world_->now_ns();
    arrived();
    if (now_ns < lose_answers_until_ns_) return end_at(std::min(now_ns + back_ns, deadline_ns), false);
    const uint64_t heard_ns = way->ThroughNs(now_ns + back_ns);
    end_at(std::min(heard_ns, deadline_ns), heard_ns <= deadline_ns);
  });
}

uint64_t SimDisk::GrantLease(uint64_t ttl_ns) {
  const uint64_t lease = ++revision_;
  leases_[lease] = world_->now_ns() + ttl_ns;
  return lease;
}

bool SimDisk::RenewLease(uint64_t lease, uint64_t ttl_ns) {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || found->second <= world_->now_ns()) return false;
  found->second = world_->now_ns() + ttl_ns;
  return true;
}

SimDisk::Leader SimDisk::leader() const {
  if (leader_.term == 0 || leader_.lease == 0) return leader_;
  const auto lease = leases_.find(leader_.lease);
  return lease == leases_.end() || lease->second <= world_->now_ns() ? Leader() : leader_;
}

SimDisk::Leader SimDisk::TakeLead(uint64_t holder, uint64_t lease) {
  const auto found = leases_.find(lease);
  const bool has_lease = found != leases_.end() && found->second > world_->now_ns();
  if (leader().term == 0 && has_lease) leader_ = {.term = ++revision_, .holder = holder, .lease = lease};
  return leader();
}

uint64_t SimDisk::TakeLeadForEver() {
  leader_ = {.term = ++revision_};
  return leader_.term;
}

void SimStore::StartSave(uint64_t number, std::string state) {
  World* const world = disk_->world_;
  disk_->on_save_();
  uint64_t takes_ns = world->random().Between(1'000, kSaveTakesNs);
  if (world->now_ns() < disk_->slow_until_ns_) {
    takes_ns = 1 + world->random().Below(std::min(disk_->slow_until_ns_ - world->now_ns(), kSlowestSaveNs));
  }
  auto outcome = std::make_shared<absl::Status>();
  disk_->Call(
      way_, takes_ns, kSaveTimeoutNs,
      [disk = disk_, term = term_, outcome, state = std::move(state)] {
        if (disk->world_->now_ns() < disk->fail_until_ns_) {
          *outcome = absl::UnavailableError("the simulated disk is full");
        } else if (disk->leader().term != term) {
          ++disk->refused_saves_;
          *outcome = absl::FailedPreconditionError("another scheduler leads");
        } else {
          disk->state_ = state;
        }
      },
      [this, alive = std::weak_ptr<bool>(alive_), number, outcome](bool answered) {
        if (alive.expired()) return;
        if (!answered) {
          ++disk_->saves_unheard_;
          *outcome = absl::UnavailableError("the simulated store did not answer");
        }
        term_is_over_ = term_is_over_ || absl::IsFailedPrecondition(*outcome);
        NoteSaved(!absl::IsUnavailable(*outcome));
        saved_ = Saved{number, *outcome};
        wake_();
      });
}

}  // namespace shoal::sim
