#include "server/server_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// A chunk's result goes to a different rank first each time, so that no rank is always served last.
uint32_t FirstReplyRank(ChunkNumber chunk, uint32_t group_size) { return chunk.value() % group_size; }

std::string DescribeBucket(uint64_t elements, DataType dtype, ReduceOp op, double factor) {
  std::string text =
      absl::StrCat(std::string(ReduceOpName(op)), " of ", elements, " ", std::string(DataTypeName(dtype)));
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
      return OnPeerDown(event, actions);
    case TransportEventKind::kNote:
      return OnNote(event, now, actions);
    case TransportEventKind::kOffered:
      return OnOffered(event, now, actions);
    case TransportEventKind::kLanded:
      return OnLanded(event, actions);
    case TransportEventKind::kSent:
      return OnSent(event, now, actions);
  }
}

void ServerMachine::OnPeerDown(const TransportEvent& event, ServerActions* actions) {
  const auto found = peers_.find(event.peer);
  if (found == peers_.end()) return;
  const Peer peer = std::move(found->second);
  peers_.erase(found);
  for (const Membership& membership : peer.memberships) {
    ServerGroup& group = *groups_[membership.group_index].group;
    std::erase_if(group.pending, [&](const ServerGroup::PendingPush& push) { return push.peer == event.peer; });
    MemberGone(membership.group_index, membership.rank);
    if (!peer.said_bye) {
      FailGroup(membership.group_index, FrameType::kRankLost, membership.rank,
                absl::StrCat("server ", options_.server_name, " lost its connection: ", event.status.message()),
                actions);
    }
    ReleaseIfOver(membership.group_index);
  }
}

void ServerMachine::OnNote(const TransportEvent& event, Now now, ServerActions* actions) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
  if (!header.ok()) return CloseMalformed(event.peer, OfferId(0), header.status(), actions);
  const std::span<const std::byte> body = event.bytes.subspan(kFrameHeaderBytes);
  switch (header->type) {
    case FrameType::kHello:
      return OnHello(event.peer, *header, body, now, actions);
    case FrameType::kLeaveGroup:
      return OnLeave(event.peer, *header, actions);
    case FrameType::kBye:
      return OnBye(event.peer, actions);
    case FrameType::kCommit: {
      uint32_t group_index = 0;
      Rank rank;
      const Refusal refusal = FindMember(event.peer, *header, &group_index, &rank);
      if (refusal != Refusal::kNone) return RefuseNote(event.peer, *header, refusal, "", actions);
      groups_[group_index].group->NoteWatermarks(rank, *header);
      return;
    }
    case FrameType::kGroupFailed: {
      uint32_t group_index = 0;
      Rank rank;
      const Refusal refusal = FindMember(event.peer, *header, &group_index, &rank);
      if (refusal != Refusal::kNone) return RefuseNote(event.peer, *header, refusal, "", actions);
      return FailGroup(group_index, FrameType::kGroupFailed, rank, DecodeText(body), actions);
    }
    default:
      return CloseMalformed(event.peer, OfferId(0),
                            absl::InvalidArgumentError(
                                absl::StrCat("a ", std::string(FrameTypeName(header->type)), " frame to a server")),
                            actions);
  }
}

absl::Status ServerMachine::CheckHello(const FrameHeader& header, const GroupToken& token, Now now,
                                       Refusal* refusal) const {
  *refusal = Refusal::kBadToken;
  if (absl::Status status = CheckToken(options_.token_key, token, now.unix_ms / 1000); !status.ok()) return status;
  if (token.group != header.group || token.epoch != header.epoch || token.rank != header.rank) {
    return absl::InvalidArgumentError("the hello's group, epoch or rank is not the token's");
  }
  if (draining_) {
    *refusal = Refusal::kDraining;
    return absl::UnavailableError(absl::StrCat("server ", options_.server_name, " is draining and opens no new group"));
  }
  const auto found = group_index_.find(token.group);
  if (found == group_index_.end()) return absl::OkStatus();
  const ServerGroup& group = *groups_[found->second].group;
  if (!group.Agrees(token)) {
    return absl::InvalidArgumentError("the token describes the group unlike the other ranks' tokens");
  }
  if (group.failed) {
    *refusal = Refusal::kGroupFailedBefore;
    return absl::AbortedError(group.failure);
  }
  if (group.members[token.rank.value()].presence != ServerGroup::Presence::kAbsent) {
    *refusal = Refusal::kRankTaken;
    return absl::AlreadyExistsError(
        absl::StrCat("rank ", token.rank.value(), " of the group said hello on another connection before"));
  }
  return absl::OkStatus();
}

