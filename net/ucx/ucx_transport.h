// The transport between nodes over RDMA: notes by sockets of our own (net/tcp), payloads by UCX.
//
// A connection is one of net/tcp, with all that it promises: whoever can't prove that he belongs to the cluster is
// never heard. Over it the two sides give each other the address of their UCX worker and a number that only they know;
// a payload without that number is dropped. UCX listens at no port, opens no socket, and is loaded when the first
// transport of this kind is made.
//
// Payloads below rendezvous_threshold_bytes come whole (eager) and wait in UCX's memory until they are accepted, or are
// read there (Borrow); above it the sender keeps them until then (rendezvous). A connection is up when each side has
// heard the other over UCX.
//
// kPeerDown is as of net/tcp/tcp_transport.h, and Unavailable where RDMA fails. FailedPrecondition: UCX is set up
// otherwise over there, or its release understands this one's messages not; trying again won't help.
//
// What this does not keep: UCX believes its peers' headers, and encrypts nothing. Whoever can send packets of RDMA to
// this node, with numbers that he would have to guess, is beyond what is guarded here.
//
// A main calls PrepareUcxEnvironment (net/ucx/ucx_api.h) first thing.
#ifndef SHOAL_NET_UCX_UCX_TRANSPORT_H_
#define SHOAL_NET_UCX_UCX_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "net/connection_keys.h"
#include "net/transport.h"
#include "net/transport_limits.h"

namespace shoal {

struct UcxTransportOptions {
  std::string listen_ip;  // empty: no listener, only Connect
  uint16_t port = 0;      // 0: any free one; see listen_address()
  // As in UCX_NET_DEVICES ("mlx5_0:1,eth0"): UCX uses the RDMA devices, sockets the network device. No RDMA device:
  // those of UCX_NET_DEVICES if set, otherwise all that UCX finds.
  std::string net_device;
  std::string transports = "rc";  // as in UCX_TLS ("rc", "rc,ud", "dc"); both sides must have the same list
  size_t rendezvous_threshold_bytes = size_t{128} << 10;  // 0: all; SIZE_MAX: none
  ConnectionKeys* keys = nullptr;                         // outlives the transport
  TransportLimits limits;
  // Outlives the transport. The devices get to know it once, and not with each payload in it, where this process may
  // lock as much memory as it likes.
  std::span<std::byte> region;
};

// NotFound: UCX is not installed. InvalidArgument: unknown address, device or transport, or one that is not RDMA.
// FailedPrecondition: too little memory may be locked. Others as of MakeTcpTransport. Internal and others: UCX failed;
// the text has its reason.
absl::StatusOr<std::unique_ptr<Transport>> MakeUcxTransport(const UcxTransportOptions& options);

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_TRANSPORT_H_
