// Tells the scheduler which groups this process is done with, so that they are gone there when all ranks are, and which
// ones it has given up, so that the other ranks hear it: one call after the other, each for all that are known by then,
// until it is answered, or refused for good. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_CLOSED_GROUPS_H_
#define SHOAL_WORKER_MEMBERSHIP_CLOSED_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "core/now.h"
#include "core/retry_pace.h"
#include "worker/membership/call_book.h"
#include "worker/membership/repeated_calls.h"

namespace shoal {

class ClosedGroups {
 public:
  // Both outlive it.
  ClosedGroups(CallBook* calls, Jitter* jitter) : calls_(calls), jitter_(jitter) {}

  void Add(GroupId group) { groups_.push_back(group); }
  // Requests for a group whose answer nobody waits for: they may have opened one.
  void AddGivenUp(const std::vector<uint64_t>& requests);
  // A group that this process has given up, which it is not done with yet.
  // A reason may be a program's own text: what the scheduler could not read would be refused with all that is told.
  void AddFailure(const GroupFailure& failure);
  // Those that the scheduler may not have heard.
  std::vector<GroupFailure> UntoldFailures() const { return {failures_.begin(), failures_.end()}; }
  void OnAnswer(const absl::Status& status, uint64_t lease_ttl_ms, Now now);
  // Of a process that leaves its job the scheduler keeps no group.
  void Stop(MembershipActions* actions);
  // Calls are made while there is a membership.
  void Tick(const MemberId& member, Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const;

 private:
  bool nothing_to_say() const { return groups_.empty() && given_up_.empty() && failures_.empty(); }

  CallBook* const calls_;
  Jitter* const jitter_;
  std::deque<GroupId> groups_;     // oldest first
  std::deque<uint64_t> given_up_;  // likewise
  std::deque<GroupFailure> failures_;
  // Of each: the first ones, that the call under way is for.
  size_t groups_told_ = 0;
  size_t given_up_told_ = 0;
  size_t failures_told_ = 0;
  CallId call_;
  RefusalsInARow refusals_;
  uint64_t retry_ns_ = 0;
  RetryPace pace_{100 * kNsPerMs, 2 * kNsPerS};
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_CLOSED_GROUPS_H_
