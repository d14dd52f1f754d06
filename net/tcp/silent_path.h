// Whether the path under a TCP connection has fallen silent while data was under way.
//
// The kernel's keepalive (net/peer_socket.h) asks on idle connections alone, and TCP_USER_TIMEOUT would end those of a
// peer that only does not read. So the kernel's counters are looked at: it has repeated what it sent, again and again,
// and for kRankNoticesWithinNs nothing at all has come back.
//
// Any thread. No call blocks.
#ifndef SHOAL_NET_TCP_SILENT_PATH_H_
#define SHOAL_NET_TCP_SILENT_PATH_H_

#include <cstdint>

namespace shoal {

enum class PathState : uint8_t {
  kIdle,    // all that was sent has been acknowledged: the kernel's own probes watch from here on
  kInUse,   // something is under way
  kSilent,  // and nothing comes back
};

// `in_use_ns`: for how long something has been under way without a pause, as far as the caller knows.
PathState StateOfPath(int socket, uint64_t in_use_ns);

}  // namespace shoal

#endif  // SHOAL_NET_TCP_SILENT_PATH_H_
