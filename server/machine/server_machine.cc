#include "server/machine/server_machine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/small_op.h"

namespace shoal {
namespace {

// A chunk's result goes to a different rank first each time, so that no rank is always served last.
uint32_t FirstReplyRank(ChunkNumber chunk, uint32_t group_size) { return chunk.value() % group_size; }

std::string DescribeBucket(uint64_t elements, DataType dtype, bool narrowed, ReduceOp op, double factor) {
  std::string text = absl::StrCat(std::string(ReduceOpName(op)), " of ", elements, " ",
                                  narrowed ? "float32 sent as " : "", std::string(DataTypeName(dtype)));
  if (op == ReduceOp::kPremulSum) absl::StrAppend(&text, " with factor ", factor);
  return text;
}

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
          .dtype = op.dtype,
          .reduce_op = op.reduce_op,
          .premul_factor = op.premul_factor,
          .contributors = group.size(),
          .narrowed = op.narrowed};
}

}  // namespace

uint64_t ServerCounters::RefusalTotal() const {
  uint64_t total = 0;
  for (uint64_t count : refusals) total += count;
  return total;
}

ServerMachine::ServerMachine(const ServerMachineOptions& options)
    : options_(options), pool_(options.slot_memory_bytes) {
  groups_.reserve(options.max_groups);
}

uint64_t ServerMachine::Pack(OperationToken token) {
  return uint64_t{token.group_index} << 48 | uint64_t{token.generation} << 32 | uint64_t{token.slot} << 16 | token.rank;
}

ServerMachine::OperationToken ServerMachine::Unpack(uint64_t packed) {
  return {static_cast<uint16_t>(packed >> 48), static_cast<uint16_t>(packed >> 32), static_cast<uint16_t>(packed >> 16),
          static_cast<uint16_t>(packed)};
}

ServerGroup* ServerMachine::Lookup(OperationToken token) {
  GroupCell& cell = groups_[token.group_index];
  return cell.generation == token.generation ? cell.group.get() : nullptr;
}

void ServerMachine::OnEvent(const TransportEvent& event, Now now, ServerActions* actions) {
  switch (event.kind) {
    case TransportEventKind::kPeerUp:
      peers_.try_emplace(event.peer);
      return;
    case TransportEventKind::kPeerDown:
      return OnPeerDown(event, now, actions);
    case TransportEventKind::kNote:
      return OnNote(event, now, actions);
    case TransportEventKind::kOffered:
      return OnOffered(event, now, actions);
    case TransportEventKind::kLanded:
      return OnLanded(event, now, actions);
    case TransportEventKind::kSent:
      return OnSent(event, now, actions);
  }
}

