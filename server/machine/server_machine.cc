#include "server/machine/server_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/machine/group_notes.h"

namespace shoal {

uint64_t ServerCounters::RefusalTotal() const {
  uint64_t total = 0;
  for (uint64_t count : refusals) total += count;
  return total;
}

ServerMachine::ServerMachine(const ServerMachineOptions& options)
    : server_name_(options.server_name),
      incarnation_(options.incarnation),
      groups_(options.server_name, {.slot_memory_bytes = options.slot_memory_bytes,
                                    .window_bytes = options.window_bytes,
                                    .max_groups = options.max_groups}),
      admission_(options.server_name, options.token_key),
      absent_ranks_(options.lease_ttl_ns),
      waiting_reports_(options.waiting_report_ns) {}

// ---- events ----

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
    case TransportEventKind::kSent:
      break;
  }
  const SlotOperation operation = SlotOperation::Unpack(event.token);
  const bool may_be_over = event.kind == TransportEventKind::kLanded
                               ? exchange_.OnLanded(operation, event, now, actions)
                               : exchange_.OnSent(operation, now, actions);
  if (may_be_over) groups_.CloseIfOver(operation.group_index, actions);
}

void ServerMachine::OnEvent(const ReduceDone& event, Now now, ServerActions* actions) {
  const SlotOperation operation = SlotOperation::Unpack(event.token);
  if (exchange_.OnReduced(operation, now, actions)) groups_.CloseIfOver(operation.group_index, actions);
}

void ServerMachine::OnEvent(const DrainRequested& event, Now, ServerActions*) { admission_.SetDraining(event.drain); }

void ServerMachine::OnEvent(const SchedulerHeard& event, Now now, ServerActions*) {
  absent_ranks_.NoteScheduler(event, now);
}

void ServerMachine::OnEvent(const TokenKeyChanged& event, Now now, ServerActions* actions) {
  if (!admission_.ChangeKey(event.key)) return;
  absent_ranks_.NoteSchedulerForgot(&groups_);
  for (Hello& hello : held_hellos_.TakeAll()) {
    hello.refuse_at_ns = 0;  // the key that it has waited for is here
    Greet(hello, now, actions);
  }
}

void ServerMachine::Tick(Now now, ServerActions* actions) {
  GiveUpAbsent(now, actions);
  waiting_reports_.Tick(groups_, now, actions);
  if (now.monotonic_ns >= next_release_ns_) ReleaseFailed(now, actions);
  while (const std::optional<Hello> hello = held_hellos_.TakeDue(now)) Greet(*hello, now, actions);
}

uint64_t ServerMachine::NextDeadlineNs() const {
  return std::min({waiting_reports_.NextDeadlineNs(), absent_ranks_.NextDeadlineNs(), next_release_ns_,
                   held_hellos_.NextDeadlineNs()});
}

void ServerMachine::OnPeerDown(const TransportEvent& event, Now now, ServerActions* actions) {
  const auto found = peers_.find(event.peer);
  if (found == peers_.end()) return;
  const Peer peer = std::move(found->second);
  peers_.erase(found);
  held_hellos_.Forget(event.peer, std::nullopt);
  for (const RankInGroup& joined : peer.ranks) {
    RankGone(joined, actions);
    ServerGroup& group = *groups_.at(joined.group_index);
    if (group.failed()) {
      // Its ranks have been told already.
    } else if (!peer.closed_because.empty()) {
      FailGroup(joined.group_index, {.type = FrameType::kRankLost, .rank = joined.rank}, ServerGroup::FailureOf::kGroup,
                absl::StrCat("server ", server_name_, " closed its connection: ", peer.closed_because), actions);
    } else if (!peer.said_bye) {
      absent_ranks_.MarkAbsent(
          &group, joined.rank,
          absl::StrCat("server ", server_name_, " lost its connection: ",
                       event.status.ok() ? "it was closed without a goodbye" : event.status.message()),
          now);
      LogGroup(EventKind::kRankAbsent, group, joined.rank, group.rank_state(joined.rank).absent_because, actions);
    }
    groups_.CloseIfOver(joined.group_index, actions);
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
    case FrameType::kCommit:
    case FrameType::kGroupFailed:
      return OnNoteOfRank(event.peer, *header, body, now, actions);
    case FrameType::kBye:
      return OnBye(event.peer, actions);
    case FrameType::kProbe:
      // A worker measures its link to this server. It has said hello to no group yet.
      actions->push_back(SendNoteAction{event.peer, MakeNote({.type = FrameType::kProbe, .chunk = header->chunk})});
      return;
    default:
      return CloseMalformed(event.peer, OfferId(0),
                            absl::InvalidArgumentError(
                                absl::StrCat("no server takes a ", std::string(FrameTypeName(header->type)), " frame")),
                            actions);
  }
}

