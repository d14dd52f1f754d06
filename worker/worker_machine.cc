#include "worker/worker_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

std::string Seconds(uint64_t ns) { return absl::StrCat(static_cast<double>(ns / 100'000'000) / 10.0, " s"); }

}  // namespace

WorkerMachine::WorkerMachine(const WorkerMachineOptions& options) : options_(options), groups_(kMaxWorkerGroups) {}

uint64_t WorkerMachine::Pack(OperationToken token) {
  return uint64_t{token.handle} << 48 | uint64_t{token.generation} << 32 | uint64_t{token.shard} << 16 | token.cell;
}

WorkerMachine::OperationToken WorkerMachine::Unpack(uint64_t packed) {
  return {static_cast<uint16_t>(packed >> 48), static_cast<uint16_t>(packed >> 32), static_cast<uint16_t>(packed >> 16),
          static_cast<uint16_t>(packed)};
}

void WorkerMachine::OnCommand(const WorkerCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  if (const auto* open = std::get_if<OpenGroupCommand>(&command)) return Open(*open, now, actions, outcomes);
  if (const auto* submit = std::get_if<SubmitCommand>(&command)) return Submit(*submit, now, outcomes);
  if (const auto* move = std::get_if<MoveGroupCommand>(&command)) return MoveGroup(*move, now, actions);
  if (const auto* lost = std::get_if<RankLostCommand>(&command)) return RankLost(*lost, now, actions, outcomes);
  if (const auto* measure = std::get_if<MeasureLinkCommand>(&command)) return MeasureLink(*measure, now, actions);
  if (const auto* shutdown = std::get_if<ShutdownCommand>(&command)) {
    return Shutdown(*shutdown, now, actions, outcomes);
  }
  if (const auto* abort = std::get_if<AbortGroupCommand>(&command)) {
    if (groups_[abort->group.value()].group == nullptr) return;
    return FailGroup(abort->group.value(), absl::CancelledError(absl::StrCat("the group was aborted: ", abort->reason)),
                     now, actions, outcomes);
  }
  const uint16_t handle = std::get<CloseGroupCommand>(command).group.value();
  if (groups_[handle].group == nullptr) {
    outcomes->push_back(GroupClosed{GroupHandle(handle)});
    return;
  }
  WorkerGroup& group = *groups_[handle].group;
  group.close_requested = true;
  group.close_commanded = true;
  if (group.state == WorkerGroup::State::kOpening && group.ops.empty()) {
    return FailGroup(handle, absl::CancelledError("the group was closed before it was open"), now, actions, outcomes);
  }
  CloseIfDone(handle, now, actions, outcomes);
}

void WorkerMachine::Open(const OpenGroupCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  if (shutting_down_) {
    outcomes->push_back(GroupOpened{command.group, absl::CancelledError("the worker is closing")});
    return;
  }
  GroupCell& cell = groups_[command.group.value()];
  ++cell.generation;
  cell.group = std::make_unique<WorkerGroup>(command.info, command.deadline_ns);
  cell.group->generation = cell.generation;
  StartLinks(command.group.value(), now, actions);
  for (const MoveGroupCommand& move : early_moves_) {
    if (move.group == command.info->id && move.map->epoch() > cell.group->epoch()) cell.group->next_map = move.map;
  }
  std::erase_if(early_moves_, [&](const MoveGroupCommand& move) { return move.group == command.info->id; });
  MoveIfDue(command.group.value(), now, actions);
  TickConnections(now, actions);
}

void WorkerMachine::Submit(const SubmitCommand& command, Now now, WorkerOutcomes* outcomes) {
  WorkerGroup* group = groups_[command.group.value()].group.get();
  absl::Status status = group == nullptr                              ? absl::CancelledError("the group is closed")
                        : group->state == WorkerGroup::State::kFailed ? group->failure
                                                                      : group->Submit(command);
  if (!status.ok()) {
    ++counters_.ops_failed;
    const uint64_t duration_ns = now.monotonic_ns - std::min(command.submitted_ns, now.monotonic_ns);
    outcomes->push_back(OpDone{command.group, command.ticket, duration_ns, status});
    return;
  }
  WorkerOp& op = group->ops.back();
  if (op.plan.chunk_count > 0) return;
  ReportOp(command.group.value(), &op, absl::OkStatus(), now, outcomes);
  if (group->AdvanceWatermark()) {
    group->commit_note_at_ns = std::min(group->commit_note_at_ns, now.monotonic_ns + options_.commit_note_delay_ns);
  }
}

