// The transport between nodes: UCX active messages over the transport that UCX finds best (TCP, verbs, ...).
//
// The sender of a message is known because every message asks for a reply endpoint, and UCX passes us the one that we
// made for that connection. Payloads below rendezvous_threshold_bytes come whole (eager) and wait in UCX's
// memory until they are accepted, or are read there (Borrow); above it the sender keeps them until then (rendezvous). A
// connection counts as up when each side has heard the other's greeting.
//
// kPeerDown is Unavailable also when the peer closed in good order: UCX can't tell, so a protocol above should say
// goodbye first. What was sent right before Close may not arrive. FailedPrecondition: the peer is not a Shoal
// server, or is one of another version; trying again won't help.
//
// Both sides are on one network: no address translation may change ports between them. With a UCX_TCP_PORT_RANGE in the
// environment, all ports of UCX's choice come from it.
//
// See net/ucx/ucx_environment.h for what a main should call before this is used.
#ifndef SHOAL_NET_UCX_UCX_TRANSPORT_H_
#define SHOAL_NET_UCX_UCX_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "net/transport.h"
#include "net/transport_limits.h"

namespace shoal {

struct UcxTransportOptions {
  std::string listen_ip;  // empty: no listener, only Connect
  uint16_t port = 0;      // 0: any free one; see listen_address()
  // As in UCX_NET_DEVICES ("eth0", "mlx5_0:1,eth0"); empty: UCX_NET_DEVICES if set, otherwise the device of each route.
  std::string net_device;
  // As in UCX_TLS ("tcp", "rc,tcp"); empty: UCX_TLS if set, otherwise UCX's choice. Both sides must have the same
  // list; a server refuses a peer with another one.
  std::string transports = "tcp";
  // 0: unknown. With many hundreds UCX prefers RDMA transports that share queue pairs.
  size_t expected_peers = 0;
  // Payloads of at least this size go by rendezvous. 0: all; SIZE_MAX: none; nullopt: as UcxSettings has it.
  std::optional<size_t> rendezvous_threshold_bytes;
  TransportLimits limits;
  // Outlives the transport. RDMA devices get to know it once, and not with each payload in it, where this process may
  // lock as much memory as it likes.
  std::span<std::byte> region;
};

// InvalidArgument: unknown address, device or transport. AlreadyExists: the port is taken. Unavailable: the device to
// listen on has no link now; try again. (One to connect over may get its link later: connections fail until then.)
// Internal and others: UCX failed; the text has its reason.
absl::StatusOr<std::unique_ptr<Transport>> MakeUcxTransport(const UcxTransportOptions& options);

// "1.13.1": of the library that runs, which need not be the one that this was compiled against.
std::string UcxVersion();

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_TRANSPORT_H_
