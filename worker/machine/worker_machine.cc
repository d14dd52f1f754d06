#include "worker/machine/worker_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/machine/group_words.h"
#include "worker/machine/refusal_error.h"

namespace shoal {

WorkerMachine::WorkerMachine(const WorkerMachineOptions& options)
    : options_(options), connections_(&options_), groups_(kMaxWorkerGroups) {}

// ---- commands ----

void WorkerMachine::OnEvent(const OpenGroupCommand& command, Now now, WorkerActions* actions) {
  if (absl::Status status = CheckOpening(*command.info); !status.ok()) {
    if (command.info->size() > 1) actions->push_back(FailureToTell(command.info->id, status));
    actions->push_back(GroupOpened{command.group, std::move(status)});
    return;
  }
  const uint16_t handle = command.group.value();
  open_groups_.insert(std::lower_bound(open_groups_.begin(), open_groups_.end(), handle), handle);
  GroupCell& cell = groups_[handle];
  const SharedByGroups shared = {.options = &options_,
                                 .connections = &connections_,
                                 .tally = &tally_,
                                 .server_waits = &server_waits_,
                                 .partial_ops = &partial_ops_};
  const auto generation = static_cast<uint16_t>(cell.generation + 1);
  if (command.info->node_reduce == NodeReduceMode::kFlat) {
    auto group = std::make_unique<WorkerGroup>(command, generation, shared, now);
    cell.on_servers = group.get();
    cell.group = std::move(group);
  } else {
    auto group = std::make_unique<NodeGroup>(command, generation, shared, now);
    cell.on_node = group.get();
    cell.on_servers = group->rail();
    cell.group = std::move(group);
  }
  cell.group->Open(now, actions);
  if (cell.on_servers != nullptr) {
    TakeEarlyMove(command.info->id, cell.on_servers, now, actions);
    cell.on_servers->SetNoMoreMaps(no_more_maps_);
  }
  for (const GiveGroupUpCommand& failure : early_failures_) {
    if (failure.group == command.info->id) GiveGroupUp(failure, cell.group.get(), now, actions);
  }
  std::erase_if(early_failures_, [&](const GiveGroupUpCommand& each) { return each.group == command.info->id; });
  for (const RankLostCommand& lost : lost_ranks_) LoseRank(lost, &cell, now, actions);
  DropClosed(command.group);
  TryConnections(now, actions);
}

void WorkerMachine::TakeEarlyMove(GroupId id, WorkerGroup* group, Now now, WorkerActions* actions) {
  std::optional<MoveGroupCommand> newest;
  for (const MoveGroupCommand& move : early_moves_) {
    const Epoch known = newest.has_value() ? newest->map->epoch() : group->epoch();
    if (move.group == id && move.map->epoch() >= known) newest = move;
  }
  std::erase_if(early_moves_, [&](const MoveGroupCommand& move) { return move.group == id; });
  if (!newest.has_value()) return;
  group->MoveTo(*newest, now, actions);
  group->NoteClosed(*newest, now, actions);
}

absl::Status WorkerMachine::CheckOpening(const GroupInfo& info) const {
  if (shutting_down_) return absl::CancelledError("the worker is closing");
  const bool is_whole = !info.is_rail();
  if (info.node_reduce == NodeReduceMode::kFlat || (options_.has_local_reduce && is_whole)) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the scheduler wants group \"", info.name, "\" reduced within nodes (",
                   std::string(NodeReduceModeName(info.node_reduce)),
                   "), which this worker can't do; update the workers and the scheduler together"));
}

void WorkerMachine::OnEvent(const SubmitCommand& command, Now now, WorkerActions* actions) {
  tally_.CountSubmit(now);
  AnyGroup* group = Group(command.group);
  absl::Status status =
      group == nullptr ? absl::CancelledError("the group is closed") : group->Submit(command, now, actions);
  if (!status.ok()) actions->push_back(tally_.CountOp(command, status, now));
}

void WorkerMachine::OnEvent(const TensorReadyCommand& command, Now now, WorkerActions* actions) {
  WorkerGroup* const group = groups_[command.group.value()].on_servers;
  if (group != nullptr) group->OnTensorReady(command, now, actions);
  DropClosed(command.group);
}

