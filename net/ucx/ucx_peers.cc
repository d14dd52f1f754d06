// How connections come and go.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/ucx/ucx_connections.h"
#include "net/ucx/ucx_status.h"
#include "process/socket_address.h"

namespace shoal {

UcxTransport::Peer& UcxTransport::AddPeer(PeerState state, std::string address) {
  auto peer = std::make_unique<Peer>();
  peer->transport = this;
  peer->id = PeerId(next_peer_++);
  peer->state = state;
  peer->known_to_user = state == PeerState::kDialing;
  peer->address = std::move(address);
  Peer& added = *peer;
  peers_.emplace(added.id, std::move(peer));
  return added;
}

absl::Status UcxTransport::MakeEndpoint(Peer& peer, ucp_ep_params_t params) {
  // Without error handling for peers nothing in flight would ever end when the peer dies.
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &OnEndpointError;
  params.err_handler.arg = &peer;
  const ucs_status_t status = ucp_ep_create(peer.ucx->worker(), &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    return StatusFromUcs(status, absl::StrCat("connecting to ", peer.address));
  }
  peer_by_endpoint_[peer.endpoint] = &peer;
  return absl::OkStatus();
}

absl::StatusOr<PeerId> UcxTransport::Connect(const std::string& address) {
  const absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(address);
  if (!parsed.ok()) return parsed.status();
  if (peers_.size() >= options_.limits.max_peers) {
    return absl::ResourceExhaustedError(absl::StrCat("all ", options_.limits.max_peers, " connections are in use"));
  }
  Peer& peer = AddPeer(PeerState::kDialing, address);
  StartDialing(peer, *parsed);
  return peer.id;
}

void UcxTransport::ConnectEndpoint(Peer& peer, const SocketAddress& to) {
  const SocketAddress from = peer.reserved_port.address();
  const absl::StatusOr<UcxWorker*> ucx = WorkerFor(from);
  if (!ucx.ok()) {
    Fail(peer, ucx.status());
    return;
  }
  peer.ucx = *ucx;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addr = to.get();
  params.sockaddr.addrlen = to.length;
  params.local_sockaddr.addr = from.get();
  params.local_sockaddr.addrlen = from.length;
  peer.reserved_port.Release();
  if (absl::Status status = MakeEndpoint(peer, params); !status.ok()) {
    Fail(peer, std::move(status));
    return;
  }
  peer.state = PeerState::kConnecting;
  SendGreeting(peer);
}

void UcxTransport::SendGreeting(Peer& peer) {
  Operation* operation = StartOperation(peer, OperationKind::kGreeting, 0);
  Post(operation, kGreetingMessage, Greeting(), {}, UCP_AM_SEND_FLAG_EAGER);
}

void UcxTransport::MarkUp(Peer& peer) {
  if (absl::Status status = NoteTransports(peer); !status.ok()) {
    Fail(peer, std::move(status));
    return;
  }
  peer.state = PeerState::kUp;
  peer.known_to_user = true;
  sockets_->Settle(peer.connection);
  pending_.Add({.kind = TransportEventKind::kPeerUp, .peer = peer.id});
}

void UcxTransport::OnEndpointError(void* argument, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(argument);
  const std::string what = peer.state == PeerState::kUp
                               ? absl::StrCat("the connection to ", peer.address, " ended")
                               : absl::StrCat("connecting to ", peer.address, " over UCX failed");
  peer.transport->Fail(peer, absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status))));
}

void UcxTransport::Fail(Peer& peer, absl::Status why) {
  if (peer.state == PeerState::kEnding) return;
  peer.state = PeerState::kEnding;
  peer.why_ended = std::move(why);
  failed_.push_back(&peer);
}

void UcxTransport::EndFailedPeers() {
  // Closing an endpoint calls back, and a callback may add to failed_.
  while (!failed_.empty()) {
    Peer* peer = failed_.back();
    failed_.pop_back();
    EndPeer(*peer, peer->why_ended);
  }
}

void UcxTransport::Close(PeerId peer_id) {
  const auto found = peers_.find(peer_id);
  if (found == peers_.end()) return;
  Peer& peer = *found->second;
  if (peer.state == PeerState::kConnecting) {
    Abandon(peer, absl::OkStatus());
  } else if (peer.state == PeerState::kDialing || peer.state == PeerState::kUp) {
    EndPeer(peer, absl::OkStatus());
  }
}

void UcxTransport::Abandon(Peer& peer, absl::Status why) {
  // The process has ended where a connection was closed that was still being made (seen with UCX 1.13). So it stays
  // open until UCX has made it or given it up.
  peer.state = PeerState::kAbandoned;
  peer.known_to_user = false;
  pending_.Add({.kind = TransportEventKind::kPeerDown, .peer = peer.id, .status = std::move(why)});
}

bool UcxTransport::AnyConnecting() const {
  return std::ranges::any_of(peers_, [](const auto& entry) {
    const PeerState state = entry.second->state;
    return state == PeerState::kConnecting || state == PeerState::kAccepted || state == PeerState::kAbandoned;
  });
}

void UcxTransport::EndPeer(Peer& peer, absl::Status why) {
  if (peer.ending_listed) return;
  peer.ending_listed = true;
  peer.state = PeerState::kEnding;
  peer.why_ended = std::move(why);
  ending_.push_back(&peer);
  if (peer.endpoint != nullptr) {
    peer_by_endpoint_.erase(peer.endpoint);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    param.cb.send = &OnEndpointClosed;
    param.user_data = &peer;
    peer.close_in_progress = UCS_PTR_IS_PTR(ucp_ep_close_nbx(peer.endpoint, &param));
    peer.endpoint = nullptr;
  }
  peer.reserved_port.Release();
  sockets_->Close(peer.connection);
  peer_by_connection_.erase(peer.connection);
  // After the close. Otherwise UCX would tell the peer that messages have arrived which were never accepted.
  while (!peer.offers.empty()) ReleaseOffer(*peer.offers.begin());
}

void UcxTransport::OnEndpointClosed(void* request, ucs_status_t, void* user_data) {
  static_cast<Peer*>(user_data)->close_in_progress = false;
  ucp_request_free(request);
}

void UcxTransport::ReportEndedPeers() {
  std::erase_if(ending_, [this](Peer* peer) {
    if (peer->operations > 0 || peer->close_in_progress) return false;
    if (peer->known_to_user) {
      pending_.Add({.kind = TransportEventKind::kPeerDown, .peer = peer->id, .status = peer->why_ended});
    }
    peers_.erase(peer->id);
    workers_may_be_unused_ = true;
    return true;
  });
}

}  // namespace shoal
