// What comes before UCX: handshakes over sockets of our own, and the gate before UCX's listener.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/peer_socket.h"
#include "net/ucx/ucx_connections.h"
#include "net/ucx/ucx_status.h"
#include "process/node_address.h"

namespace shoal {

absl::Status UcxTransport::StartListening() {
  if (absl::Status status = sockets_->Listen(options_.listen_ip, options_.port); !status.ok()) return status;
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(options_.listen_ip, options_.port);
  if (!address.ok()) return address.status();
  const std::string device = DeviceOfAddress(*address);
  if (!device.empty() && LacksLink(device)) return NoLink(device);
  if (absl::Status status = AddWorker(); !status.ok()) return status;
  listening_ = workers_.back().get();
  // Its link has come while UCX looked.
  if (listening_->IsOlderThanLinkOf(*address)) return NoLink(device);
  const absl::StatusOr<SocketAddress> listener = listening_->Listen(options_.listen_ip, &OnConnectionRequest, this);
  if (!listener.ok()) return listener.status();
  ucx_port_ = PortOf(*listener);
  absl::StatusOr<std::unique_ptr<ListenerGate>> gate = ListenerGate::Close(*listener);
  if (!gate.ok()) return gate.status();
  gate_ = *std::move(gate);
  return absl::OkStatus();
}

void UcxTransport::StartDialing(Peer& peer, const SocketAddress& to) {
  absl::StatusOr<ReservedPort> port = ReservedPort::Towards(to);
  if (!port.ok()) {
    Fail(peer, port.status());
    return;
  }
  HandshakeMessage greeting;
  greeting.kind = HandshakeKind::kGreeting;
  greeting.port = PortOf(port->address());
  greeting.settings = settings_;
  const absl::StatusOr<ConnectionId> connection = sockets_->Dial(to, greeting);
  if (!connection.ok()) {
    Fail(peer, connection.status());
    return;
  }
  peer.reserved_port = *std::move(port);
  BindConnection(peer, *connection);
}

void UcxTransport::BindConnection(Peer& peer, ConnectionId connection) {
  peer.connection = connection;
  peer_by_connection_[connection] = &peer;
}

void UcxTransport::PollSockets() {
  const std::vector<HandshakeEvent>& events = sockets_->Poll();
  // What the other side sent before it closed is there already: the user gets it before the end.
  if (std::ranges::any_of(events, [](const HandshakeEvent& e) { return e.kind == HandshakeEvent::Kind::kEnded; })) {
    Progress();
  }
  for (const HandshakeEvent& event : events) Receive(event);
  LetGuestsIn();
}

void UcxTransport::Receive(const HandshakeEvent& event) {
  if (event.kind == HandshakeEvent::Kind::kGreeted) {
    ReceiveGuest(event);
    return;
  }
  const auto found = peer_by_connection_.find(event.connection);
  if (found == peer_by_connection_.end()) {
    ForgetGuest(event.connection);
  } else if (event.kind == HandshakeEvent::Kind::kWelcomed) {
    ConnectEndpoint(*found->second, WithPort(event.address, event.message.port));
  } else {
    Peer& peer = *found->second;
    peer_by_connection_.erase(found);
    LoseConnection(peer, event.why);
  }
}

void UcxTransport::LoseConnection(Peer& peer, absl::Status why) {
  peer.connection = ConnectionId();
  switch (peer.state) {
    case PeerState::kDialing:
    case PeerState::kUp:
      Fail(peer, std::move(why));
      return;
    case PeerState::kConnecting:
      Abandon(peer, std::move(why));
      return;
    case PeerState::kAccepted:
      // UCX itself notices a peer that goes before it was up; a peer that stays silent has had its time.
      if (absl::IsDeadlineExceeded(why)) Fail(peer, std::move(why));
      return;
    case PeerState::kAbandoned:
    case PeerState::kEnding:
      return;
  }
}

void UcxTransport::ReceiveGuest(const HandshakeEvent& event) {
  const SocketAddress address = WithPort(event.address, event.message.port);
  const std::string name = FormatSocketAddress(address.storage);
  if (peers_.size() + guests_.size() >= options_.limits.max_peers) {
    sockets_->Refuse(event.connection, absl::StrCat("all ", options_.limits.max_peers, " connections are in use"));
  } else if (event.message.settings != settings_) {
    sockets_->Refuse(event.connection,
                     absl::StrCat("UCX must be configured alike on both sides, but the process that connects has \"",
                                  event.message.settings, "\" and the one that listens \"", settings_, "\""));
  } else if (!guest_by_address_.emplace(name, event.connection).second) {
    sockets_->Refuse(event.connection, absl::StrCat(name, " is already expected on another connection"));
  } else {
    guests_[event.connection].address = address;
    waiting_guests_.push_back(event.connection);
  }
}

void UcxTransport::LetGuestsIn() {
  while (!waiting_guests_.empty() && !gate_->full()) {
    const ConnectionId connection = waiting_guests_.front();
    waiting_guests_.pop_front();
    const auto found = guests_.find(connection);
    if (found == guests_.end()) continue;
    if (absl::Status status = gate_->LetIn(found->second.address); !status.ok()) {
      ForgetGuest(connection);
      sockets_->Refuse(connection, std::string(status.message()));
      continue;
    }
    found->second.let_in = true;
    HandshakeMessage welcome;
    welcome.kind = HandshakeKind::kWelcome;
    welcome.port = ucx_port_;
    sockets_->Welcome(connection, welcome);
  }
}

void UcxTransport::ForgetGuest(ConnectionId connection) {
  const auto found = guests_.find(connection);
  if (found == guests_.end()) return;
  if (found->second.let_in) {
    gate_->KeepOut(found->second.address);
  } else {
    std::erase(waiting_guests_, connection);
  }
  guest_by_address_.erase(FormatSocketAddress(found->second.address.storage));
  guests_.erase(found);
}

void UcxTransport::OnConnectionRequest(ucp_conn_request_h request, void* argument) {
  static_cast<UcxTransport*>(argument)->AcceptConnection(request);
}

void UcxTransport::AcceptConnection(ucp_conn_request_h request) {
  ucp_conn_request_attr_t attributes{};
  attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
  std::string address;
  if (ucp_conn_request_query(request, &attributes) == UCS_OK) address = FormatSocketAddress(attributes.client_address);
  const auto found = guest_by_address_.find(address);
  if (stopping_ || found == guest_by_address_.end()) {
    ucp_listener_reject(listening_->listener(), request);
    return;
  }
  const ConnectionId connection = found->second;
  ForgetGuest(connection);
  Peer& peer = AddPeer(PeerState::kAccepted, std::move(address));
  peer.ucx = listening_;
  BindConnection(peer, connection);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  if (absl::Status status = MakeEndpoint(peer, params); !status.ok()) Fail(peer, std::move(status));
}

}  // namespace shoal
