#include "worker/membership/scheduler_wait.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"

namespace shoal {

std::string TimeUntilDeadline(uint64_t since_ns, uint64_t deadline_ns) {
  constexpr uint64_t kHalfATenthNs = 50 * kNsPerMs;
  return Seconds(deadline_ns - std::min(since_ns, deadline_ns) + kHalfATenthNs);
}

SchedulerWait::SchedulerWait(std::string scheduler, uint64_t since_ns, uint64_t deadline_ns)
    : scheduler_(std::move(scheduler)), since_ns_(since_ns), deadline_ns_(deadline_ns), wait_(since_ns, deadline_ns) {}

void SchedulerWait::OnBroken(const absl::Status& why) {
  if (reason_.empty() || why.message() != kNoAnswer) reason_ = std::string(why.message());
}

void SchedulerWait::Tick(Now now, MembershipActions* actions) {
  if (!wait_.TakeDue(now.monotonic_ns)) return;
  actions->emplace_back(
      MembershipNotice{absl::StrCat(wait_.WaitedFor(absl::StrCat("a scheduler at ", scheduler_), now.monotonic_ns),
                                    ": ", reason_.empty() ? std::string(kNoAnswer) : reason_)});
}

absl::Status SchedulerWait::Error() const {
  return absl::UnavailableError(
      absl::StrCat("no scheduler answered at ", scheduler_, " within ", TimeUntilDeadline(since_ns_, deadline_ns_),
                   " (", reason_.empty() ? std::string(kNoAnswer) : reason_, "): is shoal-scheduler running there?"));
}

}  // namespace shoal