void WorkerMachine::RankLost(const RankLostCommand& command, Now now, WorkerActions* actions,
                             WorkerOutcomes* outcomes) {
  for (uint16_t handle = 0; handle < groups_.size(); ++handle) {
    WorkerGroup* group = groups_[handle].group.get();
    if (group == nullptr) continue;
    const std::vector<uint32_t>& ranks = group->info().job_ranks;
    if (std::find(ranks.begin(), ranks.end(), command.job_rank) == ranks.end()) continue;
    FailGroup(handle,
              absl::AbortedError(absl::StrCat("rank ", command.job_rank, " of the job on ", command.host,
                                              " was lost: ", command.reason)),
              now, actions, outcomes);
  }
}

void WorkerMachine::Shutdown(const ShutdownCommand& command, Now now, WorkerActions* actions,
                             WorkerOutcomes* outcomes) {
  shutting_down_ = true;
  shutdown_deadline_ns_ = command.deadline_ns;
  for (uint16_t handle = 0; handle < groups_.size(); ++handle) {
    WorkerGroup* group = groups_[handle].group.get();
    if (group == nullptr) continue;
    group->close_requested = true;
    group->leave_by_ns = std::min(group->leave_by_ns, command.deadline_ns);
    if (!group->ops.empty() || group->state == WorkerGroup::State::kOpening) {
      FailGroup(handle, absl::CancelledError("the worker is closing"), now, actions, outcomes);
    }
    CloseIfDone(handle, now, actions, outcomes);
  }
  TickShutdown(now, actions, outcomes);
}

void WorkerMachine::MeasureLink(const MeasureLinkCommand& command, Now now, WorkerActions* actions) {
  probing_ = true;
  probe_deadline_ns_ = command.deadline_ns;
  probe_connection_ = FindConnection(command.address, command.server_name);
  Connection& connection = connections_[probe_connection_];
  if (connection.state == Connection::State::kUp) return probe_.Start(connection.peer, now, actions);
  connection.retry_at_ns = std::min(connection.retry_at_ns, now.monotonic_ns);
  TickConnections(now, actions);
}

void WorkerMachine::TickProbe(Now now, WorkerOutcomes* outcomes) {
  if (!probing_ || (now.monotonic_ns < probe_deadline_ns_ && !shutting_down_)) return;
  probing_ = false;
  outcomes->push_back(LinkMeasured{});
}

uint32_t WorkerMachine::FindConnection(const std::string& address, const std::string& server_name) {
  const auto [entry, added] = connection_by_address_.try_emplace(address, static_cast<uint32_t>(connections_.size()));
  if (added) connections_.push_back({.address = address});
  connections_[entry->second].server_name = server_name;  // a newer map may have another server there
  return entry->second;
}

void WorkerMachine::Connect(uint32_t index, WorkerActions* actions) {
  Connection& connection = connections_[index];
  connection.state = Connection::State::kConnecting;
  connection.bye_sent = false;
  connection.bye_received = false;
  actions->push_back(WorkerConnectAction{index});
}

void WorkerMachine::OnConnecting(uint32_t index, const absl::StatusOr<PeerId>& peer, Now now) {
  Connection& connection = connections_[index];
  if (!peer.ok()) {
    connection.state = Connection::State::kDown;
    connection.last_error = std::string(peer.status().message());
    connection.retry_at_ns = now.monotonic_ns + options_.connect_retry_ns;
    return;
  }
  connection.peer = *peer;
  connection_by_peer_[*peer] = index;
}

