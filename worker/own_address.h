// The IP address at which other machines reach this one.
#ifndef SHOAL_WORKER_OWN_ADDRESS_H_
#define SHOAL_WORKER_OWN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace shoal {

// The address of the network device that is named ("eth0", "mlx5_0:1"; the first of a list), if the kernel knows one of
// that name with an address. Else the one from which this machine talks to the peer ("host:port", the first of a list):
// who is on the same network as that peer reaches it. Sends nothing but what it takes to look up a name. Any thread.
// Unavailable: there is no way to the peer, or no such host; the text says so.
absl::StatusOr<std::string> OwnAddress(const std::string& net_device, const std::string& peers_list);

}  // namespace shoal

#endif  // SHOAL_WORKER_OWN_ADDRESS_H_
