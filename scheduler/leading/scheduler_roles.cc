#include "scheduler/leading/scheduler_roles.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "process/scheduler_address.h"
#include "process/start_thread.h"
#include "scheduler/leading/lead_times.h"
#include "scheduler/store/etcd_store.h"

namespace shoal::scheduler {
absl::StatusOr<std::unique_ptr<SchedulerRoles>> SchedulerRoles::Start(const SchedulerConfig& config,
                                                                      std::shared_ptr<Doorkeeper> doorkeeper,
                                                                      SchedulerSinks sinks) {
  const absl::StatusOr<EtcdTarget> target = ParseEtcdTarget(config.store);
  if (!target.ok()) return target.status();
  const bool any_interface = absl::StartsWith(config.listen, "0.0.0.0:") || absl::StartsWith(config.listen, "[::]:");
  if (any_interface && config.advertise.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("listening on ", config.listen,
                     " with several schedulers requires --advertise HOST:PORT, the address "
                     "at which the others reach this one"));
  }
  SchedulerConfig checked = config;
  if (!config.advertise.empty()) {
    absl::StatusOr<std::string> advertise = OneSchedulerAddress(config.advertise, "--advertise");
    if (!advertise.ok()) return advertise.status();
    checked.advertise = *std::move(advertise);
  }
  const absl::StatusOr<Credentials> etcd_credentials =
      Credentials::LoadForStore(config.etcd_credentials, ReportTo(sinks.log));
  if (!etcd_credentials.ok()) return etcd_credentials.status();
  auto forwarding = ForwardingHost::Listen(config.listen, config.lease_ttl_ms, doorkeeper);
  if (!forwarding.ok()) return forwarding.status();
  std::unique_ptr<SchedulerRoles> roles(new SchedulerRoles(checked, *target, *etcd_credentials, std::move(doorkeeper),
                                                           *std::move(forwarding), std::move(sinks)));
  absl::StatusOr<std::thread> started = StartThread("shoal-scheduler", [raw = roles.get()] { raw->Run(); });
  if (!started.ok()) return started.status();
  roles->thread_ = *std::move(started);
  return roles;
}

SchedulerRoles::SchedulerRoles(const SchedulerConfig& config, const EtcdTarget& target,
                               const Credentials& etcd_credentials, std::shared_ptr<Doorkeeper> doorkeeper,
                               std::unique_ptr<ForwardingHost> forwarding, SchedulerSinks sinks)
    : config_(config),
      address_(forwarding->address()),
      doorkeeper_(std::move(doorkeeper)),
      client_(target, etcd_credentials, config.etcd_login),
      election_(&client_, config.advertise.empty() ? address_ : config.advertise, config.leader_lease_ms),
      forwarding_(std::move(forwarding)),
      sinks_(std::move(sinks)) {}

SchedulerRoles::~SchedulerRoles() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (term_ != nullptr) term_->Stop();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SchedulerRoles::Run() {
  do {
    const absl::StatusOr<Standing> standing = election_.Stand();
    if (!standing.ok()) {
      // The scheduler that led may still lead: this one can't tell whether its lease has ended.
      Log(EventKind::kElectionFailed, absl::StrCat("the election failed: ", standing.status().message()));
    } else if (standing->leads) {
      Lead(*standing);
      if (!Follow()) return;
    } else {
      forwarding_->SetLeader(standing->leader_address);
      if (standing->leader_address.empty()) {
        Log(EventKind::kLeaderMissing, "no scheduler leads");
      } else if (!forwarding_->leader_answers()) {
        Log(EventKind::kLeaderSilent,
            absl::StrCat("follows ", standing->leader_address, ", which does not answer: refuses calls until it does"));
      } else {
        Log(EventKind::kLeaderFollowed, absl::StrCat("follows ", standing->leader_address));
      }
    }
  } while (Pause());
}

void SchedulerRoles::Lead(const Standing& standing) {
  forwarding_.reset();
  auto store = std::make_unique<EtcdStore>(&client_, election_.leader_key(), standing.term);
  const EtcdStore* const in_use = store.get();
  absl::StatusOr<std::unique_ptr<SchedulerTerm>> term =
      SchedulerTerm::Start(config_, address_, std::move(store), doorkeeper_, sinks_);
  if (!term.ok()) {
    Log(EventKind::kLeadingRefused, absl::StrCat("can't lead: ", term.status().message()));
    return election_.Resign();
  }
  Log(EventKind::kLeadingBegan, absl::StrCat("leads, term ", standing.term));
  {
    const MutexLock lock(mutex_);
    if (stopping_) (*term)->Stop();
    term_ = *std::move(term);
  }
  term_->Run([&] { return in_use->term_is_over() ? 0 : election_.leads_until_ns(); });
  std::unique_ptr<SchedulerTerm> ended;
  {
    const MutexLock lock(mutex_);
    ended = std::move(term_);
  }
  ended.reset();
  if (sinks_.numbers) sinks_.numbers(nullptr);
  election_.Resign();
  Log(EventKind::kLeadingEnded, absl::StrCat("leads no longer, term ", standing.term));
}

bool SchedulerRoles::Follow() {
  while (!IsStopping()) {
    absl::StatusOr<std::unique_ptr<ForwardingHost>> forwarding =
        ForwardingHost::Listen(address_, config_.lease_ttl_ms, doorkeeper_);
    if (forwarding.ok()) {
      forwarding_ = *std::move(forwarding);
      return true;
    }
    Log(EventKind::kLeadingRefused, std::string(forwarding.status().message()));
    if (!Pause()) return false;
  }
  return false;
}

bool SchedulerRoles::Pause() {
  MutexLock lock(mutex_);
  const std::chrono::milliseconds pause(kBetweenElectionsMs);
  return !changed_.wait_for(lock, pause, [this]() SHOAL_REQUIRES(mutex_) { return stopping_; });
}

bool SchedulerRoles::IsStopping() {
  const MutexLock lock(mutex_);
  return stopping_;
}

void SchedulerRoles::Log(EventKind kind, const std::string& text) {
  if (!sinks_.log || text == logged_) return;
  logged_ = text;
  sinks_.log({.kind = kind, .subject = absl::StrCat("scheduler at ", address_), .text = text});
}

}  // namespace shoal::scheduler
