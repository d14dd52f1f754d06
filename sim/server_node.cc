#include "sim/server_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/version.h"

namespace shoal::sim {
namespace {

constexpr int kMostRounds = 100'000;  // without time passing

}  // namespace

ServerNode::ServerNode(World* world, const Profile& profile, const Place& place, SimNetwork* network,
                       SimControl* control, Checkers* checkers)
    : Node(world, place.name, profile),
      profile_(profile),
      place_(place),
      control_(control),
      checkers_(checkers),
      incarnation_(world->random().Next()),
      threads_(profile.io_threads) {
  for (IoThread& thread : threads_) {
    thread.memory.resize(profile.slot_memory_bytes);
    thread.transport = network->MakeTransport(/*listen=*/true, [this] { Wake(); });
    thread.reducer = std::make_unique<SimReducer>(world, profile.reduce_ns, profile.sabotage, [this] { Wake(); });
    addresses_.push_back(thread.transport->listen_address());
  }
  registration_.emplace("simulated", 60'000, world->random().Next(), LocalNow());
  Wake();
}

void ServerNode::FallSilent() {
  for (IoThread& thread : threads_) thread.transport->FallSilent();
}

void ServerNode::StartLoops() {
  for (IoThread& thread : threads_) {
    if (thread.loop != nullptr) {
      thread.loop->SetTokenKey(registration_->lease().token_key);
      continue;
    }
    ServerMachineOptions options;
    options.server_name = name();
    options.incarnation = incarnation_;
    options.token_key = registration_->lease().token_key;
    options.slot_memory_bytes = thread.memory.size();
    options.window_bytes = profile_.window_bytes;
    options.return_patience_ns = profile_.return_patience_ns;
    thread.loop = std::make_unique<ServerLoop>(options, thread.transport.get(), thread.reducer.get(), thread.memory);
  }
}

uint64_t ServerNode::StepRegistration(Now now) {
  if (call_under_way_ || draining_) return kNoDeadline;
  const RegistrationStep step = registration_->Next(now);
  if (step.kind == RegistrationStep::Kind::kWait) return step.wait_until_ns;
  if (step.kind == RegistrationStep::Kind::kGiveUp) {
    // The job of a server in a worker's process may end while it registers; one that is no leader says what is not so.
    const bool stale_leader = std::any_of(profile_.faults.begin(), profile_.faults.end(),
                                          [](const Fault& fault) { return fault.kind == FaultKind::kStaleLeader; });
    if (place_.job != JobId() || stale_leader) return kNoDeadline;
    checkers_->Fail(absl::StrCat(name(), " gave up: ", registration_->failure().message(), " (liveness)"));
    return kNoDeadline;
  }
  call_under_way_ = true;
  if (step.kind == RegistrationStep::Kind::kRegister) {
    scheduler::RegisterServer request;
    request.control_version = kControlVersion;
    request.software_version = kSoftwareVersion;
    request.name = name();
    request.incarnation = incarnation_;
    request.addresses = addresses_;
    request.node = place_.node;
    request.job = place_.job;
    request.slot_memory_bytes = profile_.slot_memory_bytes;
    control_->Call(AsCaller(), request, step.timeout_ms * kNsPerMs,
                   [this](const absl::StatusOr<scheduler::Response>& response) {
                     call_under_way_ = false;
                     absl::StatusOr<ServerLease> lease = absl::UnknownError("no answer");
                     if (!response.ok()) lease = response.status();
                     if (response.ok()) {
                       const auto& granted = std::get<scheduler::ServerRegistered>(*response);
                       lease = ServerLease{granted.server, granted.lease_ttl_ms, granted.token_key, granted.epoch};
                     }
                     registration_->OnRegistered(lease, LocalNow());
                     if (registration_->was_registered()) StartLoops();
                     Wake();
                   });
    return kNoDeadline;
  }
  scheduler::HeartbeatServer request;
  request.server = registration_->lease().server;
  request.incarnation = incarnation_;
  control_->Call(AsCaller(), request, step.timeout_ms * kNsPerMs,
                 [this](const absl::StatusOr<scheduler::Response>& response) {
                   call_under_way_ = false;
                   absl::StatusOr<LeaseRenewal> renewal = absl::UnknownError("no answer");
                   if (!response.ok()) renewal = response.status();
                   if (response.ok()) {
                     const auto& granted = std::get<scheduler::ServerRenewed>(*response);
                     renewal = LeaseRenewal{granted.lease_ttl_ms, granted.epoch};
                   }
                   registration_->OnRenewed(renewal, LocalNow());
                   Wake();
                 });
  return kNoDeadline;
}

void ServerNode::Drain() {
  if (draining_ || !registration_->was_registered()) return;
  draining_ = true;
  for (IoThread& thread : threads_) {
    if (thread.loop != nullptr) thread.loop->Drain();
  }
  Deregister();
}

void ServerNode::Deregister() {
  // What it said last must not come later.
  if (call_under_way_) return After(kNsPerMs, [this] { Deregister(); });
  scheduler::DeregisterServer request;
  request.server = registration_->lease().server;
  request.incarnation = incarnation_;
  request.reason = "drained";
  control_->Call(AsCaller(), request, 2 * kNsPerS, [this](const absl::StatusOr<scheduler::Response>& response) {
    deregistered_ = response.ok() || absl::IsNotFound(response.status());
    if (deregistered_) return;
    After(50 * kNsPerMs, [this] { Deregister(); });
  });
}

uint32_t ServerNode::GroupsOpen() const {
  uint32_t groups = 0;
  for (const IoThread& thread : threads_) {
    if (thread.loop != nullptr) groups += thread.loop->counters().groups_open;
  }
  return groups;
}

uint64_t ServerNode::Run(Now now) {
  uint64_t deadline = StepRegistration(now);
  for (IoThread& thread : threads_) {
    if (thread.loop == nullptr) continue;
    int rounds = 0;
    while (thread.loop->RunOnce(now)) {
      if (++rounds < kMostRounds) continue;
      checkers_->Fail(absl::StrCat(name(), " is busy with itself for ever (liveness)"));
      break;
    }
    deadline = std::min(deadline, thread.loop->NextDeadlineNs());
    checkers_->CheckServerBounds(name(), thread.loop->counters(), thread.memory.size());
  }
  return deadline;
}

void ServerNode::CheckAtEnd() const {
  for (const IoThread& thread : threads_) {
    if (thread.loop != nullptr) checkers_->CheckServerEmpty(name(), thread.loop->counters());
  }
}

}  // namespace shoal::sim
