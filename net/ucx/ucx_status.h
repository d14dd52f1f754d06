// UCX's error codes as absl::Status. Any thread.
#ifndef SHOAL_NET_UCX_UCX_STATUS_H_
#define SHOAL_NET_UCX_UCX_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "net/ucx/ucx_api.h"

namespace shoal {

// "what: UCX's text". A broken connection is Unavailable, a request that was still in flight when it ended Cancelled,
// no memory ResourceExhausted, everything else Internal.
absl::Status StatusFromUcs(const UcxApi& api, ucs_status_t status, const std::string& what);

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_STATUS_H_