int ServerMachine::OpenGroup(const GroupToken& token, Refusal* refusal, std::string* text) {
  const auto found = group_index_.find(token.group);
  if (found != group_index_.end()) return static_cast<int>(found->second);
  *refusal = Refusal::kNoSlotMemory;
  const auto cell = std::find_if(groups_.begin(), groups_.end(), [](const GroupCell& c) { return c.group == nullptr; });
  if (cell == groups_.end()) {
    *text = absl::StrCat("server ", options_.server_name, " has its limit of ", groups_.size(), " groups open");
    return -1;
  }
  uint32_t credit = std::clamp<uint32_t>(options_.window_bytes / token.max_chunk_bytes, 2, 64);
  std::optional<uint64_t> region;
  for (; credit >= 1; credit /= 2) {
    region = pool_.Allocate(ServerGroup::RegionBytes(credit, token.group_size, token.max_chunk_bytes));
    if (region.has_value()) break;
  }
  if (!region.has_value()) {
    *text = absl::StrCat("server ", options_.server_name, " has no memory for the slots of a group of ",
                         token.group_size, " ranks with ", token.max_chunk_bytes, "-byte chunks: it needs ",
                         ServerGroup::RegionBytes(1, token.group_size, token.max_chunk_bytes), " bytes, ",
                         pool_.capacity_bytes() - pool_.used_bytes(), " of ", pool_.capacity_bytes(),
                         " are free: start the server with more --slot-memory or use smaller chunks");
    return -1;
  }
  const auto index = static_cast<uint32_t>(cell - groups_.begin());
  ++cell->generation;
  cell->group = std::make_unique<ServerGroup>(token, credit, *region);
  group_index_[token.group] = index;
  return static_cast<int>(index);
}

void ServerMachine::OnHello(PeerId peer_id, const FrameHeader& header, std::span<const std::byte> body, Now now,
                            ServerActions* actions) {
  const auto peer = peers_.find(peer_id);
  if (peer == peers_.end()) return;
  const absl::StatusOr<GroupToken> token = DecodeToken(body);
  if (!token.ok()) return CloseMalformed(peer_id, OfferId(0), token.status(), actions);
  Refusal refusal = Refusal::kNone;
  if (absl::Status status = CheckHello(header, *token, now, &refusal); !status.ok()) {
    const absl::string_view text = status.message();
    return RefuseNote(peer_id, header, refusal, std::string_view(text.data(), text.size()), actions);
  }
  std::string text;
  const int index = OpenGroup(*token, &refusal, &text);
  if (index < 0) return RefuseNote(peer_id, header, refusal, text, actions);
  ServerGroup& group = *groups_[static_cast<size_t>(index)].group;
  group.members[token->rank.value()] = {.presence = ServerGroup::Presence::kPresent,
                                        .peer = peer_id,
                                        .incarnation = token->incarnation,
                                        .landed_watermark = OpNumber(0)};
  peer->second.memberships.push_back({static_cast<uint32_t>(index), token->rank});
  if (next_report_ns_ == kNoDeadline) next_report_ns_ = now.monotonic_ns + options_.waiting_report_ns;
  FrameHeader welcome = header;
  welcome.type = FrameType::kWelcome;
  actions->push_back(SendNoteAction{
      peer_id, MakeWelcome(welcome, {.incarnation = options_.incarnation, .credit_chunks = group.credit_chunks()})});
}

