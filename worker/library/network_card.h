// Which of its node's network cards a rank uses. Pure; any thread.
#ifndef SHOAL_WORKER_LIBRARY_NETWORK_CARD_H_
#define SHOAL_WORKER_LIBRARY_NETWORK_CARD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace shoal {

struct NetworkCard {
  std::string devices;  // one, or several with commas between them; empty: that of each route
  // That carry the payload of the node's ranks; with an uneven deal as many as would have no more ranks each than the
  // busiest one has.
  uint32_t card_count = 1;
};

// `devices` has the devices of the node's cards. With commas between them ("eth0,eth1") every rank may use all of them.
// With slashes ("mlx5_0:1/mlx5_1:1") the ranks of the node are dealt over them in blocks: with 8 ranks and two cards
// the first four use the first one, which is how GPUs and cards are usually numbered and connected. Another order of
// the names, or naming one several times, gives another deal. `transports` as DataPlaneOptions has them: over TCP the
// kernel's routes choose a connection's card, so there nothing can be dealt.
//
// InvalidArgument: a name is empty, or devices are to be dealt and the transport is TCP, or `local_rank` is not below
// `local_world_size` (0: not known).
absl::StatusOr<NetworkCard> ChooseNetworkCard(const std::string& devices, const std::string& transports,
                                              uint32_t local_rank, uint32_t local_world_size);

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_NETWORK_CARD_H_