void WorkerMachine::OnEvent(const DeviceDoneCommand& command, Now now, WorkerActions* actions) {
  if (NodeGroup* group = NodeGroupOf(command.group); group != nullptr) group->OnDeviceDone(command, now, actions);
  DropClosed(command.group);
}

void WorkerMachine::OnEvent(const MoveGroupCommand& command, Now now, WorkerActions* actions) {
  GroupHandle handle;
  if (FindGroup(command.group, &handle) == nullptr) {
    if (command.all_committed) return;  // it has been open here, and is closed
    // The scheduler tells of a group as soon as it has answered all ranks: perhaps before this one's answer is here.
    if (early_moves_.size() >= kMaxEarlyNews) early_moves_.pop_front();
    early_moves_.push_back(command);
    return;
  }
  WorkerGroup* const group = groups_[handle.value()].on_servers;
  if (group == nullptr) return;  // it has no servers: a scheduler of an older version says so
  // In a group that goes on, what a rank knew that has closed it ends with its epoch; answers may be late.
  const bool is_known_still = group->info().min_ranks == 0 || command.map->epoch() >= group->epoch();
  // One that only waits to leave need not greet new servers first.
  if (command.all_committed && is_known_still) group->OnAllCommitted(now, actions);
  group->MoveTo(command, now, actions);
  group->NoteClosed(command, now, actions);
  DropClosed(handle);
  TryConnections(now, actions);
}

void WorkerMachine::OnEvent(const GiveGroupUpCommand& command, Now now, WorkerActions* actions) {
  GroupHandle handle;
  AnyGroup* const group = FindGroup(command.group, &handle);
  if (group == nullptr) {
    std::erase_if(early_failures_, [&](const GiveGroupUpCommand& each) { return each.group == command.group; });
    if (early_failures_.size() >= kMaxEarlyNews) early_failures_.pop_front();
    early_failures_.push_back(command);
    return;
  }
  GiveGroupUp(command, group, now, actions);
  DropClosed(handle);
}

void WorkerMachine::GiveGroupUp(const GiveGroupUpCommand& command, AnyGroup* group, Now now, WorkerActions* actions) {
  // It is this rank that the scheduler does not know: the others go on without it.
  const bool is_alone = group->info().min_ranks > 0 && absl::IsFailedPrecondition(command.reason);
  if (is_alone) return group->GiveUp(command.reason, now, actions);
  group->FailAsOthers(command.reason, now, actions);
}

void WorkerMachine::OnEvent(const NoMoreMapsCommand& command, Now /*now*/, WorkerActions* /*actions*/) {
  no_more_maps_ = command.reason;
  ForEachOnServers([&](WorkerGroup& group) { group.SetNoMoreMaps(no_more_maps_); });
}

void WorkerMachine::OnEvent(const AbortGroupCommand& command, Now now, WorkerActions* actions) {
  AnyGroup* group = Group(command.group);
  if (group == nullptr) return;
  group->Fail(absl::CancelledError(absl::StrCat("the group was aborted: ", command.reason)), now, actions);
  DropClosed(command.group);
}

void WorkerMachine::OnEvent(const GiveUpCommand& command, Now now, WorkerActions* actions) {
  for (const uint16_t handle : open_groups_) {
    groups_[handle].group->GiveUp(absl::CancelledError(command.reason), now, actions);
  }
  DropClosed();
}

void WorkerMachine::OnEvent(const CloseGroupCommand& command, Now now, WorkerActions* actions) {
  AnyGroup* group = Group(command.group);
  if (group == nullptr) {
    actions->push_back(GroupClosed{command.group});
    return;
  }
  group->Close(now, actions);
  DropClosed(command.group);
}

void WorkerMachine::OnEvent(const RankLostCommand& command, Now now, WorkerActions* actions) {
  for (const uint16_t handle : open_groups_) LoseRank(command, &groups_[handle], now, actions);
  if (lost_ranks_.size() >= kMaxEarlyNews) lost_ranks_.pop_front();
  lost_ranks_.push_back(command);
  DropClosed();
}

