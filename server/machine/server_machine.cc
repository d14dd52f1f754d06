#include "server/machine/server_machine.h"

#include <algorithm>
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

}  // namespace

uint64_t ServerCounters::RefusalTotal() const {
  uint64_t total = 0;
  for (uint64_t count : refusals) total += count;
  return total;
}

ServerMachine::ServerMachine(const ServerMachineOptions& options)
    : options_(options), pool_(options.slot_memory_bytes), groups_(options.max_groups) {}

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

void ServerMachine::OnTransportEvent(const TransportEvent& event, Now now, ServerActions* actions) {
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
    return CloseMalformed(event.peer, event.offer,
                          absl::InvalidArgumentError("a payload that is no push, or cut short"), actions);
  }
  uint32_t group_index = 0;
  Rank rank;
  Refusal refusal = FindMember(event.peer, *header, &group_index, &rank);
  if (refusal != Refusal::kNone) return RefuseOffer(event.peer, event.offer, *header, refusal, "", actions);
  ServerGroup& group = *groups_[group_index].group;
  if (group.failed) {
    return RefuseOffer(event.peer, event.offer, *header, Refusal::kGroupFailedBefore, group.failure, actions);
  }
  group.NoteWatermarks(rank, *header);
  AnnounceCommit(&group, actions);
  OpRecord* record = nullptr;
  refusal = Admit(&group, *header, &record);
  if (refusal == Refusal::kNone && header->contributors != 0 && header->contributors != group.size()) {
    refusal = Refusal::kMalformed;
  }
  if (refusal == Refusal::kLayoutMismatch) {
    const std::string text = DescribeMismatch(*record, *header);
    RefuseOffer(event.peer, event.offer, *header, refusal, text, actions);
    return FailGroup(group_index, FrameType::kGroupFailed, rank, text, actions);
  }
  if (refusal != Refusal::kNone) return RefuseOffer(event.peer, event.offer, *header, refusal, "", actions);
  last_op_was_small_ = record->plan.element_count * DataTypeSize(record->dtype) <= kSmallOpBytes;
  if (TryAccept(group_index, event.peer, *header, event.offer, now, actions)) return;
  // Nobody's credit bounds results that were asked for. Their chunk has lost its slot; who begins it anew asks again.
  if (header->contributors != 0) {
    actions->push_back(DeclineAction{event.offer});
    return;
  }
  // A copy must not take the place of what others are owed.
  if (group.IsPending(*header)) return RefuseOffer(event.peer, event.offer, *header, Refusal::kDuplicate, "", actions);
  if (group.pending.size() >= size_t{group.size()} * group.credit_chunks()) {
    return RefuseOffer(event.peer, event.offer, *header, Refusal::kNoSlot, "", actions);
  }
  group.pending.push_back({event.peer, event.offer, *header});
}

Refusal ServerMachine::Admit(ServerGroup* group, const FrameHeader& push, OpRecord** record) {
  const Refusal refusal = group->ledger.Admit(push, record);
  if (refusal != Refusal::kNone) return refusal;
  return (*record)->summed[push.chunk.value()] ? Refusal::kDuplicate : Refusal::kNone;
}

bool ServerMachine::TryAccept(uint32_t group_index, PeerId peer, const FrameHeader& header, OfferId offer, Now now,
                              ServerActions* actions) {
  GroupCell& cell = groups_[group_index];
  ServerGroup& group = *cell.group;
  int index = group.FindSlot(header.op, header.chunk);
  const bool begins = index < 0;
  if (begins) {
    index = group.FindFreeSlot();
    if (index < 0 && group.moved()) {
      const int youngest = group.FindSlotToPreempt(header.op, header.chunk);
      if (youngest >= 0) Preempt(&group, static_cast<uint32_t>(youngest), actions);
      index = group.FindFreeSlot();
    }
    if (index < 0) return false;
    group.slots[static_cast<size_t>(index)].Start(header.op, header.chunk, now.monotonic_ns);
  }
  const bool is_result = header.contributors != 0;
  const Refusal refusal = group.slots[static_cast<size_t>(index)].Offer(header.rank, is_result);
  if (refusal != Refusal::kNone) {
    RefuseOffer(peer, offer, header, refusal, "", actions);
    return true;
  }
  actions->push_back(
      AcceptAction{.offer = offer,
                   .offset = group.BufferOffset(static_cast<uint32_t>(index), header.rank),
                   .bytes = uint64_t{header.chunk_elements} * DataTypeSize(header.dtype),
                   .token = Pack({static_cast<uint16_t>(group_index), cell.generation, static_cast<uint16_t>(index),
                                  static_cast<uint16_t>(header.rank.value())}),
                   .into_slot = is_result});
  if (begins && header.op <= group.newest_result) {
    for (uint32_t r = 0; r < group.size(); ++r) AskFor(group, static_cast<uint32_t>(index), Rank(r), actions);
  }
  return true;
}