void ServerMachine::OnOffered(const TransportEvent& event, Now now, ServerActions* actions) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
  if (!header.ok()) return CloseMalformed(event.peer, event.offer, header.status(), actions);
  if (header->type == FrameType::kProbe) {
    actions->push_back(DeclineAction{event.offer});
    return OnProbe(event.peer, *header, actions);
  }
  if (header->type != FrameType::kPush ||
      event.payload_bytes != uint64_t{header->chunk_elements} * DataTypeSize(header->dtype)) {
    return CloseMalformed(
        event.peer, event.offer,
        absl::InvalidArgumentError("the payload is not a push, or does not have the size of its chunk"), actions);
  }
  uint32_t group_index = 0;
  Rank rank;
  Refusal refusal = FindRank(event.peer, *header, &group_index, &rank);
  if (refusal != Refusal::kNone) return RefuseOffer(event.peer, event.offer, *header, refusal, "", actions);
  ServerGroup& group = *groups_[group_index].group;
  if (group.failed()) {
    return RefuseOffer(event.peer, event.offer, *header, group.failure_refusal(), group.failure(), actions);
  }
  group.NoteWatermarks(rank, *header);
  AnnounceCommit(&group, actions);
  const OpRecord* record = nullptr;
  refusal = group.Admit(*header, &record);
  if (refusal == Refusal::kNone && header->contributors != 0 && header->contributors != group.size()) {
    refusal = Refusal::kMalformed;
  }
  if (refusal == Refusal::kLayoutMismatch) {
    const std::string text = DescribeMismatch(group, *record, *header);
    RefuseOffer(event.peer, event.offer, *header, refusal, text, actions);
    return FailGroup(group_index, {.type = FrameType::kGroupFailed, .rank = rank}, ServerGroup::FailureOf::kGroup, text,
                     actions);
  }
  if (refusal != Refusal::kNone) return RefuseOffer(event.peer, event.offer, *header, refusal, "", actions);
  if (header->contributors == 0 &&
      group.lateness().OnOffered({.op = header->op,
                                  .chunk = header->chunk,
                                  .rank = rank,
                                  .in_one_go = header->in_one_go,
                                  .in_flight = header->in_flight},
                                 now) &&
      record->plan.chunk_count > 1 && !group.WaitsForResult(rank)) {
    group.lateness().OnFreshBeginning(header->chunk, rank, now);
  }
  NoteSmallOp(*record, now);
  if (TryAccept(group_index, event.peer, *header, event.offer, now, actions)) return;
  // No rank's credit bounds results that were asked for. Their chunk has lost its slot; the push that begins it anew
  // asks for them again.
  if (header->contributors != 0) {
    actions->push_back(DeclineAction{event.offer});
    return;
  }
  // A copy must not take the place of another rank's push.
  if (group.IsPending(*header)) return RefuseOffer(event.peer, event.offer, *header, Refusal::kDuplicate, "", actions);
  if (group.PendingIsFull()) {
    return RefuseOffer(event.peer, event.offer, *header, Refusal::kNoSlot, "", actions);
  }
  group.Hold({event.peer, event.offer, *header});
}

bool ServerMachine::TryAccept(uint32_t group_index, PeerId peer, const FrameHeader& header, OfferId offer, Now now,
                              ServerActions* actions) {
  GroupCell& cell = groups_[group_index];
  ServerGroup& group = *cell.group;
  int found = group.FindSlot(header.op, header.chunk);
  const bool begins = found < 0;
  if (begins) {
    found = group.FindFreeSlot();
    if (found < 0 && group.moved()) {
      const int youngest = group.FindSlotToPreempt(header.op, header.chunk);
      if (youngest >= 0) Preempt(&group, static_cast<uint32_t>(youngest), actions);
      found = group.FindFreeSlot();
    }
    if (found < 0) return false;
  }
  const auto index = static_cast<uint32_t>(found);
  ChunkSlot& slot = group.slot(index);
  if (begins) {
    slot.Start(header.op, header.chunk, now.monotonic_ns);
    group.lateness().OnGathering(index, header.op, header.chunk, group.FindOp(header.op)->plan.chunk_count);
  }
  const bool is_result = header.contributors != 0;
  const Refusal refusal = slot.Offer(header.rank, is_result);
  if (refusal != Refusal::kNone) {
    RefuseOffer(peer, offer, header, refusal, "", actions);
    return true;
  }
  group.lateness().OnLanding(header.rank);
  actions->push_back(
      AcceptAction{.offer = offer,
                   .offset = group.BufferOffset(index, header.rank),
                   .bytes = uint64_t{header.chunk_elements} * DataTypeSize(header.dtype),
                   .token = Pack({static_cast<uint16_t>(group_index), cell.generation, static_cast<uint16_t>(index),
                                  static_cast<uint16_t>(header.rank.value())}),
                   .into_slot = is_result});
  if (begins && group.MayHaveResultsOf(header.op)) {
    for (uint32_t r = 0; r < group.size(); ++r) AskFor(group, index, Rank(r), actions);
  }
  return true;
}