void WorkerMachine::SendHellos(uint32_t index, WorkerActions* actions) {
  for (GroupCell& cell : groups_) {
    if (cell.group == nullptr || cell.group->state == WorkerGroup::State::kFailed) continue;
    for (ShardLink& link : cell.group->links) {
      if (link.connection != index || link.hello_sent || link.lost) continue;
      link.hello_sent = true;
      link.reported_watermark = cell.group->landed_watermark();
      FrameHeader header = HeaderFor(*cell.group, FrameType::kHello);
      header.op = cell.group->newest_result;
      actions->push_back(WorkerSendNoteAction{connections_[index].peer, MakeHello(header, cell.group->info().token)});
    }
  }
}

void WorkerMachine::Push(uint16_t handle, Now now, WorkerActions* actions) {
  WorkerGroup& group = *groups_[handle].group;
  if (group.state != WorkerGroup::State::kOpen) return;
  for (int next = group.NextLink(); next >= 0; next = group.NextLink()) {
    const auto shard = static_cast<uint32_t>(next);
    ShardLink& link = group.links[shard];
    const ChunkPlace place{link.next_op, ChunkNumber(link.next_chunk)};
    const uint64_t position = link.window.Push();
    const auto index = static_cast<uint16_t>(position % link.window.credit());
    link.cells[index] = {.op = place.op, .chunk = place.chunk, .position = position, .open = true};
    link.next_known = false;
    ++link.next_chunk;
    link.reported_watermark = group.landed_watermark();
    group.newest_pushed = std::max(group.newest_pushed, place);
    PushChunk(handle, shard, index, actions);
  }
  if (group.landed_watermark() > OpNumber(0) && group.commit_note_at_ns != kNoDeadline &&
      now.monotonic_ns >= group.commit_note_at_ns) {
    SendCommitNotes(&group, actions);
  }
}

void WorkerMachine::PushChunk(uint16_t handle, uint32_t shard, uint16_t index, WorkerActions* actions) {
  WorkerGroup& group = *groups_[handle].group;
  ShardLink& link = group.links[shard];
  Connection& connection = connections_[link.connection];
  ChunkInFlight& cell = link.cells[index];
  WorkerOp& op = *group.FindOp(cell.op);
  cell.sent = false;
  cell.again = false;
  ++op.busy;
  const FrameHeader header = PushHeader(group, op, cell.chunk);
  const uint64_t bytes = op.BytesOnWire(cell.chunk);
  connection.bytes_pushed += bytes;
  counters_.bytes_pushed += bytes;
  ++counters_.chunks_pushed;
  const std::byte* data = op.Chunk(cell.chunk);
  if (op.narrowed()) {
    std::byte* const place = link.staging->Place(index);
    actions->push_back(WorkerNarrowAction{.type = op.type_on_wire,
                                          .staging = link.staging,
                                          .tensor = data,
                                          .place = place,
                                          .elements = header.chunk_elements});
    data = place;
  }
  actions->push_back(WorkerSendAction{.peer = connection.peer,
                                      .header = EncodeHeader(header),
                                      .data = data,
                                      .bytes = bytes,
                                      .token = Pack({handle, group.generation, static_cast<uint16_t>(shard), index})});
}

FrameHeader WorkerMachine::PushHeader(const WorkerGroup& group, const WorkerOp& op, ChunkNumber chunk) const {
  FrameHeader header = HeaderFor(group, FrameType::kPush);
  header.op = op.number;
  header.bucket_elements = op.plan.element_count;
  header.first_element = op.plan.FirstElement(chunk);
  header.chunk_elements = op.plan.ElementCount(chunk);
  header.chunk = chunk;
  header.dtype = op.type_on_wire;
  header.narrowed = op.narrowed();
  header.reduce_op = op.reduce_op;
  header.premul_factor = op.premul_factor;
  return header;
}

void WorkerMachine::SendCommitNotes(WorkerGroup* group, WorkerActions* actions) {
  group->commit_note_at_ns = kNoDeadline;
  for (ShardLink& link : group->links) {
    if (!link.welcomed || link.reported_watermark >= group->landed_watermark()) continue;
    link.reported_watermark = group->landed_watermark();
    actions->push_back(
        WorkerSendNoteAction{connections_[link.connection].peer, MakeNote(HeaderFor(*group, FrameType::kCommit))});
  }
}