void ServerMachine::Preempt(ServerGroup* group, uint32_t index, ServerActions* actions) {
  const ChunkSlot& slot = group->slots[index];
  FrameHeader header{.group = group->id(), .epoch = group->epoch(), .op = slot.op(), .chunk = slot.chunk()};
  for (uint32_t r = 0; r < group->size(); ++r) {
    if (!slot.Offered(Rank(r)) || group->members[r].presence != ServerGroup::Presence::kPresent) continue;
    header.rank = Rank(r);
    RefuseNote(group->members[r].peer, header, Refusal::kPreempted, "", actions);
  }
  AbandonSlot(group, index, actions);
}

void ServerMachine::RetryPending(uint32_t group_index, Now now, ServerActions* actions) {
  ServerGroup& group = *groups_[group_index].group;
  while (!group.pending.empty()) {
    const auto oldest = group.OldestPending();
    const ServerGroup::PendingPush push = *oldest;
    group.pending.erase(oldest);
    // While it was held, a copy of it may have been summed, and its op committed.
    OpRecord* record = nullptr;
    const Refusal refusal = Admit(&group, push.header, &record);
    if (refusal != Refusal::kNone) {
      RefuseOffer(push.peer, push.offer, push.header, refusal, "", actions);
    } else if (!TryAccept(group_index, push.peer, push.header, push.offer, now, actions)) {
      group.pending.push_front(push);
      return;
    }
  }
}

