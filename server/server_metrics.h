// What a server shows at --http. Pure; any thread.
#ifndef SHOAL_SERVER_SERVER_METRICS_H_
#define SHOAL_SERVER_SERVER_METRICS_H_

#include <cstdint>
#include <string>

#include "server/machine/server_counters.h"

namespace shoal {

// In Prometheus' text format. `counters`: null before the first registration, and when the server ends.
std::string ServerMetricsText(const ServerCounters* counters, uint64_t slot_memory_bytes, uint64_t log_events_left_out);

}  // namespace shoal

#endif  // SHOAL_SERVER_SERVER_METRICS_H_
