#include "worker/membership/closed_groups.h"

#include <utility>

#include "core/utf8.h"

namespace shoal {
namespace {

constexpr uint64_t kCallTimeoutNs = 2 * kNsPerS;
constexpr size_t kMostAtOnce = kMaxGroupsToldAtOnce / 4;  // of each of three kinds
constexpr size_t kMostReasonBytes = 300;                  // what the scheduler keeps of it

}  // namespace

void ClosedGroups::AddGivenUp(std::vector<GivenUpRequest> requests) {
  for (GivenUpRequest& request : requests) {
    request.reason = MakeUtf8(request.reason, kMostReasonBytes);
    given_up_.Add(std::move(request));
  }
}

void ClosedGroups::AddFailure(GroupFailure failure) {
  failure.reason = MakeUtf8(failure.reason, kMostReasonBytes);
  failures_.Add(std::move(failure));
}

std::vector<GroupId> ClosedGroups::UntoldCommitted() const { return CommittedOf(groups_.Newest(kMaxGroupsToldAtOnce)); }

std::vector<GroupId> ClosedGroups::CommittedOf(const std::vector<Closed>& groups) {
  std::vector<GroupId> committed;
  for (const Closed& closed : groups) {
    if (closed.all_committed) committed.push_back(closed.group);
  }
  return committed;
}

void ClosedGroups::OnAnswer(const absl::Status& status, uint64_t lease_ttl_ms, Now now) {
  call_ = CallId();
  if (!refusals_.Note(status) && !status.ok()) {
    // One that is there, and can't take it, is not helped by more calls.
    const bool broke = absl::IsUnavailable(status);
    retry_ns_ = now.monotonic_ns + (broke ? pace_.Next(jitter_) : jitter_->Of(RepeatAfterNs(++errors_, lease_ttl_ms)));
    return;
  }
  refusals_ = RefusalsInARow();
  pace_.Reset();
  errors_ = 0;
  retry_ns_ = 0;
  groups_.DropUnderWay();
  given_up_.DropUnderWay();
  failures_.DropUnderWay();
}

void ClosedGroups::Stop(MembershipActions* actions) {
  calls_->Cancel(&call_, actions);
  groups_.Clear();
  given_up_.Clear();
  failures_.Clear();
}

void ClosedGroups::Tick(const MemberId& member, Now now, MembershipActions* actions) {
  if (nothing_to_say() || call_ != CallId() || now.monotonic_ns < retry_ns_) return;
  const std::vector<Closed> closed = groups_.StartTelling(kMostAtOnce);
  CloseGroupsCall call{.member = member,
                       .groups = {},
                       .given_up_requests = given_up_.StartTelling(kMostAtOnce),
                       .failures = failures_.StartTelling(kMostAtOnce),
                       .committed_groups = CommittedOf(closed)};
  for (const Closed& each : closed) call.groups.push_back(each.group);
  call_ = calls_->Start(CallOwner::kClosedGroups, std::move(call), now.monotonic_ns + kCallTimeoutNs, actions);
}

uint64_t ClosedGroups::NextDeadlineNs() const {
  return nothing_to_say() || call_ != CallId() ? kNoDeadline : retry_ns_;
}

}  // namespace shoal
