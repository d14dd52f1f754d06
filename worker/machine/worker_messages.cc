// The part of WorkerMachine that answers the transport.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/machine/worker_machine.h"

namespace shoal {
namespace {

absl::Status RefusalStatus(Refusal refusal, const std::string& text) {
  switch (refusal) {
    case Refusal::kNoSlotMemory:
    case Refusal::kNoSlot:
      return absl::ResourceExhaustedError(text);
    case Refusal::kBadToken:
      return absl::UnauthenticatedError(text);
    case Refusal::kOtherVersion:
      return absl::FailedPreconditionError(text);
    case Refusal::kRankTaken:
      return absl::AlreadyExistsError(text);
    case Refusal::kDraining:
      return absl::UnavailableError(text);
    default:
      return absl::AbortedError(text);
  }
}

bool ResultFits(const WorkerOp& op, const WorkerGroup& group, const FrameHeader& header, uint64_t payload_bytes) {
  return header.rank == group.info().rank && header.dtype == op.type_on_wire && header.narrowed == op.narrowed() &&
         header.reduce_op == op.reduce_op && header.bucket_elements == op.plan.element_count &&
         header.chunk.value() < op.plan.chunk_count && header.first_element == op.plan.FirstElement(header.chunk) &&
         header.chunk_elements == op.plan.ElementCount(header.chunk) && header.contributors == group.size() &&
         payload_bytes == uint64_t{header.chunk_elements} * DataTypeSize(header.dtype);
}

}  // namespace

void WorkerMachine::OnTransportEvent(const TransportEvent& event, Now now, WorkerActions* actions,
                                     WorkerOutcomes* outcomes) {
  if (event.kind == TransportEventKind::kSent) return OnSent(event, now, actions, outcomes);
  if (event.kind == TransportEventKind::kLanded) return OnLanded(event, now, actions, outcomes);
  const auto found = connection_by_peer_.find(event.peer);
  if (found == connection_by_peer_.end()) return;
  const uint32_t connection = found->second;
  switch (event.kind) {
    case TransportEventKind::kPeerUp:
      return OnPeerUp(connection, now, actions, outcomes);
    case TransportEventKind::kPeerDown:
      connection_by_peer_.erase(found);
      return OnPeerDown(connection, event.status, now, actions, outcomes);
    case TransportEventKind::kNote:
      return OnNote(connection, event, now, actions, outcomes);
    case TransportEventKind::kOffered:
      return OnOffered(connection, event, now, actions, outcomes);
    default:
      return;
  }
}

void WorkerMachine::OnNote(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions,
                           WorkerOutcomes* outcomes) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
  if (!header.ok()) {
    connections_[connection].last_error = std::string(header.status().message());
    actions->push_back(WorkerClosePeerAction{event.peer});
    return;
  }
  const std::span<const std::byte> body = event.bytes.subspan(kFrameHeaderBytes);
  uint16_t handle = 0;
  WorkerGroup* group = nullptr;
  switch (header->type) {
    case FrameType::kWelcome:
      return OnWelcome(connection, *header, body, now, actions, outcomes);
    case FrameType::kRefuse:
      return OnRefuse(connection, *header, DecodeText(body), now, actions, outcomes);
    case FrameType::kWaiting:
      return OnWaiting(connection, *header, body);
    case FrameType::kProbe:
      return OnProbeEcho(connection, *header, now, actions, outcomes);
    case FrameType::kBye:
      connections_[connection].bye_received = true;
      return;
    case FrameType::kCommit:
      group = FindGroup(header->group, &handle);
      if (group != nullptr) group->NoteCommitted(header->commit_watermark);
      return;
    case FrameType::kAsk:
      return OnAsk(connection, *header, now, actions, outcomes);
    case FrameType::kGroupFailed:
    case FrameType::kRankLost:
      group = FindGroup(header->group, &handle);
      // Of an epoch that is over: a server that was left behind sees connections end.
      if (group == nullptr || header->epoch != group->epoch()) return;
      return FailGroup(handle,
                       absl::AbortedError(absl::StrCat(group->DescribeRank(header->rank),
                                                       header->type == FrameType::kRankLost ? " was lost: " : ": ",
                                                       DecodeText(body))),
                       now, actions, outcomes);
    default:
      return;  // nothing else concerns a worker
  }
}

