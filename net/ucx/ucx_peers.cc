// How connections come and go.
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/little_endian.h"
#include "net/ucx/ucx_connections.h"
#include "net/ucx/ucx_lanes.h"
#include "net/ucx/ucx_status.h"

namespace shoal {
namespace {

// An address has some tens of bytes for each device.
constexpr uint64_t kMaxAddressBytes = 16384;
// From a connection over net/tcp to a greeting over UCX. RDMA itself may take seconds before it gives up.
constexpr auto kUpWithin = std::chrono::seconds(15);

}  // namespace

absl::StatusOr<PeerId> UcxTransport::Connect(const std::string& address) {
  const absl::StatusOr<PeerId> peer = sockets_->Connect(address);
  if (peer.ok()) dialed_.emplace(*peer, address);
  return peer;
}

void UcxTransport::TakeSocketEvents() {
  for (const TransportEvent& event : sockets_->Poll()) TakeSocketEvent(event);
  EndLatePeers();
}

void UcxTransport::TakeSocketEvent(const TransportEvent& event) {
  if (event.kind == TransportEventKind::kPeerUp) return Introduce(event.peer);
  const auto found = peers_.find(event.peer);
  if (found == peers_.end()) {
    // One that was dialed in vain. The user knows of no other.
    if (event.kind == TransportEventKind::kPeerDown && dialed_.erase(event.peer) > 0) pending_.Add(event);
    return;
  }
  Peer& peer = *found->second;
  switch (event.kind) {
    case TransportEventKind::kNote:
      // It is up by its own account, so it has heard us, and its own greeting is under way.
      if (peer.state == PeerState::kGreeting && peer.endpoint != nullptr) MarkUp(peer);
      if (peer.state == PeerState::kUp) pending_.Add({.kind = event.kind, .peer = peer.id}, event.bytes);
      return;
    case TransportEventKind::kOffered:
      return TakeIntroduction(peer, event);
    case TransportEventKind::kLanded:
      if (event.status.ok() && peer.state == PeerState::kIntroducing) BeginGreeting(peer);
      return;
    case TransportEventKind::kPeerDown:
      peer.socket_ended = true;
      // What the other side sent before it closed is there already: the user gets it before the end.
      if (peer.state == PeerState::kUp) Progress();
      return EndPeer(peer, event.status);
    default:
      return;
  }
}

void UcxTransport::Introduce(PeerId peer_id) {
  auto made = std::make_unique<Peer>();
  Peer& peer = *made;
  peer.transport = this;
  peer.id = peer_id;
  peer.since = Clock::now();
  peers_.emplace(peer_id, std::move(made));
  const auto dialed = dialed_.find(peer_id);
  peer.name = dialed == dialed_.end() ? absl::StrCat("the peer of connection ", peer_id.value()) : dialed->second;
  // Nobody can guess it, so nobody else's payload is taken for this peer's.
  do {
    if (getrandom(&peer.own_number, sizeof(peer.own_number), 0) != sizeof(peer.own_number)) {
      return Fail(peer, absl::InternalError("the kernel has no random bytes"));
    }
  } while (!peer_by_number_.emplace(peer.own_number, &peer).second);
  std::array<std::byte, kNumberBytes> number{};
  WriteLittleEndian(number.data(), peer.own_number);
  const absl::Status sent = sockets_->Send(peer_id, number, ucx_->address(), /*token=*/0);
  if (!sent.ok()) return Fail(peer, sent);
  timer_.Start();
}

void UcxTransport::TakeIntroduction(Peer& peer, const TransportEvent& offered) {
  if (peer.state != PeerState::kIntroducing || std::exchange(peer.introduced, true) ||
      offered.bytes.size() != kNumberBytes || offered.payload_bytes > kMaxAddressBytes) {
    sockets_->Decline(offered.offer);
    return Fail(peer, absl::FailedPreconditionError(absl::StrCat(peer.name, " sent what is no introduction")));
  }
  peer.its_number = ReadLittleEndian<uint64_t>(offered.bytes.data());
  peer.its_address.resize(offered.payload_bytes);
  const absl::Status accepted = sockets_->Accept(offered.offer, peer.its_address, /*token=*/0);
  if (!accepted.ok()) Fail(peer, accepted);
}

void UcxTransport::BeginGreeting(Peer& peer) {
  peer.state = PeerState::kGreeting;
  if (ucx_->address() < peer.its_address) return MakeEndpoint(peer);
  // It may have come by now.
  if (peer.endpoint != nullptr) to_answer_.push_back(peer.id);
}

void UcxTransport::MakeEndpoint(Peer& peer) {
  ucp_ep_params_t params{};
  // Without error handling for peers nothing in flight would ever end when the peer dies.
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.its_address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &OnEndpointError;
  params.err_handler.arg = &peer;
  const ucs_status_t status = api_.ucp_ep_create(ucx_->worker(), &params, &peer.endpoint);
  if (status == UCS_OK) return SendGreeting(peer);
  peer.endpoint = nullptr;
  Fail(peer, absl::FailedPreconditionError(
                 absl::StrCat("UCX finds no way to ", peer.name, ": ", api_.ucs_status_string(status),
                              "; see that both sides have an RDMA device that reaches the other (ucx_info -d)")));
}

void UcxTransport::SendGreeting(Peer& peer) {
  const bool asks_for_answer = ucx_->address() < peer.its_address;
  Post(StartOperation(peer, OperationKind::kGreeting, 0), kGreetingMessage, {}, {},
       UCP_AM_SEND_FLAG_EAGER | (asks_for_answer ? UCP_AM_SEND_FLAG_REPLY : 0));
}

void UcxTransport::TakeGreeting(std::span<const std::byte> header, ucp_ep_h answer) {
  const auto found = header.size() < kNumberBytes ? peer_by_number_.end()
                                                  : peer_by_number_.find(ReadLittleEndian<uint64_t>(header.data()));
  // Nobody knows of an endpoint that is not closed here.
  if (found == peer_by_number_.end() || found->second->endpoint != nullptr) {
    strays_.push_back(answer);
    return;
  }
  Peer& peer = *found->second;
  peer.endpoint = answer;
  if (peer.state == PeerState::kGreeting) to_answer_.push_back(peer.id);
}

void UcxTransport::AnswerGreetings() {
  for (const PeerId peer_id : std::exchange(to_answer_, {})) {
    const auto found = peers_.find(peer_id);
    if (found == peers_.end() || found->second->state != PeerState::kGreeting) continue;
    SendGreeting(*found->second);
    if (found->second->state == PeerState::kGreeting) MarkUp(*found->second);
  }
  for (const ucp_ep_h endpoint : std::exchange(strays_, {})) CloseEndpoint(endpoint, nullptr);
}

void UcxTransport::MarkUp(Peer& peer) {
  dialed_.erase(peer.id);
  peer.state = PeerState::kUp;
  peer.known_to_user = true;
  peer.transports = LanesOf(api_, peer.endpoint);
  pending_.Add({.kind = TransportEventKind::kPeerUp, .peer = peer.id});
}

void UcxTransport::EndLatePeers() {
  if (!timer_.runs()) return;
  timer_.Drain();
  const Clock::time_point now = Clock::now();
  bool any_waits = false;
  for (const auto& [id, peer] : peers_) {
    if (peer->state != PeerState::kIntroducing && peer->state != PeerState::kGreeting) continue;
    any_waits = true;
    if (now - peer->since < kUpWithin) continue;
    const bool introduced = peer->state == PeerState::kGreeting;
    Fail(*peer,
         absl::UnavailableError(absl::StrCat(
             peer->name, introduced ? " is connected over TCP, but nothing gets through over RDMA: see that both "
                                      "devices are on one network (with Soft-RoCE UCX_IB_GID_INDEX must name "
                                      "the GID of an IPv6 address)"
                                    : " did not introduce itself")));
  }
  if (!any_waits) timer_.Stop();
}

void UcxTransport::OnEndpointError(void* argument, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(argument);
  const std::string what = peer.state == PeerState::kUp ? absl::StrCat("the connection to ", peer.name, " ended")
                                                        : absl::StrCat("connecting to ", peer.name, " over UCX failed");
  const UcxApi& api = peer.transport->api_;
  peer.transport->Fail(peer, absl::UnavailableError(absl::StrCat(what, ": ", api.ucs_status_string(status))));
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
  if (found == peers_.end()) {
    if (dialed_.contains(peer_id)) sockets_->Close(peer_id);
    return;
  }
  // One that the user does not know of is none of his.
  const bool dialed = dialed_.contains(peer_id);
  if (found->second->known_to_user || dialed) EndPeer(*found->second, absl::OkStatus());
}

void UcxTransport::EndPeer(Peer& peer, absl::Status why) {
  if (std::exchange(peer.ending_listed, true)) return;
  // What Fail has noted is the cause.
  if (peer.state != PeerState::kEnding) peer.why_ended = std::move(why);
  peer.state = PeerState::kEnding;
  ending_.push_back(&peer);
  peer_by_number_.erase(peer.own_number);
  if (peer.endpoint != nullptr) peer.close_in_progress = CloseEndpoint(std::exchange(peer.endpoint, nullptr), &peer);
  sockets_->Close(peer.id);
  // After the close. Otherwise UCX would tell the peer that messages have arrived which were never accepted.
  while (!peer.offers.empty()) ReleaseOffer(*peer.offers.begin());
}

bool UcxTransport::CloseEndpoint(ucp_ep_h endpoint, Peer* peer) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  if (peer != nullptr) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = &OnEndpointClosed;
    param.user_data = peer;
  }
  void* const request = api_.ucp_ep_close_nbx(endpoint, &param);
  if (!UCS_PTR_IS_PTR(request)) return false;
  if (peer == nullptr) api_.ucp_request_free(request);  // UCX goes on by itself
  return true;
}

void UcxTransport::OnEndpointClosed(void* request, ucs_status_t, void* user_data) {
  Peer& peer = *static_cast<Peer*>(user_data);
  peer.close_in_progress = false;
  peer.transport->api_.ucp_request_free(request);
}

void UcxTransport::ReportEndedPeers() {
  std::erase_if(ending_, [this](Peer* peer) {
    if (peer->operations > 0 || peer->close_in_progress || !peer->socket_ended) return false;
    const bool dialed = dialed_.erase(peer->id) > 0;
    if (peer->known_to_user || dialed) {
      pending_.Add({.kind = TransportEventKind::kPeerDown, .peer = peer->id, .status = peer->why_ended});
    }
    peers_.erase(peer->id);
    return true;
  });
}

}  // namespace shoal
