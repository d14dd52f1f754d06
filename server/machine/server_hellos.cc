// The part of ServerMachine that concerns ranks and groups: which ranks are let in, which have left, and how a group
// ends.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/flow_plan.h"
#include "server/machine/server_machine.h"

namespace shoal {
namespace {

// The credit of a group whose token names none.
constexpr uint32_t kDefaultWindowBytes = 1 << 20;

}  // namespace

void ServerMachine::OnNote(const TransportEvent& event, Now now, ServerActions* actions) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
  if (!header.ok()) return CloseMalformed(event.peer, OfferId(0), header.status(), actions);
  const std::span<const std::byte> body = event.bytes.subspan(kFrameHeaderBytes);
  switch (header->type) {
    case FrameType::kHello:
      return OnHello(event.peer, *header, body, now, actions);
    case FrameType::kLeaveGroup:
      ForgetHeldHellos(event.peer, header->group);
      return OnLeave(event.peer, *header, actions);
    case FrameType::kBye:
      ForgetHeldHellos(event.peer, std::nullopt);
      return OnBye(event.peer, actions);
    case FrameType::kProbe:
      return OnProbe(event.peer, *header, actions);
    case FrameType::kCommit: {
      uint32_t group_index = 0;
      Rank rank;
      const Refusal refusal = FindRank(event.peer, *header, &group_index, &rank);
      if (refusal != Refusal::kNone) return RefuseNote(event.peer, *header, refusal, "", actions);
      ServerGroup& group = *groups_[group_index].group;
      group.WaitForCommit(rank, header->op, now);
      group.NoteWatermarks(rank, *header);
      return AnnounceCommit(&group, actions);
    }
    case FrameType::kGroupFailed: {
      ForgetHeldHellos(event.peer, header->group);
      uint32_t group_index = 0;
      Rank rank;
      const Refusal refusal = FindRank(event.peer, *header, &group_index, &rank);
      if (refusal != Refusal::kNone) return RefuseNote(event.peer, *header, refusal, "", actions);
      const bool lacked_memory = header->refusal == Refusal::kGroupLackedMemory;
      const FrameHeader told = {.type = FrameType::kGroupFailed,
                                .rank = rank,
                                .refusal = lacked_memory ? Refusal::kGroupLackedMemory : Refusal::kNone};
      return FailGroup(group_index, told, ServerGroup::FailureOf::kGroup, DecodeText(body), actions);
    }
    default:
      return CloseMalformed(event.peer, OfferId(0),
                            absl::InvalidArgumentError(
                                absl::StrCat("no server takes a ", std::string(FrameTypeName(header->type)), " frame")),
                            actions);
  }
}

absl::Status ServerMachine::CheckHello(const FrameHeader& header, const GroupToken& token, Now now,
                                       Refusal* refusal) const {
  *refusal = Refusal::kBadToken;
  if (absl::Status status = CheckToken(options_.token_key, token, now.unix_ms / 1000); !status.ok()) return status;
  if (token.group != header.group || token.epoch > header.epoch || token.rank != header.rank) {
    return absl::InvalidArgumentError("the hello names another group or rank than its token, or an older epoch");
  }
  const auto found = group_index_.find(token.group);
  if (found == group_index_.end()) {
    const auto ended = std::find_if(ended_groups_.begin(), ended_groups_.end(), [&](const EndedGroup& group) {
      return group.id == token.group && group.Binds(header.epoch);
    });
    if (ended != ended_groups_.end()) {
      *refusal = ended->refusal;
      return absl::AbortedError(ended->why);
    }
    if (!draining_) return absl::OkStatus();
    *refusal = Refusal::kDraining;
    return absl::UnavailableError(absl::StrCat("server ", options_.server_name, " is draining and opens no new group"));
  }
  const ServerGroup& group = *groups_[found->second].group;
  if (!group.Agrees(token)) {
    return absl::InvalidArgumentError("the token describes the group differently from the other ranks' tokens");
  }
  if (group.FailureBinds(header.epoch)) {
    *refusal = group.failure_refusal();
    return absl::AbortedError(group.failure());
  }
  if (header.epoch > group.epoch()) return absl::OkStatus();
  if (header.epoch < group.epoch()) {
    *refusal = Refusal::kStaleEpoch;
    return absl::AbortedError(absl::StrCat("the group is in epoch ", group.epoch().value(), " already"));
  }
  if (group.rank_state(token.rank).presence != ServerGroup::Presence::kExpected) {
    *refusal = Refusal::kRankTaken;
    return absl::AlreadyExistsError(
        absl::StrCat(group.NameOf(token.rank), " of the group has said hello on another connection already"));
  }
  return absl::OkStatus();
}