void WorkerMachine::OnWelcome(uint32_t connection, const FrameHeader& header, std::span<const std::byte> body, Now now,
                              WorkerActions* actions, WorkerOutcomes* outcomes) {
  uint16_t handle = 0;
  WorkerGroup* group = FindGroup(header.group, &handle);
  const absl::StatusOr<Welcome> welcome = DecodeWelcome(body);
  if (group == nullptr || group->state == WorkerGroup::State::kFailed || !welcome.ok() ||
      header.epoch != group->epoch()) {
    return;
  }
  uint32_t shard = 0;
  ShardLink* link = FindLink(group, connection, &shard);
  if (link == nullptr || !link->hello_sent || link->welcomed || link->lost) return;
  link->welcomed = true;
  uint32_t credit = std::min<uint32_t>(welcome->credit_chunks, 1024);
  if (group->info().wire != WireFormat::kAsIs || options_.survive_server_loss) {
    credit = StagingMemory::Places(credit, group->info().max_chunk_bytes);
    absl::StatusOr<std::shared_ptr<StagingMemory>> staging =
        StagingMemory::Allocate(credit, group->info().max_chunk_bytes);
    if (!staging.ok()) return FailGroup(handle, staging.status(), now, actions, outcomes);
    link->staging = *std::move(staging);
  }
  link->window.Open(credit);
  link->cells.assign(credit, {});
  link->last_landed.assign(credit, {});
  if (group->state == WorkerGroup::State::kOpen || !group->AllWelcomed()) return;
  group->state = WorkerGroup::State::kOpen;
  group->was_open = true;
  if (group->ops.empty()) group->next_wait_report_ns = kNoDeadline;
  outcomes->push_back(GroupOpened{GroupHandle(handle), absl::OkStatus()});
}

void WorkerMachine::OnRefuse(uint32_t connection, const FrameHeader& header, const std::string& text, Now now,
                             WorkerActions* actions, WorkerOutcomes* outcomes) {
  ++counters_.refusals;
  uint16_t handle = 0;
  WorkerGroup* group = FindGroup(header.group, &handle);
  // Late copies were refused: nothing is missing. And what was said in an epoch that is over has no consequence.
  if (header.refusal == Refusal::kDuplicate || header.refusal == Refusal::kStaleOp) return;
  if (group != nullptr && header.epoch != group->epoch()) return;
  // The server is in a newer epoch already, or the others have left it in one: that map is on its way here.
  const bool behind =
      header.refusal == Refusal::kStaleEpoch || (header.refusal == Refusal::kUnknownGroup && group != nullptr);
  if (behind && options_.survive_server_loss) return;
  if (header.refusal == Refusal::kPreempted) return OnPreempted(connection, header, now, actions, outcomes);
  std::string message = absl::StrCat(DescribeServer(connection), " refused ");
  absl::StrAppend(&message, group == nullptr ? "a message" : absl::StrCat("group '", group->info().name, "'"), " (",
                  std::string(RefusalName(header.refusal)), ")", text.empty() ? "" : ": ", text);
  if (group != nullptr) {
    uint32_t shard = 0;
    if (MayMove(*group, header.refusal) && FindLink(group, connection, &shard) != nullptr) {
      return LoseLink(handle, shard, message, now, actions, outcomes);
    }
    return FailGroup(handle, RefusalStatus(header.refusal, message), now, actions, outcomes);
  }
  // Late, for a group that ended here.
  if (header.group != GroupId(0)) return;
  // A refusal of the connection as such: whoever is opening over it would only hear it again.
  connections_[connection].last_error = message;
  for (const uint16_t i : Handles(open_groups_)) {
    uint32_t shard = 0;
    if (groups_[i].group->state != WorkerGroup::State::kOpening) continue;
    if (FindLink(groups_[i].group.get(), connection, &shard) == nullptr) continue;
    FailGroup(i, RefusalStatus(header.refusal, message), now, actions, outcomes);
  }
}

// A server that does not take the group need not be its end. (With no memory for a new one it is: whoever starts a job
// should hear of that.)
bool WorkerMachine::MayMove(const WorkerGroup& group, Refusal refusal) const {
  return options_.survive_server_loss && (refusal == Refusal::kDraining || (refusal == Refusal::kNoSlotMemory &&
                                                                            group.state == WorkerGroup::State::kOpen));
}

void WorkerMachine::OnWaiting(uint32_t connection, const FrameHeader& header, std::span<const std::byte> body) {
  uint16_t handle = 0;
  uint32_t shard = 0;
  WorkerGroup* group = FindGroup(header.group, &handle);
  const absl::StatusOr<Waiting> waiting = DecodeWaiting(body);
  if (group == nullptr || !waiting.ok() || header.epoch != group->epoch() ||
      FindLink(group, connection, &shard) == nullptr) {
    return;
  }
  if (header.op <= group->landed_watermark()) {
    // Late, unless it is the answer to this rank's wish to leave.
    if (group->leave_by_ns != kNoDeadline) group->leave_waiting = *waiting;
    return;
  }
  WorkerOp* op = group->FindOp(header.op);
  if (op == nullptr) return;
  op->waiting = *waiting;
  op->waiting_shard = shard;
  op->waiting_chunk = header.chunk;
}

