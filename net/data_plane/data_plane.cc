#include "net/data_plane/data_plane.h"

#include <utility>

#include "net/data_plane/combined_transport.h"
#include "net/shm/shm_transport.h"
#include "net/tcp/tcp_transport.h"
#include "net/ucx/ucx_transport.h"

namespace shoal {

namespace {

constexpr char kSockets[] = "tcp";

absl::StatusOr<std::unique_ptr<Transport>> MakeNetwork(const DataPlaneOptions& options) {
  const NetworkOptions& network = options.network;
  if (network.transports == kSockets) {
    return MakeTcpTransport({.listen_ip = network.listen_ip,
                             .port = network.port,
                             .net_device = network.net_device,
                             .keys = options.keys,
                             .limits = network.limits});
  }
  return MakeUcxTransport({.listen_ip = network.listen_ip,
                           .port = network.port,
                           .net_device = network.net_device,
                           .transports = network.transports,
                           .keys = options.keys,
                           .limits = network.limits,
                           .region = options.region == nullptr ? network.region : options.region->bytes()});
}

absl::StatusOr<std::unique_ptr<Transport>> MakeUnobserved(const DataPlaneOptions& options) {
  absl::StatusOr<std::unique_ptr<Transport>> network = MakeNetwork(options);
  if (!network.ok() || !options.same_node) return network;
  ShmTransportOptions same_node;
  same_node.listen_address = (*network)->listen_address();
  same_node.region = options.region;
  same_node.first_id = kSameNodeFirstId;
  same_node.limits = options.network.limits;
  absl::StatusOr<std::unique_ptr<ShmTransport>> shm = MakeShmTransport(same_node);
  // If another user's process has taken our socket's name, peers of this node use the network; the service goes on.
  if (absl::IsUnimplemented(shm.status()) || absl::IsAlreadyExists(shm.status())) return network;
  if (!shm.ok()) return shm.status();
  return MakeCombinedTransport(*std::move(shm), *std::move(network));
}

}  // namespace

bool CanEncrypt(const std::string& transports) { return transports == kSockets; }

absl::StatusOr<std::unique_ptr<Transport>> MakeDataPlaneTransport(const DataPlaneOptions& options) {
  absl::StatusOr<std::unique_ptr<Transport>> transport = MakeUnobserved(options);
  if (!transport.ok()) return transport;
  return MakeObservedTransport(*std::move(transport), options.observed);
}

}  // namespace shoal
