#include "scheduler/insight/partial_ops.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal::scheduler {
namespace {

// `group`: nullptr, if it was closed meanwhile.
bool IsPossible(const PartialOp& op, JobRank rank, const GroupState* group) {
  uint64_t next = 0;
  for (const ContributedRange& range : op.ranges) {
    const bool has_elements = range.first == next && range.count > 0 && range.count <= UINT64_MAX - next;
    if (!has_elements || range.contributors == 0) return false;
    next += range.count;
  }
  if (op.ranges.empty()) return false;
  if (group == nullptr) return true;
  const std::vector<JobRank>& ranks = group->RanksOfWhole();
  const auto takes_part = [&](const ContributedRange& range) { return range.contributors <= ranks.size(); };
  return std::ranges::find(ranks, rank) != ranks.end() && std::ranges::all_of(op.ranges, takes_part);
}

// "op 41 of epoch 7: elements 0 to 4095 have the contributions of 4 ranks, 4096 to 9999 of 3".
std::string TextOf(const PartialOp& op) {
  std::string text = absl::StrCat("op ", op.op.value(), " of epoch ", op.epoch.value());
  if (op.ranges.size() == 1) {
    const uint32_t contributors = op.ranges.front().contributors;
    return absl::StrCat(text, " and those after it: all elements have the contributions of ", contributors,
                        contributors == 1 ? " rank" : " ranks");
  }
  bool is_first = true;
  for (const ContributedRange& range : op.ranges) {
    absl::StrAppend(&text, is_first ? ": elements " : ", ", range.first, " to ", range.first + range.count - 1,
                    is_first ? " have the contributions of " : " of ", range.contributors, is_first ? " ranks" : "");
    is_first = false;
  }
  return op.is_cut ? absl::StrCat(text, ", and so on in turns") : text;
}

std::string TextOfMissing(const GroupState& group) {
  std::vector<uint32_t> missing;
  for (uint32_t i = 0; i < group.ranks.size(); ++i) {
    if (!group.lost.contains(group.ranks[i])) continue;
    // With rails a node is lost as a whole.
    const std::vector<Rank> lost =
        group.rail.has_value() ? group.rail->layout.RanksOfNode(i) : std::vector<Rank>{Rank(i)};
    for (const Rank rank : lost) missing.push_back(rank.value());
  }
  if (missing.empty()) return "";
  std::ranges::sort(missing);
  return absl::StrCat("; the group is without rank ", absl::StrJoin(missing, ", "), " now");
}

}  // namespace

void PartialOps::Hear(const Job& job, const Process& process, const std::vector<PartialOp>& ops,
                      SchedulerActions* actions) {
  if (ops.empty()) return;
  Newest& newest = newest_[process.rank];
  if (newest.incarnation != process.incarnation) newest = {.incarnation = process.incarnation};
  for (const PartialOp& op : ops) {
    if (op.number <= newest.number) continue;
    newest.number = op.number;
    const JobGroup* const open = job.groups.Find(op.group);
    const GroupState* const group = open == nullptr ? nullptr : &open->state();
    if (!IsPossible(op, process.rank, group) || !IsNew(op.group, op.op)) continue;
    const std::string who = group == nullptr ? absl::StrCat("group ", op.group.value(), " of job \"", job.name, "\"")
                                             : job.DescribeGroup(group->name);
    actions->push_back(Observed{EventKind::kOpLacksRanks,
                                who,
                                absl::StrCat(TextOf(op), group == nullptr ? "" : TextOfMissing(*group)),
                                {.job = job.id, .group = op.group, .epoch = op.epoch}});
  }
}

bool PartialOps::IsNew(GroupId group, OpNumber op) {
  const std::pair<GroupId, OpNumber> told(group, op);
  if (std::ranges::find(recorded_, told) != recorded_.end()) return false;
  if (recorded_.size() == kMostRecorded) recorded_.pop_front();
  recorded_.push_back(told);
  return true;
}

}  // namespace shoal::scheduler