void ServerMachine::OnLeave(PeerId peer_id, const FrameHeader& header, ServerActions* actions) {
  uint32_t group_index = 0;
  Rank rank;
  const Refusal refusal = FindMember(peer_id, header, &group_index, &rank);
  if (refusal != Refusal::kNone) return RefuseNote(peer_id, header, refusal, "", actions);
  std::erase_if(peers_[peer_id].memberships,
                [&](const Membership& membership) { return membership.group_index == group_index; });
  MemberGone(group_index, rank);
  ReleaseIfOver(group_index);
}

void ServerMachine::OnBye(PeerId peer_id, ServerActions* actions) {
  const auto peer = peers_.find(peer_id);
  if (peer == peers_.end()) return;
  peer->second.said_bye = true;
  for (const Membership& membership : peer->second.memberships) {
    MemberGone(membership.group_index, membership.rank);
    ReleaseIfOver(membership.group_index);
  }
  peer->second.memberships.clear();
  actions->push_back(SendNoteAction{peer_id, MakeNote({.type = FrameType::kBye})});
}

Refusal ServerMachine::FindMember(PeerId peer, const FrameHeader& header, uint32_t* group_index, Rank* rank) const {
  const auto found = group_index_.find(header.group);
  if (found == group_index_.end()) return Refusal::kUnknownGroup;
  const ServerGroup& group = *groups_[found->second].group;
  if (header.rank.value() >= group.size()) return Refusal::kWrongRank;
  const ServerGroup::Member& member = group.members[header.rank.value()];
  if (member.presence != ServerGroup::Presence::kPresent || member.peer != peer) return Refusal::kWrongRank;
  if (header.epoch != group.epoch()) return Refusal::kStaleEpoch;
  *group_index = found->second;
  *rank = header.rank;
  return Refusal::kNone;
}

void ServerMachine::OnOffered(const TransportEvent& event, Now now, ServerActions* actions) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
  if (!header.ok()) return CloseMalformed(event.peer, event.offer, header.status(), actions);
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
  OpRecord* record = nullptr;
  refusal = group.ledger.Admit(*header, &record);
  if (refusal == Refusal::kNone && record->summed[header->chunk.value()]) refusal = Refusal::kDuplicate;
  if (refusal == Refusal::kLayoutMismatch) {
    const std::string text = DescribeMismatch(*record, *header);
    RefuseOffer(event.peer, event.offer, *header, refusal, text, actions);
    return FailGroup(group_index, FrameType::kGroupFailed, rank, text, actions);
  }
  if (refusal != Refusal::kNone) return RefuseOffer(event.peer, event.offer, *header, refusal, "", actions);
  if (TryAccept(group_index, event.peer, *header, event.offer, now, actions)) return;
  if (group.pending.size() >= size_t{group.size()} * group.credit_chunks()) {
    return RefuseOffer(event.peer, event.offer, *header, Refusal::kNoSlot, "", actions);
  }
  group.pending.push_back({event.peer, event.offer, *header});
}

bool ServerMachine::TryAccept(uint32_t group_index, PeerId peer, const FrameHeader& header, OfferId offer, Now now,
                              ServerActions* actions) {
  GroupCell& cell = groups_[group_index];
  ServerGroup& group = *cell.group;
  int index = group.FindSlot(header.op, header.chunk);
  if (index < 0) {
    index = group.FindFreeSlot();
    if (index < 0) return false;
    group.slots[static_cast<size_t>(index)].Start(header.op, header.chunk, now.monotonic_ns);
  }
  const Refusal refusal = group.slots[static_cast<size_t>(index)].Offer(header.rank);
  if (refusal != Refusal::kNone) {
    RefuseOffer(peer, offer, header, refusal, "", actions);
    return true;
  }
  actions->push_back(
      AcceptAction{.offer = offer,
                   .offset = group.BufferOffset(static_cast<uint32_t>(index), header.rank),
                   .bytes = uint64_t{header.chunk_elements} * DataTypeSize(header.dtype),
                   .token = Pack({static_cast<uint16_t>(group_index), cell.generation, static_cast<uint16_t>(index),
                                  static_cast<uint16_t>(header.rank.value())})});
  return true;
}

