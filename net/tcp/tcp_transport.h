// The transport between nodes over TCP: sockets of our own, without a library between them and the tensor.
//
// A connection begins with a proof that both ends know the same key (net/connection_keys.h); nothing of a peer is
// looked at before. Then a payload is sent from the caller's memory, and read straight into the memory that its
// receiver named for it. Only what nobody has answered yet is kept here meanwhile, within net/transport_limits.h, so
// that what follows on the same connection need not wait. Nothing is lent: what is accepted in time was not copied.
//
// kPeerDown is Unavailable also when the peer closed in good order, so a protocol above should say goodbye first. What
// was sent right before Close may not arrive. Trying again won't help after Unauthenticated (the two sides do not know
// the same key) and FailedPrecondition (the peer is no Shoal server, or one of another version). ResourceExhausted: the
// peer sent more than it was allowed to.
//
// A path that falls silent ends its connections when core/failure_detection.h says, also with data under way. A peer
// that is stopped, or busy, ends nothing. Address translation may change a client's ports on the way.
#ifndef SHOAL_NET_TCP_TCP_TRANSPORT_H_
#define SHOAL_NET_TCP_TCP_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "net/connection_keys.h"
#include "net/transport.h"
#include "net/transport_limits.h"

namespace shoal {

struct TcpTransportOptions {
  std::string listen_ip;  // empty: no listener, only Connect
  uint16_t port = 0;      // 0: any free one; see listen_address()
  // Names as in UCX_NET_DEVICES ("eth0", "mlx5_0:1,eth0"): connections are made over the one that is a network device
  // of this node. None or several of them: over the device of each route.
  std::string net_device;
  // What moves payloads beside this transport, where it is a part of another one; a peer with something else is
  // refused.
  std::string carries;
  ConnectionKeys* keys = nullptr;  // outlives the transport
  TransportLimits limits;
};

// InvalidArgument: unknown address or device. AlreadyExists: the port is taken. Unavailable: the device to listen on
// has no link now; try again. ResourceExhausted: no file descriptors. Internal: OpenSSL lacks what is needed.
absl::StatusOr<std::unique_ptr<Transport>> MakeTcpTransport(const TcpTransportOptions& options);

}  // namespace shoal

#endif  // SHOAL_NET_TCP_TCP_TRANSPORT_H_
