#include "scheduler/machine/rank_members.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/colocation.h"
#include "scheduler/machine/node_reduce_decision.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {

ConnectionTicket RankMembers::Ticket(const TicketHolder& holder, Now now) const {
  return IssueTicket(settings_.token_key, KeyPeriodAt(now), holder, settings_.encrypt);
}

void RankMembers::Answer(RequestHandle handle, const JoinJob& request, Now now) {
  if (settings_.encrypt && !request.can_encrypt) {
    return decisions_.AnswerNow(
        handle, absl::FailedPreconditionError(absl::StrCat(
                    "the cluster encrypts what travels between nodes, and rank ", request.rank.value(), " of job \"",
                    CleanText(request.job_name),
                    "\" can't: set SHOAL_TRANSPORTS=tcp for it, or start the scheduler without --encrypt")));
  }
  JobId held_by;
  if (TryJoin(handle, request, now, &held_by)) return;
  if (held_joins_.size() >= kMaxHeldJoins) {
    return decisions_.AnswerNow(handle, jobs_.At(held_by).HolderError(request, now));
  }
  held_joins_.push_back({handle, request, held_by});
  TakeOver(now);
}

bool RankMembers::TryJoin(RequestHandle handle, const JoinJob& request, Now now, JobId* held_by) {
  const absl::StatusOr<JobRegistry::Joined> joined = jobs_.Join(request, now);
  if (!joined.ok()) {
    decisions_.AnswerNow(handle, joined.status());
    return true;
  }
  *held_by = joined->job;
  if (joined->held) return false;
  if (joined->changed) decisions_.NoteChange();
  const std::string subject = absl::StrCat("job \"", request.job_name, "\"");
  Job& job = jobs_.At(joined->job);
  const JobRank rank = joined->rank;
  if (joined->started_job) {
    const std::string size = job.is_fixed() ? absl::StrCat("world size ", job.world_size)
                                            : absl::StrCat("open, with ", job.min_ranks, " ranks at least");
    decisions_.Record(
        EventKind::kJobStarted, subject,
        absl::StrCat(size, "; the first to join was rank ", rank.value(), " on node ", CleanText(request.node)), now,
        {.job = joined->job});
  }
  if (joined->changed)
    RecordRoster(job, absl::StrCat("rank ", rank.value(), " joined from node ", CleanText(request.node)), now);
  if (joined->job_runs_now) {
    decisions_.Record(EventKind::kJobRunning, subject, absl::StrCat("all ", job.size(), " ranks joined"), now,
                      {.job = joined->job});
    WarnOfSharedNodeName(job, now);
  }
  const NodePlace place = PlaceOf(job.workers.at(rank).state);
  const bool colocate_server = job.AssignServer(rank, joined->changed && WantsServer(request, place));
  if (!decisions_.all_saved()) jobs_.HoldLease(joined->job, rank);
  decisions_.AfterSave(BeginRankLease{joined->job, rank, request.incarnation});
  const auto server_count = static_cast<uint32_t>(servers_.ServersOf(joined->job).size());
  const bool needs_no_servers = job.NeedsNoServers();
  const bool has_to_wait = server_count < request.min_servers && !needs_no_servers;
  job.NoteAwaitedServers(rank, has_to_wait ? request.min_servers : 0);
  decisions_.Answer(handle, JobJoined{.job = joined->job,
                                      .rank = rank,
                                      .lease_ttl_ms = settings_.lease_ttl_ms,
                                      .server_count = server_count,
                                      .colocate_server = colocate_server,
                                      .needs_no_servers = needs_no_servers,
                                      .ticket = Ticket({joined->job, rank, request.incarnation}, now)});
  return true;
}

void RankMembers::RecordRoster(const Job& job, const std::string& change, Now now) {
  if (job.is_fixed()) return;
  decisions_.Record(EventKind::kRosterChanged, absl::StrCat("job \"", job.name, "\""),
                    absl::StrCat(change, "; ", job.DescribeRoster()), now, {.job = job.id});
}