void ServerMachine::RetryPending(uint32_t group_index, Now now, ServerActions* actions) {
  ServerGroup& group = *groups_[group_index].group;
  while (!group.pending.empty()) {
    const ServerGroup::PendingPush push = group.pending.front();
    if (!TryAccept(group_index, push.peer, push.header, push.offer, now, actions)) return;
    group.pending.pop_front();
  }
}

void ServerMachine::OnLanded(const TransportEvent& event, ServerActions* actions) {
  const OperationToken token = Unpack(event.token);
  ServerGroup& group = *Lookup(token);
  ChunkSlot& slot = group.slots[token.slot];
  const bool complete = slot.Landed(Rank(token.rank), event.status.ok());
  const OpRecord* record = group.ledger.Find(slot.op());
  if (event.status.ok() && record != nullptr) {
    ++counters_.contributions_landed;
    counters_.bytes_in += uint64_t{record->plan.ElementCount(slot.chunk())} * DataTypeSize(record->dtype);
  }
  if (complete && record == nullptr) {
    // Only a job whose own worker lied about its watermark gets here: nobody waits for this chunk any more.
    slot.StartReplies(0);
    slot.Abandon();
  }
  if (!complete || record == nullptr) return ReleaseIfOver(token.group_index);
  actions->push_back(
      ReduceAction{.spec = {.dtype = record->dtype, .op = record->reduce_op, .premul_factor = record->premul_factor},
                   .offset = group.BufferOffset(token.slot, Rank(0)),
                   .stride_bytes = group.stride_bytes(),
                   .input_count = group.size(),
                   .elements = record->plan.ElementCount(slot.chunk()),
                   .token = event.token});
}

void ServerMachine::OnReduced(uint64_t packed, Now now, ServerActions* actions) {
  OperationToken token = Unpack(packed);
  ServerGroup& group = *Lookup(token);
  ChunkSlot& slot = group.slots[token.slot];
  OpRecord* record = group.ledger.Find(slot.op());
  std::vector<Rank>& receivers = receivers_;
  receivers.clear();
  if (!group.failed && record != nullptr) {
    record->summed[slot.chunk().value()] = true;
    ++counters_.chunks_reduced;
    for (uint32_t i = 0; i < group.size(); ++i) {
      const Rank rank((FirstReplyRank(slot.chunk(), group.size()) + i) % group.size());
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
                       .contributors = group.size()};
    const uint64_t bytes = uint64_t{header.chunk_elements} * DataTypeSize(header.dtype);
    counters_.bytes_out += bytes;
    token.rank = static_cast<uint16_t>(rank.value());
    actions->push_back(SendPayloadAction{.peer = group.members[rank.value()].peer,
                                         .header = EncodeHeader(header),
                                         .offset = group.BufferOffset(token.slot, Rank(0)),
                                         .bytes = bytes,
                                         .token = Pack(token)});
  }
  if (receivers.empty()) {
    RetryPending(token.group_index, now, actions);
    ReleaseIfOver(token.group_index);
  }
}

void ServerMachine::OnSent(const TransportEvent& event, Now now, ServerActions* actions) {
  const OperationToken token = Unpack(event.token);
  if (!Lookup(token)->slots[token.slot].ReplySent()) return;
  RetryPending(token.group_index, now, actions);
  ReleaseIfOver(token.group_index);
}

void ServerMachine::RefuseOffer(PeerId peer, OfferId offer, const FrameHeader& header, Refusal refusal,
                                std::string_view text, ServerActions* actions) {
  actions->push_back(DeclineAction{offer});
  RefuseNote(peer, header, refusal, text, actions);
}

void ServerMachine::RefuseNote(PeerId peer, const FrameHeader& header, Refusal refusal, std::string_view text,
                               ServerActions* actions) {
  ++counters_.refusals[static_cast<size_t>(refusal)];
  FrameHeader reply = header;
  reply.type = FrameType::kRefuse;
  reply.refusal = refusal;
  actions->push_back(SendNoteAction{peer, MakeTextNote(reply, text)});
}

