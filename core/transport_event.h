// What happens on a transport (net/transport.h), as plain values: machines take these in and never see the port.
#ifndef SHOAL_CORE_TRANSPORT_EVENT_H_
#define SHOAL_CORE_TRANSPORT_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "core/ids.h"

namespace shoal {

using PeerId = StrongId<struct PeerIdTag, uint64_t>;
using OfferId = StrongId<struct OfferIdTag, uint64_t>;

enum class TransportEventKind : uint8_t {
  kPeerUp,    // a peer connected to us, or our Connect succeeded; notes and payloads may be sent
  kPeerDown,  // the peer is gone; status says why (OK: after our Close, or an orderly end)
  kNote,      // bytes: the note
  kOffered,   // bytes: the header; payload_bytes: size of what waits; answer with Accept or Decline
  kLanded,    // token: of Accept; status not OK: the buffer's content is undefined
  kSent,      // token: of Send; OK: the buffer is free again. Never means that the peer took it
};

struct TransportEvent {
  TransportEventKind kind = TransportEventKind::kPeerUp;
  PeerId peer;
  OfferId offer;
  uint64_t token = 0;
  uint64_t payload_bytes = 0;
  std::span<const std::byte> bytes;  // valid until the next Poll
  absl::Status status;
  // kLanded, for statistics: all of it had come by the time when the payload before it from this peer was looked at. So
  // how far apart the two landed tells nothing of the way.
  bool came_with_last = false;
};

// How an operation ended that no transport reports: kSent or kLanded.
inline TransportEvent EndOfOperation(TransportEventKind kind, uint64_t token, absl::Status status) {
  TransportEvent event;
  event.kind = kind;
  event.token = token;
  event.status = std::move(status);
  return event;
}

}  // namespace shoal

#endif  // SHOAL_CORE_TRANSPORT_EVENT_H_
