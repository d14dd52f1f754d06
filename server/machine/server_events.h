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

// The server is to leave the cluster: from now on no new group is opened; open ones go on.
struct DrainRequested {};

// Tokens are checked with this key from now on; open groups go on. For a scheduler that lost its state.
struct TokenKeyChanged {
  TokenKey key{};
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_SERVER_EVENTS_H_
