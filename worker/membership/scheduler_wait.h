// A wait for a scheduler that cannot be reached: since when, why, and what to tell about it. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_SCHEDULER_WAIT_H_
#define SHOAL_WORKER_MEMBERSHIP_SCHEDULER_WAIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/now.h"
#include "core/wait_report.h"
#include "worker/membership/membership_actions.h"

namespace shoal {

// How long somebody waited until the deadline, to a tenth of a second: a thread that woke late does not count.
std::string TimeUntilDeadline(uint64_t since_ns, uint64_t deadline_ns);

class SchedulerWait {
 public:
  // `scheduler`: its addresses, for messages.
  SchedulerWait(std::string scheduler, uint64_t since_ns, uint64_t deadline_ns);

  // A call broke. The last attempt may be cut short by the deadline: then an earlier one knew more.
  void OnBroken(const absl::Status& why);
  // Says so when the wait has lasted (docs/failover.md, F17).
  void Tick(Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const { return wait_.due_ns(); }

  // Unavailable: the deadline has come.
  absl::Status Error() const;

 private:
  std::string scheduler_;
  uint64_t since_ns_;
  uint64_t deadline_ns_;
  WaitReport wait_;
  std::string reason_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_SCHEDULER_WAIT_H_