int ServerMachine::OpenGroup(const GroupToken& token, Epoch epoch, Refusal* refusal, std::string* text,
                             ServerActions* actions) {
  const auto found = group_index_.find(token.group);
  if (found != group_index_.end()) return static_cast<int>(found->second);
  *refusal = Refusal::kNoSlotMemory;
  if (group_index_.size() >= options_.max_groups) {
    *text = absl::StrCat("server ", options_.server_name, " has its limit of ", options_.max_groups, " groups open");
    return -1;
  }
  uint32_t credit = token.credit_chunks;
  if (options_.window_bytes != 0 || credit == 0) {
    credit = (options_.window_bytes == 0 ? kDefaultWindowBytes : options_.window_bytes) / token.max_chunk_bytes;
  }
  credit = std::clamp<uint32_t>(credit, 2, kMaxCreditChunks);
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
                         " are free; start the server with more --slot-memory or use smaller chunks");
    return -1;
  }
  auto cell = std::find_if(groups_.begin(), groups_.end(), [](const GroupCell& c) { return c.group == nullptr; });
  if (cell == groups_.end()) cell = groups_.emplace(groups_.end());
  const auto index = static_cast<uint32_t>(cell - groups_.begin());
  ++cell->generation;
  cell->group = std::make_unique<ServerGroup>(token, epoch, credit, *region);
  group_index_[token.group] = index;
  LogGroup(EventKind::kShardGroupOpened, *cell->group, std::nullopt,
           absl::StrCat(token.group_size, " ranks with ", credit, " chunks of ", token.max_chunk_bytes,
                        " bytes in flight each; the slots take ", cell->group->region_bytes(), " bytes"),
           actions);
  return static_cast<int>(index);
}

void ServerMachine::OnHello(PeerId peer_id, const FrameHeader& header, std::span<const std::byte> body, Now now,
                            ServerActions* actions) {
  if (!peers_.contains(peer_id)) return;
  const absl::StatusOr<GroupToken> token = DecodeToken(body);
  if (!token.ok()) return CloseMalformed(peer_id, OfferId(0), token.status(), actions);
  Greet({peer_id, header, *token, now.monotonic_ns + kTokenKeyPatienceNs}, now, actions);
}

bool ServerMachine::TryHold(const HeldHello& hello) {
  ForgetHeldHellos(hello.peer, hello.header.group);  // this one is newer
  const auto of_peer =
      std::ranges::count_if(held_hellos_, [&](const HeldHello& each) { return each.peer == hello.peer; });
  if (held_hellos_.size() == kMaxHeldHellos || static_cast<size_t>(of_peer) == kMaxHeldHellosOfPeer) return false;
  held_hellos_.push_back(hello);
  return true;
}

void ServerMachine::ForgetHeldHellos(PeerId peer, std::optional<GroupId> group) {
  std::erase_if(held_hellos_, [&](const HeldHello& hello) {
    return hello.peer == peer && hello.header.group == group.value_or(hello.header.group);
  });
}

void ServerMachine::RefuseHeldHellos(Now now, ServerActions* actions) {
  while (!held_hellos_.empty() && now.monotonic_ns >= held_hellos_.front().refuse_at_ns) {
    const HeldHello hello = held_hellos_.front();
    held_hellos_.pop_front();
    Greet(hello, now, actions);
  }
}

void ServerMachine::Greet(const HeldHello& hello, Now now, ServerActions* actions) {
  const auto& [peer_id, header, token, refuse_at_ns] = hello;
  Refusal refusal = Refusal::kNone;
  if (absl::Status status = CheckHello(header, token, now, &refusal); !status.ok()) {
    if (absl::IsUnauthenticated(status) && now.monotonic_ns < refuse_at_ns && TryHold(hello)) return;
    const absl::string_view text = status.message();
    return RefuseNote(peer_id, header, refusal, std::string_view(text.data(), text.size()), actions);
  }
  std::string text;
  const int index = OpenGroup(token, header.epoch, &refusal, &text, actions);
  if (index < 0) return RefuseNote(peer_id, header, refusal, text, actions);
  ServerGroup& group = *groups_[static_cast<size_t>(index)].group;
  if (header.epoch > group.epoch()) MoveGroup(static_cast<uint32_t>(index), header.epoch, actions);
  group.Enter(token.rank, peer_id, token.incarnation, header.op);
  group.NoteWatermarks(token.rank, header);
  AnnounceCommit(&group, actions);
  peers_.at(peer_id).ranks.push_back({static_cast<uint32_t>(index), token.rank});
  if (next_report_ns_ == kNoDeadline) next_report_ns_ = now.monotonic_ns + options_.waiting_report_ns;
  FrameHeader welcome = header;
  welcome.type = FrameType::kWelcome;
  actions->push_back(SendNoteAction{
      peer_id, MakeWelcome(welcome, {.incarnation = options_.incarnation, .credit_chunks = group.credit_chunks()})});
  for (uint32_t slot = 0; slot < group.slot_count(); ++slot) AskFor(group, slot, token.rank, actions);
}

