#include "server/machine/chunk_exchange.h"

#include <optional>

#include "core/small_op.h"
#include "server/machine/group_notes.h"

namespace shoal {
namespace {

// A chunk's result goes to a different rank first each time, so that no rank is always served last.
uint32_t FirstReplyRank(ChunkNumber chunk, uint32_t group_size) { return chunk.value() % group_size; }

// Of a chunk that was summed, but for the rank that it goes to.
FrameHeader ResultHeader(const ServerGroup& group, const ChunkSlot& slot, const OpRecord& op) {
  return {.type = FrameType::kResult,
          .group = group.id(),
          .epoch = group.epoch(),
          .op = slot.op(),
          .commit_watermark = group.watermark(),
          .bucket_elements = op.plan.element_count,
          .first_element = op.plan.FirstElement(slot.chunk()),
          .chunk_elements = op.plan.ElementCount(slot.chunk()),
          .chunk = slot.chunk(),
          .codec = op.codec,
          .reduce_op = op.reduce_op,
          .premul_factor = op.premul_factor,
          .contributors = slot.contributors()};
}

ReduceSpec SpecOf(const ServerGroup& group, const OpRecord& op) {
  ReduceSpec spec{.codec = op.codec,
                  .op = op.reduce_op,
                  .premul_factor = op.premul_factor,
                  .ranks_per_input = group.ranks_per_contribution()};
  // A node's sum has the factor in it; that all ranks gave the same was checked.
  if (op.reduce_op == ReduceOp::kPremulSum && group.ranks_per_contribution() > 1) spec.op = ReduceOp::kSum;
  if (op.scaled_to_all && !group.roster().IsWhole()) {
    spec.op = ReduceOp::kPremulSum;
    spec.premul_factor = static_cast<double>(group.size()) / group.roster().count();
  }
  return spec;
}

}  // namespace

void ChunkExchange::OnPush(uint32_t group_index, const ServerGroup::PendingPush& push, const OpRecord& record, Now now,
                           ServerActions* actions) {
  ServerGroup& group = *groups_.at(group_index);
  const auto& [peer, offer, header] = push;
  if (header.contributors == 0 &&
      group.lateness().OnOffered({.op = header.op,
                                  .chunk = header.chunk,
                                  .rank = header.rank,
                                  .in_one_go = header.in_one_go,
                                  .in_flight = header.in_flight},
                                 now) &&
      record.plan.chunk_count > 1 && !group.WaitsForResult(header.rank)) {
    group.lateness().OnFreshBeginning(header.chunk, header.rank);
  }
  NoteSmallOp(record, now);
  if (TryAccept(group_index, push, now, actions)) return;
  // No rank's credit bounds results that were asked for. Their chunk has lost its slot; the push that begins it anew
  // asks for them again.
  if (header.contributors != 0) {
    actions->push_back(DeclineAction{offer});
    return;
  }
  // A copy must not take the place of another rank's push.
  if (group.IsPending(header)) return refusals_.RefuseOffer(peer, offer, header, Refusal::kDuplicate, "", actions);
  if (group.PendingIsFull()) return refusals_.RefuseOffer(peer, offer, header, Refusal::kNoSlot, "", actions);
  group.Hold(push);
}

int ChunkExchange::FindSlotFor(ServerGroup* group, const FrameHeader& push, bool* begins, ServerActions* actions) {
  int found = group->FindSlot(push.op, push.chunk);
  *begins = found < 0;
  if (!*begins) return found;
  found = group->FindFreeSlot();
  if (found >= 0 || !group->moved()) return found;
  const int youngest = group->FindSlotToPreempt(push.op, push.chunk);
  if (youngest >= 0) Preempt(group, static_cast<uint32_t>(youngest), actions);
  return group->FindFreeSlot();
}

bool ChunkExchange::TryAccept(uint32_t group_index, const ServerGroup::PendingPush& push, Now now,
                              ServerActions* actions) {
  ServerGroup& group = *groups_.at(group_index);
  const FrameHeader& header = push.header;
  bool begins = false;
  const int found = FindSlotFor(&group, header, &begins, actions);
  if (found < 0) return false;
  const auto index = static_cast<uint32_t>(found);
  ChunkSlot& slot = group.slot(index);
  if (begins) {
    slot.Start(header.op, header.chunk, now.monotonic_ns);
    group.lateness().OnGathering(index, header.op, header.chunk, group.FindOp(header.op)->plan.chunk_count);
  }
  const bool is_result = header.contributors != 0;
  const Refusal refusal = slot.Offer(header.rank, is_result);
  if (is_result && refusal == Refusal::kNone) slot.NoteResultOf(header.contributors);
  if (refusal != Refusal::kNone) {
    refusals_.RefuseOffer(push.peer, push.offer, header, refusal, "", actions);
    return true;
  }
  group.lateness().OnLanding(header.rank);
  actions->push_back(AcceptAction{.offer = push.offer,
                                  .offset = group.BufferOffset(index, header.rank),
                                  .bytes = header.payload_bytes(),
                                  .token = groups_.Operation(group_index, index, header.rank).Pack(),
                                  .into_slot = is_result});
  if (begins && group.MayHaveResultsOf(header.op)) {
    for (uint32_t r = 0; r < group.size(); ++r) AskForResult(group, index, Rank(r), actions);
  }
  return true;
}

void ChunkExchange::Preempt(ServerGroup* group, uint32_t index, ServerActions* actions) {
  const ChunkSlot& slot = group->slot(index);
  FrameHeader header{
      .type = FrameType::kPush, .group = group->id(), .epoch = group->epoch(), .op = slot.op(), .chunk = slot.chunk()};
  for (uint32_t r = 0; r < group->size(); ++r) {
    if (!slot.Offered(Rank(r)) || !group->IsPresent(Rank(r))) continue;
    header.rank = Rank(r);
    refusals_.RefuseNote(group->rank_state(Rank(r)).peer, header, Refusal::kPreempted, "", actions);
  }
  Abandon(group, index, actions);
}

void ChunkExchange::RetryPending(uint32_t group_index, Now now, ServerActions* actions) {
  ServerGroup& group = *groups_.at(group_index);
  while (const std::optional<ServerGroup::PendingPush> push = group.TakeOldestPending()) {
    // While it was held, a copy of it may have been summed, and its op committed.
    const OpRecord* record = nullptr;
    const Refusal refusal = group.Admit(push->header, &record);
    if (refusal != Refusal::kNone) {
      refusals_.RefuseOffer(push->peer, push->offer, push->header, refusal, "", actions);
    } else if (!TryAccept(group_index, *push, now, actions)) {
      group.PutBack(*push);
      return;
    }
  }
}

bool ChunkExchange::OnLanded(SlotOperation operation, const TransportEvent& event, Now now, ServerActions* actions) {
  const absl::Status& status = event.status;
  ServerGroup& group = *groups_.Find(operation);
  ChunkSlot& slot = group.slot(operation.slot);
  const Rank rank(operation.rank);
  const bool complete = slot.Landed(rank, status.ok());
  group.lateness().OnLandingEnded(rank, event.came_with_last, now);
  const OpRecord* record = slot.abandoned() ? nullptr : group.FindOp(slot.op());
  const uint32_t elements = record == nullptr ? 0 : record->plan.ElementCount(slot.chunk());
  if (status.ok() && record != nullptr) {
    ++contributions_landed_;
    bytes_in_ += record->codec.WireBytes(elements);
    if (!slot.HasResultOf(rank)) {
      group.lateness().OnContribution(operation.slot, slot.op(), rank, slot.landed_count(), now);
    }
  }
  if (complete && record == nullptr) {
    // Only a job whose own worker lied about its watermark gets here: no rank waits for this chunk any more.
    slot.StartReplies(0);
    slot.Abandon();
    ForgetInputs(group, operation.slot, actions);
  }
  if (!complete || record == nullptr) {
    if (slot.state() == ChunkSlot::State::kFree) RetryPending(operation.group_index, now, actions);
    return true;
  }
  for (uint32_t r = 0; r < group.size(); ++r) {
    if (!slot.HasResultOf(Rank(r))) continue;
    ForgetInputs(group, operation.slot, actions);
    return SendResult(operation, Rank(r), now, actions);
  }
  actions->push_back(ReduceAction{.spec = SpecOf(group, *record),
                                  .offset = group.BufferOffset(operation.slot, Rank(0)),
                                  .stride_bytes = group.stride_bytes(),
                                  .input_count = group.roster().count(),
                                  .elements = elements,
                                  .group_index = operation.group_index,
                                  .token = operation.Pack()});
  return false;
}

bool ChunkExchange::OnReduced(SlotOperation operation, Now now, ServerActions* actions) {
  const ServerGroup& group = *groups_.Find(operation);
  if (!group.failed() && !group.slot(operation.slot).abandoned()) {
    ++chunks_reduced_;
    if (group.slot(operation.slot).chunk() == ChunkNumber(0)) ++ops_begun_;
  }
  return SendResult(operation, Rank(0), now, actions);
}

void ChunkExchange::NoteSmallOp(const OpRecord& record, Now now) {
  if (record.codec.WireBytes(record.plan.element_count) <= kSmallOpBytes) last_small_op_ns_ = now.monotonic_ns;
}

void ChunkExchange::FindReceivers(const ServerGroup& group, const ChunkSlot& slot) {
  for (uint32_t i = 0; i < group.size(); ++i) {
    const Rank rank((FirstReplyRank(slot.chunk(), group.size()) + i) % group.size());
    if (!slot.HasResultOf(rank) && group.IsPresent(rank)) receivers_.push_back(rank);
  }
}

bool ChunkExchange::SendResult(SlotOperation operation, Rank source, Now now, ServerActions* actions) {
  ServerGroup& group = *groups_.Find(operation);
  ChunkSlot& slot = group.slot(operation.slot);
  group.lateness().OnGathered(operation.slot, now);
  const OpRecord* record = group.failed() || slot.abandoned() ? nullptr : group.FindOp(slot.op());
  receivers_.clear();
  if (record != nullptr) {
    NoteSmallOp(*record, now);
    group.NoteSummed(slot.op(), slot.chunk());
    FindReceivers(group, slot);
  }
  slot.StartReplies(static_cast<uint32_t>(receivers_.size()));
  if (receivers_.empty()) {
    slot.Abandon();
    RetryPending(operation.group_index, now, actions);
    return true;
  }
  FrameHeader header = ResultHeader(group, slot, *record);
  const uint64_t bytes = header.payload_bytes();
  for (const Rank rank : receivers_) {
    header.rank = rank;
    bytes_out_ += bytes;
    operation.rank = static_cast<uint16_t>(rank.value());
    actions->push_back(SendPayloadAction{.peer = group.rank_state(rank).peer,
                                         .header = EncodeHeader(header),
                                         .offset = group.BufferOffset(operation.slot, source),
                                         .bytes = bytes,
                                         .token = operation.Pack()});
  }
  return false;
}

bool ChunkExchange::OnSent(SlotOperation operation, Now now, ServerActions* actions) {
  if (!groups_.Find(operation)->slot(operation.slot).ReplySent()) return false;
  RetryPending(operation.group_index, now, actions);
  return true;
}

void ChunkExchange::AbandonAll(ServerGroup* group, ServerActions* actions) {
  for (const ServerGroup::PendingPush& push : group->TakePending()) actions->push_back(DeclineAction{push.offer});
  for (uint32_t slot = 0; slot < group->slot_count(); ++slot) Abandon(group, slot, actions);
}

void ChunkExchange::Abandon(ServerGroup* group, uint32_t index, ServerActions* actions) {
  ChunkSlot& slot = group->slot(index);
  if (slot.state() == ChunkSlot::State::kGathering) ForgetInputs(*group, index, actions);
  if (slot.state() != ChunkSlot::State::kFree) slot.Abandon();
}

void ChunkExchange::ForgetInputs(const ServerGroup& group, uint32_t slot, ServerActions* actions) {
  actions->push_back(
      ForgetInputsAction{.offset = group.BufferOffset(slot, Rank(0)), .bytes = group.size() * group.stride_bytes()});
}

void ChunkExchange::AddTo(ServerCounters* counters) const {
  counters->bytes_in += bytes_in_;
  counters->bytes_out += bytes_out_;
  counters->contributions_landed += contributions_landed_;
  counters->chunks_reduced += chunks_reduced_;
  counters->ops_begun += ops_begun_;
}

}  // namespace shoal
