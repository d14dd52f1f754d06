// The ways from this node to addresses of servers, tried with a TCP connection each.
#ifndef SHOAL_CLI_WAYS_H_
#define SHOAL_CLI_WAYS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::cli {

struct Way {
  // kNoAnswer: nothing came back in time, or the kernel says that the node does not answer. kNoRoute: this node knows
  // no way there. kBadAddress: it can't be read. kFailed: something else, as `why` says.
  enum class Outcome : uint8_t { kReached, kRefused, kNoAnswer, kNoRoute, kBadAddress, kFailed };

  std::string address;
  Outcome outcome = Outcome::kFailed;
  std::string why;  // it was not reached

  // Of a way that was reached.
  bool within_node = false;    // the address is one of this node's own
  uint64_t round_trip_us = 0;  // by TCP
  std::string congestion_control;
  std::string device;        // of this node, with the address that the connection has; empty: not known
  uint32_t device_mtu = 0;   // 0: not known
  uint64_t device_mbit = 0;  // what the device says of its rate; 0: nothing
  // Of "gso" and "gro", which hand many packets through the kernel as one: what the device has turned off.
  std::vector<std::string> device_offloads_off;
  uint32_t segment_bytes = 0;  // that TCP sends at a time; 0: not known
  uint32_t offered_bytes = 0;  // and that this end would take: more than `segment_bytes` if the way or the other end
                               // takes less
};

// Tries all of them, up to kMostAtATime at the same time, each for `timeout_ms` at most; the connections are closed
// again. Order as given. Any thread.
inline constexpr size_t kMostAtATime = 256;
std::vector<Way> TryWays(const std::vector<std::string>& addresses, uint64_t timeout_ms);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_WAYS_H_