void ServerMachine::OnLanded(const TransportEvent& event, Now now, ServerActions* actions) {
  const OperationToken token = Unpack(event.token);
  ServerGroup& group = *Lookup(token);
  ChunkSlot& slot = group.slots[token.slot];
  const bool complete = slot.Landed(Rank(token.rank), event.status.ok());
  const OpRecord* record = slot.abandoned() ? nullptr : group.ledger.Find(slot.op());
  if (event.status.ok() && record != nullptr) {
    ++counters_.contributions_landed;
    counters_.bytes_in += uint64_t{record->plan.ElementCount(slot.chunk())} * DataTypeSize(record->dtype);
  }
  if (complete && record == nullptr) {
    // Only a job whose own worker lied about its watermark gets here: nobody waits for this chunk any more.
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
  actions->push_back(
      ReduceAction{.spec = {.dtype = record->dtype, .op = record->reduce_op, .premul_factor = record->premul_factor},
                   .offset = group.BufferOffset(token.slot, Rank(0)),
                   .stride_bytes = group.stride_bytes(),
                   .input_count = group.size(),
                   .elements = record->plan.ElementCount(slot.chunk()),
                   .token = event.token});
}

void ServerMachine::OnReduced(uint64_t packed, Now now, ServerActions* actions) {
  const OperationToken token = Unpack(packed);
  const ServerGroup& group = *Lookup(token);
  if (!group.failed && !group.slots[token.slot].abandoned()) ++counters_.chunks_reduced;
  SendResult(token, Rank(0), now, actions);
}

void ServerMachine::SendResult(OperationToken token, Rank source, Now now, ServerActions* actions) {
  ServerGroup& group = *Lookup(token);
  ChunkSlot& slot = group.slots[token.slot];
  OpRecord* record = group.failed || slot.abandoned() ? nullptr : group.ledger.Find(slot.op());
  std::vector<Rank>& receivers = receivers_;
  receivers.clear();
  if (record != nullptr) {
    record->summed[slot.chunk().value()] = true;
    for (uint32_t i = 0; i < group.size(); ++i) {
      const Rank rank((FirstReplyRank(slot.chunk(), group.size()) + i) % group.size());
      if (slot.HasResultOf(rank)) continue;
      if (group.members[rank.value()].presence == ServerGroup::Presence::kPresent) receivers.push_back(rank);
    }
  }
  slot.StartReplies(static_cast<uint32_t>(receivers.size()));
  if (receivers.empty()) slot.Abandon();
  for (const Rank rank : receivers) {
    FrameHeader header{.type = FrameType::kResult,
                       .group = group.id(),
                       .epoch = group.epoch(),
                       .op = slot.op(),
                       .commit_watermark = group.ledger.watermark(),
                       .bucket_elements = record->plan.element_count,
                       .first_element = record->plan.FirstElement(slot.chunk()),
                       .chunk_elements = record->plan.ElementCount(slot.chunk()),
                       .chunk = slot.chunk(),
                       .rank = rank,
                       .dtype = record->dtype,
                       .reduce_op = record->reduce_op,
                       .premul_factor = record->premul_factor,
                       .contributors = group.size(),
                       .narrowed = record->narrowed};
    const uint64_t bytes = uint64_t{header.chunk_elements} * DataTypeSize(header.dtype);
    counters_.bytes_out += bytes;
    token.rank = static_cast<uint16_t>(rank.value());
    actions->push_back(SendPayloadAction{.peer = group.members[rank.value()].peer,
                                         .header = EncodeHeader(header),
                                         .offset = group.BufferOffset(token.slot, source),
                                         .bytes = bytes,
                                         .token = Pack(token)});
  }
  if (receivers.empty()) {
    RetryPending(token.group_index, now, actions);
    ReleaseIfOver(token.group_index, actions);
  }
}

void ServerMachine::OnSent(const TransportEvent& event, Now now, ServerActions* actions) {
  const OperationToken token = Unpack(event.token);
  if (!Lookup(token)->slots[token.slot].ReplySent()) return;
  RetryPending(token.group_index, now, actions);
  ReleaseIfOver(token.group_index, actions);
}

void ServerMachine::RefuseOffer(PeerId peer, OfferId offer, const FrameHeader& header, Refusal refusal,
                                std::string_view text, ServerActions* actions) {
  actions->push_back(DeclineAction{offer});
  RefuseNote(peer, header, refusal, text, actions);
}

std::string ServerMachine::DescribeMismatch(const OpRecord& record, const FrameHeader& push) const {
  return absl::StrCat(
      "the ranks disagree on op ", push.op.value(), ": rank ", record.registered_by.value(), " called ",
      DescribeBucket(record.plan.element_count, record.dtype, record.narrowed, record.reduce_op, record.premul_factor),
      ", rank ", push.rank.value(), " called ",
      DescribeBucket(push.bucket_elements, push.dtype, push.narrowed, push.reduce_op, push.premul_factor),
      ": all ranks must make the same calls in the same order");
}

void ServerMachine::Tick(Now now, ServerActions* actions) {
  if (now.monotonic_ns >= next_loss_ns_) GiveUpMissing(now, actions);
  if (now.monotonic_ns >= next_report_ns_) ReportWaiting(now, actions);
  if (now.monotonic_ns >= next_release_ns_) ReleaseFailed(now, actions);
}

void ServerMachine::GiveUpMissing(Now now, ServerActions* actions) {
  next_loss_ns_ = kNoDeadline;
  for (uint32_t index = 0; index < groups_.size(); ++index) {
    if (groups_[index].group == nullptr) continue;
    ServerGroup& group = *groups_[index].group;
    for (uint32_t r = 0; r < group.size(); ++r) {
      ServerGroup::Member& member = group.members[r];
      if (member.presence != ServerGroup::Presence::kMissing) continue;
      if (now.monotonic_ns < member.lost_at_ns) {
        next_loss_ns_ = std::min(next_loss_ns_, member.lost_at_ns);
        continue;
      }
      member.presence = ServerGroup::Presence::kGone;
      FailGroup(index, FrameType::kRankLost, Rank(r), member.lost_because, actions);
    }
    ReleaseIfOver(index, actions);
  }
}

void ServerMachine::ReportWaiting(Now now, ServerActions* actions) {
  bool any_group = false;
  for (const GroupCell& cell : groups_) {
    if (cell.group == nullptr) continue;
    any_group = true;
    if (cell.group->failed) continue;
    ReportGathering(*cell.group, now, actions);
    if (cell.group->somebody_waits_for_commit) ReportUncommitted(*cell.group, now, actions);
  }
  next_report_ns_ = any_group ? now.monotonic_ns + options_.waiting_report_ns : kNoDeadline;
}

void ServerMachine::ReportGathering(const ServerGroup& group, Now now, ServerActions* actions) const {
  for (const ChunkSlot& slot : group.slots) {
    if (slot.state() != ChunkSlot::State::kGathering ||
        now.monotonic_ns - slot.gathering_since_ns() < options_.waiting_report_ns) {
      continue;
    }
    const Waiting waiting = group.RanksMissing(slot);
    FrameHeader header{.type = FrameType::kWaiting,
                       .group = group.id(),
                       .epoch = group.epoch(),
                       .op = slot.op(),
                       .chunk = slot.chunk()};
    for (uint32_t r = 0; r < group.size(); ++r) {
      if (!slot.Has(Rank(r)) || group.members[r].presence != ServerGroup::Presence::kPresent) continue;
      header.rank = Rank(r);
      actions->push_back(SendNoteAction{group.members[r].peer, MakeWaiting(header, waiting)});
    }
  }
}

void ServerMachine::ReportUncommitted(const ServerGroup& group, Now now, ServerActions* actions) const {
  for (uint32_t r = 0; r < group.size(); ++r) {
    const ServerGroup::Member& member = group.members[r];
    if (member.waits_for_commit <= group.ledger.watermark() || member.presence != ServerGroup::Presence::kPresent ||
        now.monotonic_ns - member.waits_since_ns < options_.waiting_report_ns) {
      continue;
    }
    const FrameHeader header{.type = FrameType::kWaiting,
                             .group = group.id(),
                             .epoch = group.epoch(),
                             .op = member.waits_for_commit,
                             .rank = Rank(r)};
    actions->push_back(SendNoteAction{member.peer, MakeWaiting(header, group.RanksBehind(member.waits_for_commit))});
  }
}

uint64_t ServerMachine::NextDeadlineNs() const { return std::min({next_report_ns_, next_loss_ns_, next_release_ns_}); }

ServerCounters ServerMachine::counters() const {
  ServerCounters counters = counters_;
  counters.groups_open = static_cast<uint32_t>(group_index_.size());
  counters.peers = static_cast<uint32_t>(peers_.size());
  counters.slot_memory_used_bytes = pool_.used_bytes();
  return counters;
}

}  // namespace shoal
