// Which transports UCX has and which it uses, read from its human-readable output: 1.13 has no query for either.
//
// Thread: that of the UCX worker.
#ifndef SHOAL_NET_UCX_UCX_LANES_H_
#define SHOAL_NET_UCX_UCX_LANES_H_

#include <ucp/api/ucp.h>

#include <set>
#include <string>

namespace shoal {

// Each "transport/device": "tcp/eth0", "rc_verbs/mlx5_0:1".
struct UcxLanes {
  std::set<std::string> payload;  // notes, headers and payloads may go over these
  std::set<std::string> other;    // set-up and keepalives only
};

UcxLanes LanesOf(ucp_ep_h endpoint);

// The transports that UCX opened for this context, among those that it was told to use.
std::set<std::string> TransportsOf(ucp_context_h context);

inline bool IsTcp(const std::string& transport) { return transport.starts_with("tcp/"); }
// Through a node channel adapter, which reads and writes registered memory.
inline bool IsRdma(const std::string& transport) {
  return transport.starts_with("rc_") || transport.starts_with("ud_") || transport.starts_with("dc_");
}

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_LANES_H_
