// What arrives: UCX's active message handlers and completion callbacks.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "net/ucx/ucx_connections.h"
#include "net/ucx/ucx_status.h"

namespace shoal {
namespace {

std::span<const std::byte> AsBytes(const void* data, size_t length) {
  return {static_cast<const std::byte*>(data), length};
}

}  // namespace

std::span<const std::byte> UcxTransport::Greeting() {
  // Versions were compared in the handshake.
  static constexpr char kGreeting[] = {'s', 'h', 'o', 'a', 'l'};
  return std::as_bytes(std::span(kGreeting));
}

absl::Status UcxTransport::RegisterHandlers(const UcxWorker& ucx) {
  struct Handler {
    MessageType type;
    ucp_am_recv_callback_t callback;
    uint32_t flags;
  };
  const Handler handlers[] = {
      {kNoteMessage, &OnNote, UCP_AM_FLAG_WHOLE_MSG},
      // Persistent: what came whole may be kept until it is accepted.
      {kPayloadMessage, &OnPayload, UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA},
      {kGreetingMessage, &OnGreeting, UCP_AM_FLAG_WHOLE_MSG},
  };
  for (const Handler& handler : handlers) {
    ucp_am_handler_param_t param{};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = handler.type;
    param.flags = handler.flags;
    param.cb = handler.callback;
    param.arg = this;
    if (const ucs_status_t status = ucp_worker_set_am_recv_handler(ucx.worker(), &param); status != UCS_OK) {
      return StatusFromUcs(status, "UCX refused a message handler");
    }
  }
  return absl::OkStatus();
}

UcxTransport::Peer* UcxTransport::SenderOf(const ucp_am_recv_param_t* param, MessageType type) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) return nullptr;
  const auto found = peer_by_endpoint_.find(param->reply_ep);
  if (found == peer_by_endpoint_.end()) return nullptr;
  Peer* peer = found->second;
  switch (peer->state) {
    case PeerState::kUp:
      return peer;
    case PeerState::kConnecting:
      // A payload can overtake the greeting that was sent before it.
      if (type != kGreetingMessage) MarkUp(*peer);
      return peer->state == PeerState::kEnding ? nullptr : peer;
    case PeerState::kAccepted:
      if (type == kGreetingMessage) return peer;
      Fail(*peer, absl::FailedPreconditionError(absl::StrCat(peer->address, " did not send a greeting first")));
      return nullptr;
    case PeerState::kAbandoned:
      Fail(*peer, peer->why_ended);
      return nullptr;
    case PeerState::kDialing:
    case PeerState::kEnding:
      return nullptr;
  }
  return nullptr;
}

ucs_status_t UcxTransport::OnGreeting(void* argument, const void* header, size_t header_length, void*, size_t,
                                      const ucp_am_recv_param_t* param) {
  auto* self = static_cast<UcxTransport*>(argument);
  Peer* peer = self->SenderOf(param, kGreetingMessage);
  if (peer == nullptr || peer->state == PeerState::kUp) return UCS_OK;
  const std::span<const std::byte> greeting = AsBytes(header, header_length);
  if (!std::ranges::equal(greeting, Greeting())) {
    self->Fail(*peer, absl::FailedPreconditionError(
                          absl::StrCat(peer->address, " sent a greeting that is not that of a Shoal process")));
    return UCS_OK;
  }
  // Ours goes first, so that nothing the user sends is ahead of it.
  if (peer->state == PeerState::kAccepted) self->SendGreeting(*peer);
  if (peer->state != PeerState::kEnding) self->MarkUp(*peer);
  return UCS_OK;
}

ucs_status_t UcxTransport::OnNote(void* argument, const void* header, size_t header_length, void*, size_t,
                                  const ucp_am_recv_param_t* param) {
  auto* self = static_cast<UcxTransport*>(argument);
  Peer* peer = self->SenderOf(param, kNoteMessage);
  if (peer == nullptr || header_length == 0 || header_length > kMaxNoteBytes) return UCS_OK;
  self->pending_.Add({.kind = TransportEventKind::kNote, .peer = peer->id}, AsBytes(header, header_length));
  return UCS_OK;
}

ucs_status_t UcxTransport::OnPayload(void* argument, const void* header, size_t header_length, void* data,
                                     size_t length, const ucp_am_recv_param_t* param) {
  auto* self = static_cast<UcxTransport*>(argument);
  Peer* peer = self->SenderOf(param, kPayloadMessage);
  if (peer == nullptr || header_length > kMaxNoteBytes || length == 0) return UCS_OK;
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return self->TakePayload(*peer, AsBytes(header, header_length), data, length, rendezvous);
}

ucs_status_t UcxTransport::TakePayload(Peer& peer, std::span<const std::byte> header, void* data, size_t length,
                                       bool rendezvous) {
  const TransportLimits& limits = options_.limits;
  const size_t held_bytes = rendezvous ? 0 : length;
  if (peer.offers.size() >= limits.max_offers_per_peer ||
      held_bytes > limits.max_held_bytes_per_peer - peer.held_bytes) {
    Fail(peer, absl::ResourceExhaustedError(
                   absl::StrCat(peer.address, " sent more than it was allowed to: ", peer.offers.size(),
                                " payloads with ", peer.held_bytes, " bytes in all wait to be accepted")));
    return UCS_OK;
  }
  const OfferId id(next_offer_++);
  offers_.emplace(id, Offer{.peer = &peer, .descriptor = data, .payload_bytes = length, .rendezvous = rendezvous});
  peer.offers.insert(id);
  peer.held_bytes += held_bytes;
  pending_.Add({.kind = TransportEventKind::kOffered, .peer = peer.id, .offer = id, .payload_bytes = length}, header);
  return UCS_INPROGRESS;  // UCX keeps `data` for us
}

void UcxTransport::OnSent(void* request, ucs_status_t status, void* user_data) {
  auto* operation = static_cast<Operation*>(user_data);
  operation->peer->transport->FinishOperation(operation, status);
  ucp_request_free(request);
}

void UcxTransport::OnReceived(void* request, ucs_status_t status, size_t length, void* user_data) {
  auto* operation = static_cast<Operation*>(user_data);
  if (status == UCS_OK && length != operation->payload_bytes) status = UCS_ERR_MESSAGE_TRUNCATED;
  operation->peer->transport->FinishOperation(operation, status);
  ucp_request_free(request);
}

}  // namespace shoal
