#include "worker/membership/watch_follower.h"

#include <utility>

namespace shoal {

void WatchFollower::Start(const MemberId& member, MembershipActions* actions) {
  if (follows_ && member.job == member_.job) return;
  Stop(actions);
  member_ = member;
  follows_ = true;
  Open(actions);
}

void WatchFollower::Open(MembershipActions* actions) {
  reopen_ns_ = kNoDeadline;
  watch_ = calls_->NextWatch();
  actions->emplace_back(OpenWatchAction{watch_, member_});
}

void WatchFollower::Stop(MembershipActions* actions) {
  follows_ = false;
  reopen_ns_ = kNoDeadline;
  if (watch_ != WatchId()) actions->emplace_back(CloseWatchAction{std::exchange(watch_, WatchId())});
}

bool WatchFollower::OnNews(WatchId watch) {
  if (watch != watch_) return false;
  pace_.Reset();
  return true;
}

void WatchFollower::OnEnded(WatchId watch, Now now) {
  if (watch != watch_) return;
  watch_ = WatchId();
  Reopen(now);
}

void WatchFollower::Reopen(Now now) {
  if (follows_) reopen_ns_ = now.monotonic_ns + pace_.Next(jitter_);
}

void WatchFollower::OnNewConnections(Now now, MembershipActions* actions) {
  if (watch_ == WatchId()) return;
  actions->emplace_back(CloseWatchAction{std::exchange(watch_, WatchId())});
  Reopen(now);
}

void WatchFollower::Tick(Now now, MembershipActions* actions) {
  if (now.monotonic_ns >= reopen_ns_) Open(actions);
}

}  // namespace shoal
