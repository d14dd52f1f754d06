#include "scheduler/machine/group_requests.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

// Of an open job, no number of which is ever used again.
absl::Status CheckLive(const Job& job, const std::vector<JobRank>& ranks) {
  if (job.is_fixed()) return absl::OkStatus();
  for (const JobRank rank : ranks) {
    if (job.IsLive(rank)) continue;
    const std::string why = job.workers.contains(rank) ? job.DescribeGone(rank)
                                                       : absl::StrCat(job.Describe(rank), " is not there any more");
    return absl::AbortedError(absl::StrCat(why, "; ask for the group without it"));
  }
  return absl::OkStatus();
}

std::string GivenUpText(const GivenUpRequest& request) {
  return absl::StrCat("it gave its request for the group up", request.reason.empty() ? "" : ": ", request.reason);
}

}  // namespace

void GroupRequests::Answer(RequestHandle handle, const JoinGroup& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return decisions_.Answer(handle, job.status());
  if (absl::Status status = CheckRequest(request, (*job)->world_size); !status.ok()) {
    return decisions_.AnswerNow(handle, status);
  }
  const uint32_t min_ranks = request.options.has_value() ? request.options->min_ranks : 0;
  if (min_ranks > 0 && ((*job)->is_fixed() || min_ranks > request.ranks.size())) {
    return decisions_.AnswerNow(
        handle, absl::InvalidArgumentError(absl::StrCat("group \"", request.group_name, "\" of ", request.ranks.size(),
                                                        " ranks is to go on with ", min_ranks,
                                                        " of them: that takes as many ranks, and an open job")));
  }
  if ((*job)->phase == JobPhase::kFailed) return decisions_.Answer(handle, absl::AbortedError((*job)->failure));
  if (AnswerAgain(handle, request, **job, now)) return;
  if (absl::Status status = CheckLive(**job, request.ranks); !status.ok()) return decisions_.Answer(handle, status);
  Refuse(rounds_.Add(handle, request, now));
  OpenComplete(now);
}

bool GroupRequests::AnswerAgain(RequestHandle handle, const JoinGroup& request, const Job& job, Now now) {
  const JobGroup* const found =
      request.request_number == 0 ? nullptr : job.groups.FindByName(request.group_name, request.rank);
  if (found == nullptr) return false;
  const GroupState& group = found->state();
  if (group.RequestOf(request.rank) != GroupRequestId{request.incarnation, request.request_number}) return false;
  if (!group.failure.empty()) {
    decisions_.AnswerNow(handle, group.ends_with_aborted ? absl::AbortedError(group.failure)
                                                         : absl::ResourceExhaustedError(group.failure));
    return true;
  }
  if (group.lost.contains(request.rank)) {
    decisions_.Answer(handle, absl::AbortedError(absl::StrCat(
                                  "group \"", group.name, "\" goes on without ", job.Describe(request.rank),
                                  ": it was lost or gave the group up, or another rank of its node did")));
    return true;
  }
  const absl::StatusOr<ShardMap> map = ShardMap::Make(group.epoch, group.shards);
  if (!map.ok()) {
    decisions_.AnswerNow(handle, map.status());
    return true;
  }
  const auto place = std::find(group.ranks.begin(), group.ranks.end(), request.rank) - group.ranks.begin();
  opener_.TellOpened(handle, job, group, Rank(static_cast<uint32_t>(place)), std::make_shared<const ShardMap>(*map),
                     now);
  return true;
}

void GroupRequests::OpenComplete(Now now) {
  while (const std::optional<GroupRound> round = rounds_.TakeComplete(servers_, jobs_)) opener_.Open(*round, now);
}

void GroupRequests::Answer(RequestHandle handle, const CloseGroups& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return decisions_.Answer(handle, job.status());
  if (absl::Status status = CheckRequest(request); !status.ok()) return decisions_.AnswerNow(handle, status);
  TakeFailures(**job, request.rank, request.failures, now);
  ends_.NoteAllCommitted(**job, request.rank, request.committed_groups);
  for (const GroupId group : request.groups) ends_.Close(**job, group, request.rank, now);
  GiveUp(**job, request.rank, request.incarnation, request.given_up_requests, now);
  decisions_.Answer(handle, Done());
}

void GroupRequests::TakeFailures(const Job& job, JobRank rank, const std::vector<GroupFailure>& failures, Now now) {
  for (const GroupFailure& failure : failures) {
    const JobGroup* const group = job.groups.Find(failure.group);
    if (group == nullptr || !failure.others_go_on || !group->GoesOn()) {
      ends_.GiveUp(job, rank, {failure}, now);
    } else if (group->HasRank(rank) && !group->state().gone.contains(rank)) {
      moves_.OnRankGone(job, failure.group, rank, absl::StrCat(": ", CleanText(failure.reason)), now);
    }
  }
}

void GroupRequests::GiveUp(const Job& job, JobRank rank, Incarnation incarnation,
                           const std::vector<GivenUpRequest>& requests, Now now) {
  for (const GivenUpRequest& request : requests) {
    const GroupRequestId id{incarnation, request.number};
    const std::vector<GroupRounds::Failure> waited = rounds_.GiveUp(job.id, rank, id);
    Refuse(waited);
    for (const GroupRounds::Failure& each : waited) {
      ends_.NoteFailed(job.id, each.ranks, absl::StrCat(job.Describe(rank), ": ", CleanText(GivenUpText(request))));
    }
    const JobGroup* const opened = job.groups.FindOpenedBy(rank, id);
    if (opened == nullptr) continue;
    const GroupId group = opened->state().id;
    // The others may have it open, and would wait for this rank.
    if (opened->state().min_ranks > 0) {
      moves_.OnRankGone(job, group, rank, absl::StrCat(": ", CleanText(GivenUpText(request))), now);
      continue;
    }
    if (opened->state().ranks.size() > 1) {
      ends_.GiveUp(job, rank, {{group, GivenUpText(request)}}, now);
    }
    ends_.Close(job, group, rank, now);
  }
}

void GroupRequests::Fail(const std::vector<GroupRounds::Failure>& failures) {
  for (const GroupRounds::Failure& failure : failures) decisions_.Answer(failure.handle, failure.status);
}

void GroupRequests::Refuse(const std::vector<GroupRounds::Failure>& failures) {
  for (const GroupRounds::Failure& failure : failures) {
    if (failure.job != JobId()) {
      ends_.NoteFailed(failure.job, failure.ranks, std::string(failure.status.message()));
    }
    decisions_.AnswerNow(failure.handle, failure.status);
  }
}

}  // namespace shoal::scheduler
