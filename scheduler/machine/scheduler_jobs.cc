// The part of SchedulerMachine that lets ranks join, renew their leases and leave.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/colocation.h"
#include "scheduler/machine/node_reduce_decision.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

void SchedulerMachine::Answer(RequestHandle handle, const JoinJob& request, Now now) {
  JobId held_by;
  if (TryJoin(handle, request, now, &held_by)) return;
  if (held_joins_.full()) return ReplyNow(handle, jobs_.HolderError(held_by, request, now));
  held_joins_.Add({handle, request, held_by});
  TakeOverRanks(now);
}

bool SchedulerMachine::TryJoin(RequestHandle handle, const JoinJob& request, Now now, JobId* held_by) {
  const absl::StatusOr<JobRegistry::Joined> joined = jobs_.Join(request, now);
  if (!joined.ok()) {
    ReplyNow(handle, joined.status());
    return true;
  }
  *held_by = joined->job;
  if (joined->held) return false;
  if (joined->changed) saves_.NoteChange();
  const std::string subject = absl::StrCat("job \"", request.job_name, "\"");
  if (joined->started_job) {
    Record(EventKind::kJobStarted, subject,
           absl::StrCat("world size ", request.world_size, "; the first to join was rank ", request.rank.value(),
                        " on node ", CleanText(request.node)),
           now, {.job = joined->job});
  }
  const Job& job = *jobs_.Find(joined->job);
  if (joined->job_runs_now) {
    Record(EventKind::kJobRunning, subject, absl::StrCat("all ", request.world_size, " ranks joined"), now,
           {.job = joined->job});
    WarnOfSharedNodeName(job, now);
  }
  const NodePlace place = PlaceOf(job.workers.at(request.rank).state);
  const bool colocate_server =
      jobs_.AssignServer(joined->job, request.rank, joined->changed && WantsServer(request, place));
  if (!saves_.all_saved()) jobs_.HoldLease(joined->job, request.rank);
  AfterSave(BeginRankLease{joined->job, request.rank, request.incarnation});
  const auto server_count = static_cast<uint32_t>(servers_.ServersOf(joined->job).size());
  const bool needs_no_servers = jobs_.NeedsNoServers(joined->job);
  const bool has_to_wait = server_count < request.min_servers && !needs_no_servers;
  jobs_.NoteAwaitedServers(joined->job, request.rank, has_to_wait ? request.min_servers : 0);
  AfterSave(Reply{handle, Response(JobJoined{.job = joined->job,
                                             .lease_ttl_ms = settings_.lease_ttl_ms,
                                             .server_count = server_count,
                                             .colocate_server = colocate_server,
                                             .needs_no_servers = needs_no_servers})});
  return true;
}

// Plans tell such nodes apart; whoever reads an event or an error does not.
void SchedulerMachine::WarnOfSharedNodeName(const Job& job, Now now) {
  const std::optional<std::pair<JobRank, JobRank>> ranks = job.FindSharedNodeName();
  if (!ranks.has_value()) return;
  Record(EventKind::kNodeNameShared, absl::StrCat("job \"", job.name, "\""),
         absl::StrCat("ranks ", ranks->first.value(), " and ", ranks->second.value(),
                      " are on different nodes, and both are named ", job.workers.at(ranks->first).state.node,
                      ": events and errors that name it don't say which one is meant; give each node a host name of "
                      "its own"),
         now, {.job = job.id});
}

// How the shares turn out is decided for each group (core/server_weights.h); this only decides which ranks are asked.
bool SchedulerMachine::WantsServer(const JoinJob& request, const NodePlace& place) const {
  switch (*ColocationFromNumber(request.colocation)) {
    case Colocation::kOff:
      return false;
    case Colocation::kOn:
      return true;
    case Colocation::kAuto:
      break;
  }
  return servers_.dedicated_count() < CountPushers(request) && !servers_.AnyDedicatedOn(place);
}

void SchedulerMachine::RetryHeldJoins(Now now) {
  for (HeldJoin& each : held_joins_.TakeAll()) {
    if (!TryJoin(each.handle, each.request, now, &each.job)) held_joins_.Add(std::move(each));
  }
}

