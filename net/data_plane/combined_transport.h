// Two transports as one: shared memory to processes of this node, the network to all others.
//
// Connect looks for the address on this node first. Peers and offers of the shared-memory side are told apart by a bit
// of their ids, so nothing is looked up on the way. The clauses of net/transport.h hold as for the parts; there is no
// order between peers of different sides.
#ifndef SHOAL_NET_DATA_PLANE_COMBINED_TRANSPORT_H_
#define SHOAL_NET_DATA_PLANE_COMBINED_TRANSPORT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "net/shm/shm_transport.h"
#include "net/transport.h"

namespace shoal {

// What ShmTransportOptions::first_id must be of the first part; the second must stay below.
inline constexpr uint64_t kSameNodeFirstId = uint64_t{1} << 62;

// ResourceExhausted: no descriptors.
absl::StatusOr<std::unique_ptr<Transport>> MakeCombinedTransport(std::unique_ptr<ShmTransport> same_node,
                                                                 std::unique_ptr<Transport> network);

}  // namespace shoal

#endif  // SHOAL_NET_DATA_PLANE_COMBINED_TRANSPORT_H_
