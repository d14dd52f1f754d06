// What the members of a running job record for an operator: they are asked, waited for, and their records fetched
// (docs/adr/0027). `shoalctl trace` draws them, as one picture on one clock (timeline.h).
#ifndef SHOAL_CLI_TRACE_H_
#define SHOAL_CLI_TRACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/cluster_client.h"
#include "cli/timeline.h"
#include "core/trace_request.h"

namespace shoal::cli {

inline constexpr double kMostTraceSeconds = kMostTraceMs / 1000.0;

struct TraceRecords {
  struct Record {
    std::string member;  // "rank 0 on node-1"
    std::string text;
  };
  std::vector<Record> records;
  std::vector<std::string> remarks;  // sentences on members of which there is none
};

// Returns when the time is over and the records have come. Errors: those of TraceJob and GetTrace (proto/shoal/v1).
absl::StatusOr<TraceRecords> FetchRecords(const std::string& job, TraceKind kind, double seconds,
                                          ClusterClient* client);

// "no member of job "gpt" has sent ...", with the remarks.
absl::Status NothingCame(const std::string& job, const std::vector<std::string>& remarks);

// Errors: those of FetchRecords; Unavailable: no member has sent a record that can be read.
absl::StatusOr<Timeline> TraceJob(const std::string& job, double seconds, ClusterClient* client);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_TRACE_H_
