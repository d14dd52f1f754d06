#include "worker/machine/connections.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal {

Connections::Use::Use(Connections* connections, uint32_t index, bool wants)
    : connections_(connections), index_(index), wants_(wants) {
  Connection& used = connections->connections_[index];
  ++used.uses;
  if (wants) ++used.wanted;
}

Connections::Use& Connections::Use::operator=(Use&& other) noexcept {
  if (this != &other) {
    Release();
    connections_ = std::exchange(other.connections_, nullptr);
    index_ = other.index_;
    wants_ = other.wants_;
  }
  return *this;
}

void Connections::Use::StopWanting() {
  if (connections_ != nullptr && std::exchange(wants_, false)) --connections_->connections_[index_].wanted;
}

Connections::Use Connections::Use::WithoutWanting() const { return Use(connections_, index_, /*wants=*/false); }

void Connections::Use::Release() {
  if (connections_ == nullptr) return;
  StopWanting();
  --connections_->connections_[index_].uses;
  std::exchange(connections_, nullptr)->ForgetIfIdle(index_);
}

Connections::Use Connections::Find(const std::string& address, const std::string& server_name) {
  const uint32_t fresh = free_.empty() ? static_cast<uint32_t>(connections_.size()) : free_.back();
  const auto [entry, added] = by_address_.try_emplace(address, fresh);
  if (added) {
    if (free_.empty()) {
      connections_.emplace_back();
    } else {
      free_.pop_back();
    }
    connections_[fresh].state = State::kIdle;
    connections_[fresh].address = address;
  }
  connections_[entry->second].server_name = server_name;
  return Use(this, entry->second, /*wants=*/true);
}

void Connections::ForgetIfIdle(uint32_t index) {
  Connection& connection = connections_[index];
  if (connection.uses > 0 || !IsIdle(connection)) return;
  by_address_.erase(connection.address);
  connection = Connection();
  free_.push_back(index);
}

std::optional<uint32_t> Connections::FindByPeer(PeerId peer) const {
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end()) return std::nullopt;
  return found->second;
}

std::string Connections::Describe(uint32_t connection) const {
  return absl::StrCat("server ", connections_[connection].server_name, " (", connections_[connection].address, ")");
}

void Connections::Hasten(uint32_t connection, Now now) {
  Connection& it = connections_[connection];
  it.retry_at_ns = std::min(it.retry_at_ns, now.monotonic_ns);
}

void Connections::TryDue(Now now, WorkerActions* actions) {
  visited_ += connections_.size();
  for (uint32_t index = 0; index < connections_.size(); ++index) {
    Connection& connection = connections_[index];
    if (!IsIdle(connection) || connection.wanted == 0 || now.monotonic_ns < connection.retry_at_ns) continue;
    connection.state = State::kConnecting;
    connection.bye_sent = false;
    connection.bye_received = false;
    actions->push_back(WorkerConnectAction{.connection = index, .address = connection.address});
  }
}

void Connections::OnStarted(const ConnectStarted& started, Now now) {
  Connection& connection = connections_[started.connection];
  if (started.peer.ok()) {
    connection.peer = *started.peer;
    by_peer_[*started.peer] = started.connection;
    return;
  }
  connection.state = State::kDown;
  connection.last_error = std::string(started.peer.status().message());
  connection.retry_at_ns = now.monotonic_ns + options_.connect_retry_ns;
  ForgetIfIdle(started.connection);
}

void Connections::ComeUp(uint32_t index) {
  Connection& connection = connections_[index];
  connection.state = State::kUp;
  connection.last_error.clear();
  connection.report_at_ns = kNoDeadline;
}

bool Connections::GoDown(uint32_t index, const absl::Status& why, Now now) {
  Connection& connection = connections_[index];
  const bool was_up = connection.state == State::kUp;
  by_peer_.erase(connection.peer);
  connection.state = State::kDown;
  NoteError(index, std::string(why.message()));
  connection.retry_at_ns = now.monotonic_ns + (was_up ? 0 : options_.connect_retry_ns);
  if (was_up) connection.report_at_ns = now.monotonic_ns + options_.reach_patience_ns;
  ForgetIfIdle(index);
  return was_up;
}

void Connections::NoteError(uint32_t connection, const std::string& what) {
  if (connections_[connection].last_error.empty()) connections_[connection].last_error = what;
}

void Connections::NoteRefusal(uint32_t connection, const std::string& what) {
  connections_[connection].last_error = what;
}

void Connections::TakeOutOfReach(Now now, absl::FunctionRef<void(uint32_t)> out_of_reach) {
  visited_ += connections_.size();
  for (uint32_t index = 0; index < connections_.size(); ++index) {
    if (now.monotonic_ns < connections_[index].report_at_ns) continue;
    connections_[index].report_at_ns = kNoDeadline;
    out_of_reach(index);
  }
}

uint64_t Connections::NextDeadlineNs(bool connects) const {
  uint64_t deadline_ns = kNoDeadline;
  for (const Connection& connection : connections_) {
    if (connection.wanted == 0) continue;
    deadline_ns = std::min(deadline_ns, connection.report_at_ns);
    if (connects && connection.state == State::kDown) {
      deadline_ns = std::min(deadline_ns, connection.retry_at_ns);
    }
  }
  return deadline_ns;
}

bool Connections::SayGoodbyes(bool late, WorkerActions* actions) {
  bool left = false;
  for (Connection& connection : connections_) {
    if (connection.state != State::kUp && connection.state != State::kConnecting) continue;
    left = true;
    if (connection.bye_received || late || connection.state == State::kConnecting) {
      actions->push_back(WorkerClosePeerAction{connection.peer});
    } else if (!connection.bye_sent) {
      connection.bye_sent = true;
      actions->push_back(WorkerSendNoteAction{connection.peer, MakeNote({.type = FrameType::kBye})});
    }
  }
  return left;
}

std::string Connections::DescribeMissingGoodbyes() const {
  std::vector<std::string> silent;
  for (uint32_t index = 0; index < connections_.size(); ++index) {
    if (IsUp(index) && !connections_[index].bye_received) silent.push_back(Describe(index));
  }
  return absl::StrJoin(silent, ", ");
}

std::vector<ShardTraffic> Connections::Traffic() const {
  std::vector<ShardTraffic> traffic;
  traffic.reserve(connections_.size());
  for (const Connection& connection : connections_) {
    if (connection.state == State::kFree) continue;
    traffic.push_back({.server_name = connection.server_name,
                       .address = connection.address,
                       .bytes_pushed = connection.bytes_pushed,
                       .bytes_pulled = connection.bytes_pulled,
                       .peer = connection.state == State::kUp ? connection.peer : PeerId(),
                       .transport = ""});
  }
  return traffic;
}

}  // namespace shoal
