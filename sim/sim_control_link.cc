#include "sim/sim_control_link.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/version.h"

namespace shoal::sim {
namespace {

scheduler::ServerLoad LoadOf(const ServerCounters& counters) {
  return {.bytes_in = counters.bytes_in,
          .bytes_out = counters.bytes_out,
          .chunks_reduced = counters.chunks_reduced,
          .refusals = counters.RefusalTotal(),
          .groups_open = counters.groups_open,
          .peers = counters.peers,
          .slot_memory_used_bytes = counters.slot_memory_used_bytes,
          .contributions = counters.contributions_landed,
          .ops = counters.ops_begun,
          .groups_failed = counters.groups_failed,
          .absent_ranks = static_cast<uint32_t>(counters.absent_ranks.size()),
          .slots = counters.slots,
          .slots_in_use = counters.slots_in_use,
          .pending_pushes = counters.pending_pushes};
}

}  // namespace

SimControlLink::SimControlLink(World* world, SimControl* control, std::string caller)
    : world_(world), control_(control), caller_(std::move(caller)), alive_(std::make_shared<bool>(true)) {}

void SimControlLink::Start(const RegisterCall& call) {
  scheduler::RegisterServer request;
  request.control_version = kControlVersion;
  request.oldest_control_version = kOldestControlVersion;
  request.software_version = kSoftwareVersion;
  request.name = call.registration.name;
  request.incarnation = call.registration.incarnation;
  request.addresses = call.registration.addresses;
  request.weight = call.registration.weight;
  request.node = call.registration.node;
  request.boot_id = call.registration.boot_id;
  request.slot_memory_bytes = call.registration.slot_memory_bytes;
  request.transports = call.registration.transports;
  request.can_encrypt = call.registration.can_encrypt;
  request.job = call.registration.job;
  Begin(call.call, std::move(request), call.timeout_ms, [id = call.call](const Outcome& outcome) -> LeaseAnswer {
    if (!outcome.ok()) return RegisterAnswered{id, outcome.status()};
    const auto& granted = std::get<scheduler::ServerRegistered>(*outcome);
    return RegisterAnswered{id, ServerLease{granted.server, granted.lease_ttl_ms, granted.token_key, granted.key_period,
                                            granted.epoch, granted.is_colocated}};
  });
}

void SimControlLink::Start(const RenewCall& call, const ServerCounters& load) {
  scheduler::HeartbeatServer request{
      .server = call.server, .incarnation = call.incarnation, .load = LoadOf(load), .absent_ranks = {}};
  for (const AbsentRank& absent : load.absent_ranks) {
    request.absent_ranks.push_back({.job = absent.job,
                                    .group = absent.group,
                                    .epoch = absent.epoch,
                                    .rank = absent.rank,
                                    .ago_ms = (call.asked_at_ns - absent.since_ns) / kNsPerMs,
                                    .because = absent.because});
  }
  for (const LateRankOfGroup& late : load.late_ranks) {
    if (late.IsOld(call.asked_at_ns)) continue;
    request.late_ranks.push_back(
        {.job = late.job,
         .group = late.group,
         .epoch = late.epoch,
         .rank = late.late.rank,
         .io_thread = late.io_thread,
         .window = late.window,
         .window_ns = late.window_ns,
         .ago_ms = (call.asked_at_ns - std::min(late.window_end_ns, call.asked_at_ns)) / kNsPerMs,
         .ops = late.ops,
         .late_ops = late.late.late_ops,
         .waited_ns = late.late.waited_ns,
         .began_late_ns = late.late.began_late_ns,
         .spacing_ns = late.late.spacing_ns,
         .median_spacing_ns = late.median_spacing_ns});
  }
  Begin(call.call, std::move(request), call.timeout_ms, [id = call.call](const Outcome& outcome) -> LeaseAnswer {
    if (!outcome.ok()) return RenewAnswered{id, outcome.status()};
    const auto& granted = std::get<scheduler::ServerRenewed>(*outcome);
    return RenewAnswered{id, LeaseRenewal{granted.lease_ttl_ms, granted.key_period, granted.epoch, granted.drain,
                                          granted.is_colocated, granted.trace}};
  });
}

void SimControlLink::Start(const DeregisterCall& call) {
  scheduler::DeregisterServer request{.server = call.server, .incarnation = call.incarnation, .reason = call.reason};
  Begin(call.call, std::move(request), call.timeout_ms, [id = call.call](const Outcome& outcome) -> LeaseAnswer {
    return DeregisterAnswered{id, outcome.status()};
  });
}

void SimControlLink::Begin(LeaseCallId id, scheduler::Request request, uint64_t timeout_ms,
                           std::function<LeaseAnswer(const Outcome&)> answer) {
  const uint64_t deadline_ns = world_->now_ns() + timeout_ms * kNsPerMs;
  calls_[id] = {.request = std::move(request), .deadline_ns = deadline_ns, .answer = std::move(answer)};
  if (stopped_) return Cancel(id);
  world_->At(deadline_ns, [this, id, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) End(id, absl::DeadlineExceededError("the scheduler did not answer in time"));
  });
  unsent_.push_back(id);
  SendNext();
}

void SimControlLink::SendNext() {
  while (!sending_ && !unsent_.empty()) {
    const LeaseCallId id = unsent_.front();
    unsent_.pop_front();
    const auto call = calls_.find(id);
    if (call == calls_.end()) continue;  // it has ended meanwhile
    sending_ = true;
    control_->Call({alive_, caller_}, call->second.request, call->second.deadline_ns - world_->now_ns(),
                   [this, id](const Outcome& outcome) {
                     sending_ = false;
                     End(id, outcome);
                     SendNext();
                   });
  }
}

void SimControlLink::End(LeaseCallId id, const Outcome& outcome) {
  const auto call = calls_.find(id);
  if (call == calls_.end()) return;
  answers_.push_back(call->second.answer(outcome));
  calls_.erase(call);
  wake_();
}

void SimControlLink::Cancel(LeaseCallId call) { End(call, absl::CancelledError("the call was cancelled")); }

void SimControlLink::Stop() {
  stopped_ = true;
  std::vector<LeaseCallId> open;
  open.reserve(calls_.size());
  for (const auto& [id, call] : calls_) open.push_back(id);
  for (const LeaseCallId id : open) Cancel(id);
}

std::optional<LeaseAnswer> SimControlLink::Poll() {
  if (answers_.empty()) return std::nullopt;
  LeaseAnswer answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}

}  // namespace shoal::sim
