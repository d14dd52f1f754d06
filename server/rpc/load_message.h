// What a server has counted, as its heartbeats tell it. Pure; any thread.
#ifndef SHOAL_SERVER_RPC_LOAD_MESSAGE_H_
#define SHOAL_SERVER_RPC_LOAD_MESSAGE_H_

#include <cstddef>

#include "server/machine/server_counters.h"
#include "shoal/v1/scheduler.pb.h"

namespace shoal {

inline constexpr size_t kMostJobsOfLoad = 64;  // whose memory is told: those with the most

void ToMessage(const ServerCounters& counters, v1::ServerLoad* message);

}  // namespace shoal

#endif  // SHOAL_SERVER_RPC_LOAD_MESSAGE_H_
