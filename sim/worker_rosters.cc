// The part of WorkerProcess for open jobs: groups of whoever is there, one after the other.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/hash.h"
#include "sim/worker_process.h"

namespace shoal::sim {

void WorkerProcess::WantMeeting() {
  const bool is_busy = groups_joined_ < groups_.size() || wants_meeting_ || shutting_down_ || !in_job_;
  if (is_busy) return;
  wants_meeting_ = true;
  ports_.rendezvous->Want(name(), job_id_, job_rank_, [this](const Meeting& meeting) {
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
  Random random(StableHash({profile_.seed, place_.run, place_.rank, meeting.number}));
  if (random.Chance(job.leaves_per_million)) group.leaves_after = random.Below(job.ops);
  groups_.push_back(std::move(group));
}

// What ends the membership of a rank, or keeps it out of a group, is the end of this process: another one comes.
void WorkerProcess::IsLost() {
  is_lost_ = true;
  for (Group& group : groups_) group.over = true;
  Wake();
}

void WorkerProcess::OnRefusedGroup(const absl::Status& status) {
  world().TraceText(name(), ": no group: ", status.ToString());
  ports_.checkers->CheckCode(absl::StrCat(name(), ", join group"), status);
  Group& group = groups_[groups_joined_++];
  group.over = true;
  group.closed = true;
  ports_.roster_checks->Refused(place_.run, name(), was_hit_, status);
  if (absl::IsFailedPrecondition(status)) IsLost();
}

void WorkerProcess::GiveUpAsLost() {
  if (shutting_down_ || finished_) return;
  was_hit_ = true;
  gave_up_ = true;
  shutting_down_ = true;
  ports_.rendezvous->Go(name());
  commands_.emplace_back(GiveUpCommand{kGaveUp});
  commands_.emplace_back(ShutdownCommand{LocalNow().monotonic_ns + 2 * kNsPerS});
  membership_commands_.emplace_back(LeaveCommand{.reason = kGaveUp, .failed = true});
  Wake();
}

OpOfRoster WorkerProcess::OfRoster(const Group& group, uint64_t number, const OpPlan& plan) const {
  return {.run = place_.run,
          .group = group.id,
          .name = group.name,
          .members = group.ranks,
          .rank = group.rank,
          .number = number,
          .plan = plan,
          .chunks = OpLayout::Make(*group.info, plan.elements, plan.dtype).value().plan(),
          .goes_on = group.info->min_ranks > 0,
          .scales_sums = group.info->scales_sums,
          .was_hit = was_hit_};
}

}  // namespace shoal::sim
