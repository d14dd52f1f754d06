// The part of ServerMachine that gives back the memory of groups that are over, and lists the open ones.
#include <algorithm>

#include "server/machine/server_machine.h"

namespace shoal {

// A rank of a failed group whose process hangs never leaves it, and its connection may look healthy for hours.
void ServerMachine::ReleaseFailed(Now now, ServerActions* actions) {
  next_release_ns_ = kNoDeadline;
  for (uint32_t index = 0; index < groups_.size(); ++index) {
    if (groups_[index].group == nullptr || !groups_[index].group->failed()) continue;
    ServerGroup& group = *groups_[index].group;
    const uint64_t release_at_ns = group.ReleaseTimeNs(now, kFailedGroupPatienceNs);
    if (now.monotonic_ns < release_at_ns) {
      next_release_ns_ = std::min(next_release_ns_, release_at_ns);
      continue;
    }
    for (uint32_t r = 0; r < group.size(); ++r) {
      const ServerGroup::RankState& state = group.rank_state(Rank(r));
      if (state.presence == ServerGroup::Presence::kPresent) {
        std::erase_if(peers_[state.peer].ranks,
                      [&](const RankInGroup& joined) { return joined.group_index == index && joined.rank == Rank(r); });
      }
      if (state.presence != ServerGroup::Presence::kExpected) RankGone(index, Rank(r), actions);
    }
    ReleaseIfOver(index, actions);
  }
}

// A group is over when no rank is in it and the network is done with its memory. Ranks whose connection broke are not
// waited for: nobody here waits for them, and they can give again whatever this server had from them (invariant I3).
void ServerMachine::ReleaseIfOver(uint32_t group_index, ServerActions* actions) {
  GroupCell& cell = groups_[group_index];
  if (cell.group == nullptr || cell.group->AnyPresent() || !cell.group->AllSlotsIdle()) return;
  if (cell.group->failed()) {
    if (ended_groups_.size() >= kMaxEndedGroups) ended_groups_.pop_front();
    ended_groups_.push_back({cell.group->id(), cell.group->epoch(), cell.group->failure_of(),
                             cell.group->failure_refusal(), cell.group->failure()});
  }
  LogGroup(EventKind::kShardGroupClosed, *cell.group, std::nullopt,
           cell.group->failed() ? "it had failed" : "no rank is in it any more", actions);
  actions->push_back(ForgetInputsAction{.offset = cell.group->slot_region(), .bytes = cell.group->region_bytes()});
  pool_.Free(cell.group->slot_region());
  group_index_.erase(cell.group->id());
  cell.group.reset();
}

OpenGroups ServerMachine::open_groups() const {
  OpenGroups open;
  for (const GroupCell& cell : groups_) {
    if (cell.group == nullptr) continue;
    ServedGroup& group = open[cell.group->id()];
    group.job = cell.group->job();
    for (uint32_t r = 0; r < cell.group->size(); ++r) {
      const ServerGroup::Presence presence = cell.group->rank_state(Rank(r)).presence;
      if (presence == ServerGroup::Presence::kPresent || presence == ServerGroup::Presence::kAbsent) {
        group.ranks.insert(Rank(r));
      }
    }
  }
  return open;
}

}  // namespace shoal
