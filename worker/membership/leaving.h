// How a worker leaves its job: it says so, a second time if the first call breaks. If nobody hears it, the lease ends
// the membership. Pure.
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
  bool under_way() const { return call_ != CallId(); }
  // OK, or why nobody heard it; nullopt: still under way.
  std::optional<absl::Status> OnAnswer(const absl::Status& status, Now now, MembershipActions* actions);

 private:
  const std::string* const scheduler_;
  CallBook* const calls_;
  LeaveJobCall what_;
  CallId call_;
  uint64_t deadline_ns_ = 0;
  bool repeated_ = false;
  WaitReport wait_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_LEAVING_H_
