// Requests to join a job for a rank that another process still holds. They wait until the holder shows a sign of life
// (then they are refused) or is gone (then they are tried again). Pure; one thread.
#ifndef SHOAL_SCHEDULER_MACHINE_HELD_JOINS_H_
#define SHOAL_SCHEDULER_MACHINE_HELD_JOINS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "scheduler/machine/scheduler_events.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxHeldJoins = 4096;

struct HeldJoin {
  RequestHandle handle;
  JoinJob request;
  JobId job;  // the job whose rank is held
};

class HeldJoins {
 public:
  bool empty() const { return joins_.empty(); }
  // In the order in which they came.
  const std::vector<HeldJoin>& all() const { return joins_; }
  bool full() const { return joins_.size() >= kMaxHeldJoins; }

  // A process waits for this rank of the job.
  bool HasFor(JobId job, JobRank rank) const;

  void Add(HeldJoin join) { joins_.push_back(std::move(join)); }
  // All of them, in the order in which they came.
  std::vector<HeldJoin> TakeAll() { return std::exchange(joins_, {}); }
  // Those that want this rank of the job, in the same order.
  std::vector<HeldJoin> TakeFor(JobId job, JobRank rank);
  // The caller hung up.
  void Forget(RequestHandle handle);

 private:
  std::vector<HeldJoin> joins_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_HELD_JOINS_H_
