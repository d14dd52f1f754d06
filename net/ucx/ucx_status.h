// UCX's status codes as absl::Status. Pure; any thread.
#ifndef SHOAL_NET_UCX_UCX_STATUS_H_
#define SHOAL_NET_UCX_UCX_STATUS_H_

#include <ucs/type/status.h>

#include <string>

#include "absl/status/status.h"

namespace shoal {

// "`what`: UCX's text". Cancelled: we closed it; Unavailable: the network or the peer; ResourceExhausted: no memory or
// no buffers; Internal: anything else. UCS_OK gives OK.
absl::Status StatusFromUcs(ucs_status_t status, const std::string& what);

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_STATUS_H_
