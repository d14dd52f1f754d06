// The transport that servers and workers run on: sockets or UCX between nodes, shared memory within one.
//
// Which one carries between nodes is said by UcxTransportOptions::transports: "tcp" is net/tcp, "ucx-tcp" is UCX's TCP,
// everything else is a list for UCX.
#ifndef SHOAL_NET_DATA_PLANE_DATA_PLANE_H_
#define SHOAL_NET_DATA_PLANE_DATA_PLANE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "net/connection_keys.h"
#include "net/observed_transport.h"
#include "net/shm/shared_memory.h"
#include "net/transport.h"
#include "net/ucx/ucx_transport.h"

namespace shoal {

struct DataPlaneOptions {
  UcxTransportOptions network;
  ConnectionKeys* keys = nullptr;  // of connections of net/tcp; outlives the transport
  bool same_node = true;           // false: the network to processes of this node too
  // Outlives the transport. Payloads in it go to processes of this node uncopied, and RDMA devices know it
  // (UcxTransportOptions::region).
  OwnedMemory* region = nullptr;
  ObservedTransportOptions observed;
};

// Whether connections over these are proved with keys, so that DataPlaneOptions::keys must be there.
bool NeedsKeys(const std::string& transports);

// Errors of MakeTcpTransport and MakeUcxTransport, and ResourceExhausted for shared memory. A kernel that can't share
// memory safely gets the network alone; Report() tells.
absl::StatusOr<std::unique_ptr<Transport>> MakeDataPlaneTransport(const DataPlaneOptions& options);

// Of what moves data between nodes: "ucx 1.13.1".
std::string NetworkVersion();

}  // namespace shoal

#endif  // SHOAL_NET_DATA_PLANE_DATA_PLANE_H_
