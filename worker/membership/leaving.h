// How a worker leaves its job: it says so, once more if a call breaks, and for two seconds to the next scheduler if one
// refuses that does not lead (docs/failover.md, F16). If nobody hears it, the lease ends the membership. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_LEAVING_H_
#define SHOAL_WORKER_MEMBERSHIP_LEAVING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/now.h"
#include "core/wait_report.h"
#include "worker/membership/call_book.h"

namespace shoal {

class Leaving {
 public:
  // Both outlive it.
  Leaving(const std::string* scheduler, CallBook* calls) : scheduler_(scheduler), calls_(calls) {}

  void Begin(LeaveJobCall what, Now now, MembershipActions* actions);
  bool under_way() const { return call_ != CallId() || retry_ns_ != kNoDeadline; }
  // OK, or why nobody heard it; nullopt: still under way.
  std::optional<absl::Status> OnAnswer(const absl::Status& status, Now now, MembershipActions* actions);
  void Tick(Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const { return retry_ns_; }

 private:
  void Tell(Now now, MembershipActions* actions);

  const std::string* const scheduler_;
  CallBook* const calls_;
  LeaveJobCall what_;
  CallId call_;
  uint64_t deadline_ns_ = 0;
  uint64_t retry_ns_ = kNoDeadline;  // of what was refused
  bool repeated_ = false;            // a call broke
  uint32_t refusals_ = 0;            // by schedulers that could not pass a call on
  WaitReport wait_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_LEAVING_H_