void WorkerMachine::FinishCell(uint16_t handle, uint32_t shard, ChunkInFlight* cell, Now now, WorkerActions* actions,
                               WorkerOutcomes* outcomes) {
  WorkerGroup& group = *groups_[handle].group;
  ShardLink& link = group.links[shard];
  WorkerOp& op = *group.FindOp(cell->op);
  cell->open = false;
  group.NoteLanded(&link, cell->position % link.window.credit(), &op, cell->chunk);
  link.window.Finish(cell->position);
  EndOpIfDone(handle, &op, now, actions, outcomes);
}

void WorkerMachine::EndOpIfDone(uint16_t handle, WorkerOp* op, Now now, WorkerActions* actions,
                                WorkerOutcomes* outcomes) {
  WorkerGroup& group = *groups_[handle].group;
  if (op->reported || op->chunks_landed < op->plan.chunk_count || op->busy > 0) return;
  if (!KeepResults(handle, *op, now, actions, outcomes)) return;
  ReportOp(handle, op, absl::OkStatus(), now, outcomes);
  if (group.AdvanceWatermark()) {
    group.commit_note_at_ns = std::min(group.commit_note_at_ns, now.monotonic_ns + options_.commit_note_delay_ns);
  }
}

void WorkerMachine::ReportOp(uint16_t handle, WorkerOp* op, const absl::Status& status, Now now,
                             WorkerOutcomes* outcomes) {
  if (op->reported) return;
  op->reported = true;
  const uint64_t duration_ns = now.monotonic_ns - std::min(op->submitted_ns, now.monotonic_ns);
  if (status.ok()) {
    ++counters_.ops_completed;
    counters_.op_time_ns_total += duration_ns;
  } else {
    ++counters_.ops_failed;
  }
  outcomes->push_back(OpDone{GroupHandle(handle), op->ticket, duration_ns, status});
}

// Called when a transport operation on the op's memory has ended.
void WorkerMachine::OpMemoryFree(uint16_t handle, WorkerOp* op, Now now, WorkerOutcomes* outcomes) {
  WorkerGroup& group = *groups_[handle].group;
  --op->busy;
  if (op->busy > 0 || group.state != WorkerGroup::State::kFailed) return;
  ReportOp(handle, op, group.failure, now, outcomes);
}

void WorkerMachine::FailGroup(uint16_t handle, absl::Status why, Now now, WorkerActions* actions,
                              WorkerOutcomes* outcomes) {
  WorkerGroup& group = *groups_[handle].group;
  if (group.state == WorkerGroup::State::kFailed) return;
  const bool was_opening = group.state == WorkerGroup::State::kOpening;
  group.state = WorkerGroup::State::kFailed;
  group.failure = std::move(why);
  group.force_at_ns = now.monotonic_ns + options_.force_after_ns;
  const absl::string_view text = group.failure.message();
  const Note note = MakeTextNote(HeaderFor(group, FrameType::kGroupFailed), std::string_view(text.data(), text.size()));
  for (ShardLink& link : group.links) {
    const Connection& connection = connections_[link.connection];
    if (link.hello_sent && !link.lost && connection.state == Connection::State::kUp) {
      actions->push_back(WorkerSendNoteAction{connection.peer, note});
    }
    for (ChunkInFlight& cell : link.cells) {
      if (cell.open && cell.held_offer != OfferId(0)) {
        actions->push_back(WorkerDeclineAction{cell.held_offer});
        cell.held_offer = OfferId(0);
      }
    }
  }
  for (WorkerOp& op : group.ops) {
    if (op.busy == 0) ReportOp(handle, &op, group.failure, now, outcomes);
  }
  if (was_opening) {
    outcomes->push_back(GroupOpened{GroupHandle(handle), group.failure});
    group.close_requested = true;
  }
  CloseIfDone(handle, now, actions, outcomes);
}

