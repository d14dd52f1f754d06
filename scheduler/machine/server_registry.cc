#include "scheduler/machine/server_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

constexpr char kEvicted[] = "an operator evicted it";

// Why the incarnation that was evicted is not let in.
std::string EvictedText(const ServerState& server) {
  if (server.evicted_incarnation == server.incarnation) {
    return absl::StrCat("an operator evicted server ", server.name, "; start it again to let it join");
  }
  return absl::StrCat("another process on node ", server.node, " took the place of server ", server.name,
                      "; end this process or give it another --name");
}

}  // namespace

void ServerRegistry::Restore(const std::vector<ServerState>& servers, uint64_t next_server_id, Now now) {
  next_server_id_ = next_server_id;
  for (const ServerState& state : servers) {
    Server& server = servers_[state.id];
    server.state = state;
    by_name_[state.name] = state.id;
    if (state.phase == MemberPhase::kLive) {
      ++live_count_;
      GrantLease(&server, now);
    } else {
      server.gone_order = next_gone_order_++;
      // Of one from which this scheduler has heard nothing, that is as long ago as it went. If that is not known, as if
      // it had gone just now.
      const uint64_t gone_ms = state.gone_at_unix_ms == 0 ? now.unix_ms : std::min(state.gone_at_unix_ms, now.unix_ms);
      server.last_heartbeat_ns = now.monotonic_ns - (now.unix_ms - gone_ms) * kNsPerMs;  // wraps, as does what reads it
    }
  }
}

// A process that was started again on its node takes its place at once, however its predecessor ended. One on another
// node more likely got the name by mistake, and the two would take the place from each other for ever.
absl::Status ServerRegistry::CheckName(const RegisterServer& request) const {
  const auto found = by_name_.find(request.name);
  if (found == by_name_.end()) return absl::OkStatus();
  const ServerState& live = servers_.at(found->second).state;
  if (live.phase != MemberPhase::kLive || live.incarnation == request.incarnation) return absl::OkStatus();
  const std::string node = CleanText(request.node);
  const std::string boot_id = CleanText(request.boot_id);
  if (AreOnOneNode(PlaceOf(live), {.node = node, .boot_id = boot_id})) return absl::OkStatus();
  const std::string same = node == live.node ? ", another computer of that name" : "";
  return absl::AlreadyExistsError(
      absl::StrCat("a live server on node ", live.node, " (", live.addresses.front(), ") has the name ", live.name,
                   ", and this one is on node ", node, same, " (", request.addresses.front(),
                   "); give this one another --name, or, if it is to take that one's place, drain that one before. If "
                   "that one is gone without a word, this one is let "
                   "in when its lease of ",
                   Seconds(lease_ttl_ns_), " has run out"));
}

