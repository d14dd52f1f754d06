#include "worker/membership/leaving.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr uint64_t kTimeoutNs = 2 * kNsPerS;

}  // namespace

void Leaving::Begin(LeaveJobCall what, Now now, MembershipActions* actions) {
  what_ = std::move(what);
  deadline_ns_ = now.monotonic_ns + kTimeoutNs;
  wait_ = WaitReport(now.monotonic_ns, deadline_ns_);
  repeated_ = false;
  call_ = calls_->Start(CallOwner::kLeaving, what_, now.monotonic_ns + kTimeoutNs / 2, actions);
}

std::optional<absl::Status> Leaving::OnAnswer(const absl::Status& status, Now now, MembershipActions* actions) {
  call_ = CallId();
  // One of several schedulers may just have gone; the next call is over a new connection.
  if (absl::IsUnavailable(status) && !std::exchange(repeated_, true)) {
    call_ = calls_->Start(CallOwner::kLeaving, what_, deadline_ns_, actions);
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

}  // namespace shoal
