// The transport between processes of one node: payloads stay where they are, or are copied once, in shared memory.
//
// Every process writes only its own memory and lets its peers read it (shared_memory.h): a ring of records per
// connection (outbox.h), an arena into which Send copies payloads, and one extra region of the caller's, payloads in
// which are not copied at all. The receiver copies a payload out with Accept, or reads it where it lies with Borrow. A
// process's death ends its Unix socket, and so the connection, at once (same_node_socket.h).
//
// The arena is there for speed: what finds no room in it is offered all the same, stays in the caller's memory, is not
// lent, and comes through the ring in pieces once it is accepted. So no payload waits until another one is given back
// (clause T11, docs/adr/0018): what late ranks and stopped servers keep of the arena costs the others a copy.
//
// What a peer writes into its memory can't harm: it is copied out and checked against bounds before it is used, and a
// connection with garbage ends with InvalidArgument. A peer that changes a payload while it is read spoils its own
// contribution, as if it had sent that.
//
// kPeerDown is Unavailable when the peer closed or died, InvalidArgument or FailedPrecondition (another version) when
// it does not speak our language.
#ifndef SHOAL_NET_SHM_SHM_TRANSPORT_H_
#define SHOAL_NET_SHM_SHM_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "net/shm/shared_memory.h"
#include "net/transport.h"
#include "net/transport_limits.h"

namespace shoal {

struct ShmTransportOptions {
  std::string listen_address;  // the "ip:port" by which peers name this transport; empty: no listener
  uint64_t arena_bytes =
      uint64_t{64} << 20;         // pages are used from the lowest on, and only those that are needed; 0: none
  OwnedMemory* region = nullptr;  // outlives the transport; payloads in it are sent without a copy
  uint64_t first_id = 1;          // of peers and offers
  TransportLimits limits;
};

class ShmTransport : public Transport {
 public:
  // Connect for addresses that may not be of this node. NotFound: no process of this node and user listens there, or
  // it can't be connected to; no event follows.
  virtual absl::StatusOr<PeerId> ConnectIfOnThisNode(const std::string& address) = 0;
  // Poll, after a sleep that wake_fd() did not end: no socket is asked.
  virtual std::span<const TransportEvent> PollUncalled() = 0;
  // How many connections are up.
  virtual size_t peer_count() const = 0;
};

// AlreadyExists: another process listens there already. ResourceExhausted: no memory or descriptors. Unimplemented:
// this kernel can't share memory safely, or does not let this process.
absl::StatusOr<std::unique_ptr<ShmTransport>> MakeShmTransport(const ShmTransportOptions& options);

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SHM_TRANSPORT_H_
