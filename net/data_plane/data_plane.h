// The transport that servers and workers run on: sockets or RDMA between nodes, shared memory within one.
#ifndef SHOAL_NET_DATA_PLANE_DATA_PLANE_H_
#define SHOAL_NET_DATA_PLANE_DATA_PLANE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "net/connection_keys.h"
#include "net/observed_transport.h"
#include "net/shm/shared_memory.h"
#include "net/transport.h"
#include "net/transport_limits.h"

namespace shoal {

struct NetworkOptions {
  std::string listen_ip;           // empty: no listener, only Connect
  uint16_t port = 0;               // 0: any free one
  std::string net_device;          // "eth0", "mlx5_0:1,eth0"; empty: that of each route, or all for RDMA
  std::string transports = "tcp";  // tcp for sockets (net/tcp), or RDMA transports of UCX such as "rc" (net/ucx)
  TransportLimits limits;
  // Outlives the transport. RDMA devices know it (UcxTransportOptions::region), where DataPlaneOptions has none.
  std::span<std::byte> region;
};

struct DataPlaneOptions {
  NetworkOptions network;
  ConnectionKeys* keys = nullptr;  // outlives the transport
  bool same_node = true;           // false: the network to processes of this node too
  // Outlives the transport. Payloads in it go to processes of this node uncopied, and RDMA devices know it
  // (UcxTransportOptions::region).
  OwnedMemory* region = nullptr;
  ObservedTransportOptions observed;
};

// Whether payloads over these can be encrypted: sockets do that, RDMA does not.
bool CanEncrypt(const std::string& transports);

// Errors of MakeTcpTransport and MakeUcxTransport, and ResourceExhausted for shared memory. A kernel that can't share
// memory safely gets the network alone; Report() tells.
absl::StatusOr<std::unique_ptr<Transport>> MakeDataPlaneTransport(const DataPlaneOptions& options);

}  // namespace shoal

#endif  // SHOAL_NET_DATA_PLANE_DATA_PLANE_H_
