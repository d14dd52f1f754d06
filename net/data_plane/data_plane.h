// The transport that servers and workers run on: UCX between nodes, shared memory within one, chosen by itself.
#ifndef SHOAL_NET_DATA_PLANE_DATA_PLANE_H_
#define SHOAL_NET_DATA_PLANE_DATA_PLANE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "net/observed_transport.h"
#include "net/shm/shared_memory.h"
#include "net/transport.h"
#include "net/ucx/ucx_transport.h"

namespace shoal {

struct DataPlaneOptions {
  UcxTransportOptions network;
  bool same_node = true;  // false: UCX to processes of this node too
  // Outlives the transport. Payloads in it go to processes of this node uncopied, and RDMA devices know it
  // (UcxTransportOptions::region).
  OwnedMemory* region = nullptr;
  ObservedTransportOptions observed;
};

// Errors of MakeUcxTransport, and ResourceExhausted for shared memory. A kernel that can't share memory safely gets the
// network alone; Report() tells.
absl::StatusOr<std::unique_ptr<Transport>> MakeDataPlaneTransport(const DataPlaneOptions& options);

// Of what moves data between nodes: "ucx 1.13.1".
std::string NetworkVersion();

}  // namespace shoal

#endif  // SHOAL_NET_DATA_PLANE_DATA_PLANE_H_