void ServerMachine::MoveGroup(uint32_t group_index, Epoch epoch, ServerActions* actions) {
  ServerGroup& group = *groups_[group_index].group;
  const Epoch before = group.epoch();
  for (const ServerGroup::PendingPush& push : group.TakePending()) actions->push_back(DeclineAction{push.offer});
  for (uint32_t slot = 0; slot < group.slot_count(); ++slot) AbandonSlot(&group, slot, actions);
  for (uint32_t r = 0; r < group.size(); ++r) {
    if (!group.IsPresent(Rank(r))) continue;
    std::erase_if(peers_[group.rank_state(Rank(r)).peer].ranks, [&](const RankInGroup& joined) {
      return joined.group_index == group_index && joined.rank == Rank(r);
    });
  }
  group.MoveTo(epoch);
  LogGroup(EventKind::kShardGroupMoved, group, std::nullopt, absl::StrCat("from epoch ", before.value()), actions);
}

void ServerMachine::AbandonSlot(ServerGroup* group, uint32_t index, ServerActions* actions) {
  ChunkSlot& slot = group->slot(index);
  if (slot.state() == ChunkSlot::State::kGathering) ForgetInputs(*group, index, actions);
  if (slot.state() != ChunkSlot::State::kFree) slot.Abandon();
}

