#include "worker/membership/leaving.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/no_leader.h"

namespace shoal {
namespace {

constexpr uint64_t kLeaveTimeoutNs = 2 * kNsPerS;
// So many schedulers that do not lead are asked in a row: the next one may be the only one that is not cut off from the
// leader. Then all are asked again: where none leads, another one soon does, and many ranks may leave meanwhile.
constexpr uint32_t kAskedAtOnce = 4;
constexpr uint64_t kPauseNs = 250 * kNsPerMs;

}  // namespace

void Leaving::Begin(LeaveJobCall what, Now now, MembershipActions* actions) {
  what_ = std::move(what);
  deadline_ns_ = now.monotonic_ns + kLeaveTimeoutNs;
  wait_ = WaitReport(now.monotonic_ns, deadline_ns_);
  repeated_ = false;
  refusals_ = 0;
  Tell(now, actions);
}

void Leaving::Tell(Now now, MembershipActions* actions) {
  // One that is not answered leaves time for another over new connections.
  const uint64_t until_ns = repeated_ ? deadline_ns_ : std::min(now.monotonic_ns + kLeaveTimeoutNs / 2, deadline_ns_);
  call_ = calls_->Start(CallOwner::kLeaving, what_, until_ns, actions);
}

std::optional<absl::Status> Leaving::OnAnswer(const absl::Status& status, Now now, MembershipActions* actions) {
  call_ = CallId();
  // Who hears it for the second time knows no such rank any more.
  if (absl::IsNotFound(status) && (repeated_ || refusals_ > 0)) return absl::OkStatus();
  if (IsRefusedByFollower(status)) {
    // The next call is the next scheduler's: the worker makes no other ones any more.
    const uint64_t pause_ns = ++refusals_ % kAskedAtOnce == 0 ? kPauseNs : 0;
    if (now.monotonic_ns + pause_ns < deadline_ns_) {
      retry_ns_ = now.monotonic_ns + pause_ns;
      Tick(now, actions);
      return std::nullopt;
    }
  } else if (absl::IsUnavailable(status) && !std::exchange(repeated_, true) && now.monotonic_ns < deadline_ns_) {
    // One of several schedulers may just have gone; the next call is over a new connection.
    Tell(now, actions);
    return std::nullopt;
  }
  if (!status.ok() && wait_.TakeDue(now.monotonic_ns)) {
    actions->emplace_back(
        MembershipNotice{absl::StrCat("tried for ", wait_.Elapsed(now.monotonic_ns), " to tell the scheduler at ",
                                      *scheduler_, " that this rank leaves, without success (", status.message(),
                                      "): it will notice when the lease has run out")});
  }
  return status;
}

void Leaving::Tick(Now now, MembershipActions* actions) {
  if (now.monotonic_ns < retry_ns_) return;
  retry_ns_ = kNoDeadline;
  Tell(now, actions);
}

}  // namespace shoal
