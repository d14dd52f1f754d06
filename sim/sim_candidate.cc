#include "sim/sim_candidate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/leading/lead_times.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kCallTakesNs = 4 * kNsPerMs;  // both ways, at most

}  // namespace

SimCandidate::SimCandidate(World* world, const Profile& profile, uint64_t number, SimControl* control, SimDisk* disk,
                           StartTerm start_term, HostOf host_of)
    : SimProcess(world, absl::StrCat("scheduler-", number), profile),
      control_(control),
      disk_(disk),
      number_(number),
      member_lease_ns_(profile.lease_ttl_ms * kNsPerMs),
      lease_ttl_ms_(profile.leader_lease_ms),
      start_term_(std::move(start_term)),
      host_of_(std::move(host_of)),
      follower_(std::make_unique<SimFollower>(control, profile.lease_ttl_ms * kNsPerMs, /*is_told=*/true)) {
  Wake();
}

void SimCandidate::PauseUntil(uint64_t world_ns) {
  if (follower_ != nullptr) follower_->StandStillUntil(world_ns);
  if (term_ != nullptr) term_->PauseUntil(world_ns);
  SimProcess::PauseUntil(world_ns);
}

void SimCandidate::CutFromLeaderUntil(uint64_t world_ns) {
  if (follower_ != nullptr) follower_->CutFromLeaderUntil(world_ns);
}

bool SimCandidate::HoldsLead() const {
  return LocalNow().monotonic_ns < leads_until_ns_ && !(term_ != nullptr && term_->term_is_over());
}

void SimCandidate::Call(uint64_t timeout_ms, std::function<void()> arrived, std::function<void(bool answered)> ended) {
  const uint64_t takes_ns = 1 + world().random().Below(kCallTakesNs);
  disk_->Call(way_, takes_ns, timeout_ms * kNsPerMs, std::move(arrived),
              [this, is_alive = alive(), ended = std::move(ended)](bool answered) {
                if (is_alive.expired()) return;
                After(0, [ended, answered] { ended(answered); });  // when it does not stand still
              });
}

uint64_t SimCandidate::Run(Now now) {
  if (term_ != nullptr) {
    if (HoldsLead()) {
      if (!renews_ && now.monotonic_ns >= next_renewal_ns_) RenewLease();
      return renews_ ? leads_until_ns_ : std::min(leads_until_ns_, next_renewal_ns_);
    }
    EndTerm();
  }
  if (stands_) return kNoDeadline;
  if (now.monotonic_ns < next_stand_ns_) return next_stand_ns_;
  Stand();
  return kNoDeadline;
}

void SimCandidate::Stand() {
  stands_ = true;
  if (lease_ == 0) return LookWhoLeads();
  Call(
      scheduler::kResignTimeoutMs, [disk = disk_, lease = std::exchange(lease_, 0)] { disk->RevokeLease(lease); },
      [this](bool) { LookWhoLeads(); });
}

void SimCandidate::LookWhoLeads() {
  const auto seen = std::make_shared<SimDisk::Leader>();
  Call(
      scheduler::kElectionCallTimeoutMs, [disk = disk_, seen] { *seen = disk->leader(); },
      [this, seen](bool answered) {
        if (!answered) return EndElection();
        if (seen->term > 0) return Follow(seen->holder);
        AskForLease();
      });
}

void SimCandidate::AskForLease() {
  const uint64_t asked_ns = LocalNow().monotonic_ns;
  const auto lease = std::make_shared<uint64_t>();
  Call(
      scheduler::kElectionCallTimeoutMs,
      [disk = disk_, ttl_ns = lease_ttl_ms_ * kNsPerMs, lease] { *lease = disk->GrantLease(ttl_ns); },
      [this, asked_ns, lease](bool answered) {
        if (!answered) return EndElection();  // the lease ends by itself
        lease_ = *lease;
        TryToLead(asked_ns);
      });
}

void SimCandidate::TryToLead(uint64_t asked_ns) {
  const auto leader = std::make_shared<SimDisk::Leader>();
  Call(
      scheduler::kElectionCallTimeoutMs,
      [disk = disk_, number = number_, lease = lease_, leader] { *leader = disk->TakeLead(number, lease); },
      [this, asked_ns, leader](bool answered) {
        if (!answered) return EndElection();  // it may have won: the next election begins with giving that up
        if (leader->term == 0 || leader->lease != lease_) return Follow(leader->holder);
        stands_ = false;
        Lead(leader->term, asked_ns);
        Wake();
      });
}

void SimCandidate::Follow(uint64_t leader) {
  follower_->SetLeader(leader == 0 ? 0 : host_of_(leader));
  EndElection();
}

void SimCandidate::EndElection() {
  stands_ = false;
  next_stand_ns_ = LocalNow().monotonic_ns + scheduler::kBetweenElectionsMs * kNsPerMs;
  Wake();
}

void SimCandidate::Lead(uint64_t term, uint64_t asked_ns) {
  follower_.reset();
  leads_until_ns_ = scheduler::LeadsUntilNs(asked_ns, lease_ttl_ms_);
  next_renewal_ns_ = LocalNow().monotonic_ns + scheduler::RenewPeriodMs(lease_ttl_ms_) * kNsPerMs;
  term_ = start_term_({.term = term, .way = way_, .holds = [this] {
                         if (HoldsLead()) return true;
                         Wake();
                         return false;
                       }});
  world().TraceText(name(), " leads, term ", term);
}

void SimCandidate::RenewLease() {
  renews_ = true;
  const uint64_t asked_ns = LocalNow().monotonic_ns;
  const auto renewed = std::make_shared<bool>();
  Call(
      scheduler::RenewTimeoutMs(lease_ttl_ms_),
      [disk = disk_, lease = lease_, ttl_ns = lease_ttl_ms_ * kNsPerMs, renewed] {
        *renewed = disk->RenewLease(lease, ttl_ns);
      },
      [this, asked_ns, renewed](bool answered) {
        renews_ = false;
        if (term_ == nullptr) return;
        if (answered) leads_until_ns_ = *renewed ? scheduler::LeadsUntilNs(asked_ns, lease_ttl_ms_) : 0;
        next_renewal_ns_ = LocalNow().monotonic_ns + scheduler::RenewPeriodMs(lease_ttl_ms_) * kNsPerMs;
        Wake();
      });
}

void SimCandidate::EndTerm() {
  world().TraceText(name(), " leads no longer");
  term_.reset();
  follower_ = std::make_unique<SimFollower>(control_, member_lease_ns_, /*is_told=*/true);
  leads_until_ns_ = 0;
  // The product gives its lease up at once, and then waits for the next election; this one does so as that begins.
  next_stand_ns_ = 0;
}

void SimCandidate::GiveUpLead() {
  if (lease_ == 0) return;
  disk_->Call(
      way_, 1 + world().random().Below(kCallTakesNs), scheduler::kResignTimeoutMs * kNsPerMs,
      [disk = disk_, lease = lease_] { disk->RevokeLease(lease); }, [](bool) {});
}

}  // namespace shoal::sim
