// Tells the scheduler which groups this process is done with, so that they are gone there when all ranks are, and which
// ones it has given up, so that the other ranks hear it: one call after the other, each for all that are known by then,
// until it is answered, or refused for good. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_CLOSED_GROUPS_H_
#define SHOAL_WORKER_MEMBERSHIP_CLOSED_GROUPS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/now.h"
#include "core/retry_pace.h"
#include "core/told_groups.h"
#include "worker/membership/call_book.h"
#include "worker/membership/repeated_calls.h"
#include "worker/membership/untold.h"

namespace shoal {

class ClosedGroups {
 public:
  // Both outlive it.
  ClosedGroups(CallBook* calls, Jitter* jitter) : calls_(calls), jitter_(jitter) {}

  // `all_committed`: all ranks have all results of its ops.
  void Add(GroupId group, bool all_committed) { groups_.Add({group, all_committed}); }
  // A reason may be a program's own text: what the scheduler could not read would be refused with all that is told.
  //
  // Requests for a group whose answer nobody waits for: they may have opened one.
  void AddGivenUp(std::vector<GivenUpRequest> requests);
  // A group that this process has given up, which it is not done with yet.
  void AddFailure(GroupFailure failure);
  // Those that the scheduler may not have heard, as far as it takes them with one call.
  std::vector<GroupId> UntoldCommitted() const;
  std::vector<GroupFailure> UntoldFailures() const { return failures_.Newest(kMaxGroupsToldAtOnce); }
  std::vector<GivenUpRequest> UntoldGivenUp() const { return given_up_.Newest(kMaxGroupsToldAtOnce); }
  void OnAnswer(const absl::Status& status, uint64_t lease_ttl_ms, Now now);
  // Of a process that leaves its job the scheduler keeps no group.
  void Stop(MembershipActions* actions);
  // Calls are made while there is a membership.
  void Tick(const MemberId& member, Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const;

 private:
  struct Closed {
    GroupId group;
    bool all_committed = false;
  };

  static std::vector<GroupId> CommittedOf(const std::vector<Closed>& groups);
  bool nothing_to_say() const { return groups_.empty() && given_up_.empty() && failures_.empty(); }

  CallBook* const calls_;
  Jitter* const jitter_;
  Untold<Closed> groups_;
  Untold<GivenUpRequest> given_up_;
  Untold<GroupFailure> failures_;
  CallId call_;
  RefusalsInARow refusals_;
  uint32_t errors_ = 0;  // that the scheduler has answered with, since it was last told something
  uint64_t retry_ns_ = 0;
  RetryPace pace_{100 * kNsPerMs, 2 * kNsPerS};
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_CLOSED_GROUPS_H_
