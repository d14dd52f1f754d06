// How a member takes part in an operator's trace (docs/operating.md): when the scheduler asks, it begins to record at
// once, and when the time is over the records are sent.
//
// Thread: Begin from one at a time, Stop from any. A trace has a thread of its own, `shoal-trace`, which waits for the
// end, makes the text and the calls, so that nobody else waits for them; nothing else depends on them either.
#ifndef SHOAL_PROTO_TRACE_SENDER_H_
#define SHOAL_PROTO_TRACE_SENDER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "core/trace_request.h"
#include "process/mutex.h"
#include "proto/credentials.h"
#include "shoal/v1/scheduler.grpc.pb.h"

namespace shoal {

// What the member can record: one of its transports, or its results. The functions are called by any thread, one at a
// time.
struct TraceSource {
  TraceKind kind = TraceKind::kConnections;
  std::string name;  // whose it is: "rank 0 of job "gpt" on node-1"; heads the record
  std::function<void()> start;
  std::function<std::string(size_t most_bytes)> stop;  // the text of what came since, at most so long
};

class TraceSender {
 public:
  // `scheduler` is an address that SchedulerTarget takes. Those of one kind in `sources`, which outlive it, are
  // numbered as the I/O threads of a server are. `report` is called by any thread with a sentence when a record could
  // not be sent.
  TraceSender(std::string scheduler, std::vector<TraceSource> sources, std::function<void(std::string)> report,
              const Credentials& credentials = {});
  ~TraceSender();  // stops
  TraceSender(const TraceSender&) = delete;
  TraceSender& operator=(const TraceSender&) = delete;

  // Each answer to a heartbeat says it again: a trace that has begun goes on. One that comes before the last has ended
  // takes its place.
  void Begin(const TraceRequest& trace, const TraceMemberId& member);
  // Ends a trace that is under way without sending it, and takes part in no other. Idempotent.
  void Stop();

 private:
  using Sources = std::vector<const TraceSource*>;

  void Run(const TraceRequest& trace, const Sources& sources, const TraceMemberId& member, uint64_t end_ns);
  // False: stopped before.
  bool WaitUntil(uint64_t deadline_ns);
  absl::Status Send(v1::Scheduler::Stub* stub, const v1::SendTraceRequest& request, uint64_t deadline_ns);
  absl::Status SendOnce(v1::Scheduler::Stub* stub, const v1::SendTraceRequest& request);
  // Returns when the thread of the last trace has ended.
  void EndLast() SHOAL_REQUIRES(begin_mutex_);

  const std::string scheduler_;
  const Credentials credentials_;
  const std::vector<TraceSource> sources_;
  const std::function<void(std::string)> report_;

  Mutex begin_mutex_;  // held while a trace begins or ends
  uint64_t last_trace_ SHOAL_GUARDED_BY(begin_mutex_) = 0;
  bool takes_part_ SHOAL_GUARDED_BY(begin_mutex_) = true;
  std::thread thread_ SHOAL_GUARDED_BY(begin_mutex_);
  Mutex mutex_;  // never held during a call
  std::condition_variable changed_;
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;                // the thread is to end
  grpc::ClientContext* call_ SHOAL_GUARDED_BY(mutex_) = nullptr;  // the one under way
};

}  // namespace shoal

#endif  // SHOAL_PROTO_TRACE_SENDER_H_
