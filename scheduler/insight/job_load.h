// What the ranks of a job have counted, all together, and how fast that grows; and how fast it does for each rank.
// Pure, one thread.
//
// The sum takes what each heartbeat brings beyond the one before of the same process, so it never falls: not when a
// process takes the place of a rank that left, nor when a rank tells less than it did. For a scheduler that began to
// lead during the job it begins with what each rank has counted since its start.
#ifndef SHOAL_SCHEDULER_INSIGHT_JOB_LOAD_H_
#define SHOAL_SCHEDULER_INSIGHT_JOB_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "core/ids.h"
#include "core/now.h"
#include "scheduler/insight/recent_growth.h"
#include "scheduler/machine/job.h"
#include "scheduler/machine/scheduler_responses.h"

namespace shoal::scheduler {

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

// What a process has told.
struct RankLoad {
  Incarnation incarnation;
  WorkerLoad load;
  RankGrowth growth;
};

class JobLoad {
 public:
  // What the rank has counted.
  void Take(JobRank rank, Incarnation incarnation, const WorkerLoad& told, Now now);
  // nullptr: the process that has the rank has told nothing to this scheduler.
  const RankLoad* Find(JobRank rank, const RankState& state) const;
  // That of every rank of the job that is live is known.
  bool IsWhole(const Job& job) const;
  // The chunks whose results its live ranks keep for other ranks.
  uint64_t RetainedResults(const Job& job) const;

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

  std::map<JobRank, RankLoad> ranks_;
  WorkerLoad sum_;
  GrowingTotals growth_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_JOB_LOAD_H_