// Whoever leaves can't hand a result over any more: not before every rank has all (invariant I3).
bool WorkerMachine::MayLeave(WorkerGroup* group, Now now, WorkerActions* actions) const {
  if (!options_.survive_server_loss || group->size() == 1 || group->commit_watermark >= group->landed_watermark()) {
    return true;
  }
  if (group->leave_by_ns == kNoDeadline) group->leave_by_ns = now.monotonic_ns + options_.leave_patience_ns;
  if (now.monotonic_ns >= group->leave_by_ns) return true;
  FrameHeader header = HeaderFor(*group, FrameType::kCommit);
  header.op = group->landed_watermark();
  for (ShardLink& link : group->links) {
    if (!link.welcomed || std::exchange(link.waits_for_commit, true)) continue;
    link.reported_watermark = group->landed_watermark();
    actions->push_back(WorkerSendNoteAction{connections_[link.connection].peer, MakeNote(header)});
  }
  return false;
}

void WorkerMachine::CloseIfDone(uint16_t handle, Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  std::unique_ptr<WorkerGroup>& group = groups_[handle].group;
  if (group == nullptr || !group->close_requested) return;
  const bool failed = group->state == WorkerGroup::State::kFailed;
  if (!group->Idle() || (!failed && !(group->ops.empty() && MayLeave(group.get(), now, actions)))) return;
  if (!failed) SendCommitNotes(group.get(), actions);
  const bool say_closed = group->close_commanded || group->was_open;
  for (const ShardLink& link : group->links) {
    const Connection& connection = connections_[link.connection];
    if (!link.hello_sent || link.lost || connection.state != Connection::State::kUp) continue;
    actions->push_back(WorkerSendNoteAction{connection.peer, MakeNote(HeaderFor(*group, FrameType::kLeaveGroup))});
  }
  group.reset();
  if (say_closed) outcomes->push_back(GroupClosed{GroupHandle(handle)});
}

void WorkerMachine::Tick(Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  for (uint16_t handle = 0; handle < groups_.size(); ++handle) {
    if (groups_[handle].group != nullptr) TickGroup(handle, now, actions, outcomes);
  }
  TickProbe(now, outcomes);
  TickConnections(now, actions);
  if (shutting_down_) TickShutdown(now, actions, outcomes);
}

void WorkerMachine::TickGroup(uint16_t handle, Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  WorkerGroup& group = *groups_[handle].group;
  if (group.state == WorkerGroup::State::kOpening && now.monotonic_ns >= group.open_deadline_ns) {
    return FailGroup(handle, absl::DeadlineExceededError(DescribeMissingServers(group)), now, actions, outcomes);
  }
  if (group.state == WorkerGroup::State::kOpen || group.state == WorkerGroup::State::kOpening) {
    Push(handle, now, actions);
    if (now.monotonic_ns >= group.next_op_deadline_ns) {
      group.next_op_deadline_ns = kNoDeadline;
      for (const WorkerOp& op : group.ops) {
        if (op.reported) continue;
        if (op.deadline_ns <= now.monotonic_ns) {
          return FailGroup(handle, DescribeTimeout(group, op, now), now, actions, outcomes);
        }
        group.next_op_deadline_ns = std::min(group.next_op_deadline_ns, op.deadline_ns);
      }
    }
  }
  if (group.state == WorkerGroup::State::kFailed && now.monotonic_ns >= group.force_at_ns) {
    group.force_at_ns = kNoDeadline;
    for (ShardLink& link : group.links) {
      if (link.HoldsMemory()) CutLink(&link, actions);
    }
    for (const HandOver& each : group.hand_overs) {
      if (each.memory != nullptr) actions->push_back(WorkerClosePeerAction{connections_[each.connection].peer});
    }
  }
  if (group.next_map != nullptr) MoveIfDue(handle, now, actions);
  for (RetiredLinks& retired : group.retired) {
    if (now.monotonic_ns < retired.force_at_ns) continue;
    retired.force_at_ns = kNoDeadline;
    for (ShardLink& link : retired.links) {
      uint32_t shard = 0;
      const bool in_use = FindLink(&group, link.connection, &shard) != nullptr;
      if (link.HoldsMemory() && (!in_use || group.state == WorkerGroup::State::kFailed)) CutLink(&link, actions);
    }
  }
  CloseIfDone(handle, now, actions, outcomes);
}

