// The part of SchedulerMachine that answers servers.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/loopback_address.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {
namespace {

EventKind RegistrationKind(ServerRegistry::Change change) {
  return change == ServerRegistry::Change::kNew        ? EventKind::kServerRegistered
         : change == ServerRegistry::Change::kReturned ? EventKind::kServerReturned
                                                       : EventKind::kServerReplaced;
}

}  // namespace

void SchedulerMachine::Answer(RequestHandle handle, const RegisterServer& request, Now now) {
  absl::Status status = CheckServersJob(request);
  if (status.ok()) status = CheckReach(request);
  if (!status.ok()) return RefuseServer(handle, request, status, now);
  const absl::StatusOr<ServerRegistry::Registration> registered = servers_.Register(request, now);
  if (!registered.ok()) return RefuseServer(handle, request, registered.status(), now);
  refused_servers_.Forget(request);
  const bool is_news = registered->change != ServerRegistry::Change::kNone;
  if (is_news) {
    saves_.NoteChange();
    const ServerState& server = *servers_.Find(registered->server);
    Record(RegistrationKind(registered->change), absl::StrCat("server ", server.name),
           absl::StrCat("node ", server.node, ", ", server.addresses.size(), " I/O threads, Shoal ",
                        server.software_version,
                        server.job == JobId() ? "" : absl::StrCat(", for job ", server.job.value(), " only")),
           now);
    jobs_.ForgetExclusions(registered->server);
    RebuildMap(now);
  }
  if (!saves_.all_saved()) servers_.HoldLease(registered->server, is_news, saves_.last_save_failed(), now);
  AfterSave(BeginServerLease{registered->server, request.incarnation});
  AfterSave(Reply{handle, Response(ServerRegistered{.server = registered->server,
                                                    .lease_ttl_ms = settings_.lease_ttl_ms,
                                                    .token_key = token_key_,
                                                    .epoch = map_->epoch(),
                                                    .is_colocated = settings_.is_colocated})});
  CompleteGroups(now);
}

void SchedulerMachine::RefuseServer(RequestHandle handle, const RegisterServer& request, const absl::Status& why,
                                    Now now) {
  // A colocated server's job is over, or its process is: nobody has to do anything.
  if (request.job != JobId()) return ReplyNow(handle, why);
  const std::string reason(why.message());
  // While the state can't be saved, events wait in memory.
  if (refused_servers_.Note(request, reason, now) && !saves_.last_save_failed()) {
    Record(EventKind::kServerRefused, absl::StrCat("server ", CleanText(request.name)),
           absl::StrCat("node ", CleanText(request.node), ": ", reason), now);
  }
  ReplyNow(handle, why);
}

// Ranks of other nodes would be led to their own node, and blame the server. Boot ids alone tell nodes apart for sure:
// a name may be chosen.
absl::Status SchedulerMachine::CheckReach(const RegisterServer& request) const {
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

absl::Status SchedulerMachine::CheckServersJob(const RegisterServer& request) const {
  if (request.job == JobId()) return absl::OkStatus();
  const Job* job = jobs_.Find(request.job);
  if (job != nullptr && job->open()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("server \"", CleanText(request.name), "\" is for job ",
                                                    request.job.value(),
                                                    ", which is not open here; its process has to join the job first"));
}

void SchedulerMachine::Answer(RequestHandle handle, const HeartbeatServer& request, Now now) {
  const absl::StatusOr<ServerRegistry::Renewal> renewal = servers_.Renew(request, now);
  if (!renewal.ok()) return Refuse(handle, renewal.status());
  if (renewal->freed_memory) MemoryWasFreed(request.server, now);
  for (const AbsentRankReport& absent : request.absent_ranks) jobs_.OnRankAbsent(absent, now);
  ReplyNow(handle, Response(ServerRenewed{.lease_ttl_ms = settings_.lease_ttl_ms,
                                          .epoch = published_->epoch(),
                                          .drain = servers_.Find(request.server)->draining,
                                          .is_colocated = settings_.is_colocated}));
  if (!renewal->is_back) return;
  RebuildMap(now);
  CompleteGroups(now);
}

void SchedulerMachine::Answer(RequestHandle handle, const DeregisterServer& request, Now now) {
  const absl::StatusOr<bool> was_live = servers_.Deregister(request, now);
  if (!was_live.ok()) return Refuse(handle, was_live.status());
  if (*was_live) {
    saves_.NoteChange();
    const ServerState& server = *servers_.Find(request.server);
    Record(EventKind::kServerLeft, absl::StrCat("server ", server.name), server.reason, now);
    RebuildMap(now);
  }
  AfterSave(Reply{handle, Response(Done())});
}

}  // namespace shoal::scheduler
