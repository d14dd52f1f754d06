// What the scheduler's machine wants done: state saved, calls answered, streams told, events logged. Plain values.
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_ACTIONS_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_ACTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "core/log_event.h"
#include "core/shard_map.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_responses.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

struct RankLost {
  JobId job;
  JobRank rank;
  std::string node;
  std::string reason;
  Incarnation incarnation;
};

// Something that happened, in words for operators.
struct EventRecord {
  uint64_t sequence = 0;
  uint64_t at_unix_ms = 0;
  EventKind kind = EventKind::kSchedulerStarted;
  std::string subject;
  std::string reason;
  Epoch epoch;                                      // of the cluster's map
  EventIds ids = {};                                // of what the event is about
  std::shared_ptr<const CallFacts> call = nullptr;  // as in LogEvent
};

// Save the state, then hand in Persisted with the number. At most one is under way.
struct Persist {
  uint64_t number = 0;
  PersistedState state;
};
struct Reply {
  RequestHandle handle;
  absl::StatusOr<Response> response;
};
// No server is left that serves the job: each of these ranks is to run a colocated one.
struct ColocationRequest {
  std::vector<JobRank> ranks;
  std::string reason;
};
struct SendWatch {
  WatcherId watcher;
  std::shared_ptr<const ShardMap> map = nullptr;  // null: unchanged
  std::vector<RankLost> lost_ranks = {};
  std::vector<GroupMap> groups = {};  // groups of the watched job whose map changed
  std::optional<ColocationRequest> colocation = std::nullopt;
};
struct SendEvent {
  WatcherId watcher;
  EventRecord event;
};
struct CloseStream {
  WatcherId watcher;
  absl::Status status;
};
// Write it to the log.
struct EventRecorded {
  EventRecord event;
};
// No live process has the rank now, or another one.
struct RankGone {
  JobId job;
  JobRank rank;
};

// The last two are news from one machine to the other.
using SchedulerAction =
    std::variant<Persist, Reply, SendWatch, SendEvent, CloseStream, EventRecorded, RankGone, Observed>;
using SchedulerActions = std::vector<SchedulerAction>;

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_ACTIONS_H_