void ServerMachine::Preempt(ServerGroup* group, uint32_t index, ServerActions* actions) {
  const ChunkSlot& slot = group->slot(index);
  FrameHeader header{
      .type = FrameType::kPush, .group = group->id(), .epoch = group->epoch(), .op = slot.op(), .chunk = slot.chunk()};
  for (uint32_t r = 0; r < group->size(); ++r) {
    if (!slot.Offered(Rank(r)) || !group->IsPresent(Rank(r))) continue;
    header.rank = Rank(r);
    RefuseNote(group->rank_state(Rank(r)).peer, header, Refusal::kPreempted, "", actions);
  }
  AbandonSlot(group, index, actions);
}

void ServerMachine::RetryPending(uint32_t group_index, Now now, ServerActions* actions) {
  ServerGroup& group = *groups_[group_index].group;
  while (const std::optional<ServerGroup::PendingPush> push = group.TakeOldestPending()) {
    // While it was held, a copy of it may have been summed, and its op committed.
    const OpRecord* record = nullptr;
    const Refusal refusal = group.Admit(push->header, &record);
    if (refusal != Refusal::kNone) {
      RefuseOffer(push->peer, push->offer, push->header, refusal, "", actions);
    } else if (!TryAccept(group_index, push->peer, push->header, push->offer, now, actions)) {
      group.PutBack(*push);
      return;
    }
  }
}

void ServerMachine::OnLanded(const TransportEvent& event, Now now, ServerActions* actions) {
  const OperationToken token = Unpack(event.token);
  ServerGroup& group = *Lookup(token);
  ChunkSlot& slot = group.slot(token.slot);
  const Rank rank(token.rank);
  const bool complete = slot.Landed(rank, event.status.ok());
  group.lateness().OnLandingEnded(rank, now);
  const OpRecord* record = slot.abandoned() ? nullptr : group.FindOp(slot.op());
  const uint32_t elements = record == nullptr ? 0 : record->plan.ElementCount(slot.chunk());
  if (event.status.ok() && record != nullptr) {
    ++counters_.contributions_landed;
    counters_.bytes_in += uint64_t{elements} * DataTypeSize(record->dtype);
    if (!slot.HasResultOf(rank)) {
      group.lateness().OnContribution(token.slot, slot.op(), rank, slot.landed_count(), now);
    }
  }
  if (complete && record == nullptr) {
    // Only a job whose own worker lied about its watermark gets here: no rank waits for this chunk any more.
    slot.StartReplies(0);
    slot.Abandon();
    ForgetInputs(group, token.slot, actions);
  }
  if (!complete || record == nullptr) {
    if (slot.state() == ChunkSlot::State::kFree) RetryPending(token.group_index, now, actions);
    return ReleaseIfOver(token.group_index, actions);
  }
  for (uint32_t r = 0; r < group.size(); ++r) {
    if (!slot.HasResultOf(Rank(r))) continue;
    ForgetInputs(group, token.slot, actions);
    return SendResult(token, Rank(r), now, actions);
  }
  // A node's sum has the factor in it; that all ranks gave the same was checked.
  const bool has_factor = record->reduce_op == ReduceOp::kPremulSum && group.ranks_per_contribution() > 1;
  actions->push_back(ReduceAction{.spec = {.dtype = record->dtype,
                                           .op = has_factor ? ReduceOp::kSum : record->reduce_op,
                                           .premul_factor = record->premul_factor,
                                           .ranks_per_input = group.ranks_per_contribution()},
                                  .offset = group.BufferOffset(token.slot, Rank(0)),
                                  .stride_bytes = group.stride_bytes(),
                                  .input_count = group.size(),
                                  .elements = elements,
                                  .group_index = token.group_index,
                                  .token = event.token});
}

void ServerMachine::OnEvent(const ReduceDone& event, Now now, ServerActions* actions) {
  const OperationToken token = Unpack(event.token);
  const ServerGroup& group = *Lookup(token);
  if (!group.failed() && !group.slot(token.slot).abandoned()) {
    ++counters_.chunks_reduced;
    if (group.slot(token.slot).chunk() == ChunkNumber(0)) ++counters_.ops_begun;
  }
  SendResult(token, Rank(0), now, actions);
}

