// Which transports UCX has and which it uses, read from its human-readable output: 1.13 has no query for either.
//
// Thread: that of the UCX worker.
#ifndef SHOAL_NET_UCX_UCX_LANES_H_
#define SHOAL_NET_UCX_UCX_LANES_H_

#include <set>
#include <string>

#include "net/ucx/ucx_api.h"

namespace shoal {

// What carries payload to this peer, each "transport/device": "rc_verbs/mlx5_0:1".
std::set<std::string> LanesOf(const UcxApi& api, ucp_ep_h endpoint);

// The transports that UCX opened for this context, among those that it was told to use.
std::set<std::string> TransportsOf(const UcxApi& api, ucp_context_h context);

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_LANES_H_
