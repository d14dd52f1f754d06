// What happens to a server machine beside the events of its transport (core/transport_event.h). Plain values.
#ifndef SHOAL_SERVER_MACHINE_SERVER_EVENTS_H_
#define SHOAL_SERVER_MACHINE_SERVER_EVENTS_H_

#include <cstdint>

#include "core/token.h"

namespace shoal {

// The ReduceAction with this token is done.
struct ReduceDone {
  uint64_t token = 0;
};

// The server is to leave the cluster: from now on no new group is opened; open ones continue. Or it is to stay after
// all, and takes groups in as before.
struct DrainRequested {
  bool drain = true;
};

// The scheduler has granted or renewed the server's lease. As long as it is heard, it decides which ranks are lost
// (core/failure_detection.h).
struct SchedulerHeard {
  uint64_t lease_ttl_ns = 0;
  bool is_colocated = false;  // it runs inside a worker, and ends with a rank
};

// Tokens are checked with this key from now on, because the scheduler has lost its state; open groups continue, but it
// does not know them any more, so this server declares their ranks lost after a lease.
struct TokenKeyChanged {
  TokenKey key{};
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_SERVER_EVENTS_H_