// Who does not speak the protocol can't be told apart from an attacker: he is told why and cut off.
void ServerMachine::CloseMalformed(PeerId peer, OfferId offer, const absl::Status& why, ServerActions* actions) {
  const Refusal refusal =
      why.code() == absl::StatusCode::kFailedPrecondition ? Refusal::kOtherVersion : Refusal::kMalformed;
  if (offer != OfferId(0)) actions->push_back(DeclineAction{offer});
  const absl::string_view text = why.message();
  RefuseNote(peer, FrameHeader{.type = FrameType::kRefuse}, refusal, std::string_view(text.data(), text.size()),
             actions);
  actions->push_back(ClosePeerAction{peer});
}

std::string ServerMachine::DescribeMismatch(const OpRecord& record, const FrameHeader& push) const {
  return absl::StrCat("the ranks disagree on op ", push.op.value(), ": rank ", record.registered_by.value(), " called ",
                      DescribeBucket(record.plan.element_count, record.dtype, record.reduce_op, record.premul_factor),
                      ", rank ", push.rank.value(), " called ",
                      DescribeBucket(push.bucket_elements, push.dtype, push.reduce_op, push.premul_factor),
                      ": all ranks must make the same calls in the same order");
}

void ServerMachine::FailGroup(uint32_t group_index, FrameType type, Rank rank, std::string text,
                              ServerActions* actions) {
  ServerGroup& group = *groups_[group_index].group;
  if (group.failed) return;
  group.failed = true;
  group.failure = std::move(text);
  ++counters_.groups_failed;
  for (const ServerGroup::PendingPush& push : group.pending) actions->push_back(DeclineAction{push.offer});
  group.pending.clear();
  for (ChunkSlot& slot : group.slots) {
    if (slot.state() != ChunkSlot::State::kFree) slot.Abandon();
  }
  const FrameHeader header{.type = type, .group = group.id(), .epoch = group.epoch(), .rank = rank};
  for (const ServerGroup::Member& member : group.members) {
    if (member.presence != ServerGroup::Presence::kPresent) continue;
    actions->push_back(SendNoteAction{member.peer, MakeTextNote(header, group.failure)});
  }
}

void ServerMachine::MemberGone(uint32_t group_index, Rank rank) {
  groups_[group_index].group->members[rank.value()].presence = ServerGroup::Presence::kGone;
}

// A group is over when nobody is in it and the network is done with its memory.
void ServerMachine::ReleaseIfOver(uint32_t group_index) {
  GroupCell& cell = groups_[group_index];
  if (cell.group == nullptr || cell.group->AnyPresent() || !cell.group->AllSlotsIdle()) return;
  pool_.Free(cell.group->slot_region());
  group_index_.erase(cell.group->id());
  cell.group.reset();
}

void ServerMachine::Tick(Now now, ServerActions* actions) {
  if (now.monotonic_ns < next_report_ns_) return;
  bool any_group = false;
  for (const GroupCell& cell : groups_) {
    if (cell.group == nullptr) continue;
    any_group = true;
    const ServerGroup& group = *cell.group;
    for (const ChunkSlot& slot : group.slots) {
      if (group.failed || slot.state() != ChunkSlot::State::kGathering ||
          now.monotonic_ns - slot.gathering_since_ns() < options_.waiting_report_ns) {
        continue;
      }
      Waiting waiting;
      for (uint32_t r = 0; r < group.size(); ++r) {
        if (slot.Has(Rank(r))) continue;
        ++waiting.missing_count;
        if (waiting.listed_count < kMaxMissingRanks) waiting.ranks[waiting.listed_count++] = Rank(r);
      }
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
  next_report_ns_ = any_group ? now.monotonic_ns + options_.waiting_report_ns : kNoDeadline;
}

uint64_t ServerMachine::NextDeadlineNs() const { return next_report_ns_; }

ServerCounters ServerMachine::counters() const {
  ServerCounters counters = counters_;
  counters.groups_open = static_cast<uint32_t>(group_index_.size());
  counters.peers = static_cast<uint32_t>(peers_.size());
  counters.slot_memory_used_bytes = pool_.used_bytes();
  return counters;
}

}  // namespace shoal
