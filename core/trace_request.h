// An operator's trace of a job, as its members are asked for it: record something for some time, then send that
// (docs/operating.md). Plain values.
#ifndef SHOAL_CORE_TRACE_REQUEST_H_
#define SHOAL_CORE_TRACE_REQUEST_H_

#include <cstdint>

#include "core/ids.h"

namespace shoal {

// What is recorded. The numbers are those of the control plane's messages.
enum class TraceKind : uint8_t {
  kConnections = 0,  // what ranks and servers send and get: net/flight_recorder.h
  kDigests = 1,      // of the results of each rank's ops: worker/library/result_digests.h
};
inline constexpr uint32_t kTraceKinds = 2;

struct TraceRequest {
  uint64_t id = 0;  // of the trace; never 0
  TraceKind kind = TraceKind::kConnections;
  uint64_t left_ms = 0;     // until it ends
  uint64_t most_bytes = 0;  // of a record: the newest events count

  friend bool operator==(const TraceRequest&, const TraceRequest&) = default;
};

// Who sends a record: a rank, or a server.
struct TraceMemberId {
  JobId job = {};  // 0: a server
  JobRank rank = {};
  ServerId server = {};
  Incarnation incarnation = {};

  friend bool operator==(const TraceMemberId&, const TraceMemberId&) = default;
};

inline constexpr uint64_t kMostTraceMs = 60'000;
// A member that can't send its record tries for so long after the end of the trace.
inline constexpr uint64_t kTraceSendPatienceMs = 10'000;

}  // namespace shoal

#endif  // SHOAL_CORE_TRACE_REQUEST_H_
