// The calls that a membership has under way: who waits for which, and over which connections each was made. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_CALL_BOOK_H_
#define SHOAL_WORKER_MEMBERSHIP_CALL_BOOK_H_

#include <cstdint>
#include <map>
#include <optional>

#include "worker/membership/membership_actions.h"

namespace shoal {

// Whose call it is: each of them is an object of the machine.
enum class CallOwner : uint8_t { kJoining, kHeartbeats, kGroups, kClosedGroups, kReports, kLeaving };

class CallBook {
 public:
  struct Ended {
    CallOwner owner;
    // The call broke, or got no answer, over the newest connections: they are given up now (UseNewConnectionsAction).
    // What waits at a scheduler, and may wait for long, is to be asked again over the new ones.
    bool gave_connections_up = false;
  };

  CallId Start(CallOwner owner, SchedulerCall what, uint64_t deadline_ns, MembershipActions* actions);
  // Nobody waits for it any more, and it becomes 0. No effect on 0.
  void Cancel(CallId* call, MembershipActions* actions);
  // nullopt: nobody waits for that call.
  std::optional<Ended> End(const CallEnded& event, MembershipActions* actions);

  WatchId NextWatch() { return WatchId(++last_watch_); }

 private:
  struct OpenCall {
    CallOwner owner;
    uint64_t connections = 0;  // that it was made over
  };

  uint64_t last_call_ = 0;
  uint64_t last_watch_ = 0;
  uint64_t connections_ = 0;  // the newest ones
  std::map<CallId, OpenCall> open_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_CALL_BOOK_H_
