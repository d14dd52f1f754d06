// The part of WorkerMachine that survives the loss of servers: how a group goes over to another map, what is kept for
// other ranks, and how it is handed over (docs/adr/0009).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/machine/worker_machine.h"

namespace shoal {

void WorkerMachine::MoveGroup(const MoveGroupCommand& command, Now now, WorkerActions* actions) {
  if (!options_.survive_server_loss) return;
  uint16_t handle = 0;
  WorkerGroup* group = FindGroup(command.group, &handle);
  if (group == nullptr) {
    // The scheduler tells of a group as soon as it has answered all ranks: perhaps before this one's answer is here.
    if (early_moves_.size() >= kMaxEarlyMoves) early_moves_.pop_front();
    early_moves_.push_back(command);
    return;
  }
  const Epoch newest = group->next_map == nullptr ? group->epoch() : group->next_map->epoch();
  if (group->state == WorkerGroup::State::kFailed || command.map->epoch() <= newest) return;
  group->next_map = command.map;
  MoveIfDue(handle, now, actions);
  TickConnections(now, actions);
}

void WorkerMachine::MoveIfDue(uint16_t handle, Now now, WorkerActions* actions) {
  GroupCell& cell = groups_[handle];
  WorkerGroup& group = *cell.group;
  if (group.next_map == nullptr || group.state == WorkerGroup::State::kFailed || group.ResultIsBeingTaken()) return;
  const std::shared_ptr<const ShardMap> map = std::exchange(group.next_map, nullptr);
  for (ShardLink& link : group.links) {
    const Connection& connection = connections_[link.connection];
    const bool stays = std::any_of(map->shards().begin(), map->shards().end(),
                                   [&](const Shard& shard) { return shard.address == connection.address; });
    if (!stays && link.hello_sent && !link.lost && connection.state == Connection::State::kUp) {
      actions->push_back(WorkerSendNoteAction{connection.peer, MakeNote(HeaderFor(group, FrameType::kLeaveGroup))});
    }
    for (ChunkInFlight& chunk : link.cells) {
      if (chunk.open && chunk.held_offer != OfferId(0)) actions->push_back(WorkerDeclineAction{chunk.held_offer});
      chunk.held_offer = OfferId(0);
    }
  }
  Retire(handle, group.MoveTo(map), now);
  group.generation = ++cell.generation;
  StartLinks(handle, now, actions);
}

void WorkerMachine::Retire(uint16_t handle, std::vector<ShardLink> links, Now now) {
  WorkerGroup& group = *groups_[handle].group;
  if (std::none_of(links.begin(), links.end(), [](const ShardLink& link) { return link.HoldsMemory(); })) return;
  group.retired.push_back({.generation = group.generation,
                           .links = std::move(links),
                           .force_at_ns = now.monotonic_ns + options_.force_after_ns});
}

void WorkerMachine::DropIdleRetired(WorkerGroup* group) {
  std::erase_if(group->retired, [](const RetiredLinks& retired) {
    return std::none_of(retired.links.begin(), retired.links.end(),
                        [](const ShardLink& link) { return link.HoldsMemory(); });
  });
}

void WorkerMachine::StartLinks(uint16_t handle, Now now, WorkerActions* actions) {
  WorkerGroup& group = *groups_[handle].group;
  counters_.map_epoch = std::max(counters_.map_epoch, group.epoch().value());
  const std::vector<Shard>& shards = group.map().shards();
  for (size_t i = 0; i < shards.size(); ++i) {
    group.links[i].connection = FindConnection(shards[i].address, shards[i].server_name);
  }
  for (const ShardLink& link : group.links) {
    Connection& connection = connections_[link.connection];
    if (connection.state == Connection::State::kUp) {
      SendHellos(link.connection, actions);
    } else {
      connection.retry_at_ns = std::min(connection.retry_at_ns, now.monotonic_ns);
    }
  }
}

void WorkerMachine::LoseLink(uint16_t handle, uint32_t shard, const std::string& why, Now now, WorkerActions* actions,
                             WorkerOutcomes* outcomes) {
  WorkerGroup& group = *groups_[handle].group;
  ShardLink& link = group.links[shard];
  if (link.lost) return;
  Connection& connection = connections_[link.connection];
  if (!options_.survive_server_loss) {
    if (group.state == WorkerGroup::State::kOpening && !link.welcomed) {
      link.hello_sent = false;  // said again on the next connection
      return;
    }
    return FailGroup(handle, absl::UnavailableError(absl::StrCat(DescribeServer(link.connection), " was lost: ", why)),
                     now, actions, outcomes);
  }
  link.lost = true;
  link.welcomed = false;
  link.lost_because = why;
  // Down: what the next attempt to connect comes to is reported.
  if (connection.state == Connection::State::kUp) ReportTrouble(group, shard, /*reachable=*/false, outcomes);
}

void WorkerMachine::ReportLostLinks(uint32_t index, bool reachable, WorkerOutcomes* outcomes) {
  for (const uint16_t handle : open_groups_) {
    WorkerGroup& group = *groups_[handle].group;
    if (group.state == WorkerGroup::State::kFailed) continue;
    uint32_t shard = 0;
    ShardLink* const link = FindLink(&group, index, &shard);
    if (link == nullptr || !link->lost || (link->reported && !reachable)) continue;
    link->reported = true;
    ReportTrouble(group, shard, reachable, outcomes);
  }
}

void WorkerMachine::ReportOutOfReach(Now now, WorkerOutcomes* outcomes) {
  for (uint32_t index = 0; index < connections_.size(); ++index) {
    if (now.monotonic_ns < connections_[index].report_at_ns) continue;
    connections_[index].report_at_ns = kNoDeadline;
    ReportLostLinks(index, false, outcomes);
  }
}

void WorkerMachine::ReportTrouble(const WorkerGroup& group, uint32_t shard, bool reachable, WorkerOutcomes* outcomes) {
  const Shard& entry = group.map().shards()[shard];
  outcomes->push_back(ServerTrouble{.group = group.info().id,
                                    .epoch = group.epoch(),
                                    .server = entry.server,
                                    .incarnation = entry.incarnation,
                                    .reachable = reachable,
                                    .reason = group.links[shard].lost_because});
}

void WorkerMachine::CutLink(ShardLink* link, WorkerActions* actions) {
  if (std::exchange(link->closing, true)) return;
  actions->push_back(WorkerClosePeerAction{connections_[link->connection].peer});
}

bool WorkerMachine::KeepResults(uint16_t handle, const WorkerOp& op, Now now, WorkerActions* actions,
                                WorkerOutcomes* outcomes) {
  WorkerGroup& group = *groups_[handle].group;
  if (!options_.survive_server_loss || group.size() == 1) return true;
  for (const ChunkNumber chunk : group.TakeUnproven(op.number)) {
    const absl::StatusOr<std::shared_ptr<StagingMemory>> memory = group.retained.Keep(PushHeader(group, op, chunk));
    if (!memory.ok()) {
      FailGroup(handle, memory.status(), now, actions, outcomes);
      return false;
    }
    CopyResult(op, chunk, *memory, actions);
  }
  return true;
}

void WorkerMachine::CopyResult(const WorkerOp& op, ChunkNumber chunk, const std::shared_ptr<StagingMemory>& memory,
                               WorkerActions* actions) {
  if (op.narrowed()) {
    // Every 16-bit number has its float32 number and back: these are the bits that came.
    actions->push_back(WorkerNarrowAction{.type = op.type_on_wire,
                                          .staging = memory,
                                          .tensor = op.Chunk(chunk),
                                          .place = memory->Place(0),
                                          .elements = op.plan.ElementCount(chunk)});
  } else {
    actions->push_back(WorkerCopyAction{
        .staging = memory, .from = op.Chunk(chunk), .to = memory->Place(0), .bytes = op.BytesOnWire(chunk)});
  }
}

void WorkerMachine::OnAsk(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions,
                          WorkerOutcomes* outcomes) {
  uint16_t handle = 0;
  uint32_t shard = 0;
  WorkerGroup* group = FindGroup(header.group, &handle);
  if (group == nullptr || group->state != WorkerGroup::State::kOpen || header.epoch != group->epoch() ||
      FindLink(group, connection, &shard) == nullptr) {
    return;
  }
  const WorkerOp* op = group->FindOp(header.op);
  if (op == nullptr || op->reported) {
    // Its memory is the caller's again.
    const RetainedResults::Result* result = group->retained.Find(header.op, header.chunk);
    if (result != nullptr) StartHandOver(handle, shard, result->header, result->memory, actions);
    return;
  }
  // What has not landed is pushed as contribution, or was.
  if (header.chunk.value() >= op->plan.chunk_count || !op->landed[header.chunk.value()]) return;
  const absl::StatusOr<std::shared_ptr<StagingMemory>> memory = group->retained.TakeMemory();
  if (!memory.ok()) return FailGroup(handle, memory.status(), now, actions, outcomes);
  CopyResult(*op, header.chunk, *memory, actions);
  StartHandOver(handle, shard, PushHeader(*group, *op, header.chunk), *memory, actions);
}

void WorkerMachine::StartHandOver(uint16_t handle, uint32_t shard, const FrameHeader& of,
                                  std::shared_ptr<StagingMemory> memory, WorkerActions* actions) {
  WorkerGroup& group = *groups_[handle].group;
  const auto free = std::find_if(group.hand_overs.begin(), group.hand_overs.end(),
                                 [](const HandOver& each) { return each.memory == nullptr; });
  const auto index = static_cast<size_t>(free - group.hand_overs.begin());
  // More than any server could ask for in good faith.
  if (index >= kHandOverShard) return;
  if (free == group.hand_overs.end()) group.hand_overs.emplace_back();
  const uint32_t connection = group.links[shard].connection;
  group.hand_overs[index] = {.memory = memory, .connection = connection};
  FrameHeader header = of;
  header.epoch = group.epoch();
  header.landed_watermark = group.landed_watermark();
  header.commit_watermark = group.commit_watermark;
  header.contributors = group.size();
  ++counters_.results_handed_over;
  actions->push_back(
      WorkerSendAction{.peer = connections_[connection].peer,
                       .header = EncodeHeader(header),
                       .data = memory->Place(0),
                       .bytes = uint64_t{header.chunk_elements} * DataTypeSize(header.dtype),
                       .token = Pack({handle, group.generation, kHandOverShard, static_cast<uint16_t>(index)})});
}

void WorkerMachine::OnPreempted(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions,
                                WorkerOutcomes* outcomes) {
  uint16_t handle = 0;
  uint32_t shard = 0;
  WorkerGroup* group = FindGroup(header.group, &handle);
  ShardLink* link = group == nullptr ? nullptr : FindLink(group, connection, &shard);
  if (link == nullptr || group->state != WorkerGroup::State::kOpen) return;
  const auto cell = std::find_if(link->cells.begin(), link->cells.end(), [&](const ChunkInFlight& candidate) {
    return candidate.open && candidate.op == header.op && candidate.chunk == header.chunk;
  });
  if (cell == link->cells.end()) return OnAsk(connection, header, now, actions, outcomes);
  if (cell->landing || cell->held_offer != OfferId(0)) return;
  cell->again = true;
  if (cell->sent) PushChunk(handle, shard, static_cast<uint16_t>(cell - link->cells.begin()), actions);
}

}  // namespace shoal
