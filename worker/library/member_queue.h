// The way from other threads to the one that owns the membership: what callers want, and what the I/O thread has to
// report of servers.
//
// Thread: any, but SetWake and Take from the owner of the membership. Nothing blocks.
#ifndef SHOAL_WORKER_LIBRARY_MEMBER_QUEUE_H_
#define SHOAL_WORKER_LIBRARY_MEMBER_QUEUE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "process/mutex.h"
#include "worker/membership/membership_events.h"

namespace shoal {

class MemberQueue {
 public:
  static constexpr size_t kMaxWaiting = 1024;

  // ResourceExhausted: kMaxWaiting wait already. Cancelled: closed.
  absl::Status Push(MembershipCommand command) {
    const MutexLock lock(mutex_);
    if (waiting_.size() >= kMaxWaiting && !closed_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kMaxWaiting, " calls wait for the scheduler already; try again"));
    }
    return PushLocked(std::move(command));
  }
  // For what must not be lost, and of which there is never much. Cancelled: closed.
  absl::Status PushAlways(MembershipCommand command) {
    const MutexLock lock(mutex_);
    return PushLocked(std::move(command));
  }

  // In the order of the calls.
  std::vector<MembershipCommand> Take() {
    const MutexLock lock(mutex_);
    return std::exchange(waiting_, {});
  }

  // `wake` is called, by any thread, when there is something to take. Empty: nobody is to be woken; once it has
  // returned, nobody is in the old one any more.
  void SetWake(std::function<void()> wake) {
    const MutexLock lock(mutex_);
    wake_ = std::move(wake);
    if (wake_ && !waiting_.empty()) wake_();
  }
  // Later commands are refused.
  void Close() {
    const MutexLock lock(mutex_);
    closed_ = true;
  }

 private:
  absl::Status PushLocked(MembershipCommand command) SHOAL_REQUIRES(mutex_) {
    if (closed_) return absl::CancelledError("the worker is closed");
    waiting_.push_back(std::move(command));
    if (wake_) wake_();
    return absl::OkStatus();
  }

  Mutex mutex_;
  std::function<void()> wake_ SHOAL_GUARDED_BY(mutex_);
  std::vector<MembershipCommand> waiting_ SHOAL_GUARDED_BY(mutex_);
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_MEMBER_QUEUE_H_