// Plans tell such nodes apart; whoever reads an event or an error does not.
void RankMembers::WarnOfSharedNodeName(const Job& job, Now now) {
  const std::optional<std::pair<JobRank, JobRank>> ranks = job.FindSharedNodeName();
  if (!ranks.has_value()) return;
  decisions_.Record(
      EventKind::kNodeNameShared, absl::StrCat("job \"", job.name, "\""),
      absl::StrCat("ranks ", ranks->first.value(), " and ", ranks->second.value(),
                   " are on different nodes, and both are named ", job.workers.at(ranks->first).state.node,
                   ": events and errors that name it don't say which one is meant; give each node a host name of "
                   "its own"),
      now, {.job = job.id});
}

// How the shares turn out is decided for each group (core/server_weights.h); this only decides which ranks are asked.
bool RankMembers::WantsServer(const JoinJob& request, const NodePlace& place) const {
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

void RankMembers::RetryHeldJoins(Now now) {
  for (HeldJoin& each : std::exchange(held_joins_, {})) {
    if (!TryJoin(each.handle, each.request, now, &each.job)) held_joins_.push_back(std::move(each));
  }
}

void RankMembers::Forget(RequestHandle handle) {
  std::erase_if(held_joins_, [&](const HeldJoin& held) { return held.handle == handle; });
}

uint64_t RankMembers::TakeOverAtNs(const HeldJoin& held) const {
  const Job* const job = jobs_.Find(held.job);
  return job == nullptr ? kNoDeadline : job->TakeOverAtNs(held.request.rank);
}

uint64_t RankMembers::NextDeadlineNs() const {
  uint64_t next_ns = jobs_.next_expiry_ns();
  for (const HeldJoin& held : held_joins_) next_ns = std::min(next_ns, TakeOverAtNs(held));
  return next_ns;
}

void RankMembers::Tick(Now now) {
  const auto is_awaited = [this](JobId job, JobRank rank) {
    return std::ranges::any_of(held_joins_,
                               [&](const HeldJoin& held) { return held.job == job && held.request.rank == rank; });
  };
  const std::vector<JobRegistry::Gone> gone = jobs_.ExpireLeases(is_awaited, now);
  for (const JobRegistry::Gone& each : gone) OnEnded(each, now);
  if (!gone.empty()) RetryHeldJoins(now);
  TakeOver(now);
}

void RankMembers::TakeOver(Now now) {
  bool any = false;
  for (const HeldJoin& held : held_joins_) {
    if (now.monotonic_ns < TakeOverAtNs(held)) continue;
    any = true;
    OnEnded(jobs_.TakeOver(held.job, held.request, now), now);
  }
  if (any) RetryHeldJoins(now);
}

void RankMembers::OnEnded(const JobRegistry::Gone& gone, Now now) {
  OnGone(gone, now);
  if (gone.lost) return;
  decisions_.Record(
      EventKind::kRankReplaced, gone.who,
      absl::StrCat(gone.rank.reason, "; ranks of the job's next run have joined, and nobody misses this one"), now,
      {.job = gone.rank.job, .rank = gone.rank.rank.value()});
}

void RankMembers::Answer(RequestHandle handle, const HeartbeatWorker& request, Now now) {
  const absl::Status status = jobs_.Renew(request, now);
  if (!status.ok()) return decisions_.Answer(handle, status);
  decisions_.AnswerNow(handle, WorkerRenewed{.lease_ttl_ms = settings_.lease_ttl_ms,
                                             .waits = groups_.rounds().LongWaits(request, servers_, jobs_, now),
                                             .ticket = Ticket({request.job, request.rank, request.incarnation}, now)});
  std::erase_if(held_joins_, [&](const HeldJoin& held) {
    if (held.job != request.job || held.request.rank != request.rank) return false;
    decisions_.AnswerNow(held.handle, jobs_.At(held.job).HolderError(held.request, now));
    return true;
  });
}

void RankMembers::Answer(RequestHandle handle, const LeaveJob& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return decisions_.Answer(handle, job.status());
  if (absl::Status status = CheckRequest(request); !status.ok()) return decisions_.AnswerNow(handle, status);
  groups_.TakeFailures(**job, request.rank, request.failures, now);
  groups_.GiveUp(**job, request.rank, request.incarnation, request.given_up_requests, now);
  ends_.NoteAllCommitted(**job, request.rank, request.committed_groups);
  const absl::StatusOr<JobRegistry::Gone> gone = jobs_.Leave(request, now);
  if (!gone.ok()) return decisions_.Answer(handle, gone.status());
  OnGone(*gone, now);
  decisions_.Answer(handle, Done());
  RetryHeldJoins(now);
}

void RankMembers::Answer(RequestHandle handle, const GetTicket&, Now now) {
  decisions_.AnswerNow(handle, TicketIssued{Ticket({}, now)});
}

void RankMembers::OnGone(const JobRegistry::Gone& gone, Now now) {
  decisions_.NoteChange();
  decisions_.AtOnce(RankGone{gone.rank.job, gone.rank.rank});
  const std::string job = absl::StrCat("job \"", gone.job_name, "\"");
  if (gone.lost) {
    decisions_.Record(EventKind::kRankLost, gone.who, gone.rank.reason, now,
                      {.job = gone.rank.job, .rank = gone.rank.rank.value()});
    decisions_.AfterSave(PublishLost{gone.rank});
  }
  // What a lost rank hears to anything that it asks from now on (JobRegistry::FindMember).
  const absl::Status why = gone.lost ? absl::NotFoundError(absl::StrCat(gone.who, " is lost (", gone.rank.reason, ")"))
                                     : absl::CancelledError(absl::StrCat(gone.who, " left: ", gone.rank.reason));
  groups_.FailRank(gone.rank.job, gone.rank.rank, why);
  // With many jobs that end at the same moment it may be forgotten by now.
  const Job* const of_rank = jobs_.Find(gone.rank.job);
  if (of_rank != nullptr && !of_rank->is_fixed()) {
    groups_.FailAllWith(of_rank->id, gone.rank.rank,
                        absl::AbortedError(absl::StrCat(why.message(), "; ask for the group without it")));
    RecordRoster(*of_rank, absl::StrCat("rank ", gone.rank.rank.value(), gone.lost ? " was lost" : " left"), now);
  }
  if (gone.lost) {
    moves_.OnRankLost(gone.rank.job, gone.going_on, now);
  } else if (of_rank != nullptr) {
    for (const GroupId group : gone.groups) ends_.TellClosed(*of_rank, group);
  }
  if (gone.failed_job_now) {
    decisions_.Record(EventKind::kJobFailed, job, gone.failure, now, {.job = gone.rank.job});
    groups_.FailJob(gone.rank.job, absl::AbortedError(gone.failure));
  }
  if (gone.ended_job_now) decisions_.Record(EventKind::kJobEnded, job, "all ranks left", now, {.job = gone.rank.job});
}

void RankMembers::Answer(RequestHandle handle, const AbortJob& request, Now now) {
  const absl::StatusOr<const Job*> found = jobs_.FindOpen(request.name, "abort");
  if (!found.ok()) return decisions_.AnswerNow(handle, found.status());
  const Job& job = **found;
  jobs_.At(job.id).Abort(request.reason);
  decisions_.NoteChange();
  decisions_.Record(EventKind::kJobAborted, absl::StrCat("job \"", job.name, "\""), job.failure, now, {.job = job.id});
  groups_.FailJob(job.id, absl::AbortedError(job.failure));
  JobAborted aborted{.job = job.id, .live_ranks = static_cast<uint32_t>(job.live_count)};
  for (const auto& [group_id, group] : job.groups.all()) {
    // All rails of a group fail with the first.
    if (!group.state().failure.empty()) continue;
    ends_.Fail(job, group.state(), job.failure, /*lacks_memory=*/false, now);
    ++aborted.groups_failed;
  }
  decisions_.Answer(handle, aborted);
  // Processes that waited for a rank of it start a new job.
  RetryHeldJoins(now);
}

}  // namespace shoal::scheduler
