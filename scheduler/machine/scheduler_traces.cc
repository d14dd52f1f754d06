// The part of SchedulerMachine that traces a job for an operator.
//
// Members are asked with the answers to their heartbeats, as those come to all of them and soon enough. The servers are
// those of the job's open groups when it begins.
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"
#include "core/failure_detection.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

// A large job may have more members than take part: its servers come first, as there are few of them.
std::vector<TracedMember> SchedulerMachine::MembersToTrace(const Job& job, TraceKind kind) const {
  std::set<ServerId> used;
  for (const auto& [id, group] : job.groups.all()) {
    if (kind == TraceKind::kDigests) break;  // servers have no results
    for (const Shard& shard : group.state().shards) used.insert(shard.server);
  }
  std::vector<TracedMember> members;
  for (const ServerId id : used) {
    const ServerState* const server = FindLive(id);
    if (server == nullptr) continue;
    for (uint32_t i = 0; i < server->addresses.size(); ++i) {
      members.push_back({.name = absl::StrCat("I/O thread ", i, " of server ", server->name),
                         .id = {.server = id, .incarnation = server->incarnation},
                         .io_thread = i});
    }
  }
  for (const auto& [rank, worker] : job.workers) {
    if (worker.state.phase != MemberPhase::kLive) continue;
    members.push_back({.name = absl::StrCat("rank ", rank.value(), " on ", worker.state.node),
                       .id = {.job = job.id, .rank = rank, .incarnation = worker.state.incarnation}});
  }
  return members;
}

void SchedulerMachine::Answer(RequestHandle handle, const TraceJob& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindOpen(request.name, "trace");
  if (!job.ok()) return ReplyNow(handle, job.status());
  if (request.kind >= kTraceKinds) {
    return ReplyNow(handle, absl::InvalidArgumentError(absl::StrCat("this scheduler does not know traces of kind ",
                                                                    request.kind, "; update it")));
  }
  const auto kind = static_cast<TraceKind>(request.kind);
  // A heartbeat may be a little late.
  const uint64_t begun_in_ms = HeartbeatPeriodNs(lease_ttl_ns()) * 5 / 4 / kNsPerMs;
  const absl::StatusOr<TraceStarted> started =
      traces_.Start(**job, kind, MembersToTrace(**job, kind), request.duration_ms, begun_in_ms, now);
  if (!started.ok()) return ReplyNow(handle, started.status());
  Record(EventKind::kJobTraced, absl::StrCat("job \"", (*job)->name, "\""),
         absl::StrCat(kind == TraceKind::kDigests ? "an operator has the results of its ranks compared for "
                                                  : "an operator has it recorded for ",
                      Seconds(request.duration_ms * kNsPerMs)),
         now, {.job = (*job)->id});
  ReplyNow(handle, Response(*started));
}

void SchedulerMachine::Answer(RequestHandle handle, const SendTrace& request, Now) {
  if (absl::Status status = traces_.Take(request); !status.ok()) return ReplyNow(handle, status);
  ReplyNow(handle, Response(Done()));
}

void SchedulerMachine::Answer(RequestHandle handle, const GetTrace& request, Now now) {
  const auto is_gone = [this](const TraceMemberId& id) {
    if (id.job != JobId()) return !jobs_.FindMember(id.job, id.rank, id.incarnation).ok();
    const ServerState* const server = FindLive(id.server);
    return server == nullptr || server->incarnation != id.incarnation;
  };
  absl::StatusOr<TraceView> view = traces_.View(request, is_gone, now);
  if (!view.ok()) return ReplyNow(handle, view.status());
  ReplyNow(handle, Response(*std::move(view)));
}

}  // namespace shoal::scheduler
