// Keeps a Watch stream open: a stream that ends is opened again, ever later while that does not help. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_WATCH_FOLLOWER_H_
#define SHOAL_WORKER_MEMBERSHIP_WATCH_FOLLOWER_H_

#include <cstdint>

#include "core/now.h"
#include "core/retry_pace.h"
#include "worker/membership/call_book.h"

namespace shoal {

class WatchFollower {
 public:
  // Both outlive it.
  WatchFollower(CallBook* calls, Jitter* jitter) : calls_(calls), jitter_(jitter) {}

  // No effect where the member is followed already.
  void Start(const MemberId& member, MembershipActions* actions);
  void Stop(MembershipActions* actions);
  // Does not open the stream again once it ends.
  void LetEnd() { follows_ = false; }
  // False: of a stream that is not followed any more.
  bool OnNews(WatchId watch);
  void OnEnded(WatchId watch, Now now);
  // Connections were given up: the stream may be one of theirs.
  void OnNewConnections(Now now, MembershipActions* actions);
  void Tick(Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const { return reopen_ns_; }

 private:
  void Open(MembershipActions* actions);
  void Reopen(Now now);

  CallBook* const calls_;
  Jitter* const jitter_;
  MemberId member_;
  bool follows_ = false;
  WatchId watch_;  // 0: none is open
  uint64_t reopen_ns_ = kNoDeadline;
  RetryPace pace_{100 * kNsPerMs, kNsPerS};
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_WATCH_FOLLOWER_H_
