// Checksums over another transport: no payload that the network, a card or a memory changed on its way is ever used.
//
// Send puts the CRC32C (Castagnoli; RFC 3720, appendix B.4) of the payload into the frame's header. What arrives with
// one is checked when it has landed, or before it is lent. A payload that is not what was sent ends as one that did not
// arrive: kLanded with DataLoss, and the connection is cut, since nothing that came over it is sure any more; its
// kPeerDown says DataLoss too. Whoever lives through the end of a connection lives through that.
//
// Messages that are no frames, or have no payload, pass as they are. The clauses of net/transport.h hold as for the
// transport below, but for T10: an offer with a checksum is never taken at once, because the tensor would be
// overwritten before the check.
#ifndef SHOAL_NET_CHECKSUM_TRANSPORT_H_
#define SHOAL_NET_CHECKSUM_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "net/transport.h"

namespace shoal {

// kToAskers: to peers that sent a checksum themselves; so who wants them says so by sending them.
enum class Checksums : uint8_t { kToAskers, kToAll };

std::unique_ptr<Transport> MakeChecksumTransport(std::unique_ptr<Transport> below, Checksums mode);

// Never 0, which in a header means that there is none: a payload whose CRC32C is 0 has 1.
uint32_t PayloadChecksum(std::span<const std::byte> payload);

}  // namespace shoal

#endif  // SHOAL_NET_CHECKSUM_TRANSPORT_H_
