// The trace of a job that an operator has asked for: who is to record, until when, and what has come. Pure; one
// thread.
//
// Members are asked with the answers to their heartbeats, as those come to all of them and soon enough. The servers are
// those of the job's open groups when it begins.
// It is not saved: a scheduler that is started again, or begins to lead, knows of none. Its memory is bounded, so that
// in a large job each record is short.
#ifndef SHOAL_SCHEDULER_INSIGHT_TRACES_H_
#define SHOAL_SCHEDULER_INSIGHT_TRACES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/trace_request.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_responses.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

inline constexpr size_t kMostTraceMembers = 1024;
inline constexpr uint64_t kMostBytesOfTrace = uint64_t{64} << 20;       // of all its records
inline constexpr uint64_t kMostBytesOfTraceRecord = uint64_t{3} << 20;  // gRPC takes no message above 4 MiB
inline constexpr uint64_t kTraceKeptNs = 300 * kNsPerS;

class Traces {
 public:
  // Begins one of an open job. `begun_in_ms`: by then all members have heard of it. InvalidArgument: the duration, or
  // the kind. FailedPrecondition: one is under way; says of which job and for how long.
  absl::StatusOr<TraceStarted> Start(const TraceJob& request, const Job& job, const ServerRegistry& servers,
                                     uint64_t begun_in_ms, Now now);

  // For the answer to a heartbeat; nullopt: there is nothing to record. A server is `member.job` 0.
  std::optional<TraceRequest> RequestFor(const TraceMemberId& member, Now now) const;

  // NotFound: no such trace, or the sender has no part in it. InvalidArgument: the record is too long.
  absl::Status Take(const SendTrace& sent);

  // NotFound: no such trace. OutOfRange: no such member.
  absl::StatusOr<TraceView> View(const GetTrace& request, const JobRegistry& jobs, const ServerRegistry& servers,
                                 Now now) const;

  // Forgets a trace that is old.
  void Tick(Now now);
  uint64_t NextDeadlineNs() const;

 private:
  // A rank of the traced job, or an I/O thread of a server.
  struct Member {
    std::string name;  // in words
    TraceMemberId id;
    uint32_t io_thread = 0;
    std::optional<std::string> record = std::nullopt;
  };
  struct Trace {
    uint64_t id = 0;
    TraceKind kind = TraceKind::kConnections;
    std::string job_name = "";
    std::vector<Member> members = {};
    uint64_t most_bytes = 0;  // of a record
    uint64_t ends_ns = 0;
  };

  static std::vector<Member> MembersToTrace(const Job& job, const ServerRegistry& servers, TraceKind kind);
  static bool AllHaveSent(const Trace& trace);
  // NotFound: it is not the trace that there is.
  absl::StatusOr<const Trace*> Find(uint64_t id) const;

  std::optional<Trace> trace_;
  uint64_t last_id_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_TRACES_H_
