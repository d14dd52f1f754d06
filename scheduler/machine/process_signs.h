// What tells that a rank's process has ended although its lease runs on: a kernel closes all connections of a process
// that ends, in the same moment (core/failure_detection.h). Of one rank. Pure; one thread.
//
// A stream that was closed says nothing alone: a follower that passed it on may have died, and then the rank opens
// another one. Neither does a broken connection to a server. Both in the same moment, and no new stream, do; so does a
// process that comes for the rank's place.
#ifndef SHOAL_SCHEDULER_MACHINE_PROCESS_SIGNS_H_
#define SHOAL_SCHEDULER_MACHINE_PROCESS_SIGNS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "core/failure_detection.h"
#include "core/now.h"
#include "scheduler/machine/scheduler_events.h"

namespace shoal::scheduler {

class ProcessSigns {
 public:
  ProcessSigns() = default;
  // How long a new stream is waited for.
  explicit ProcessSigns(uint64_t patience_ns) : patience_ns_(patience_ns) {}

  // A Watch stream of the process stands, or does not any more. `heard_ns`: its last heartbeat.
  void OnStreamOpened(WatcherId stream);
  void OnStreamClosed(WatcherId stream, uint64_t heard_ns, Now now);
  // A server says that it lost the connection of the process at that time; `because`: its words.
  void OnConnectionLost(uint64_t lost_ns, const std::string& because, Now now);
  // The process shows life, unless its stream was closed just now, and it had sent this before.
  void OnHeartbeat(Now now);
  // Nothing can be concluded, because this scheduler itself was not reached.
  void Forget();

  // When the process counts as ended, never before the last event; kNoDeadline: it does not.
  uint64_t EndedAtNs() const;
  // When another process may take its place; kNoDeadline: it may not.
  uint64_t TakeOverAtNs() const;
  // When it closed its stream, and shows no life since.
  std::optional<uint64_t> stream_closed_ns() const { return stream_closed_ns_; }
  // For EndedAtNs.
  std::string Describe() const;

 private:
  uint64_t patience_ns_ = kProcessEndedPatienceNs;
  std::set<WatcherId> open_streams_;
  std::optional<uint64_t> stream_closed_ns_;    // the last of them, by the process itself
  std::optional<uint64_t> connection_lost_ns_;  // the last that a server told of
  uint64_t told_ns_ = 0;                        // when it told that
  std::string connection_lost_because_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_PROCESS_SIGNS_H_