void WorkerMachine::LoseRank(const RankLostCommand& lost, GroupCell* cell, Now now, WorkerActions* actions) {
  AnyGroup* const group = cell->group.get();
  // Other groups may go on: a rank that was done and left while the scheduler was away counts as lost there, too.
  // One that goes on without it is told so by its next map, or that it can't.
  if (group->info().min_ranks > 0) {
    if (cell->on_node != nullptr) cell->on_node->NoteLost(lost);
    return;
  }
  const std::vector<JobRank>& ranks = group->info().job_ranks;
  if (std::find(ranks.begin(), ranks.end(), lost.job_rank) == ranks.end()) return;
  group->FailAsOthers(RankLostError(lost.job_rank, lost.node, lost.reason), now, actions);
}

void WorkerMachine::OnEvent(const MeasureLinkCommand& command, Now now, WorkerActions* actions) {
  Connections::Use use = connections_.Find(command.address, command.server_name);
  const uint32_t connection = use.index();
  probe_.Begin(std::move(use), command.deadline_ns);
  if (connections_.IsUp(connection)) return probe_.OnUp(connections_.peer(connection), now, actions);
  connections_.Hasten(connection, now);
  TryConnections(now, actions);
}

void WorkerMachine::OnEvent(const ShutdownCommand& command, Now now, WorkerActions* actions) {
  shutting_down_ = true;
  shutdown_deadline_ns_ = command.deadline_ns;
  for (const uint16_t handle : open_groups_) groups_[handle].group->Shutdown(command.deadline_ns, now, actions);
  DropClosed();
  TickShutdown(now, actions);
}

// ---- the network ----

void WorkerMachine::OnEvent(const TransportEvent& event, Now now, WorkerActions* actions) {
  if (event.kind == TransportEventKind::kSent || event.kind == TransportEventKind::kLanded) {
    if (event.token == LinkProbe::kToken) return;  // its payload is never written to
    const OperationToken token = OperationToken::Unpack(event.token);
    WorkerGroup* group = groups_[token.handle].on_servers;
    if (event.kind == TransportEventKind::kSent) {
      group->OnSent(token, event.status, now, actions);
    } else {
      group->OnLanded(token, event.status, now, actions);
    }
    return DropClosed(GroupHandle(token.handle));
  }
  const std::optional<uint32_t> connection = connections_.FindByPeer(event.peer);
  if (!connection.has_value()) return;
  switch (event.kind) {
    case TransportEventKind::kPeerUp:
      return OnUp(*connection, now, actions);
    case TransportEventKind::kPeerDown:
      return OnDown(*connection, event.status, now, actions);
    case TransportEventKind::kNote:
      return OnNote(*connection, event, now, actions);
    case TransportEventKind::kOffered:
      return OnOffered(*connection, event, now, actions);
    default:
      return;
  }
}

void WorkerMachine::OnEvent(const ConnectStarted& started, Now now, WorkerActions* /*actions*/) {
  connections_.OnStarted(started, now);
}

void WorkerMachine::OnEvent(const AcceptStarted& started, Now /*now*/, WorkerActions* /*actions*/) {
  const OperationToken token = OperationToken::Unpack(started.token);
  groups_[token.handle].on_servers->OnAcceptStarted(token, started.at_once);
}

void WorkerMachine::OnUp(uint32_t connection, Now now, WorkerActions* actions) {
  connections_.ComeUp(connection);
  if (probe_.Uses(connection)) probe_.OnUp(connections_.peer(connection), now, actions);
  ReportLostLinks(connection, /*reachable=*/true, actions);
  ForEachOnServers([&](WorkerGroup& group) { group.OnUp(connection, actions); });
}

void WorkerMachine::OnDown(uint32_t connection, const absl::Status& why, Now now, WorkerActions* actions) {
  const bool was_up = connections_.GoDown(connection, why, now);
  if (!was_up) ReportLostLinks(connection, /*reachable=*/false, actions);
  ForEachOnServers([&](WorkerGroup& group) { group.OnDown(connection, actions); });
  DropClosed();
  TryConnections(now, actions);
}

void WorkerMachine::OnNote(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
  if (!header.ok()) {
    connections_.NoteRefusal(connection, std::string(header.status().message()));
    actions->push_back(WorkerClosePeerAction{event.peer});
    return;
  }
  const std::span<const std::byte> body = event.bytes.subspan(kFrameHeaderBytes);
  switch (header->type) {
    case FrameType::kRefuse:
      return OnRefuse(connection, *header, DecodeText(body), now, actions);
    case FrameType::kProbe:
      if (probe_.Uses(connection)) probe_.OnEcho(*header, now, actions);
      return;
    case FrameType::kBye:
      return connections_.NoteGoodbye(connection);
    default:
      return OnGroupNote(connection, *header, body, now, actions);
  }
}