void ServerMachine::AskFor(const ServerGroup& group, uint32_t index, Rank rank, ServerActions* actions) {
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

// A worker measures its link to this server. It has said hello to no group yet.
void ServerMachine::OnProbe(PeerId peer, const FrameHeader& header, ServerActions* actions) {
  actions->push_back(SendNoteAction{peer, MakeNote({.type = FrameType::kProbe, .chunk = header.chunk})});
}

void ServerMachine::OnLeave(PeerId peer_id, const FrameHeader& header, ServerActions* actions) {
  uint32_t group_index = 0;
  Rank rank;
  const Refusal refusal = FindRank(peer_id, header, &group_index, &rank);
  if (refusal != Refusal::kNone) return RefuseNote(peer_id, header, refusal, "", actions);
  std::erase_if(peers_[peer_id].ranks,
                [&](const RankInGroup& joined) { return joined.group_index == group_index && joined.rank == rank; });
  RankGone(group_index, rank, actions);
  ReleaseIfOver(group_index, actions);
}

void ServerMachine::OnBye(PeerId peer_id, ServerActions* actions) {
  const auto peer = peers_.find(peer_id);
  if (peer == peers_.end()) return;
  peer->second.said_bye = true;
  for (const RankInGroup& joined : peer->second.ranks) {
    RankGone(joined.group_index, joined.rank, actions);
    ReleaseIfOver(joined.group_index, actions);
  }
  peer->second.ranks.clear();
  actions->push_back(SendNoteAction{peer_id, MakeNote({.type = FrameType::kBye})});
}

Refusal ServerMachine::FindRank(PeerId peer, const FrameHeader& header, uint32_t* group_index, Rank* rank) const {
  const auto found = group_index_.find(header.group);
  if (found == group_index_.end()) return Refusal::kUnknownGroup;
  const ServerGroup& group = *groups_[found->second].group;
  if (header.epoch < group.epoch()) return Refusal::kStaleEpoch;
  if (header.rank.value() >= group.size()) return Refusal::kWrongRank;
  if (!group.IsPresent(header.rank) || group.rank_state(header.rank).peer != peer) {
    return group.HasPeer(peer) ? Refusal::kWrongRank : Refusal::kUnknownGroup;
  }
  if (header.epoch != group.epoch()) return Refusal::kStaleEpoch;
  *group_index = found->second;
  *rank = header.rank;
  return Refusal::kNone;
}

void ServerMachine::RefuseNote(PeerId peer, const FrameHeader& header, Refusal refusal, std::string_view text,
                               ServerActions* actions) {
  Refuse(peer, header, refusal, text, actions);
  const bool is_hello = header.type == FrameType::kHello;
  const auto found = group_index_.find(header.group);
  const EventIds ids{.job = found == group_index_.end() ? JobId() : groups_[found->second].group->job(),
                     .group = header.group,
                     .epoch = header.epoch,
                     .rank = header.rank.value()};
  actions->push_back(LogAction(
      is_hello ? EventKind::kHelloRefused : EventKind::kMessageRefused, ids,
      absl::StrCat(std::string(FrameTypeName(header.type)),
                   is_hello ? "" : absl::StrCat(" of op ", header.op.value(), ", chunk ", header.chunk.value()), ": ",
                   std::string(RefusalName(refusal)), text.empty() ? "" : ": ", std::string(text))));
}

void ServerMachine::Refuse(PeerId peer, const FrameHeader& header, Refusal refusal, std::string_view text,
                           ServerActions* actions) {
  ++counters_.refusals[static_cast<size_t>(refusal)];
  FrameHeader reply = header;
  reply.type = FrameType::kRefuse;
  reply.refusal = refusal;
  actions->push_back(SendNoteAction{peer, MakeTextNote(reply, text)});
}

// A peer that does not speak the protocol can't be told apart from an attacker: it is told why, and its connection is
// closed.
void ServerMachine::CloseMalformed(PeerId peer, OfferId offer, const absl::Status& why, ServerActions* actions) {
  const Refusal refusal =
      why.code() == absl::StatusCode::kFailedPrecondition ? Refusal::kOtherVersion : Refusal::kMalformed;
  if (offer != OfferId(0)) actions->push_back(DeclineAction{offer});
  const absl::string_view text = why.message();
  Refuse(peer, FrameHeader{.type = FrameType::kRefuse}, refusal, std::string_view(text.data(), text.size()), actions);
  actions->push_back(
      LogAction(EventKind::kPeerClosed, {}, absl::StrCat(std::string(RefusalName(refusal)), ": ", text)));
  actions->push_back(ClosePeerAction{peer});
  if (const auto found = peers_.find(peer); found != peers_.end()) found->second.closed_because = std::string(text);
}

void ServerMachine::FailGroup(uint32_t group_index, FrameHeader told, ServerGroup::FailureOf of, std::string text,
                              ServerActions* actions) {
  ServerGroup& group = *groups_[group_index].group;
  const bool failed_before = group.failed();
  group.Fail(of, told.refusal == Refusal::kNone ? Refusal::kGroupFailedBefore : told.refusal, std::move(text));
  if (failed_before) return;
  ++counters_.groups_failed;
  LogGroup(EventKind::kShardGroupFailed, group, told.rank, group.failure(), actions);
  next_release_ns_ = 0;
  for (const ServerGroup::PendingPush& push : group.TakePending()) actions->push_back(DeclineAction{push.offer});
  for (uint32_t slot = 0; slot < group.slot_count(); ++slot) AbandonSlot(&group, slot, actions);
  told.group = group.id();
  told.epoch = group.epoch();
  for (uint32_t r = 0; r < group.size(); ++r) {
    if (!group.IsPresent(Rank(r))) continue;
    actions->push_back(SendNoteAction{group.rank_state(Rank(r)).peer, MakeTextNote(told, group.failure())});
  }
}

void ServerMachine::AnnounceCommit(ServerGroup* group, ServerActions* actions) {
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

void ServerMachine::RankGone(uint32_t group_index, Rank rank, ServerActions* actions) {
  for (const OfferId offer : groups_[group_index].group->Leave(rank)) actions->push_back(DeclineAction{offer});
}

void ServerMachine::LogGroup(EventKind kind, const ServerGroup& group, std::optional<Rank> rank, std::string_view text,
                             ServerActions* actions) {
  EventIds ids{.job = group.job(), .group = group.id(), .epoch = group.epoch()};
  if (rank.has_value()) ids.rank = rank->value();
  actions->push_back(LogAction(kind, ids, text));
}

void ServerMachine::ForgetInputs(const ServerGroup& group, uint32_t slot, ServerActions* actions) {
  actions->push_back(
      ForgetInputsAction{.offset = group.BufferOffset(slot, Rank(0)), .bytes = group.size() * group.stride_bytes()});
}

}  // namespace shoal
