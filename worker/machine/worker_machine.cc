#include "worker/machine/worker_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {

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
  const uint16_t handle = command.group.value();
  open_groups_.insert(std::lower_bound(open_groups_.begin(), open_groups_.end(), handle), handle);
  GroupCell& cell = groups_[handle];
  ++cell.generation;
  cell.group = std::make_unique<WorkerGroup>(command.info, now.monotonic_ns, command.deadline_ns);
  cell.group->generation = cell.generation;
  StartLinks(handle, now, actions);
  for (const MoveGroupCommand& move : early_moves_) {
    if (move.group == command.info->id && move.map->epoch() > cell.group->epoch()) cell.group->next_map = move.map;
  }
  std::erase_if(early_moves_, [&](const MoveGroupCommand& move) { return move.group == command.info->id; });
  MoveIfDue(handle, now, actions);
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
  for (const uint16_t handle : Handles(open_groups_)) {
    // The others may go on: a rank that was done and left while the scheduler was away counts as lost there, too.
    const std::vector<uint32_t>& ranks = groups_[handle].group->info().job_ranks;
    if (std::find(ranks.begin(), ranks.end(), command.job_rank) == ranks.end()) continue;
    FailGroup(handle,
              absl::AbortedError(absl::StrCat("rank ", command.job_rank, " of the job on ", command.node,
                                              " was lost: ", command.reason)),
              now, actions, outcomes);
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
  ReportOp(handle, op, FailureOf(group, *op), now, outcomes);
}

void WorkerMachine::Tick(Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  for (const uint16_t handle : Handles(open_groups_)) TickGroup(handle, now, actions, outcomes);
  TickProbe(now, outcomes);
  ReportOutOfReach(now, outcomes);
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
  if (now.monotonic_ns >= group.next_wait_report_ns) ReportWaits(handle, now, outcomes);
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
      if (!link.HoldsMemory()) continue;
      uint32_t shard = 0;
      const bool in_use = FindLink(&group, link.connection, &shard) != nullptr;
      if (!in_use || group.state == WorkerGroup::State::kFailed) {
        CutLink(&link, actions);
      } else {
        // Spared while the group uses its connection, which may end.
        retired.force_at_ns = now.monotonic_ns + options_.force_after_ns;
      }
    }
  }
  CloseIfDone(handle, now, actions, outcomes);
}

uint64_t WorkerMachine::NextDeadlineNs() const {
  uint64_t deadline = shutting_down_ ? shutdown_deadline_ns_ : kNoDeadline;
  bool connecting = probing_;
  if (probing_) deadline = std::min(deadline, probe_deadline_ns_);
  for (const uint16_t handle : open_groups_) {
    const WorkerGroup& group = *groups_[handle].group;
    connecting = connecting || group.state != WorkerGroup::State::kFailed;
    deadline = std::min(deadline, group.next_wait_report_ns);
    for (const RetiredLinks& retired : group.retired) deadline = std::min(deadline, retired.force_at_ns);
    if (group.next_map != nullptr && !group.ResultIsBeingTaken()) deadline = 0;
    switch (group.state) {
      case WorkerGroup::State::kOpening:
        deadline = std::min({deadline, group.open_deadline_ns, group.next_op_deadline_ns});
        break;
      case WorkerGroup::State::kOpen:
        deadline = std::min({deadline, group.next_op_deadline_ns, group.commit_note_at_ns});
        if (group.leave_by_ns != kNoDeadline && group.Idle()) deadline = std::min(deadline, group.leave_by_ns);
        break;
      case WorkerGroup::State::kFailed:
        deadline = std::min(deadline, group.force_at_ns);
        break;
    }
  }
  if (!connecting) return deadline;
  for (uint32_t index = 0; index < connections_.size(); ++index) {
    deadline = std::min(deadline, connections_[index].report_at_ns);
    if (connections_[index].state == Connection::State::kDown && IsWanted(index)) {
      deadline = std::min(deadline, connections_[index].retry_at_ns);
    }
  }
  return deadline;
}

WorkerGroup* WorkerMachine::FindGroup(GroupId id, uint16_t* handle) {
  for (const uint16_t i : open_groups_) {
    if (groups_[i].group->info().id != id) continue;
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