void WorkerMachine::OnGroupNote(uint32_t connection, const FrameHeader& header, std::span<const std::byte> body,
                                Now now, WorkerActions* actions) {
  GroupHandle handle;
  WorkerGroup* group = FindGroupOnServers(header.group, &handle);
  if (group == nullptr) return;
  switch (header.type) {
    case FrameType::kWelcome:
      if (const auto welcome = DecodeWelcome(body); welcome.ok()) {
        group->OnWelcome(connection, header, *welcome, now, actions);
      }
      break;
    case FrameType::kWaiting:
      if (const auto missing = DecodeWaiting(body); missing.ok()) group->OnWaiting(connection, header, *missing);
      break;
    case FrameType::kCommit:
      group->OnCommit(header.commit_watermark);
      break;
    case FrameType::kAsk:
      group->OnAsk(connection, header, now, actions);
      break;
    case FrameType::kGroupFailed:
    case FrameType::kRankLost:
      group->OnBroken(connection, header, DecodeText(body), now, actions);
      break;
    default:
      break;  // nothing else concerns a worker
  }
  DropClosed(handle);
}

void WorkerMachine::OnRefuse(uint32_t connection, const FrameHeader& header, const std::string& text, Now now,
                             WorkerActions* actions) {
  tally_.CountRefusal();
  // Late copies were refused: nothing is missing.
  if (header.refusal == Refusal::kDuplicate || header.refusal == Refusal::kStaleOp) return;
  GroupHandle handle;
  if (WorkerGroup* group = FindGroupOnServers(header.group, &handle); group != nullptr) {
    group->OnRefused(connection, header, text, now, actions);
    return DropClosed(handle);
  }
  // Late, for a group that ended here.
  if (header.group != GroupId(0) || header.refusal == Refusal::kPreempted || header.refusal == Refusal::kStaleEpoch) {
    return;
  }
  // A refusal of the connection as such: another group that is opening over it would only hear it again.
  const absl::Status error = RefusalError(connections_.Describe(connection), "a message", header.refusal, text);
  connections_.NoteRefusal(connection, std::string(error.message()));
  ForEachOnServers([&](WorkerGroup& group) {
    if (group.opening() && group.Uses(connection)) group.Fail(error, now, actions);
  });
  DropClosed();
}

void WorkerMachine::OnOffered(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(event.bytes);
  GroupHandle handle;
  WorkerGroup* group =
      header.ok() && header->type == FrameType::kResult ? FindGroupOnServers(header->group, &handle) : nullptr;
  if (group != nullptr && group->OnOffered(connection, *header, event, now, actions)) return DropClosed(handle);
  // Late, for a group that ended: dropped, and counted.
  tally_.CountRefusal();
  actions->push_back(WorkerDeclineAction{event.offer});
}

// ---- the node ----

void WorkerMachine::OnEvent(const LocalGroupMet& event, Now /*now*/, WorkerActions* actions) {
  if (NodeGroup* group = NodeGroupOf(event.group); group != nullptr) group->OnMet(event, actions);
}

void WorkerMachine::OnEvent(const LocalPartReduced& event, Now /*now*/, WorkerActions* /*actions*/) {
  if (NodeGroup* group = NodeGroupOf(event.group); group != nullptr) group->OnPartReduced(event);
}

void WorkerMachine::OnEvent(const LocalOpEnded& event, Now now, WorkerActions* actions) {
  if (NodeGroup* group = NodeGroupOf(event.group); group != nullptr) group->OnOpEnded(event, now, actions);
  DropClosed(event.group);
}

void WorkerMachine::OnEvent(const LocalGroupFailed& event, Now now, WorkerActions* actions) {
  if (NodeGroup* group = NodeGroupOf(event.group); group != nullptr) group->OnFailed(event, now, actions);
  DropClosed(event.group);
}

void WorkerMachine::OnEvent(const LocalRanksMissing& missing, Now now, WorkerActions* actions) {
  if (NodeGroup* group = NodeGroupOf(missing.group); group != nullptr) group->OnMissing(missing.ranks, now, actions);
  DropClosed(missing.group);
}

// ---- devices ----

