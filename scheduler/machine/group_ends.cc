#include "scheduler/machine/group_ends.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/rank_text.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {

EventIds IdsOf(const Job& job, const GroupState& group) {
  return {.job = job.id, .group = group.id, .epoch = group.epoch};
}

void GroupEnds::NoteFailed(JobId job, const std::vector<JobRank>& ranks, const std::string& why) {
  if (jobs_.At(job).NoteGroupFailed(ranks, why)) decisions_.NoteChange();
}

void GroupEnds::NoteWorks(JobId job, const std::vector<JobRank>& ranks) {
  if (jobs_.At(job).NoteGroupWorks(ranks)) decisions_.NoteChange();
}

void GroupEnds::GiveUp(const Job& job, JobRank rank, const std::vector<GroupFailure>& failures, Now now) {
  for (const GroupFailure& failure : failures) {
    JobGroup* const group = jobs_.At(job.id).groups.Find(failure.group);
    if (group == nullptr) continue;  // all have closed it, or another has taken its name
    const GroupState& state = group->state();
    // The first reason counts. A rank that is done with the group has no say in it.
    if (!group->HasRank(rank) || state.gone.contains(rank) || !state.failure.empty()) continue;
    // The number that the rank itself knows: a rail's members are among those of the whole group.
    const std::vector<JobRank>& ranks = state.RanksOfWhole();
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    const auto rank_of_group = Rank(static_cast<uint32_t>(place - ranks.begin()));
    const std::string who = RankOnNode(rank_of_group, ranks, job.NodesOf(ranks));
    Fail(job, state, absl::StrCat(who, ": ", CleanText(failure.reason)), failure.lacks_memory, now);
  }
}

void GroupEnds::Fail(const Job& job, const GroupState& group, const std::string& failure, bool lacks_memory, Now now) {
  decisions_.NoteChange();
  NoteFailed(job.id, group.RanksOfWhole(), absl::StrCat("group \"", group.name, "\": ", failure));
  decisions_.Record(EventKind::kGroupFailed, job.Describe(group), failure, now, IdsOf(job, group));
  for (JobGroup* const rail : jobs_.At(job.id).groups.RailsOf(group.name)) {
    if (!rail->Fail(failure, /*ends_with_aborted=*/!lacks_memory)) continue;
    PublishMapOf(job, rail->state());
  }
}

void GroupEnds::PublishMapOf(const Job& job, const GroupState& group) {
  if (std::optional<GroupMap> map = MapOf(group); map.has_value()) {
    decisions_.AfterSave(PublishGroupMap{job.id, *std::move(map)});
  }
}

// A rank that has closed the group is not there to tell the servers of its next map that it has all results. The ranks
// that would wait for that learn from the scheduler that nothing is missing: with the next map, or at once if the group
// has moved already, or can't.
void GroupEnds::NoteAllCommitted(const Job& job, JobRank rank, const std::vector<GroupId>& groups) {
  for (const GroupId id : groups) {
    JobGroup* const group = jobs_.At(job.id).groups.Find(id);
    if (group == nullptr || !group->HasRank(rank) || group->state().gone.contains(rank)) continue;
    if (!group->state().failure.empty() || !group->NoteAllCommitted()) continue;
    decisions_.NoteChange();
    const bool has_moved = group->state().epoch != group->state().opening.epoch;
    const bool is_told_with_its_closing = has_moved && group->state().ClosedCount() == 0;
    if (is_told_with_its_closing || (!has_moved && !group->WantsMove())) continue;
    PublishMapOf(job, group->state());
  }
}

void GroupEnds::Close(const Job& job, GroupId id, JobRank rank, Now now) {
  const JobGroup* const group = job.groups.Find(id);
  if (group == nullptr) return;  // said again, or another group has taken its name
  const std::string name = group->state().name;
  const std::vector<JobRank> ranks = group->state().RanksOfWhole();
  const bool has_failed = !group->state().failure.empty();
  if (!jobs_.At(job.id).groups.Close(id, rank)) return;
  decisions_.NoteChange();
  TellClosed(job, id);
  if (job.groups.HasName(name)) return;
  if (!has_failed) NoteWorks(job.id, ranks);
  decisions_.Record(EventKind::kGroupClosed, job.DescribeGroup(name), "all its ranks closed it", now, {.job = job.id});
}

// Servers that the group has moved to lately have not heard the rank leave it. Whoever misses it learns of the first
// such rank; an epoch without that one is without all others that have closed the group by then.
void GroupEnds::TellClosed(const Job& job, GroupId id) {
  const JobGroup* const group = job.groups.Find(id);
  if (group == nullptr || !group->state().failure.empty()) return;
  const GroupState& state = group->state();
  if (state.epoch != state.opening.epoch && state.ClosedCount() == 1) PublishMapOf(job, state);
}

}  // namespace shoal::scheduler
