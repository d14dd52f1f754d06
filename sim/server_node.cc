#include "sim/server_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/version.h"

namespace shoal::sim {

ServerNode::ServerNode(World* world, const Profile& profile, uint32_t number, SimNetwork* network, SimControl* control,
                       Checkers* checkers)
    : Node(world, absl::StrCat("server-", number), profile.wake_delay_ns),
      profile_(profile),
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

void ServerNode::StartLoops() {
  for (IoThread& thread : threads_) {
    if (thread.loop != nullptr) continue;
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
    checkers_->Fail(absl::StrCat(name(), " gave up: ", registration_->failure().message()));
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
    request.host = name();
    request.slot_memory_bytes = profile_.slot_memory_bytes;
    control_->Call(alive(), request, step.timeout_ms * kNsPerMs,
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
  control_->Call(alive(), request, step.timeout_ms * kNsPerMs,
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
  scheduler::DeregisterServer request;
  request.server = registration_->lease().server;
  request.incarnation = incarnation_;
  request.reason = "drained";
  control_->Call(alive(), request, 2 * kNsPerS, [this](const absl::StatusOr<scheduler::Response>& response) {
    deregistered_ = response.ok() || absl::IsNotFound(response.status());
    if (deregistered_) return;
    world().After(50 * kNsPerMs, [this, alive = alive()] {
      if (!alive.expired()) Deregister();
    });
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
    while (thread.loop->RunOnce(now)) {
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
