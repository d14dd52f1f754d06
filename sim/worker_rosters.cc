// The part of WorkerProcess for open jobs: groups of whoever is there, one after the other.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/hash.h"
#include "core/node_parts.h"
#include "sim/worker_process.h"

namespace shoal::sim {

void WorkerProcess::WantMeeting() {
  const bool is_busy = groups_joined_ < groups_.size() || wants_meeting_ || shutting_down_ || !in_job_;
  if (is_busy) return;
  wants_meeting_ = true;
  const uint32_t node = place_.job.nodes.NodeOf(place_.rank, place_.job.ranks);
  ports_.rendezvous->Want(name(), job_id_, job_rank_, node, [this](const Meeting& meeting) {
    meeting_ = meeting;
    Wake();
  });
}

void WorkerProcess::TakeMeeting(Now now) {
  if (!meeting_.has_value() || shutting_down_) return;
  const Meeting meeting = *std::exchange(meeting_, std::nullopt);
  wants_meeting_ = false;
  if (meeting.members.empty() || is_lost_) return ShutDown(now);
  const JobProfile& job = place_.job;
  Group group{.name = absl::StrCat("meeting-", meeting.number), .most_ops = job.ops, .ranks = meeting.members};
  const auto place = std::ranges::find(group.ranks, job_rank_.value());
  group.rank = static_cast<uint32_t>(place - group.ranks.begin());
  group.order = OrderOfNodes(job.nodes, meeting.nodes, /*goes_on=*/job.min_ranks > 0);
  Random random(StableHash({profile_.seed, place_.run, place_.rank, meeting.number}));
  if (random.Chance(job.leaves_per_million)) group.leaves_after = random.Below(job.ops);
  groups_.push_back(std::move(group));
}

// What ends the membership of a rank, or keeps it out of a group, is the end of this process: another one comes.
void WorkerProcess::IsLost() {
  is_lost_ = true;
  MayEnd();
  for (Group& group : groups_) group.over = true;
  Wake();
}

void WorkerProcess::MayEnd() {
  if (place_.job.is_open() && in_job_) ports_.roster_checks->MayEnd(place_.run, job_rank_.value());
}

void WorkerProcess::NoteHit() {
  was_hit_ = true;
  MayEnd();
}

std::vector<uint32_t> WorkerProcess::Group::MembersOnNode() const {
  std::vector<uint32_t> members;
  for (const std::vector<uint32_t>& sum : order.sums) {
    if (std::ranges::find(sum, rank) == sum.end()) continue;
    for (const uint32_t each : sum) members.push_back(ranks[each]);
  }
  return members;
}

void WorkerProcess::OnRefusedGroup(const absl::Status& status) {
  world().TraceText(name(), ": no group: ", status.ToString());
  ports_.checkers->CheckCode(absl::StrCat(name(), ", join group"), status);
  Group& group = groups_[groups_joined_++];
  group.over = true;
  group.closed = true;
  MayEnd();
  ports_.roster_checks->Refused(place_.run, name(), was_hit_, status);
  if (absl::IsFailedPrecondition(status)) IsLost();
}

void WorkerProcess::GiveUpAsLost() {
  if (shutting_down_ || finished_) return;
  NoteHit();
  gave_up_ = true;
  shutting_down_ = true;
  ports_.rendezvous->Go(name());
  commands_.emplace_back(GiveUpCommand{kGaveUp});
  commands_.emplace_back(ShutdownCommand{LocalNow().monotonic_ns + 2 * kNsPerS});
  membership_commands_.emplace_back(LeaveCommand{.reason = kGaveUp, .failed = true});
  Wake();
}

OpOfRoster WorkerProcess::OfRoster(const Group& group, uint64_t number, const OpPlan& plan) const {
  const GroupInfo& info = *group.info;
  std::vector<PartOfOp> parts;
  const uint32_t rails = info.rail == nullptr ? 1 : info.local_size();
  for (uint32_t rail = 0; rail < rails; ++rail) {
    const ElementRange elements =
        rails == 1 ? ElementRange{.first = 0, .count = plan.elements} : NodePart(plan.elements, rails, rail);
    const GroupInfo& reduces = info.rail == nullptr ? info : *info.rail;
    parts.push_back({elements, OpLayout::Make(reduces, elements.count, plan.dtype).value().plan()});
  }
  return {.run = place_.run,
          .group = info.rail == nullptr ? info.id : info.whole_group,
          .name = group.name,
          .members = group.ranks,
          .rank = group.rank,
          .number = number,
          .plan = plan,
          .order = group.order,
          .parts = std::move(parts),
          .goes_on = info.min_ranks > 0,
          .scales_sums = info.scales_sums,
          .was_hit = was_hit_};
}

}  // namespace shoal::sim
