// The part of ServerMachine that concerns ranks whose connection breaks: they are waited for, named to the scheduler,
// and given up as the last resort (core/failure_detection.h).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/machine/server_machine.h"

namespace shoal {

void ServerMachine::OnPeerDown(const TransportEvent& event, Now now, ServerActions* actions) {
  const auto found = peers_.find(event.peer);
  if (found == peers_.end()) return;
  const Peer peer = std::move(found->second);
  peers_.erase(found);
  ForgetHeldHellos(event.peer, std::nullopt);
  for (const RankInGroup& joined : peer.ranks) {
    RankGone(joined.group_index, joined.rank, actions);
    if (groups_[joined.group_index].group->failed()) {
      ReleaseIfOver(joined.group_index, actions);
      continue;
    }
    if (!peer.closed_because.empty()) {
      FailGroup(joined.group_index, {.type = FrameType::kRankLost, .rank = joined.rank}, ServerGroup::FailureOf::kGroup,
                absl::StrCat("server ", options_.server_name, " closed its connection: ", peer.closed_because),
                actions);
    } else if (!peer.said_bye) {
      ServerGroup& group = *groups_[joined.group_index].group;
      group.MarkAbsent(joined.rank, now,
                       absl::StrCat("server ", options_.server_name, " lost its connection: ",
                                    event.status.ok() ? "it was closed without a goodbye" : event.status.message()));
      ++absences_noted_;
      next_give_up_ns_ = std::min(next_give_up_ns_, GiveUpTimeNs(group, group.rank_state(joined.rank)));
      LogGroup(EventKind::kRankAbsent, group, joined.rank, group.rank_state(joined.rank).absent_because, actions);
    }
    ReleaseIfOver(joined.group_index, actions);
  }
}

void ServerMachine::OnEvent(const SchedulerHeard& event, Now now, ServerActions*) {
  options_.lease_ttl_ns = event.lease_ttl_ns;
  scheduler_heard_ns_ = now.monotonic_ns;
  scheduler_is_colocated_ = event.is_colocated;
  // The lease may be shorter than before.
  if (next_give_up_ns_ != kNoDeadline) next_give_up_ns_ = 0;
}

void ServerMachine::OnEvent(const TokenKeyChanged& event, Now now, ServerActions* actions) {
  if (event.key == options_.token_key) return;
  options_.token_key = event.key;
  for (const GroupCell& cell : groups_) {
    if (cell.group != nullptr) cell.group->ForgetScheduler();
  }
  if (next_give_up_ns_ != kNoDeadline) next_give_up_ns_ = 0;
  for (HeldHello& hello : std::exchange(held_hellos_, {})) {
    hello.refuse_at_ns = 0;  // the key that it has waited for is here
    Greet(hello, now, actions);
  }
}

uint64_t ServerMachine::GiveUpTimeNs(const ServerGroup& group, const ServerGroup::RankState& absent) const {
  if (group.unknown_to_scheduler()) return absent.absent_since_ns + options_.lease_ttl_ns;
  return std::max(absent.absent_since_ns, scheduler_heard_ns_) +
         ServerPatienceNs(options_.lease_ttl_ns, scheduler_is_colocated_);
}

void ServerMachine::GiveUpAbsent(Now now, ServerActions* actions) {
  next_give_up_ns_ = kNoDeadline;
  for (uint32_t index = 0; index < groups_.size(); ++index) {
    if (groups_[index].group == nullptr) continue;
    ServerGroup& group = *groups_[index].group;
    for (uint32_t r = 0; r < group.size(); ++r) {
      const ServerGroup::RankState& state = group.rank_state(Rank(r));
      if (state.presence != ServerGroup::Presence::kAbsent) continue;
      if (const uint64_t give_up_ns = GiveUpTimeNs(group, state); now.monotonic_ns < give_up_ns) {
        next_give_up_ns_ = std::min(next_give_up_ns_, give_up_ns);
        continue;
      }
      FailGroup(index, {.type = FrameType::kRankLost, .rank = Rank(r)}, ServerGroup::FailureOf::kConnections,
                group.GiveUp(Rank(r)), actions);
    }
    ReleaseIfOver(index, actions);
  }
}

std::vector<AbsentRank> ServerMachine::AbsentRanks() const {
  std::vector<AbsentRank> absent;
  for (const GroupCell& cell : groups_) {
    if (cell.group == nullptr || cell.group->failed() || !cell.group->may_have_absent()) continue;
    for (uint32_t r = 0; r < cell.group->size() && absent.size() < kMaxAbsentRanksListed; ++r) {
      if (!cell.group->IsAbsent(Rank(r))) continue;
      const ServerGroup::RankState& state = cell.group->rank_state(Rank(r));
      absent.push_back({.job = cell.group->job(),
                        .group = cell.group->id(),
                        .epoch = cell.group->epoch(),
                        .rank = Rank(r),
                        .since_ns = state.absent_since_ns,
                        .because = state.absent_because});
    }
  }
  return absent;
}

std::vector<LateRankOfGroup> ServerMachine::LateRanks() const {
  std::vector<LateRankOfGroup> late;
  for (const GroupCell& cell : groups_) {
    if (cell.group == nullptr || cell.group->failed()) continue;
    const LatenessWindow& window = cell.group->lateness().last_window();
    for (const LateRank& rank : window.late_ranks) {
      if (late.size() == kMaxLateRanksOfServer) return late;
      late.push_back({.job = cell.group->job(),
                      .group = cell.group->id(),
                      .epoch = cell.group->epoch(),
                      .window = window.number,
                      .window_end_ns = window.end_ns,
                      .window_ns = window.length_ns,
                      .ops = window.ops,
                      .median_spacing_ns = window.median_spacing_ns,
                      .late = rank});
    }
  }
  return late;
}

}  // namespace shoal