void ServerMachine::OnNoteOfRank(PeerId peer, const FrameHeader& header, std::span<const std::byte> body, Now now,
                                 ServerActions* actions) {
  if (header.type != FrameType::kCommit) held_hellos_.Forget(peer, header.group);
  RankInGroup from{};
  const Refusal refusal = FindRank(peer, header, &from);
  if (refusal != Refusal::kNone) return refusals_.RefuseNote(peer, header, refusal, "", actions);
  if (header.type == FrameType::kCommit) {
    ServerGroup& group = *groups_.at(from.group_index);
    group.WaitForCommit(from.rank, header.op, now);
    group.NoteWatermarks(from.rank, header);
    return AnnounceCommit(&group, actions);
  }
  if (header.type == FrameType::kGroupFailed) {
    const bool lacked_memory = header.refusal == Refusal::kGroupLackedMemory;
    const FrameHeader told = {.type = FrameType::kGroupFailed,
                              .rank = from.rank,
                              .refusal = lacked_memory ? Refusal::kGroupLackedMemory : Refusal::kNone};
    return FailGroup(from.group_index, told, ServerGroup::FailureOf::kGroup, DecodeText(body), actions);
  }
  Disconnect(from.group_index, from.rank);
  RankGone(from, actions);
  ServerGroup& group = *groups_.at(from.group_index);
  group.NoteCallsNoneFrom(header.op, from.rank);
  const bool may_be_missed = header.op != OpNumber(0) && (group.SlotsInUse() > 0 || group.pending_count() > 0);
  for (uint32_t r = 0; may_be_missed && r < group.size(); ++r) {
    if (group.WaitsForResult(Rank(r), header.op)) TellOfLeaver(&group, header.op, Rank(r), actions);
  }
  groups_.CloseIfOver(from.group_index, actions);
}

void ServerMachine::OnBye(PeerId peer_id, ServerActions* actions) {
  held_hellos_.Forget(peer_id, std::nullopt);
  const auto peer = peers_.find(peer_id);
  if (peer == peers_.end()) return;
  peer->second.said_bye = true;
  for (const RankInGroup& joined : peer->second.ranks) {
    RankGone(joined, actions);
    groups_.CloseIfOver(joined.group_index, actions);
  }
  peer->second.ranks.clear();
  actions->push_back(SendNoteAction{peer_id, MakeNote({.type = FrameType::kBye})});
}

void ServerMachine::OnOffered(const TransportEvent& event, Now now, ServerActions* actions) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
  if (!header.ok()) return CloseMalformed(event.peer, event.offer, header.status(), actions);
  if (header->type == FrameType::kProbe) {
    actions->push_back(DeclineAction{event.offer});
    actions->push_back(SendNoteAction{event.peer, MakeNote({.type = FrameType::kProbe, .chunk = header->chunk})});
    return;
  }
  if (header->type != FrameType::kPush || event.payload_bytes != header->payload_bytes()) {
    return CloseMalformed(
        event.peer, event.offer,
        absl::InvalidArgumentError("the payload is not a push, or does not have the size of its chunk"), actions);
  }
  RankInGroup from{};
  const Refusal refusal = FindRank(event.peer, *header, &from);
  if (refusal != Refusal::kNone) {
    return refusals_.RefuseOffer(event.peer, event.offer, *header, refusal, "", actions);
  }
  OnPush(from, {event.peer, event.offer, *header}, now, actions);
}

