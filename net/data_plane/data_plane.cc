#include "net/data_plane/data_plane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "net/data_plane/combined_transport.h"
#include "net/shm/shm_transport.h"

namespace shoal {

namespace {

absl::StatusOr<std::unique_ptr<Transport>> MakeUnobserved(const DataPlaneOptions& options) {
  UcxTransportOptions network_options = options.network;
  if (options.region != nullptr) network_options.region = options.region->bytes();
  absl::StatusOr<std::unique_ptr<Transport>> network = MakeUcxTransport(network_options);
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

absl::StatusOr<std::unique_ptr<Transport>> MakeDataPlaneTransport(const DataPlaneOptions& options) {
  absl::StatusOr<std::unique_ptr<Transport>> transport = MakeUnobserved(options);
  if (!transport.ok()) return transport;
  return MakeObservedTransport(*std::move(transport), options.observed);
}

std::string NetworkVersion() { return absl::StrCat("ucx ", UcxVersion()); }

}  // namespace shoal
