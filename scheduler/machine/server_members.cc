#include "scheduler/machine/server_members.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/connection_ticket.h"
#include "core/loopback_address.h"
#include "scheduler/machine/node_place.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

EventKind RegistrationKind(ServerRegistry::Change change) {
  return change == ServerRegistry::Change::kNew        ? EventKind::kServerRegistered
         : change == ServerRegistry::Change::kReturned ? EventKind::kServerReturned
                                                       : EventKind::kServerReplaced;
}

}  // namespace

void ServerMembers::Answer(RequestHandle handle, const RegisterServer& request, Now now) {
  absl::Status status = CheckJob(request);
  if (status.ok()) status = CheckReach(request);
  if (status.ok()) status = CheckEncryption(request);
  if (!status.ok()) return Refuse(handle, request, status, now);
  const absl::StatusOr<ServerRegistry::Registration> registered = servers_.Register(request, now);
  if (!registered.ok()) return Refuse(handle, request, registered.status(), now);
  refused_.Forget(request);
  const bool is_news = registered->change != ServerRegistry::Change::kNone;
  if (is_news) {
    const ServerState& server = *servers_.Find(registered->server);
    Note(RegistrationKind(registered->change), server,
         absl::StrCat("node ", server.node, ", ", server.addresses.size(), " I/O threads, Shoal ",
                      server.software_version,
                      server.job == JobId() ? "" : absl::StrCat(", for job ", server.job.value(), " only")),
         now);
    jobs_.ForgetExclusions(registered->server);
    moves_.OnServersChanged(now);
  }
  if (!decisions_.all_saved()) servers_.HoldLease(registered->server, is_news, decisions_.last_save_failed(), now);
  decisions_.AfterSave(BeginServerLease{registered->server, request.incarnation});
  decisions_.Answer(handle, ServerRegistered{.server = registered->server,
                                             .lease_ttl_ms = settings_.lease_ttl_ms,
                                             .token_key = settings_.token_key,
                                             .epoch = decisions_.map()->epoch(),
                                             .is_colocated = settings_.is_colocated,
                                             .key_period = KeyPeriodAt(now)});
  groups_.OpenComplete(now);
}

void ServerMembers::Refuse(RequestHandle handle, const RegisterServer& request, const absl::Status& why, Now now) {
  // A colocated server's job is over, or its process is: nobody has to do anything.
  if (request.job != JobId()) return decisions_.AnswerNow(handle, why);
  const std::string reason(why.message());
  // While the state can't be saved, events wait in memory.
  if (refused_.Note(request, reason, now) && !decisions_.last_save_failed()) {
    decisions_.Record(EventKind::kServerRefused, absl::StrCat("server ", CleanText(request.name)),
                      absl::StrCat("node ", CleanText(request.node), ": ", reason), now);
  }
  decisions_.AnswerNow(handle, why);
}

// Ranks of other nodes would be led to their own node, and blame the server. Boot ids alone tell nodes apart for sure:
// a name may be chosen.
absl::Status ServerMembers::CheckReach(const RegisterServer& request) const {
  if (request.job != JobId() || request.addresses.empty() || !IsLoopbackAddress(request.addresses.front())) {
    return absl::OkStatus();
  }
  const std::string node = CleanText(request.node);
  const std::string boot_id = CleanText(request.boot_id);
  std::vector<NodePlace> places;
  servers_.AddLivePlaces(&places);
  jobs_.AddLivePlaces(&places);
  const auto other = std::ranges::find_if(
      places, [&](const NodePlace& place) { return !place.boot_id.empty() && place.boot_id != boot_id; });
  if (boot_id.empty() || other == places.end()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "server \"", CleanText(request.name), "\" on node ", node, " advertises ", CleanText(request.addresses.front()),
      ", which leads every node to itself, and the cluster has members on other nodes, such as ",
      std::string(other->node),
      "; give the server an --advertise address that those reach (not the node's own name, where /etc/hosts has that "
      "at "
      "127.0.1.1)"));
}

absl::Status ServerMembers::CheckEncryption(const RegisterServer& request) const {
  if (!settings_.encrypt || request.can_encrypt) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the cluster encrypts what travels between nodes, and server \"", CleanText(request.name),
                   "\" can't: start it with --transports tcp, or the scheduler without --encrypt"));
}

absl::Status ServerMembers::CheckJob(const RegisterServer& request) const {
  if (request.job == JobId()) return absl::OkStatus();
  const Job* job = jobs_.Find(request.job);
  if (job != nullptr && job->open()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("server \"", CleanText(request.name), "\" is for job ",
                                                    request.job.value(),
                                                    ", which is not open here; its process has to join the job first"));
}

