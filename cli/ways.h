// The ways from this node to addresses of servers, tried with a TCP connection each.
#ifndef SHOAL_CLI_WAYS_H_
#define SHOAL_CLI_WAYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace shoal::cli {

struct Way {
  std::string address;
  absl::Status reached;      // or why there is no connection
  uint64_t connect_ns = 0;   // how long it took: a round trip
  std::string device;        // of this node, that leads there; empty: not known
  uint32_t device_mtu = 0;   // 0: not known
  uint32_t path_mtu = 0;     // of the whole way, as far as the kernel knows; 0: not known
  uint64_t device_mbit = 0;  // what the device says of its rate; 0: nothing
  bool within_node = false;  // over the loopback device
};

// Tries all of them at the same time, for `timeout_ms` at most; the connections are closed again. An address that can't
// be read is not reached: INVALID_ARGUMENT. Order as given. Any thread.
std::vector<Way> TryWays(const std::vector<std::string>& addresses, uint64_t timeout_ms);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_WAYS_H_