uint64_t SchedulerMachine::NextTakeOverNs() const {
  uint64_t next_ns = kNoDeadline;
  for (const HeldJoin& held : held_joins_.all()) {
    next_ns = std::min(next_ns, jobs_.TakeOverAtNs(held.job, held.request.rank));
  }
  return next_ns;
}

void SchedulerMachine::TakeOverRanks(Now now) {
  if (now.monotonic_ns < NextTakeOverNs()) return;
  for (const HeldJoin& held : held_joins_.all()) {
    if (now.monotonic_ns < jobs_.TakeOverAtNs(held.job, held.request.rank)) continue;
    const JobRegistry::Gone gone = jobs_.TakeOver(held.job, held.request, now);
    RankIsGone(gone, now);
    if (!gone.lost) NoteReplaced(gone, now);
  }
  RetryHeldJoins(now);
}

void SchedulerMachine::NoteReplaced(const JobRegistry::Gone& gone, Now now) {
  Record(EventKind::kRankReplaced, gone.who,
         absl::StrCat(gone.rank.reason, "; ranks of the job's next run have joined, and nobody misses this one"), now,
         {.job = gone.rank.job, .rank = gone.rank.rank.value()});
}

void SchedulerMachine::RefuseHeldJoins(JobId job, JobRank rank, Now now) {
  for (const HeldJoin& held : held_joins_.TakeFor(job, rank)) {
    ReplyNow(held.handle, jobs_.HolderError(held.job, held.request, now));
  }
}

void SchedulerMachine::Answer(RequestHandle handle, const HeartbeatWorker& request, Now now) {
  const absl::Status status = jobs_.Renew(request, now);
  if (!status.ok()) return Refuse(handle, status);
  ReplyNow(handle, Response(WorkerRenewed{.lease_ttl_ms = settings_.lease_ttl_ms,
                                          .waits = rounds_.LongWaits(request, servers_, jobs_, now)}));
  RefuseHeldJoins(request.job, request.rank, now);
}

void SchedulerMachine::Answer(RequestHandle handle, const LeaveJob& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return Refuse(handle, job.status());
  if (absl::Status status = CheckRequest(request); !status.ok()) return ReplyNow(handle, status);
  GiveGroupsUp(**job, request.rank, request.failures, now);
  GiveRequestsUp(**job, request.rank, request.incarnation, request.given_up_requests, now);
  NoteAllCommitted(**job, request.rank, request.committed_groups);
  const absl::StatusOr<JobRegistry::Gone> gone = jobs_.Leave(request, now);
  if (!gone.ok()) return Refuse(handle, gone.status());
  RankIsGone(*gone, now);
  AfterSave(Reply{handle, Response(Done())});
  RetryHeldJoins(now);
}

void SchedulerMachine::RankIsGone(const JobRegistry::Gone& gone, Now now) {
  saves_.NoteChange();
  actions_.push_back(RankGone{gone.rank.job, gone.rank.rank});
  const std::string job = absl::StrCat("job \"", gone.job_name, "\"");
  if (gone.lost) {
    Record(EventKind::kRankLost, gone.who, gone.rank.reason, now,
           {.job = gone.rank.job, .rank = gone.rank.rank.value()});
    AfterSave(PublishLost{gone.rank});
  }
  // What a lost rank hears to anything that it asks from now on (JobRegistry::FindMember).
  const absl::Status why = gone.lost ? absl::NotFoundError(absl::StrCat(gone.who, " is lost (", gone.rank.reason, ")"))
                                     : absl::CancelledError(absl::StrCat(gone.who, " left: ", gone.rank.reason));
  Refuse(rounds_.FailRank(gone.rank.job, gone.rank.rank, why));
  if (gone.failed_job_now) {
    Record(EventKind::kJobFailed, job, gone.failure, now, {.job = gone.rank.job});
    Refuse(rounds_.FailJob(gone.rank.job, absl::AbortedError(gone.failure)));
  }
  if (gone.ended_job_now) Record(EventKind::kJobEnded, job, "all ranks left", now, {.job = gone.rank.job});
}

}  // namespace shoal::scheduler
