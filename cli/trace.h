// `shoalctl trace`: what a running job's ranks and servers do for some seconds, as one picture on one clock
// (timeline.h).
#ifndef SHOAL_CLI_TRACE_H_
#define SHOAL_CLI_TRACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/cluster_client.h"
#include "cli/timeline.h"

namespace shoal::cli {

inline constexpr double kMostTraceSeconds = 60;

// Asks for the trace, waits for its end and for the records, and draws them. Members without a record become remarks.
// Errors: those of TraceJob and GetTrace (proto/shoal/v1); Unavailable: no member has sent a record that can be read.
absl::StatusOr<Timeline> TraceJob(const std::string& job, double seconds, ClusterClient* client);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_TRACE_H_
