#include "server/machine/absent_ranks.h"

#include <algorithm>

#include "core/failure_detection.h"

namespace shoal {

void AbsentRanks::NoteScheduler(const SchedulerHeard& event, Now now) {
  lease_ttl_ns_ = event.lease_ttl_ns;  // may be shorter than before
  scheduler_heard_ns_ = now.monotonic_ns;
  scheduler_is_colocated_ = event.is_colocated;
  LookAgain();
}

void AbsentRanks::NoteSchedulerForgot(GroupTable* groups) {
  for (uint32_t index = 0; index < groups->cell_count(); ++index) {
    if (groups->at(index) != nullptr) groups->at(index)->ForgetScheduler();
  }
  LookAgain();
}

void AbsentRanks::LookAgain() {
  if (next_ns_ != kNoDeadline) next_ns_ = 0;
}

void AbsentRanks::MarkAbsent(ServerGroup* group, Rank rank, std::string because, Now now) {
  group->MarkAbsent(rank, now, std::move(because));
  ++noted_;
  next_ns_ = std::min(next_ns_, GiveUpTimeNs(*group, group->rank_state(rank)));
}

uint64_t AbsentRanks::GiveUpTimeNs(const ServerGroup& group, const ServerGroup::RankState& absent) const {
  if (group.unknown_to_scheduler()) return absent.absent_since_ns + lease_ttl_ns_;
  return std::max(absent.absent_since_ns, scheduler_heard_ns_) +
         ServerPatienceNs(lease_ttl_ns_, scheduler_is_colocated_);
}

std::vector<std::pair<uint32_t, Rank>> AbsentRanks::TakeOverdue(const GroupTable& groups, Now now) {
  std::vector<std::pair<uint32_t, Rank>> overdue;
  if (now.monotonic_ns < next_ns_) return overdue;
  next_ns_ = kNoDeadline;
  for (uint32_t index = 0; index < groups.cell_count(); ++index) {
    const ServerGroup* const group = groups.at(index);
    if (group == nullptr) continue;
    for (uint32_t r = 0; r < group->size(); ++r) {
      const ServerGroup::RankState& state = group->rank_state(Rank(r));
      if (state.presence != ServerGroup::Presence::kAbsent) continue;
      const uint64_t give_up_ns = GiveUpTimeNs(*group, state);
      if (now.monotonic_ns >= give_up_ns) {
        overdue.emplace_back(index, Rank(r));
      } else {
        next_ns_ = std::min(next_ns_, give_up_ns);
      }
    }
  }
  return overdue;
}

std::vector<AbsentRank> AbsentRanks::List(const GroupTable& groups) {
  std::vector<AbsentRank> absent;
  for (uint32_t index = 0; index < groups.cell_count(); ++index) {
    const ServerGroup* const group = groups.at(index);
    if (group == nullptr || group->failed() || !group->may_have_absent()) continue;
    for (uint32_t r = 0; r < group->size() && absent.size() < kMaxAbsentRanksListed; ++r) {
      if (!group->IsAbsent(Rank(r))) continue;
      const ServerGroup::RankState& state = group->rank_state(Rank(r));
      absent.push_back({.job = group->job(),
                        .group = group->id(),
                        .epoch = group->epoch(),
                        .rank = Rank(r),
                        .since_ns = state.absent_since_ns,
                        .because = state.absent_because});
    }
  }
  return absent;
}

}  // namespace shoal
