// The part of WorkerMachine that keeps the connections to servers, and measures the way to one.
#include <algorithm>

#include "worker/machine/worker_machine.h"

namespace shoal {

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
  for (const uint16_t handle : open_groups_) {
    WorkerGroup& group = *groups_[handle].group;
    if (group.state == WorkerGroup::State::kFailed) continue;
    for (ShardLink& link : group.links) {
      if (link.connection != index || link.hello_sent || link.lost) continue;
      link.hello_sent = true;
      link.reported_watermark = group.landed_watermark();
      FrameHeader header = HeaderFor(group, FrameType::kHello);
      header.op = group.newest_result;
      actions->push_back(WorkerSendNoteAction{connections_[index].peer, MakeHello(header, group.info().token)});
    }
  }
}

void WorkerMachine::OnPeerUp(uint32_t index, Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  connections_[index].state = Connection::State::kUp;
  connections_[index].last_error.clear();
  connections_[index].report_at_ns = kNoDeadline;
  if (probing_ && index == probe_connection_) probe_.Start(connections_[index].peer, now, actions);
  ReportLostLinks(index, true, outcomes);
  SendHellos(index, actions);
}

void WorkerMachine::OnPeerDown(uint32_t index, const absl::Status& why, Now now, WorkerActions* actions,
                               WorkerOutcomes* outcomes) {
  Connection& connection = connections_[index];
  const bool was_up = connection.state == Connection::State::kUp;
  connection.state = Connection::State::kDown;
  if (connection.last_error.empty()) connection.last_error = std::string(why.message());
  connection.retry_at_ns = now.monotonic_ns + (was_up ? 0 : options_.connect_retry_ns);
  if (was_up) connection.report_at_ns = now.monotonic_ns + options_.reach_patience_ns;
  if (!was_up) ReportLostLinks(index, false, outcomes);
  for (const uint16_t handle : Handles(open_groups_)) {
    WorkerGroup& group = *groups_[handle].group;
    if (group.state == WorkerGroup::State::kFailed) continue;
    uint32_t shard = 0;
    const ShardLink* link = FindLink(&group, index, &shard);
    if (link == nullptr || !link->hello_sent || link->lost) continue;
    LoseLink(handle, shard, connection.last_error.empty() ? "connection closed" : connection.last_error, now, actions,
             outcomes);
  }
  TickConnections(now, actions);
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
  return std::any_of(open_groups_.begin(), open_groups_.end(), [&](uint16_t handle) {
    const WorkerGroup& group = *groups_[handle].group;
    return group.state != WorkerGroup::State::kFailed &&
           std::any_of(group.links.begin(), group.links.end(),
                       [&](const ShardLink& link) { return link.connection == index; });
  });
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

void WorkerMachine::OnProbeEcho(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions,
                                WorkerOutcomes* outcomes) {
  if (!probing_ || connection != probe_connection_ || !probe_.OnEcho(header, now, actions)) return;
  probing_ = false;
  outcomes->push_back(LinkMeasured{probe_.facts()});
}

}  // namespace shoal
