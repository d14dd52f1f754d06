#include "server/machine/waiting_reports.h"

#include <utility>
#include <vector>

namespace shoal {
namespace {

void Tell(const ServerGroup& group, OpNumber op, ChunkNumber chunk, Rank rank, const Waiting& missing,
          ServerActions* actions) {
  const FrameHeader header{
      .type = FrameType::kWaiting, .group = group.id(), .epoch = group.epoch(), .op = op, .chunk = chunk, .rank = rank};
  actions->push_back(SendNoteAction{group.rank_state(rank).peer, MakeWaiting(header, missing), /*may_be_missed=*/true});
}

}  // namespace

void WaitingReports::Tick(const GroupTable& groups, Now now, ServerActions* actions) {
  if (now.monotonic_ns < next_ns_) return;
  next_ns_ = groups.open_count() == 0 ? kNoDeadline : now.monotonic_ns + patience_ns_;
  for (uint32_t index = 0; index < groups.cell_count(); ++index) {
    const ServerGroup* const group = groups.at(index);
    if (group == nullptr || group->failed()) continue;
    ReportGathering(*group, now, actions);
    if (group->AnyWaitsForCommit()) ReportUncommitted(*group, now, actions);
  }
}

void WaitingReports::ReportGathering(const ServerGroup& group, Now now, ServerActions* actions) const {
  std::vector<const ChunkSlot*> waiting;
  for (uint32_t index = 0; index < group.slot_count(); ++index) {
    const ChunkSlot& slot = group.slot(index);
    const bool gathers = slot.state() == ChunkSlot::State::kGathering;
    if (gathers && now.monotonic_ns - slot.gathering_since_ns() >= patience_ns_) waiting.push_back(&slot);
  }
  // The oldest first: a rank is told of that alone, since it waits for the others behind it.
  std::sort(waiting.begin(), waiting.end(), [](const ChunkSlot* a, const ChunkSlot* b) {
    return std::pair(a->op(), a->chunk()) < std::pair(b->op(), b->chunk());
  });
  for (uint32_t r = 0; r < group.size(); ++r) {
    if (!group.IsPresent(Rank(r))) continue;
    const auto oldest = std::ranges::find_if(waiting, [r](const ChunkSlot* slot) { return slot->Has(Rank(r)); });
    if (oldest == waiting.end()) continue;
    const ChunkSlot& slot = **oldest;
    Tell(group, slot.op(), slot.chunk(), Rank(r), group.RanksMissing(slot), actions);
  }
}

void WaitingReports::ReportUncommitted(const ServerGroup& group, Now now, ServerActions* actions) const {
  for (uint32_t r = 0; r < group.size(); ++r) {
    const ServerGroup::RankState& state = group.rank_state(Rank(r));
    if (state.waits_for_commit <= group.watermark() || !group.IsPresent(Rank(r)) ||
        now.monotonic_ns - state.waits_since_ns < patience_ns_) {
      continue;
    }
    Tell(group, state.waits_for_commit, ChunkNumber(), Rank(r), group.RanksBehind(state.waits_for_commit), actions);
  }
}

}  // namespace shoal
