// A layer over another transport that checks payloads, and records calls and events without them.
//
// Checksums: no payload that the network, a card or a memory changed on its way is ever used. Send puts the CRC32C
// (Castagnoli; RFC 3720, appendix B.4) of the payload into the frame's header. A payload that has one is checked when
// it has landed, or before it is lent. A payload that was changed counts as not arrived: kLanded has DataLoss, and the
// connection is cut, since nothing that came over it can be trusted any more; its kPeerDown has DataLoss as well. A
// user that survives the end of a connection survives this. Messages that are not frames, or have no payload, pass
// unchanged.
//
// The flight recorder gets what the user sees: headers as it sent them, and landings as the checks found them. The
// clock is read for the first entry after a Poll, and before each payload of some size is sent. So an arrival has a
// time at which it was there, and a departure one at which it had not begun (cli/clock_alignment.h relies on that).
//
// The clauses of net/transport.h hold as for the transport below, except T10: an offer with a checksum is never taken
// at once, because the tensor would be overwritten before the check.
#ifndef SHOAL_NET_OBSERVED_TRANSPORT_H_
#define SHOAL_NET_OBSERVED_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "net/flight_recorder.h"
#include "net/transport.h"

namespace shoal {

// kToAskers: to peers that have sent a checksum themselves; a peer asks for checksums by sending them.
enum class Checksums : uint8_t { kToAskers, kToAll };

struct ObservedTransportOptions {
  Checksums checksums = Checksums::kToAskers;
  FlightRecorder* recorder = nullptr;  // outlives the transport; nullptr: nothing is recorded
};

std::unique_ptr<Transport> MakeObservedTransport(std::unique_ptr<Transport> below,
                                                 const ObservedTransportOptions& options);

// Never 0, which in a header means that there is none: a payload whose CRC32C is 0 has 1.
uint32_t PayloadChecksum(std::span<const std::byte> payload);

}  // namespace shoal

#endif  // SHOAL_NET_OBSERVED_TRANSPORT_H_
