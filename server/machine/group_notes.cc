#include "server/machine/group_notes.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

std::string DescribeBucket(uint64_t elements, WireCodec codec, ReduceOp op, double factor) {
  std::string text = absl::StrCat(std::string(ReduceOpName(op)), " of ", elements, " ", WireCodecName(codec));
  if (op == ReduceOp::kPremulSum) absl::StrAppend(&text, " with factor ", factor);
  return text;
}

}  // namespace

void LogGroup(EventKind kind, const ServerGroup& group, std::optional<Rank> rank, std::string_view text,
              ServerActions* actions) {
  EventIds ids{.job = group.job(), .group = group.id(), .epoch = group.epoch()};
  if (rank.has_value()) ids.rank = rank->value();
  actions->push_back(LogAction(kind, ids, text));
}

void TellAll(const ServerGroup& group, FrameHeader note, std::string_view text, ServerActions* actions) {
  note.group = group.id();
  note.epoch = group.epoch();
  for (uint32_t r = 0; r < group.size(); ++r) {
    if (!group.IsPresent(Rank(r))) continue;
    actions->push_back(SendNoteAction{group.rank_state(Rank(r)).peer, MakeTextNote(note, text)});
  }
}

void TellOfLeaver(ServerGroup* group, OpNumber op, Rank rank, ServerActions* actions) {
  const std::optional<Rank> leaver = group->FindLeaver(op);
  if (!leaver.has_value() || !group->TakeLeaverNews(rank)) return;
  const FrameHeader note{
      .type = FrameType::kGroupFailed, .group = group->id(), .epoch = group->epoch(), .op = op, .rank = *leaver};
  const std::string text = absl::StrCat("it has left the group, and does not call op ", op.value());
  actions->push_back(SendNoteAction{group->rank_state(rank).peer, MakeTextNote(note, text)});
}

void AnnounceCommit(ServerGroup* group, ServerActions* actions) {
  if (!group->TakeAnnouncement()) return;
  FrameHeader header{.type = FrameType::kCommit,
                     .group = group->id(),
                     .epoch = group->epoch(),
                     .commit_watermark = group->watermark()};
  for (uint32_t r = 0; r < group->size(); ++r) {
    if (!group->IsPresent(Rank(r))) continue;
    header.rank = Rank(r);
    actions->push_back(SendNoteAction{group->rank_state(Rank(r)).peer, MakeNote(header)});
  }
}

void AskForResult(const ServerGroup& group, uint32_t index, Rank rank, ServerActions* actions) {
  const ServerGroup::RankState& state = group.rank_state(rank);
  const ChunkSlot& slot = group.slot(index);
  if (state.presence != ServerGroup::Presence::kPresent || slot.op() > state.newest_result ||
      slot.state() != ChunkSlot::State::kGathering || slot.abandoned() || slot.Offered(rank)) {
    return;
  }
  const FrameHeader header{.type = FrameType::kAsk,
                           .group = group.id(),
                           .epoch = group.epoch(),
                           .op = slot.op(),
                           .chunk = slot.chunk(),
                           .rank = rank};
  actions->push_back(SendNoteAction{state.peer, MakeNote(header)});
}

std::string DescribeMismatch(const ServerGroup& group, const OpRecord& record, const FrameHeader& push) {
  return absl::StrCat("the ranks disagree on op ", push.op.value(), ": ", group.NameOf(record.registered_by),
                      " called ",
                      DescribeBucket(record.plan.element_count, record.codec, record.reduce_op, record.premul_factor),
                      ", ", group.NameOf(push.rank), " called ",
                      DescribeBucket(push.bucket_elements, push.codec, push.reduce_op, push.premul_factor),
                      group.ranks_per_contribution() > 1 ? " (a part of the tensor)" : "",
                      ": all ranks must make the same calls in the same order");
}

}  // namespace shoal
