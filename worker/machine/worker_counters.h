// What a worker has done so far, as programs and people ask for it.
#ifndef SHOAL_WORKER_MACHINE_WORKER_COUNTERS_H_
#define SHOAL_WORKER_MACHINE_WORKER_COUNTERS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/op_time_histogram.h"
#include "core/partial_op.h"
#include "core/transport_event.h"
#include "worker/machine/server_wait_book.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_outcomes.h"

namespace shoal {

struct ShardTraffic {
  std::string server_name;
  std::string address;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  PeerId peer;            // while it is up, else 0
  std::string transport;  // what moves the bytes, while it is up; WorkerLoop adds it
};

struct WorkerCounters {
  uint64_t ops_completed = 0;
  uint64_t ops_failed = 0;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  uint64_t bytes_on_node = 0;  // of tensors that were reduced within this worker's node
  uint64_t chunks_pushed = 0;
  uint64_t refusals = 0;
  uint64_t results_handed_over = 0;  // to servers that asked after a move
  uint64_t op_time_ns_total = 0;     // of ops that ended well, as op_times
  OpTimeHistogram op_times;
  uint64_t retained_results = 0;          // chunks whose results are kept for other ranks, now; WorkerMachine adds it
  uint64_t away_ns_total = 0;             // no op was under way
  uint64_t counted_ns_total = 0;          // since the first op, up to the newest that ended a time without ops
  uint64_t waits_reported = 0;            // WaitReported
  uint64_t map_epoch = 0;                 // of the newest group
  uint64_t most_connections_visited = 0;  // by one round (WorkerMachine::Tick)
  std::vector<ShardTraffic> shards;       // to which there is a connection, or is to be; WorkerMachine adds them
  std::vector<ServerWaitWindow> server_waits;  // the newest of its groups
  std::vector<PartialOp> partial_ops;          // the newest, in the order of their numbers
};

// Counts for the parts of one machine. One thread.
class WorkerTally {
 public:
  // An op comes in; CountOp is its end.
  void CountSubmit(Now now) {
    if (ops_under_way_++ > 0) return;
    if (!first_ns_.has_value()) first_ns_ = away_since_ns_ = now.monotonic_ns;
    // Both move here alone, so that they are about whole cycles of being away and having ops under way.
    counters_.away_ns_total += now.monotonic_ns - away_since_ns_;
    counters_.counted_ns_total = now.monotonic_ns - *first_ns_;
  }
  // The word to the op's caller, who gets its memory back.
  OpDone CountOp(const SubmitCommand& command, const absl::Status& status, Now now) {
    const uint64_t duration_ns = command.DurationNs(now.monotonic_ns);
    if (--ops_under_way_ == 0) away_since_ns_ = now.monotonic_ns;
    ++(status.ok() ? counters_.ops_completed : counters_.ops_failed);
    if (status.ok()) {
      counters_.op_time_ns_total += duration_ns;
      counters_.op_times.Count(duration_ns);
    }
    return {command.group, command.ticket, duration_ns, status};
  }
  void CountOnNode(uint64_t bytes) { counters_.bytes_on_node += bytes; }
  void CountPush(uint64_t bytes) {
    ++counters_.chunks_pushed;
    counters_.bytes_pushed += bytes;
  }
  void CountPull(uint64_t bytes) { counters_.bytes_pulled += bytes; }
  void CountRefusal() { ++counters_.refusals; }
  void CountHandOver() { ++counters_.results_handed_over; }
  void CountWait() { ++counters_.waits_reported; }
  void CountRound(uint64_t connections_visited) {
    counters_.most_connections_visited = std::max(counters_.most_connections_visited, connections_visited);
  }
  void NoteEpoch(Epoch epoch) { counters_.map_epoch = std::max(counters_.map_epoch, epoch.value()); }

  const WorkerCounters& counters() const { return counters_; }  // but for what WorkerMachine adds

 private:
  WorkerCounters counters_;
  uint64_t ops_under_way_ = 0;
  std::optional<uint64_t> first_ns_;  // the first op came in
  uint64_t away_since_ns_ = 0;        // with no op under way
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_COUNTERS_H_
