#include "worker/membership/closed_groups.h"

#include <algorithm>
#include <utility>

#include "core/utf8.h"

namespace shoal {
namespace {

constexpr uint64_t kTimeoutNs = 2 * kNsPerS;
constexpr size_t kMostAtOnce = 1024;      // of each kind; the scheduler takes more
constexpr size_t kMostReasonBytes = 300;  // what the scheduler keeps of it

// Takes the first `count` away.
template <typename Queue>
void DropTold(Queue* queue, size_t count) {
  queue->erase(queue->begin(), queue->begin() + static_cast<ptrdiff_t>(count));
}

template <typename Queue, typename List>
size_t TakeFirst(const Queue& queue, List* list) {
  const size_t count = std::min(queue.size(), kMostAtOnce);
  list->assign(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(count));
  return count;
}

}  // namespace

void ClosedGroups::AddGivenUp(const std::vector<uint64_t>& requests) {
  given_up_.insert(given_up_.end(), requests.begin(), requests.end());
}

void ClosedGroups::AddFailure(const GroupFailure& failure) {
  failures_.push_back(failure);
  failures_.back().reason = MakeUtf8(failure.reason, kMostReasonBytes);
}

void ClosedGroups::OnAnswer(const absl::Status& status, uint64_t lease_ttl_ms, Now now) {
  call_ = CallId();
  if (!refusals_.Note(status) && !status.ok()) {
    retry_ns_ = now.monotonic_ns +
                (IsRefusal(status) ? jitter_->Of(RepeatAfterNs(/*answers=*/1, lease_ttl_ms)) : pace_.Next(jitter_));
    return;
  }
  refusals_ = RefusalsInARow();
  pace_.Reset();
  retry_ns_ = 0;
  DropTold(&groups_, groups_told_);
  DropTold(&given_up_, given_up_told_);
  DropTold(&failures_, failures_told_);
}

void ClosedGroups::Stop(MembershipActions* actions) {
  calls_->Cancel(&call_, actions);
  groups_.clear();
  given_up_.clear();
  failures_.clear();
}

void ClosedGroups::Tick(const MemberId& member, Now now, MembershipActions* actions) {
  if (nothing_to_say() || call_ != CallId() || now.monotonic_ns < retry_ns_) return;
  CloseGroupsCall call{.member = member};
  groups_told_ = TakeFirst(groups_, &call.groups);
  given_up_told_ = TakeFirst(given_up_, &call.given_up_requests);
  failures_told_ = TakeFirst(failures_, &call.failures);
  call_ = calls_->Start(CallOwner::kClosedGroups, std::move(call), now.monotonic_ns + kTimeoutNs, actions);
}

uint64_t ClosedGroups::NextDeadlineNs() const {
  return nothing_to_say() || call_ != CallId() ? kNoDeadline : retry_ns_;
}

}  // namespace shoal