void WorkerMachine::OnOffered(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions,
                              WorkerOutcomes* outcomes) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
  uint16_t handle = 0;
  uint32_t shard = 0;
  WorkerGroup* group = header.ok() && header->type == FrameType::kResult ? FindGroup(header->group, &handle) : nullptr;
  ShardLink* link =
      group != nullptr && group->state == WorkerGroup::State::kOpen ? FindLink(group, connection, &shard) : nullptr;
  WorkerOp* op = link != nullptr && header->epoch == group->epoch() ? group->FindOp(header->op) : nullptr;
  if (op == nullptr) {
    // Late for an op or group that ended: dropped, and counted.
    ++counters_.refusals;
    actions->push_back(WorkerDeclineAction{event.offer});
    return;
  }
  group->NoteCommitted(header->commit_watermark);
  const auto cell = std::find_if(link->cells.begin(), link->cells.end(), [&](const ChunkInFlight& candidate) {
    return candidate.open && candidate.op == header->op && candidate.chunk == header->chunk;
  });
  if (cell == link->cells.end() || cell->landing || cell->landed || cell->held_offer != OfferId(0)) {
    ++counters_.refusals;
    actions->push_back(WorkerDeclineAction{event.offer});
    return;
  }
  if (!ResultFits(*op, *group, *header, event.payload_bytes)) {
    actions->push_back(WorkerDeclineAction{event.offer});
    return FailGroup(handle,
                     absl::InternalError(absl::StrCat(DescribeServer(connection), " sent a result for op ",
                                                      header->op.value(), " that does not fit what was pushed")),
                     now, actions, outcomes);
  }
  cell->held_offer = event.offer;
  TakeHeldResult(handle, shard, &*cell, actions);
}

void WorkerMachine::TakeHeldResult(uint16_t handle, uint32_t shard, ChunkInFlight* cell, WorkerActions* actions) {
  WorkerGroup& group = *groups_[handle].group;
  if (!cell->sent || cell->held_offer == OfferId(0)) return;
  if (group.OldPushIsRead(*group.FindOp(cell->op), cell->chunk)) return;
  AcceptResult(handle, shard, cell, actions);
}

void WorkerMachine::AcceptResult(uint16_t handle, uint32_t shard, ChunkInFlight* cell, WorkerActions* actions) {
  GroupCell& group_cell = groups_[handle];
  WorkerOp& op = *group_cell.group->FindOp(cell->op);
  cell->landing = true;
  cell->taking = ChunkInFlight::Taking::kAsked;
  const OfferId offer = std::exchange(cell->held_offer, OfferId(0));
  ++op.busy;
  const ShardLink& link = group_cell.group->links[shard];
  const auto index = static_cast<uint16_t>(cell->position % link.window.credit());
  std::byte* const tensor = op.Chunk(cell->chunk);
  actions->push_back(
      WorkerAcceptAction{.offer = offer,
                         .data = link.staging == nullptr ? tensor : link.staging->Place(index),
                         .data_at_once = op.narrowed() ? nullptr : tensor,
                         .bytes = op.BytesOnWire(cell->chunk),
                         .token = Pack({handle, group_cell.group->generation, static_cast<uint16_t>(shard), index})});
}

void WorkerMachine::OnAccepted(uint64_t token, bool at_once) {
  bool retired = false;
  FindLink(Unpack(token), &retired)->cells[Unpack(token).cell].taking =
      at_once ? ChunkInFlight::Taking::kAtOnce : ChunkInFlight::Taking::kBeside;
}

ShardLink* WorkerMachine::FindLink(OperationToken token, bool* retired) {
  WorkerGroup& group = *groups_[token.handle].group;
  *retired = token.generation != group.generation;
  if (!*retired) return &group.links[token.shard];
  const auto found = std::find_if(group.retired.begin(), group.retired.end(),
                                  [&](const RetiredLinks& each) { return each.generation == token.generation; });
  return &found->links[token.shard];
}