void ServerMachine::OnPush(const RankInGroup& from, const ServerGroup::PendingPush& push, Now now,
                           ServerActions* actions) {
  ServerGroup& group = *groups_.at(from.group_index);
  const auto refuse = [&](Refusal refusal, std::string_view text) {
    refusals_.RefuseOffer(push.peer, push.offer, push.header, refusal, text, actions);
  };
  if (group.failed()) return refuse(group.failure_refusal(), group.failure());
  group.NoteWatermarks(from.rank, push.header);
  AnnounceCommit(&group, actions);
  const OpRecord* record = nullptr;
  Refusal refusal = group.Admit(push.header, &record);
  if (refusal == Refusal::kNone && push.header.contributors > group.size()) {
    refusal = Refusal::kMalformed;
  }
  if (refusal == Refusal::kLayoutMismatch) {
    const std::string text = DescribeMismatch(group, *record, push.header);
    refuse(refusal, text);
    return FailGroup(from.group_index, {.type = FrameType::kGroupFailed, .rank = from.rank},
                     ServerGroup::FailureOf::kGroup, text, actions);
  }
  if (refusal != Refusal::kNone) return refuse(refusal, "");
  TellOfLeaver(&group, push.header.op, from.rank, actions);
  exchange_.OnPush(from.group_index, push, *record, now, actions);
}

// ---- ranks and groups ----

void ServerMachine::OnHello(PeerId peer, const FrameHeader& header, std::span<const std::byte> body, Now now,
                            ServerActions* actions) {
  if (!peers_.contains(peer)) return;
  const absl::StatusOr<GroupToken> token = DecodeToken(body);
  if (!token.ok()) return CloseMalformed(peer, OfferId(0), token.status(), actions);
  const std::span<const std::byte> sealed = body.subspan(kGroupTokenBytes);
  Greet({.peer = peer,
         .header = header,
         .token = *token,
         .sealed_roster = {sealed.begin(), sealed.end()},
         .refuse_at_ns = now.monotonic_ns + HeldHellos::kTokenKeyPatienceNs},
        now, actions);
}

void ServerMachine::Greet(const Hello& hello, Now now, ServerActions* actions) {
  const auto& [peer, header, token, sealed_roster, refuse_at_ns] = hello;
  Refusal refusal = Refusal::kNone;
  const absl::StatusOr<Roster> roster = admission_.Check(hello, groups_, now, &refusal);
  if (const absl::Status& status = roster.status(); !status.ok()) {
    if (absl::IsUnauthenticated(status) && now.monotonic_ns < refuse_at_ns && held_hellos_.TryHold(hello)) return;
    return refusals_.RefuseNote(peer, header, refusal, std::string(status.message()), actions);
  }
  const absl::StatusOr<uint32_t> index = groups_.Open(token, header.epoch, *roster, actions);
  if (!index.ok()) {
    return refusals_.RefuseNote(peer, header, Refusal::kNoSlotMemory, std::string(index.status().message()), actions);
  }
  ServerGroup& group = *groups_.at(*index);
  if (header.epoch > group.epoch()) MoveGroup(*index, header.epoch, *roster, actions);
  group.Enter(token.rank, peer, token.incarnation, header.op);
  group.NoteWatermarks(token.rank, header);
  AnnounceCommit(&group, actions);
  peers_.at(peer).ranks.push_back({*index, token.rank});
  waiting_reports_.Begin(now);
  FrameHeader welcome = header;
  welcome.type = FrameType::kWelcome;
  actions->push_back(SendNoteAction{
      peer, MakeWelcome(welcome, {.incarnation = incarnation_, .credit_chunks = group.credit_chunks()})});
  for (uint32_t slot = 0; slot < group.slot_count(); ++slot) AskForResult(group, slot, token.rank, actions);
}

void ServerMachine::MoveGroup(uint32_t group_index, Epoch epoch, const Roster& roster, ServerActions* actions) {
  ServerGroup& group = *groups_.at(group_index);
  const Epoch before = group.epoch();
  ChunkExchange::AbandonAll(&group, actions);
  for (uint32_t r = 0; r < group.size(); ++r) {
    if (group.IsPresent(Rank(r))) Disconnect(group_index, Rank(r));
  }
  group.MoveTo(epoch, roster);
  const std::string without = roster.IsWhole() ? "" : absl::StrCat(", with ", roster.count(), " of ", group.size());
  LogGroup(EventKind::kShardGroupMoved, group, std::nullopt, absl::StrCat("from epoch ", before.value(), without),
           actions);
}

