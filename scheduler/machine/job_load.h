// What the ranks of a job have counted, all together, and how fast that grows; and how fast it does for each rank. Part
// of the machine: pure, one thread.
//
// The sum takes what each heartbeat brings beyond the one before of the same process, so it never falls: not when a
// process takes the place of a rank that left, nor when a rank tells less than it did. For a scheduler that began to
// lead during the job it begins with what each rank has counted since its start.
#ifndef SHOAL_SCHEDULER_MACHINE_JOB_LOAD_H_
#define SHOAL_SCHEDULER_MACHINE_JOB_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/now.h"
#include "core/op_time_histogram.h"
#include "scheduler/machine/recent_growth.h"
#include "scheduler/machine/scheduler_requests.h"

namespace shoal::scheduler {

// Per second, but for the times.
struct JobRates {
  double ops = 0;
  double failed_ops = 0;
  double bytes_pushed = 0;
  double bytes_pulled = 0;
  uint64_t mean_op_ns = 0;   // of ops that ended well meanwhile; 0: none did
  OpTimeHistogram op_times;  // of them; empty: a rank does not tell
};

// Per second.
struct RankRates {
  double ops = 0;
  double bytes_pushed = 0;
  double bytes_pulled = 0;
};

// Of one process.
class RankGrowth {
 public:
  // What it told with a heartbeat.
  void Note(const WorkerLoad& load, Now now) {
    growth_.Note({load.ops_completed, load.bytes_pushed, load.bytes_pulled}, now);
  }
  // nullopt: not known yet.
  std::optional<RankRates> Rates() const;

 private:
  enum Place : size_t { kOps, kBytesPushed, kBytesPulled, kPlaces };

  RecentGrowth<kPlaces> growth_;
};

class JobLoad {
 public:
  // A rank told `newer` after `before`, which is empty for the first heartbeat of its process. False: a total fell,
  // which a process that counts right does not let happen and an overtaken heartbeat may: `before` is still what is
  // known.
  bool Add(const WorkerLoad& before, const WorkerLoad& newer, Now now);
  // A rank that has counted for a while is heard for the first time: what it adds did not happen just now.
  void ForgetRates() { growth_.Forget(); }

  // The totals of ops, of bytes and of refusals; the other fields are not set.
  const WorkerLoad& sum() const { return sum_; }
  // nullopt: not known yet.
  std::optional<JobRates> Rates() const;

 private:
  // Places of what grows; from kCounts on those of the op times.
  enum Place : size_t { kOps, kFailedOps, kBytesPushed, kBytesPulled, kOpTimeNs, kCounts };
  using GrowingTotals = RecentGrowth<kCounts + kOpTimeBuckets>;

  WorkerLoad sum_;
  GrowingTotals growth_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_JOB_LOAD_H_