void WorkerMachine::OnSent(const TransportEvent& event, Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  if (event.token == LinkProbe::kToken) return;  // its payload is never written to
  const OperationToken token = Unpack(event.token);
  WorkerGroup& group = *groups_[token.handle].group;
  if (token.shard == kHandOverShard) {
    group.retained.GiveMemory(std::move(group.hand_overs[token.cell].memory));
    group.hand_overs[token.cell].memory = nullptr;
    return CloseIfDone(token.handle, now, actions, outcomes);
  }
  bool retired = false;
  ShardLink& link = *FindLink(token, &retired);
  ChunkInFlight& cell = link.cells[token.cell];
  WorkerOp* const op = group.FindOp(cell.op);
  cell.sent = true;
  OpMemoryFree(token.handle, op, now, outcomes);
  if (group.state == WorkerGroup::State::kFailed) return CloseIfDone(token.handle, now, actions, outcomes);
  if (retired) {
    DropIdleRetired(&group);
    for (uint32_t shard = 0; shard < group.links.size(); ++shard) {
      if (group.links[shard].lost) continue;  // what it offered went with its connection
      for (ChunkInFlight& each : group.links[shard].cells) TakeHeldResult(token.handle, shard, &each, actions);
    }
    EndOpIfDone(token.handle, op, now, actions, outcomes);
    return CloseIfDone(token.handle, now, actions, outcomes);
  }
  if (!event.status.ok()) {
    return OperationFailed(
        token.handle, token.shard,
        absl::StrCat("a push to ", DescribeServer(link.connection), " failed: ", event.status.message()), now, actions,
        outcomes);
  }
  if (cell.again) return PushChunk(token.handle, token.shard, token.cell, actions);
  TakeHeldResult(token.handle, token.shard, &cell, actions);
}

// What an operation that failed means is said by the end of its connection, which follows, or is brought about.
void WorkerMachine::OperationFailed(uint16_t handle, uint32_t shard, const std::string& what, Now now,
                                    WorkerActions* actions, WorkerOutcomes* outcomes) {
  if (!options_.survive_server_loss) {
    return FailGroup(handle, absl::UnavailableError(what), now, actions, outcomes);
  }
  ShardLink& link = groups_[handle].group->links[shard];
  if (connections_[link.connection].last_error.empty()) connections_[link.connection].last_error = what;
  CutLink(&link, actions);
}

void WorkerMachine::OnLanded(const TransportEvent& event, Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  const OperationToken token = Unpack(event.token);
  WorkerGroup& group = *groups_[token.handle].group;
  bool retired = false;
  ShardLink& link = *FindLink(token, &retired);
  ChunkInFlight& cell = link.cells[token.cell];
  WorkerOp* op = group.FindOp(cell.op);
  cell.landing = false;
  OpMemoryFree(token.handle, op, now, outcomes);
  if (group.state == WorkerGroup::State::kFailed) return CloseIfDone(token.handle, now, actions, outcomes);
  if (retired) {
    DropIdleRetired(&group);
    EndOpIfDone(token.handle, op, now, actions, outcomes);
    return CloseIfDone(token.handle, now, actions, outcomes);
  }
  if (!event.status.ok()) {
    const std::string what =
        absl::StrCat("a result from ", DescribeServer(link.connection), " did not arrive: ", event.status.message());
    // The tensor may hold neither the contribution nor the result now.
    if (cell.taking == ChunkInFlight::Taking::kAtOnce)
      return FailGroup(token.handle, absl::UnavailableError(what), now, actions, outcomes);
    return OperationFailed(token.handle, token.shard, what, now, actions, outcomes);
  }
  cell.landed = true;
  if (op->waiting_shard == token.shard && op->waiting_chunk == cell.chunk) op->waiting = {};
  const uint64_t bytes = op->BytesOnWire(cell.chunk);
  if (op->narrowed()) {
    actions->push_back(WorkerWidenAction{.type = op->type_on_wire,
                                         .staging = link.staging,
                                         .place = link.staging->Place(token.cell),
                                         .tensor = op->Chunk(cell.chunk),
                                         .elements = op->plan.ElementCount(cell.chunk)});
  } else if (link.staging != nullptr && cell.taking == ChunkInFlight::Taking::kBeside) {
    actions->push_back(WorkerCopyAction{
        .staging = link.staging, .from = link.staging->Place(token.cell), .to = op->Chunk(cell.chunk), .bytes = bytes});
  }
  connections_[link.connection].bytes_pulled += bytes;
  counters_.bytes_pulled += bytes;
  FinishCell(token.handle, token.shard, &cell, now, actions, outcomes);
  if (group.next_map != nullptr) MoveIfDue(token.handle, now, actions);
  CloseIfDone(token.handle, now, actions, outcomes);
}

}  // namespace shoal