void WorkerMachine::OnEvent(const DeviceCopyEnded& event, Now now, WorkerActions* actions) {
  groups_[event.token.group.value()].on_servers->OnDeviceCopyEnded(event, now, actions);
  DropClosed(event.token.group);
}

// ---- time ----

void WorkerMachine::Tick(Now now, WorkerActions* actions) {
  const uint64_t visited = connections_.visited();
  for (const uint16_t handle : open_groups_) groups_[handle].group->Tick(now, actions);
  DropClosed();
  probe_.Tick(now, shutting_down_, actions);
  connections_.TakeOutOfReach(now,
                              [&](uint32_t connection) { ReportLostLinks(connection, /*reachable=*/false, actions); });
  TryConnections(now, actions);
  if (shutting_down_) TickShutdown(now, actions);
  tally_.CountRound(connections_.visited() - visited);
}

uint64_t WorkerMachine::NextDeadlineNs() const {
  uint64_t deadline_ns = std::min(shutting_down_ ? shutdown_deadline_ns_ : kNoDeadline, probe_.NextDeadlineNs());
  for (const uint16_t handle : open_groups_) {
    deadline_ns = std::min(deadline_ns, groups_[handle].group->NextDeadlineNs());
  }
  return std::min(deadline_ns, connections_.NextDeadlineNs(/*connects=*/!shutting_down_));
}

void WorkerMachine::TryConnections(Now now, WorkerActions* actions) {
  if (!shutting_down_) connections_.TryDue(now, actions);
}

void WorkerMachine::ReportLostLinks(uint32_t connection, bool reachable, WorkerActions* actions) {
  ForEachOnServers([&](WorkerGroup& group) { group.ReportLostLink(connection, reachable, actions); });
}

void WorkerMachine::TickShutdown(Now now, WorkerActions* actions) {
  if (shutdown_reported_) return;
  const bool groups_left = !open_groups_.empty();
  const bool late = now.monotonic_ns >= shutdown_deadline_ns_;
  if (groups_left && !late) return;
  if (late && !std::exchange(goodbyes_given_up_, true)) {
    if (const std::string silent = connections_.DescribeMissingGoodbyes(); !silent.empty()) {
      tally_.CountWait();
      actions->push_back(
          WaitReported{absl::StrCat("the worker closes although it has not heard goodbye from ", silent)});
    }
  }
  const bool connections_left = connections_.SayGoodbyes(late, actions);
  if (late) shutdown_deadline_ns_ = now.monotonic_ns + options_.force_after_ns;
  if (connections_left || groups_left) return;
  shutdown_reported_ = true;
  shutdown_deadline_ns_ = kNoDeadline;
  actions->push_back(ShutdownDone{});
}

// ---- groups ----

AnyGroup* WorkerMachine::FindGroup(GroupId id, GroupHandle* handle) {
  for (const uint16_t open : open_groups_) {
    AnyGroup* const group = groups_[open].group.get();
    if (group->info().id != id) continue;
    *handle = GroupHandle(open);
    return group;
  }
  return nullptr;
}

WorkerGroup* WorkerMachine::FindGroupOnServers(GroupId id, GroupHandle* handle) {
  return FindGroup(id, handle) == nullptr ? nullptr : groups_[handle->value()].on_servers;
}

void WorkerMachine::DropClosed(GroupHandle handle) {
  GroupCell& cell = groups_[handle.value()];
  if (cell.group == nullptr || !cell.group->closed()) return;
  const uint16_t generation = cell.on_servers == nullptr ? cell.generation : cell.on_servers->generation();
  cell = GroupCell{.generation = generation};
  open_groups_.erase(std::lower_bound(open_groups_.begin(), open_groups_.end(), handle.value()));
}

void WorkerMachine::DropClosed() {
  for (const uint16_t handle : Handles(open_groups_)) DropClosed(GroupHandle(handle));
}

WorkerCounters WorkerMachine::counters() const {
  WorkerCounters counters = tally_.counters();
  counters.shards = connections_.Traffic();
  counters.server_waits = server_waits_.Newest();
  counters.partial_ops = partial_ops_.newest();
  for (const uint16_t handle : open_groups_) {
    const WorkerGroup* const group = groups_[handle].on_servers;
    if (group != nullptr) counters.retained_results += group->retained_results();
  }
  return counters;
}

}  // namespace shoal
