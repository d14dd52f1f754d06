// The groups that callers wait for: each is asked for until the scheduler answers, under one number, so that an answer
// which was lost makes no second group. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_GROUP_REQUESTS_H_
#define SHOAL_WORKER_MEMBERSHIP_GROUP_REQUESTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/now.h"
#include "core/retry_pace.h"
#include "worker/membership/call_book.h"
#include "worker/membership/membership_events.h"
#include "worker/membership/scheduler_wait.h"

namespace shoal {

// Internal: what the scheduler answered contradicts itself, or what was asked for.
absl::StatusOr<GroupInfo> MakeGroupInfo(const JoinedGroup& joined, const GroupRequest& request);

class GroupRequests {
 public:
  // All outlive it.
  GroupRequests(const std::string* scheduler, CallBook* calls, Jitter* jitter)
      : scheduler_(scheduler), calls_(calls), jitter_(jitter) {}

  void Add(const MemberId& member, const JoinGroupCommand& command, Now now, MembershipActions* actions);
  // A request whose call broke, or was refused because this process is no member, stays: EndAll ends it if that is so.
  void OnAnswer(const CallEnded& event, Now now, MembershipActions* actions);
  // Connections were given up: a call that waits at a scheduler over one of them would stay there.
  void OnNewConnections(Now now, MembershipActions* actions);
  // Ends all of them; the scheduler may open groups for them all the same.
  void EndAll(const absl::Status& why, MembershipActions* actions);
  // A group that was given out has ended.
  void OnEnded(GroupId group) { in_use_.erase(group); }
  // Groups that were given out and have not ended: whoever got them came too late to open them.
  void GiveUpUnended();
  void Tick(Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const;
  // Those that ended here although the scheduler may have opened a group for them, since the last call.
  std::vector<GivenUpRequest> TakeGivenUp() { return std::exchange(given_up_, {}); }

 private:
  struct Request {
    JoinGroupCall call;
    uint64_t deadline_ns = 0;
    CallId open_call;       // 0: none is under way
    uint64_t retry_ns = 0;  // then: when the next one is due
    RetryPace pace{50 * kNsPerMs, kNsPerS};
    // Since the first of the calls that broke one after the other: until then it waited for other ranks, not for a
    // scheduler.
    std::optional<SchedulerWait> scheduler_wait;
    absl::Status refusal;  // not OK: the last call was refused because this process is no member
  };

  void Ask(Request* request, Now now, MembershipActions* actions);
  // Its call broke (Unavailable) or was refused (NotFound).
  void Retry(Request* request, const absl::Status& why, Now now);
  // Of a request between two calls, whose deadline has come.
  absl::Status DeadlineError(const Request& request) const;

  const std::string* const scheduler_;
  CallBook* const calls_;
  Jitter* const jitter_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, Request> requests_;  // by ticket
  std::map<GroupId, uint64_t> in_use_;    // groups that were given out, with the number of their request
  std::vector<GivenUpRequest> given_up_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_GROUP_REQUESTS_H_