void ServerMachine::OnEvent(const DrainRequested& event, Now, ServerActions*) { draining_ = event.drain; }

void ServerMachine::NoteSmallOp(const OpRecord& record, Now now) {
  if (record.plan.element_count * DataTypeSize(record.dtype) <= kSmallOpBytes) last_small_op_ns_ = now.monotonic_ns;
}

void ServerMachine::SendResult(OperationToken token, Rank source, Now now, ServerActions* actions) {
  ServerGroup& group = *Lookup(token);
  ChunkSlot& slot = group.slot(token.slot);
  group.lateness().OnGathered(token.slot, now);
  const OpRecord* record = group.failed() || slot.abandoned() ? nullptr : group.FindOp(slot.op());
  std::vector<Rank>& receivers = receivers_;
  receivers.clear();
  if (record != nullptr) {
    NoteSmallOp(*record, now);
    group.NoteSummed(slot.op(), slot.chunk());
    for (uint32_t i = 0; i < group.size(); ++i) {
      const Rank rank((FirstReplyRank(slot.chunk(), group.size()) + i) % group.size());
      if (slot.HasResultOf(rank)) continue;
      if (group.IsPresent(rank)) receivers.push_back(rank);
    }
  }
  slot.StartReplies(static_cast<uint32_t>(receivers.size()));
  if (record == nullptr || receivers.empty()) {
    slot.Abandon();
    RetryPending(token.group_index, now, actions);
    return ReleaseIfOver(token.group_index, actions);
  }
  FrameHeader header = ResultHeader(group, slot, *record);
  const uint64_t bytes = uint64_t{header.chunk_elements} * DataTypeSize(header.dtype);
  for (const Rank rank : receivers) {
    header.rank = rank;
    counters_.bytes_out += bytes;
    token.rank = static_cast<uint16_t>(rank.value());
    actions->push_back(SendPayloadAction{.peer = group.rank_state(rank).peer,
                                         .header = EncodeHeader(header),
                                         .offset = group.BufferOffset(token.slot, source),
                                         .bytes = bytes,
                                         .token = Pack(token)});
  }
}

void ServerMachine::OnSent(const TransportEvent& event, Now now, ServerActions* actions) {
  const OperationToken token = Unpack(event.token);
  if (!Lookup(token)->slot(token.slot).ReplySent()) return;
  RetryPending(token.group_index, now, actions);
  ReleaseIfOver(token.group_index, actions);
}

void ServerMachine::RefuseOffer(PeerId peer, OfferId offer, const FrameHeader& header, Refusal refusal,
                                std::string_view text, ServerActions* actions) {
  actions->push_back(DeclineAction{offer});
  RefuseNote(peer, header, refusal, text, actions);
}

std::string ServerMachine::DescribeMismatch(const ServerGroup& group, const OpRecord& record, const FrameHeader& push) {
  return absl::StrCat(
      "the ranks disagree on op ", push.op.value(), ": ", group.NameOf(record.registered_by), " called ",
      DescribeBucket(record.plan.element_count, record.dtype, record.narrowed, record.reduce_op, record.premul_factor),
      ", ", group.NameOf(push.rank), " called ",
      DescribeBucket(push.bucket_elements, push.dtype, push.narrowed, push.reduce_op, push.premul_factor),
      group.ranks_per_contribution() > 1 ? " (a part of the tensor)" : "",
      ": all ranks must make the same calls in the same order");
}

void ServerMachine::Tick(Now now, ServerActions* actions) {
  if (now.monotonic_ns >= next_give_up_ns_) GiveUpAbsent(now, actions);
  if (now.monotonic_ns >= next_report_ns_) ReportWaiting(now, actions);
  if (now.monotonic_ns >= next_release_ns_) ReleaseFailed(now, actions);
  RefuseHeldHellos(now, actions);
}