void ServerMembers::Answer(RequestHandle handle, const HeartbeatServer& request, Now now) {
  const absl::StatusOr<ServerRegistry::Renewal> renewal = servers_.Renew(request, now);
  if (!renewal.ok()) return decisions_.Answer(handle, renewal.status());
  if (renewal->freed_memory) moves_.OnMemoryFreed(request.server, now);
  for (const AbsentRankReport& absent : request.absent_ranks) jobs_.OnRankAbsent(absent, now);
  decisions_.AnswerNow(handle, ServerRenewed{.lease_ttl_ms = settings_.lease_ttl_ms,
                                             .epoch = decisions_.published()->epoch(),
                                             .drain = servers_.Find(request.server)->draining,
                                             .is_colocated = settings_.is_colocated,
                                             .key_period = KeyPeriodAt(now)});
  if (!renewal->is_back) return;
  moves_.OnServersChanged(now);
  groups_.OpenComplete(now);
}

void ServerMembers::Answer(RequestHandle handle, const DeregisterServer& request, Now now) {
  const absl::StatusOr<bool> was_live = servers_.Deregister(request, now);
  if (!was_live.ok()) return decisions_.Answer(handle, was_live.status());
  if (*was_live) {
    const ServerState& server = *servers_.Find(request.server);
    Note(EventKind::kServerLeft, server, server.reason, now);
    moves_.OnServersChanged(now);
  }
  decisions_.Answer(handle, Done());
}

void ServerMembers::Answer(RequestHandle handle, const DrainServer& request, Now now) {
  const absl::StatusOr<bool> drains_now = servers_.Drain(request.name);
  if (!drains_now.ok()) return decisions_.AnswerNow(handle, drains_now.status());
  const ServerState& server = *servers_.FindByName(request.name);
  if (*drains_now) {
    Note(EventKind::kServerDraining, server, "an operator asked for it", now);
    moves_.OnServersChanged(now);
  }
  decisions_.Answer(handle, ServerDraining{.server = server.id,
                                           .registered_at_unix_ms = server.registered_at_unix_ms,
                                           .was_draining = !*drains_now,
                                           .groups_kept = GroupsWith(server)});
}

void ServerMembers::Answer(RequestHandle handle, const UndrainServer& request, Now now) {
  const absl::StatusOr<bool> drained = servers_.Undrain(request.name);
  if (!drained.ok()) return decisions_.AnswerNow(handle, drained.status());
  const ServerState& server = *servers_.FindByName(request.name);
  if (*drained) {
    Note(EventKind::kServerUndrained, server, "an operator asked it to stay", now);
  }
  decisions_.Answer(handle, ServerUndrained{.server = server.id, .was_draining = *drained});
}

void ServerMembers::Answer(RequestHandle handle, const EvictServer& request, Now now) {
  const absl::StatusOr<ServerState> evicted = servers_.Evict(request.name, now);
  if (!evicted.ok()) return decisions_.AnswerNow(handle, evicted.status());
  Note(EventKind::kServerEvicted, *evicted, evicted->reason, now);
  moves_.OnServersChanged(now);
  decisions_.Answer(handle, ServerEvicted{.server = evicted->id, .groups_kept = GroupsWith(*evicted)});
}

void ServerMembers::Tick(Now now) {
  const std::vector<ServerState> lost = servers_.ExpireLeases(now);
  for (const ServerState& server : lost) Note(EventKind::kServerLost, server, server.reason, now);
  if (!lost.empty()) moves_.OnServersChanged(now);
}

void ServerMembers::Note(EventKind kind, const ServerState& server, const std::string& reason, Now now) {
  decisions_.NoteChange();
  decisions_.Record(kind, absl::StrCat("server ", server.name), reason, now);
}

uint32_t ServerMembers::GroupsWith(const ServerState& server) const {
  const auto is_of_server = [&](const Shard& shard) {
    return shard.server == server.id && shard.incarnation == server.incarnation;
  };
  uint32_t groups = 0;
  for (const auto& [id, job] : jobs_.jobs()) {
    if (!job.open()) continue;
    for (const auto& [group_id, group] : job.groups.all()) {
      const std::vector<Shard>& shards = group.state().shards;
      if (group.state().NeedsServers() && std::any_of(shards.begin(), shards.end(), is_of_server)) ++groups;
    }
  }
  return groups;
}

}  // namespace shoal::scheduler
