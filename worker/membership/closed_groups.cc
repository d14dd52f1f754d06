#include "worker/membership/closed_groups.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

constexpr uint64_t kTimeoutNs = 2 * kNsPerS;
constexpr size_t kMostAtOnce = 1024;  // of each kind; the scheduler takes more

}  // namespace

void ClosedGroups::AddGivenUp(const std::vector<uint64_t>& requests) {
  given_up_.insert(given_up_.end(), requests.begin(), requests.end());
}

void ClosedGroups::OnAnswer(const absl::Status& status, Now now) {
  call_ = CallId();
  if (absl::IsUnavailable(status)) {
    retry_ns_ = now.monotonic_ns + pace_.Next(jitter_);
    return;
  }
  pace_.Reset();
  retry_ns_ = 0;
  groups_.erase(groups_.begin(), groups_.begin() + static_cast<ptrdiff_t>(groups_told_));
  given_up_.erase(given_up_.begin(), given_up_.begin() + static_cast<ptrdiff_t>(given_up_told_));
}

void ClosedGroups::Stop(MembershipActions* actions) {
  calls_->Cancel(&call_, actions);
  groups_.clear();
  given_up_.clear();
}

void ClosedGroups::Tick(const MemberId& member, Now now, MembershipActions* actions) {
  if (nothing_to_say() || call_ != CallId() || now.monotonic_ns < retry_ns_) return;
  groups_told_ = std::min(groups_.size(), kMostAtOnce);
  given_up_told_ = std::min(given_up_.size(), kMostAtOnce);
  CloseGroupsCall call{.member = member};
  call.groups.assign(groups_.begin(), groups_.begin() + static_cast<ptrdiff_t>(groups_told_));
  call.given_up_requests.assign(given_up_.begin(), given_up_.begin() + static_cast<ptrdiff_t>(given_up_told_));
  call_ = calls_->Start(CallOwner::kClosedGroups, std::move(call), now.monotonic_ns + kTimeoutNs, actions);
}

uint64_t ClosedGroups::NextDeadlineNs() const {
  return nothing_to_say() || call_ != CallId() ? kNoDeadline : retry_ns_;
}

}  // namespace shoal