Refusal ServerMachine::FindRank(PeerId peer, const FrameHeader& header, RankInGroup* found) const {
  const std::optional<uint32_t> index = groups_.IndexOf(header.group);
  if (!index.has_value()) return Refusal::kUnknownGroup;
  const ServerGroup& group = *groups_.at(*index);
  if (header.epoch < group.epoch()) return Refusal::kStaleEpoch;
  if (header.rank.value() >= group.size()) return Refusal::kWrongRank;
  if (!group.IsPresent(header.rank) || group.rank_state(header.rank).peer != peer) {
    return group.HasPeer(peer) ? Refusal::kWrongRank : Refusal::kUnknownGroup;
  }
  if (header.epoch != group.epoch()) return Refusal::kStaleEpoch;
  *found = {*index, header.rank};
  return Refusal::kNone;
}

void ServerMachine::CloseMalformed(PeerId peer, OfferId offer, const absl::Status& why, ServerActions* actions) {
  refusals_.CloseMalformed(peer, offer, why, actions);
  if (const auto found = peers_.find(peer); found != peers_.end()) {
    found->second.closed_because = std::string(why.message());
  }
}

void ServerMachine::FailGroup(uint32_t group_index, FrameHeader told, ServerGroup::FailureOf of, std::string text,
                              ServerActions* actions) {
  ServerGroup& group = *groups_.at(group_index);
  const bool failed_before = group.failed();
  group.Fail(of, told.refusal == Refusal::kNone ? Refusal::kGroupFailedBefore : told.refusal, std::move(text));
  if (failed_before) return;
  ++groups_failed_;
  LogGroup(EventKind::kShardGroupFailed, group, told.rank, group.failure(), actions);
  next_release_ns_ = 0;
  ChunkExchange::AbandonAll(&group, actions);
  TellAll(group, told, group.failure(), actions);
}

void ServerMachine::Disconnect(uint32_t group_index, Rank rank) {
  const auto found = peers_.find(groups_.at(group_index)->rank_state(rank).peer);
  if (found != peers_.end()) std::erase(found->second.ranks, RankInGroup{group_index, rank});
}

void ServerMachine::RankGone(const RankInGroup& gone, ServerActions* actions) {
  for (const OfferId offer : groups_.at(gone.group_index)->Leave(gone.rank)) actions->push_back(DeclineAction{offer});
}

// A rank of a failed group whose process hangs never leaves it, and its connection may look healthy for hours.
void ServerMachine::ReleaseFailed(Now now, ServerActions* actions) {
  next_release_ns_ = kNoDeadline;
  for (uint32_t index = 0; index < groups_.cell_count(); ++index) {
    if (groups_.at(index) == nullptr || !groups_.at(index)->failed()) continue;
    ServerGroup& group = *groups_.at(index);
    const uint64_t release_at_ns = group.ReleaseTimeNs(now, kFailedGroupPatienceNs);
    if (now.monotonic_ns < release_at_ns) {
      next_release_ns_ = std::min(next_release_ns_, release_at_ns);
      continue;
    }
    for (uint32_t r = 0; r < group.size(); ++r) {
      const ServerGroup::Presence presence = group.rank_state(Rank(r)).presence;
      if (presence == ServerGroup::Presence::kPresent) Disconnect(index, Rank(r));
      if (presence != ServerGroup::Presence::kExpected) RankGone({index, Rank(r)}, actions);
    }
    groups_.CloseIfOver(index, actions);
  }
}

void ServerMachine::GiveUpAbsent(Now now, ServerActions* actions) {
  const auto overdue = absent_ranks_.TakeOverdue(groups_, now);
  for (size_t i = 0; i < overdue.size(); ++i) {
    const auto& [index, rank] = overdue[i];
    FailGroup(index, {.type = FrameType::kRankLost, .rank = rank}, ServerGroup::FailureOf::kConnections,
              groups_.at(index)->GiveUp(rank), actions);
    const bool is_last_of_group = i + 1 == overdue.size() || overdue[i + 1].first != index;
    if (is_last_of_group) groups_.CloseIfOver(index, actions);
  }
}

// ---- what it says of itself ----

ServerCounters ServerMachine::counters() const {
  ServerCounters counters;
  counters.groups_failed = groups_failed_;
  counters.peers = static_cast<uint32_t>(peers_.size());
  counters.refusals = refusals_.counts();
  groups_.AddTo(&counters);
  exchange_.AddTo(&counters);
  counters.absent_ranks = AbsentRanks::List(groups_);
  return counters;
}

}  // namespace shoal