void ServerMachine::ReportWaiting(Now now, ServerActions* actions) {
  bool any_group = false;
  for (const GroupCell& cell : groups_) {
    if (cell.group == nullptr) continue;
    any_group = true;
    if (cell.group->failed()) continue;
    ReportGathering(*cell.group, now, actions);
    if (cell.group->AnyWaitsForCommit()) ReportUncommitted(*cell.group, now, actions);
  }
  next_report_ns_ = any_group ? now.monotonic_ns + options_.waiting_report_ns : kNoDeadline;
}

void ServerMachine::ReportGathering(const ServerGroup& group, Now now, ServerActions* actions) const {
  std::vector<const ChunkSlot*> waiting;
  for (uint32_t index = 0; index < group.slot_count(); ++index) {
    const ChunkSlot& slot = group.slot(index);
    const bool gathers = slot.state() == ChunkSlot::State::kGathering;
    if (gathers && now.monotonic_ns - slot.gathering_since_ns() >= options_.waiting_report_ns) waiting.push_back(&slot);
  }
  // The oldest first: a rank is told of that alone, since it waits for the others behind it.
  std::sort(waiting.begin(), waiting.end(), [](const ChunkSlot* a, const ChunkSlot* b) {
    return std::pair(a->op(), a->chunk()) < std::pair(b->op(), b->chunk());
  });
  for (uint32_t r = 0; r < group.size(); ++r) {
    if (!group.IsPresent(Rank(r))) continue;
    const auto oldest =
        std::find_if(waiting.begin(), waiting.end(), [r](const ChunkSlot* slot) { return slot->Has(Rank(r)); });
    if (oldest == waiting.end()) continue;
    const FrameHeader header{.type = FrameType::kWaiting,
                             .group = group.id(),
                             .epoch = group.epoch(),
                             .op = (*oldest)->op(),
                             .chunk = (*oldest)->chunk(),
                             .rank = Rank(r)};
    actions->push_back(SendNoteAction{group.rank_state(Rank(r)).peer, MakeWaiting(header, group.RanksMissing(**oldest)),
                                      /*may_be_missed=*/true});
  }
}

void ServerMachine::ReportUncommitted(const ServerGroup& group, Now now, ServerActions* actions) const {
  for (uint32_t r = 0; r < group.size(); ++r) {
    const ServerGroup::RankState& state = group.rank_state(Rank(r));
    if (state.waits_for_commit <= group.watermark() || state.presence != ServerGroup::Presence::kPresent ||
        now.monotonic_ns - state.waits_since_ns < options_.waiting_report_ns) {
      continue;
    }
    const FrameHeader header{.type = FrameType::kWaiting,
                             .group = group.id(),
                             .epoch = group.epoch(),
                             .op = state.waits_for_commit,
                             .rank = Rank(r)};
    actions->push_back(SendNoteAction{state.peer, MakeWaiting(header, group.RanksBehind(state.waits_for_commit)),
                                      /*may_be_missed=*/true});
  }
}

uint64_t ServerMachine::NextDeadlineNs() const {
  const uint64_t refuse_ns = held_hellos_.empty() ? kNoDeadline : held_hellos_.front().refuse_at_ns;
  return std::min({next_report_ns_, next_give_up_ns_, next_release_ns_, refuse_ns});
}

ServerCounters ServerMachine::counters() const {
  ServerCounters counters = counters_;
  counters.groups_open = static_cast<uint32_t>(group_index_.size());
  counters.peers = static_cast<uint32_t>(peers_.size());
  counters.slot_memory_used_bytes = pool_.used_bytes();
  for (const GroupCell& cell : groups_) {
    if (cell.group == nullptr) continue;
    counters.slots += cell.group->slot_count();
    counters.slots_in_use += cell.group->SlotsInUse();
    counters.pending_pushes += cell.group->pending_count();
    counters.memory_by_job[cell.group->job()] += cell.group->region_bytes();
  }
  counters.absent_ranks = AbsentRanks();
  counters.late_ranks = LateRanks();
  return counters;
}

}  // namespace shoal
