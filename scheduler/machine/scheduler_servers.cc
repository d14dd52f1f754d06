// The part of SchedulerMachine that answers servers.
#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {
namespace {

// Of one heartbeat: those of several I/O threads.
constexpr size_t kMaxLateRanksTaken = 2048;

EventKind RegistrationKind(ServerRegistry::Change change) {
  return change == ServerRegistry::Change::kNew        ? EventKind::kServerRegistered
         : change == ServerRegistry::Change::kReturned ? EventKind::kServerReturned
                                                       : EventKind::kServerReplaced;
}

}  // namespace

void SchedulerMachine::Answer(RequestHandle handle, const RegisterServer& request, Now now) {
  if (absl::Status status = CheckServersJob(request); !status.ok()) return ReplyNow(handle, status);
  const absl::StatusOr<ServerRegistry::Registration> registered = servers_.Register(request, now);
  if (!registered.ok()) return ReplyNow(handle, registered.status());
  if (registered->change != ServerRegistry::Change::kNone) {
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
  if (!saves_.all_saved()) servers_.HoldLease(registered->server);
  AfterSave(BeginServerLease{registered->server, request.incarnation});
  AfterSave(Reply{handle, Response(ServerRegistered{.server = registered->server,
                                                    .lease_ttl_ms = settings_.lease_ttl_ms,
                                                    .token_key = token_key_,
                                                    .epoch = map_->epoch(),
                                                    .is_colocated = settings_.is_colocated})});
  CompleteGroups(now);
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
  const uint64_t used_before_bytes = servers_.slot_memory_used_bytes(request.server);
  const absl::StatusOr<bool> is_back = servers_.Renew(request, now);
  if (!is_back.ok()) return Refuse(handle, is_back.status());
  if (request.load.slot_memory_used_bytes < used_before_bytes) MemoryWasFreed(request.server, now);
  for (const AbsentRankReport& absent : request.absent_ranks) jobs_.OnRankAbsent(absent, now);
  std::set<JobId> jobs;
  const size_t taken = std::min(request.late_ranks.size(), kMaxLateRanksTaken);
  for (const LateRankReport& late : std::span(request.late_ranks).first(taken)) {
    jobs_.OnRankLate(*servers_.Find(request.server), late, now);
    jobs.insert(late.job);
  }
  for (const JobId job : jobs) TellSlow(job, now);
  ReplyNow(handle, Response(ServerRenewed{.lease_ttl_ms = settings_.lease_ttl_ms,
                                          .epoch = published_->epoch(),
                                          .drain = servers_.Find(request.server)->draining,
                                          .is_colocated = settings_.is_colocated,
                                          .trace = traces_.RequestFor(
                                              {.server = request.server, .incarnation = request.incarnation}, now)}));
  if (!*is_back) return;
  RebuildMap(now);
  CompleteGroups(now);
}

void SchedulerMachine::Answer(RequestHandle handle, const DeregisterServer& request, Now now) {
  const absl::StatusOr<bool> was_live = servers_.Deregister(request);
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