void WorkerMachine::TickConnections(Now now, WorkerActions* actions) {
  if (shutting_down_) return;
  for (uint32_t index = 0; index < connections_.size(); ++index) {
    const Connection& connection = connections_[index];
    const bool idle = connection.state == Connection::State::kIdle || connection.state == Connection::State::kDown;
    if (!idle || now.monotonic_ns < connection.retry_at_ns) continue;
    if (IsWanted(index)) Connect(index, actions);
  }
}

bool WorkerMachine::IsWanted(uint32_t index) const {
  if (probing_ && index == probe_connection_) return true;
  return std::any_of(groups_.begin(), groups_.end(), [&](const GroupCell& cell) {
    return cell.group != nullptr && cell.group->state != WorkerGroup::State::kFailed &&
           std::any_of(cell.group->links.begin(), cell.group->links.end(),
                       [&](const ShardLink& link) { return link.connection == index; });
  });
}

void WorkerMachine::TickShutdown(Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  if (shutdown_reported_) return;
  const bool groups_left =
      std::any_of(groups_.begin(), groups_.end(), [](const GroupCell& cell) { return cell.group != nullptr; });
  const bool late = now.monotonic_ns >= shutdown_deadline_ns_;
  if (groups_left && !late) return;
  bool open = false;
  for (Connection& connection : connections_) {
    if (connection.state != Connection::State::kUp && connection.state != Connection::State::kConnecting) continue;
    open = true;
    if (connection.bye_received || late || connection.state == Connection::State::kConnecting) {
      actions->push_back(WorkerClosePeerAction{connection.peer});
    } else if (!connection.bye_sent) {
      connection.bye_sent = true;
      actions->push_back(WorkerSendNoteAction{connection.peer, MakeNote({.type = FrameType::kBye})});
    }
  }
  if (late) shutdown_deadline_ns_ = now.monotonic_ns + options_.force_after_ns;
  if (open || groups_left) return;
  shutdown_reported_ = true;
  shutdown_deadline_ns_ = kNoDeadline;
  outcomes->push_back(ShutdownDone{});
}

uint64_t WorkerMachine::NextDeadlineNs() const {
  uint64_t deadline = shutting_down_ ? shutdown_deadline_ns_ : kNoDeadline;
  bool connecting = probing_;
  if (probing_) deadline = std::min(deadline, probe_deadline_ns_);
  for (const GroupCell& cell : groups_) {
    if (cell.group == nullptr) continue;
    const WorkerGroup& group = *cell.group;
    connecting = connecting || group.state != WorkerGroup::State::kFailed;
    for (const RetiredLinks& retired : group.retired) deadline = std::min(deadline, retired.force_at_ns);
    if (group.next_map != nullptr && !group.ResultIsBeingTaken()) deadline = 0;
    switch (group.state) {
      case WorkerGroup::State::kOpening:
        deadline = std::min({deadline, group.open_deadline_ns, group.next_op_deadline_ns});
        break;
      case WorkerGroup::State::kOpen:
        deadline = std::min({deadline, group.next_op_deadline_ns, group.commit_note_at_ns, group.leave_by_ns});
        break;
      case WorkerGroup::State::kFailed:
        deadline = std::min(deadline, group.force_at_ns);
        break;
    }
  }
  if (!connecting) return deadline;
  for (uint32_t index = 0; index < connections_.size(); ++index) {
    if (connections_[index].state == Connection::State::kDown && IsWanted(index)) {
      deadline = std::min(deadline, connections_[index].retry_at_ns);
    }
  }
  return deadline;
}

