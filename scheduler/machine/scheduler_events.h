// What happens to the scheduler's machine: requests, streams that come and go, and saves that end. Plain values.
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_EVENTS_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_EVENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "core/caller.h"
#include "core/ids.h"
#include "core/log_event.h"
#include "scheduler/machine/scheduler_requests.h"

namespace shoal::scheduler {

using RequestHandle = StrongId<struct RequestHandleTag, uint64_t>;  // a call that waits for its reply
using WatcherId = StrongId<struct WatcherIdTag, uint64_t>;          // an open stream

struct RequestArrived {
  RequestHandle handle;
  Request request;
  Caller caller = {};
  std::string from = {};  // address of the caller's connection; empty: not known
};
// The caller hung up: the handle is forgotten and gets no reply.
struct RequestCancelled {
  RequestHandle handle;
};
struct WatchOpened {
  WatcherId watcher;
  JobId job;                // 0: changes of the map only
  JobRank rank;             // of the process that follows its job
  Incarnation incarnation;  // of that process; 0: it is no rank
  Caller caller = {};
  std::string from = {};  // as above
};
struct EventsOpened {
  WatcherId watcher;
  bool follow = false;
  uint64_t after_sequence = 0;
};
// Either kind of stream has ended, whoever ended it.
struct StreamClosed {
  WatcherId watcher;
};
// The Persist action with this number has ended.
struct Persisted {
  uint64_t number = 0;
  absl::Status status;
  uint64_t took_ns = 0;
};

// A call that the control host has refused before it read the message, since the caller may not make it.
struct CallRefused {
  CallFacts call;
};

// What the insight machine has found, for operators. It gets a number among the events, and decides nothing.
struct Observed {
  EventKind kind = EventKind::kRankSlow;
  std::string subject;
  std::string reason;
  EventIds ids = {};
  std::shared_ptr<const CallFacts> call = nullptr;  // as in LogEvent
};

using SchedulerEvent =
    std::variant<RequestArrived, RequestCancelled, WatchOpened, EventsOpened, StreamClosed, Persisted, CallRefused>;

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_EVENTS_H_
