// What arrives: UCX's active message handlers and completion callbacks.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/little_endian.h"
#include "net/ucx/ucx_connections.h"
#include "net/ucx/ucx_status.h"

namespace shoal {
namespace {

std::span<const std::byte> AsBytes(const void* data, size_t length) {
  return {static_cast<const std::byte*>(data), length};
}

}  // namespace

absl::Status UcxTransport::RegisterHandlers() {
  struct Handler {
    MessageType type;
    ucp_am_recv_callback_t callback;
    uint32_t flags;
  };
  const Handler handlers[] = {
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
    if (const ucs_status_t status = api_.ucp_worker_set_am_recv_handler(ucx_->worker(), &param); status != UCS_OK) {
      return StatusFromUcs(api_, status, "UCX refused a message handler");
    }
  }
  return absl::OkStatus();
}

UcxTransport::Peer* UcxTransport::SenderOf(std::span<const std::byte> header) {
  if (header.size() < kNumberBytes) return nullptr;
  const auto found = peer_by_number_.find(ReadLittleEndian<uint64_t>(header.data()));
  if (found == peer_by_number_.end()) return nullptr;
  Peer* const peer = found->second;
  // A payload can overtake the greeting that was sent before it, which answers ours.
  if (peer->state == PeerState::kGreeting && peer->endpoint != nullptr) MarkUp(*peer);
  return peer->state == PeerState::kUp ? peer : nullptr;
}

ucs_status_t UcxTransport::OnGreeting(void* argument, const void* header, size_t header_length, void*, size_t,
                                      const ucp_am_recv_param_t* param) {
  auto* self = static_cast<UcxTransport*>(argument);
  const bool asks_for_answer = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  if (asks_for_answer) {
    self->TakeGreeting(AsBytes(header, header_length), param->reply_ep);
  } else {
    self->SenderOf(AsBytes(header, header_length));
  }
  return UCS_OK;
}

ucs_status_t UcxTransport::OnPayload(void* argument, const void* header, size_t header_length, void* data,
                                     size_t length, const ucp_am_recv_param_t* param) {
  auto* self = static_cast<UcxTransport*>(argument);
  Peer* peer = self->SenderOf(AsBytes(header, header_length));
  if (peer == nullptr || header_length > kNumberBytes + kMaxNoteBytes || length == 0) return UCS_OK;
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return self->TakePayload(*peer, AsBytes(header, header_length).subspan(kNumberBytes), data, length, rendezvous);
}

ucs_status_t UcxTransport::TakePayload(Peer& peer, std::span<const std::byte> header, void* data, size_t length,
                                       bool rendezvous) {
  const TransportLimits& limits = options_.limits;
  const size_t held_bytes = rendezvous ? 0 : length;
  if (peer.offers.size() >= limits.max_offers_per_peer ||
      held_bytes > limits.max_held_bytes_per_peer - peer.held_bytes) {
    Fail(peer, absl::ResourceExhaustedError(
                   absl::StrCat(peer.name, " sent more than it was allowed to: ", peer.offers.size(), " payloads with ",
                                peer.held_bytes, " bytes in all wait to be accepted")));
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
  UcxTransport* const transport = operation->peer->transport;
  transport->FinishOperation(operation, status);
  transport->api_.ucp_request_free(request);
}

void UcxTransport::OnReceived(void* request, ucs_status_t status, size_t length, void* user_data) {
  auto* operation = static_cast<Operation*>(user_data);
  if (status == UCS_OK && length != operation->payload_bytes) status = UCS_ERR_MESSAGE_TRUNCATED;
  UcxTransport* const transport = operation->peer->transport;
  transport->FinishOperation(operation, status);
  transport->api_.ucp_request_free(request);
}

}  // namespace shoal