absl::Status WorkerMachine::DescribeTimeout(const WorkerGroup& group, const WorkerOp& op, Now now) const {
  std::string text = absl::StrCat("all-reduce ", op.number.value(), " of group '", group.info().name, "' (",
                                  op.plan.element_count, " ", std::string(DataTypeName(op.dtype)),
                                  ") is not done after ", Seconds(now.monotonic_ns - op.submitted_ns), ": ");
  if (group.state == WorkerGroup::State::kOpening) {
    absl::StrAppend(&text, DescribeMissingServers(group));
  } else if (op.waiting.missing_count > 0) {
    absl::StrAppend(&text, DescribeServer(group.links[op.waiting_shard].connection), " waits for ");
    for (uint32_t i = 0; i < op.waiting.listed_count; ++i) {
      absl::StrAppend(&text, i > 0 ? ", " : "", group.DescribeRank(op.waiting.ranks[i]));
    }
    if (op.waiting.missing_count > op.waiting.listed_count) {
      absl::StrAppend(&text, " and ", op.waiting.missing_count - op.waiting.listed_count, " more");
    }
    absl::StrAppend(&text, ", which made fewer calls or stopped");
  } else {
    absl::StrAppend(&text, op.chunks_landed, " of ", op.plan.chunk_count, " chunks are back");
    if (group.map().empty()) absl::StrAppend(&text, "; no reduction server is left");
    for (const ShardLink& link : group.links) {
      if (!link.lost) continue;
      absl::StrAppend(&text, "; ", DescribeServer(link.connection), " was lost (", link.lost_because,
                      ") and the scheduler gave no new map");
    }
    const char* separator = "; no answer from ";
    for (const ShardLink& link : group.links) {
      if (link.lost) continue;
      const bool waits = std::any_of(link.cells.begin(), link.cells.end(),
                                     [&](const ChunkInFlight& cell) { return cell.open && cell.op == op.number; });
      if (!waits) continue;
      absl::StrAppend(&text, separator, DescribeServer(link.connection));
      separator = ", ";
    }
  }
  return absl::DeadlineExceededError(text);
}

std::string WorkerMachine::DescribeMissingServers(const WorkerGroup& group) const {
  std::string text = absl::StrCat("group '", group.info().name, "' is not open on");
  for (const ShardLink& link : group.links) {
    if (link.welcomed) continue;
    const Connection& connection = connections_[link.connection];
    absl::StrAppend(&text, " ", DescribeServer(link.connection));
    if (link.lost) {
      absl::StrAppend(&text, " (", link.lost_because, ")");
    } else if (link.hello_sent) {
      absl::StrAppend(&text, " (connected, but no welcome)");
    } else {
      absl::StrAppend(&text, " (", connection.last_error.empty() ? "no connection yet" : connection.last_error, ")");
    }
  }
  return text;
}

std::string WorkerMachine::DescribeServer(uint32_t index) const {
  return absl::StrCat("server ", connections_[index].server_name, " (", connections_[index].address, ")");
}

WorkerGroup* WorkerMachine::FindGroup(GroupId id, uint16_t* handle) {
  for (uint16_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].group == nullptr || groups_[i].group->info().id != id) continue;
    *handle = i;
    return groups_[i].group.get();
  }
  return nullptr;
}

ShardLink* WorkerMachine::FindLink(WorkerGroup* group, uint32_t connection, uint32_t* shard) {
  for (uint32_t i = 0; i < group->links.size(); ++i) {
    if (group->links[i].connection != connection) continue;
    *shard = i;
    return &group->links[i];
  }
  return nullptr;
}

FrameHeader WorkerMachine::HeaderFor(const WorkerGroup& group, FrameType type) const {
  FrameHeader header;
  header.type = type;
  header.group = group.info().id;
  header.epoch = group.epoch();
  header.rank = group.info().rank;
  header.landed_watermark = group.landed_watermark();
  header.commit_watermark = group.commit_watermark;
  return header;
}

WorkerCounters WorkerMachine::counters() const {
  WorkerCounters counters = counters_;
  for (const Connection& connection : connections_) {
    counters.shards.push_back({.server_name = connection.server_name,
                               .address = connection.address,
                               .bytes_pushed = connection.bytes_pushed,
                               .bytes_pulled = connection.bytes_pulled,
                               .peer = connection.state == Connection::State::kUp ? connection.peer : PeerId(),
                               .transport = ""});
  }
  return counters;
}

}  // namespace shoal
