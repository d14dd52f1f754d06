// The part of ServerMachine that gives the memory of groups back, and says which are open.
#include <algorithm>

#include "server/machine/server_machine.h"

namespace shoal {

// A member of a failed group that stands still never leaves it, and its connection may look well for hours.
void ServerMachine::ReleaseFailed(Now now, ServerActions* actions) {
  next_release_ns_ = kNoDeadline;
  for (uint32_t index = 0; index < groups_.size(); ++index) {
    if (groups_[index].group == nullptr || !groups_[index].group->failed) continue;
    ServerGroup& group = *groups_[index].group;
    if (group.release_at_ns == kNoDeadline) group.release_at_ns = now.monotonic_ns + kFailedGroupPatienceNs;
    if (now.monotonic_ns < group.release_at_ns) {
      next_release_ns_ = std::min(next_release_ns_, group.release_at_ns);
      continue;
    }
    for (uint32_t r = 0; r < group.size(); ++r) {
      const ServerGroup::Member& member = group.members[r];
      if (member.presence == ServerGroup::Presence::kPresent) {
        std::erase_if(peers_[member.peer].memberships, [&](const Membership& membership) {
          return membership.group_index == index && membership.rank == Rank(r);
        });
      }
      if (member.presence != ServerGroup::Presence::kAbsent) MemberGone(index, Rank(r), actions);
    }
    ReleaseIfOver(index, actions);
  }
}

// A group is over when nobody is in it and the network is done with its memory.
void ServerMachine::ReleaseIfOver(uint32_t group_index, ServerActions* actions) {
  GroupCell& cell = groups_[group_index];
  if (cell.group == nullptr || cell.group->AnyPresent() || cell.group->AnyMissing() || !cell.group->AllSlotsIdle()) {
    return;
  }
  if (cell.group->failed) {
    if (ended_groups_.size() >= kMaxEndedGroups) ended_groups_.pop_front();
    ended_groups_.push_back({cell.group->id(), cell.group->failure});
  }
  actions->push_back(
      ForgetInputsAction{.offset = cell.group->slot_region(),
                         .bytes = cell.group->slots.size() * cell.group->size() * cell.group->stride_bytes()});
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
      const ServerGroup::Presence presence = cell.group->members[r].presence;
      if (presence == ServerGroup::Presence::kPresent || presence == ServerGroup::Presence::kMissing) {
        group.ranks.insert(Rank(r));
      }
    }
  }
  return open;
}

}  // namespace shoal