absl::Status ServerRegistry::CheckRoom(const RegisterServer& request) const {
  size_t shards = request.addresses.size();
  for (const auto& [id, server] : servers_) {
    if (server.state.phase != MemberPhase::kLive || server.state.name == request.name) continue;
    // Servers of different jobs are never in one map.
    const bool may_meet = server.state.job == JobId() || server.state.job == request.job;
    if (may_meet) shards += server.state.addresses.size();
    for (const std::string& address : request.addresses) {
      const auto& taken = server.state.addresses;
      if (std::find(taken.begin(), taken.end(), address) == taken.end()) continue;
      return absl::AlreadyExistsError(absl::StrCat(
          "address ", address, " of server ", request.name, " is registered by the live server ", server.state.name,
          " on node ", server.state.node, "; if that server is gone, try again when its lease of ",
          Seconds(lease_ttl_ns_), " has run out, else give this one its own --advertise address"));
    }
  }
  if (shards > kMaxShards) {
    return absl::ResourceExhaustedError(absl::StrCat("server ", request.name, " would be shard number ", shards,
                                                     ", but a cluster has at most ", kMaxShards,
                                                     "; give the servers fewer I/O threads"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ServerRegistry::Registration> ServerRegistry::Register(const RegisterServer& request, Now now) {
  absl::Status status =
      CheckControlVersion(request.control_version, request.oldest_control_version, request.software_version,
                          absl::StrCat("server \"", CleanText(request.name), "\""));
  if (status.ok()) status = CheckRequest(request);
  if (status.ok()) status = CheckName(request);
  if (status.ok()) status = CheckRoom(request);
  if (!status.ok()) return status;

  const auto [name, is_new] = by_name_.try_emplace(request.name, next_server_id_);
  if (is_new) ++next_server_id_;
  Server& server = servers_[name->second];
  const ServerState before = server.state;
  const bool was_live = !is_new && before.phase == MemberPhase::kLive;
  if (!is_new && request.incarnation == before.evicted_incarnation) {
    const bool by_operator = before.evicted_incarnation == before.incarnation;
    return by_operator ? absl::AbortedError(EvictedText(before)) : absl::AlreadyExistsError(EvictedText(before));
  }
  ServerState& state = server.state;
  state.id = name->second;
  state.name = request.name;
  state.incarnation = request.incarnation;
  if (was_live && before.incarnation != request.incarnation) state.evicted_incarnation = before.incarnation;
  state.phase = MemberPhase::kLive;
  state.reason.clear();
  state.gone_at_unix_ms = 0;
  state.node = CleanText(request.node);
  state.boot_id = CleanText(request.boot_id);
  state.identity = request.identity;
  state.addresses = request.addresses;
  state.weight = std::max(request.weight, 1u);
  state.slot_memory_bytes = request.slot_memory_bytes;
  state.job = request.job;
  state.transports = CleanText(request.transports);
  state.software_version = CleanText(request.software_version);
  if (before.incarnation != request.incarnation) {
    state.draining = false;
    state.registered_at_unix_ms = now.unix_ms;
    server.recall = Recall::kNone;
    server.slot_memory_used_bytes = 0;
  }
  if (!was_live) ++live_count_;
  GrantLease(&server, now);

  Registration registration;
  registration.server = state.id;
  if (is_new) {
    registration.change = Change::kNew;
  } else if (!was_live) {
    registration.change = Change::kReturned;
  } else if (!(before == state)) {
    registration.change = Change::kReplaced;
  }
  return registration;
}

absl::StatusOr<ServerRegistry::Renewal> ServerRegistry::Renew(const HeartbeatServer& request, Now now) {
  const auto found = servers_.find(request.server);
  if (found == servers_.end()) {
    return absl::NotFoundError(absl::StrCat("no server has id ", request.server.value(), " here; register again"));
  }
  Server& server = found->second;
  const bool is_evicted = server.state.evicted_incarnation == request.incarnation;
  if (server.state.incarnation != request.incarnation || is_evicted) {
    return absl::AbortedError(EvictedText(server.state));
  }
  if (server.state.phase != MemberPhase::kLive) {
    return absl::NotFoundError(absl::StrCat("server ", server.state.name, " is ",
                                            std::string(MemberPhaseName(server.state.phase)), " (", server.state.reason,
                                            "); register again"));
  }
  const uint64_t used_bytes = request.load.slot_memory_used_bytes;
  const bool freed_memory = used_bytes < std::exchange(server.slot_memory_used_bytes, used_bytes);
  GrantLease(&server, now);
  // By the answer to this heartbeat it is told.
  const Recall next = server.recall == Recall::kToBeTold ? Recall::kTold : Recall::kNone;
  const bool is_back = std::exchange(server.recall, next) == Recall::kTold;
  return Renewal{.is_back = is_back, .freed_memory = freed_memory};
}

void ServerRegistry::HoldLease(ServerId id, bool is_news, bool has_save_failed, Now now) {
  Server& server = servers_.at(id);
  server.is_unsaved_news = server.is_unsaved_news || is_news;
  server.lease_expires_ns = kNoDeadline;
  if (has_save_failed) OnSaveFailed(now);
}

void ServerRegistry::OnSaveFailed(Now now) {
  for (auto& [id, server] : servers_) {
    if (!server.is_unsaved_news || server.lease_expires_ns != kNoDeadline) continue;
    server.lease_expires_ns = now.monotonic_ns + std::max(lease_ttl_ns_, kUnsavedServerPatienceNs);
    next_expiry_ns_ = std::min(next_expiry_ns_, server.lease_expires_ns);
  }
}

void ServerRegistry::BeginLease(ServerId id, Incarnation incarnation, Now now) {
  const auto found = servers_.find(id);
  if (found == servers_.end() || found->second.state.phase != MemberPhase::kLive) return;
  if (found->second.state.incarnation != incarnation) return;
  found->second.is_unsaved_news = false;
  GrantLease(&found->second, now);
}

absl::StatusOr<bool> ServerRegistry::Deregister(const DeregisterServer& request, Now now) {
  const auto found = servers_.find(request.server);
  if (found == servers_.end() || found->second.state.incarnation != request.incarnation) {
    return absl::NotFoundError(absl::StrCat("no server has id ", request.server.value(), " and incarnation ",
                                            request.incarnation.value(), " here; nothing to deregister"));
  }
  const bool was_live = found->second.state.phase == MemberPhase::kLive;
  if (was_live) {
    MarkGone(&found->second, MemberPhase::kLeft, request.reason.empty() ? "deregistered" : CleanText(request.reason),
             now);
  }
  return was_live;
}

absl::Status ServerRegistry::NoneNamed(const std::string& name) const {
  std::vector<std::string> live;
  for (const auto& [id, server] : servers_) {
    if (server.state.phase == MemberPhase::kLive) live.push_back(server.state.name);
  }
  return absl::NotFoundError(absl::StrCat("no server is named \"", CleanText(name),
                                          "\"; live servers: ", live.empty() ? "none" : NameList(live)));
}

absl::StatusOr<ServerRegistry::Server*> ServerRegistry::FindForOperator(const std::string& name,
                                                                        std::string_view wanted) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return NoneNamed(name);
  Server& server = servers_.at(found->second);
  const ServerState& state = server.state;
  if (state.phase != MemberPhase::kLive) {
    return absl::FailedPreconditionError(absl::StrCat("server ", name, " is ",
                                                      std::string(MemberPhaseName(state.phase)), " (", state.reason,
                                                      "); there is nothing to ", std::string(wanted)));
  }
  if (state.job != JobId()) {
    return absl::FailedPreconditionError(absl::StrCat("server ", name, " is colocated with a rank on node ", state.node,
                                                      ", for job ", state.job.value(),
                                                      " only, and leaves with that rank"));
  }
  return &server;
}

absl::StatusOr<bool> ServerRegistry::Drain(const std::string& name) {
  const absl::StatusOr<Server*> server = FindForOperator(name, "drain");
  if (!server.ok()) return server.status();
  (*server)->recall = Recall::kNone;
  return !std::exchange((*server)->state.draining, true);
}

absl::StatusOr<bool> ServerRegistry::Undrain(const std::string& name) {
  const absl::StatusOr<Server*> server = FindForOperator(name, "undrain");
  if (!server.ok()) return server.status();
  if (!std::exchange((*server)->state.draining, false)) return false;
  (*server)->recall = Recall::kToBeTold;
  return true;
}

absl::StatusOr<ServerState> ServerRegistry::Evict(const std::string& name, Now now) {
  const absl::StatusOr<Server*> server = FindForOperator(name, "evict");
  if (!server.ok()) return server.status();
  ServerState& state = (*server)->state;
  state.evicted_incarnation = state.incarnation;
  state.draining = false;
  (*server)->recall = Recall::kNone;
  ServerState lost = state;
  lost.phase = MemberPhase::kLost;
  lost.reason = kEvicted;
  MarkGone(*server, MemberPhase::kLost, kEvicted, now);
  return lost;
}

const ServerState* ServerRegistry::FindByName(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : Find(found->second);
}

std::vector<ServerState> ServerRegistry::ExpireLeases(Now now) {
  std::vector<ServerState> lost;
  if (now.monotonic_ns < next_expiry_ns_) return lost;
  next_expiry_ns_ = kNoDeadline;
  std::vector<ServerId> expired;
  for (const auto& [id, server] : servers_) {
    if (server.state.phase != MemberPhase::kLive) continue;
    if (server.lease_expires_ns > now.monotonic_ns) {
      next_expiry_ns_ = std::min(next_expiry_ns_, server.lease_expires_ns);
    } else {
      expired.push_back(id);
    }
  }
  for (const ServerId id : expired) {
    Server& server = servers_.at(id);
    const uint64_t silent_ns = now.monotonic_ns - server.last_heartbeat_ns;
    lost.push_back(server.state);
    lost.back().phase = MemberPhase::kLost;
    lost.back().reason = server.is_unsaved_news ? absl::StrCat("no sign of its process for ", Seconds(silent_ns),
                                                               ", and that it had come was not saved yet")
                                                : absl::StrCat("no heartbeat for ", Seconds(silent_ns), " (lease ",
                                                               Seconds(lease_ttl_ns_), ")");
    MarkGone(&server, MemberPhase::kLost, lost.back().reason, now);
  }
  return lost;
}

void ServerRegistry::RenewAll(Now now) {
  const uint64_t expires_ns = now.monotonic_ns + lease_ttl_ns_;
  for (auto& [id, server] : servers_) {
    if (server.state.phase == MemberPhase::kLive) server.lease_expires_ns = expires_ns;
  }
  next_expiry_ns_ = live_count_ == 0 ? kNoDeadline : expires_ns;
}

void ServerRegistry::RenewThoseThatAreSaved(Now now) {
  next_expiry_ns_ = kNoDeadline;
  for (auto& [id, server] : servers_) {
    if (server.state.phase != MemberPhase::kLive) continue;
    if (!server.is_unsaved_news) server.lease_expires_ns = now.monotonic_ns + lease_ttl_ns_;
    next_expiry_ns_ = std::min(next_expiry_ns_, server.lease_expires_ns);
  }
}

void ServerRegistry::ExtendLeasesOnce(Now now) {
  next_expiry_ns_ = kNoDeadline;
  for (auto& [id, server] : servers_) {
    if (server.state.phase != MemberPhase::kLive) continue;
    if (!std::exchange(server.lease_extended, true)) {
      server.lease_expires_ns = std::max(server.lease_expires_ns, now.monotonic_ns + lease_ttl_ns_);
    }
    next_expiry_ns_ = std::min(next_expiry_ns_, std::max(server.lease_expires_ns, now.monotonic_ns));
  }
}

void ServerRegistry::AddLivePlaces(std::vector<NodePlace>* places) const {
  for (const auto& [id, server] : servers_) {
    if (server.state.phase == MemberPhase::kLive) places->push_back(PlaceOf(server.state));
  }
}

const ServerState* ServerRegistry::Find(ServerId id) const {
  const auto found = servers_.find(id);
  return found == servers_.end() ? nullptr : &found->second.state;
}

const ServerState* ServerRegistry::FindLive(ServerId id) const {
  const ServerState* const server = Find(id);
  return server != nullptr && server->phase == MemberPhase::kLive ? server : nullptr;
}

std::vector<const ServerState*> ServerRegistry::ServersOf(JobId job) const {
  std::vector<const ServerState*> found;
  for (const auto& [id, server] : servers_) {
    const bool serves = server.state.job == JobId() || server.state.job == job;
    if (IsInMaps(server) && serves) found.push_back(&server.state);
  }
  return found;
}

uint32_t ServerRegistry::dedicated_count() const { return static_cast<uint32_t>(ServersOf(JobId()).size()); }

bool ServerRegistry::AnyDedicatedOn(const NodePlace& place) const {
  const std::vector<const ServerState*> dedicated = ServersOf(JobId());
  return std::any_of(dedicated.begin(), dedicated.end(),
                     [&](const ServerState* state) { return AreOnOneNode(PlaceOf(*state), place); });
}

std::string ServerRegistry::DescribeLastGone() const {
  const Server* last = nullptr;
  for (const auto& [id, server] : servers_) {
    if (server.state.phase == MemberPhase::kLive && server.state.draining) {
      return absl::StrCat("server ", server.state.name, " is draining");
    }
    if (server.state.phase == MemberPhase::kLive) continue;
    if (last == nullptr || server.gone_order > last->gone_order) last = &server;
  }
  if (last == nullptr) return "none is registered";
  return absl::StrCat("server ", last->state.name, " is ", std::string(MemberPhaseName(last->state.phase)), " (",
                      last->state.reason, ")");
}

uint32_t ServerRegistry::CountOf(MemberPhase phase, bool colocated) const {
  return static_cast<uint32_t>(std::ranges::count_if(servers_, [&](const auto& entry) {
    return entry.second.state.phase == phase && (entry.second.state.job != JobId()) == colocated;
  }));
}

std::vector<Shard> ServerRegistry::LiveShards() const {
  std::vector<Shard> shards;
  for (const auto& [id, server] : servers_) {
    if (!IsInMaps(server) || server.state.job != JobId()) continue;
    for (const std::string& address : server.state.addresses) {
      shards.push_back({.server = id,
                        .incarnation = server.state.incarnation,
                        .server_name = server.state.name,
                        .address = address,
                        .weight = server.state.weight});
    }
  }
  return shards;
}

std::vector<ServerState> ServerRegistry::States() const {
  std::vector<ServerState> states;
  states.reserve(servers_.size());
  for (const auto& [id, server] : servers_) states.push_back(server.state);
  return states;
}

void ServerRegistry::GrantLease(Server* server, Now now) {
  server->lease_extended = false;
  server->last_heartbeat_ns = now.monotonic_ns;
  server->lease_expires_ns = now.monotonic_ns + lease_ttl_ns_;
  next_expiry_ns_ = std::min(next_expiry_ns_, server->lease_expires_ns);
}

void ServerRegistry::MarkGone(Server* server, MemberPhase phase, const std::string& reason, Now now) {
  server->state.phase = phase;
  server->state.reason = reason;
  server->state.gone_at_unix_ms = now.unix_ms;
  server->is_unsaved_news = false;
  server->gone_order = next_gone_order_++;
  --live_count_;
  ForgetOldest();
}

void ServerRegistry::ForgetOldest() {
  if (servers_.size() - live_count_ <= kMaxGoneServers) return;
  const auto order = [](const Server& server) {
    return std::make_pair(server.state.job == JobId(), server.gone_order);
  };
  auto oldest = servers_.end();
  for (auto it = servers_.begin(); it != servers_.end(); ++it) {
    if (it->second.state.phase == MemberPhase::kLive) continue;
    if (oldest == servers_.end() || order(it->second) < order(oldest->second)) oldest = it;
  }
  by_name_.erase(oldest->second.state.name);
  servers_.erase(oldest);
}

}  // namespace shoal::scheduler
