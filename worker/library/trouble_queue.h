// What the I/O thread must tell the scheduler of servers, between that thread and the one that makes the calls.
//
// Thread: any.
#ifndef SHOAL_WORKER_LIBRARY_TROUBLE_QUEUE_H_
#define SHOAL_WORKER_LIBRARY_TROUBLE_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "worker/machine/worker_outcomes.h"

namespace shoal {

class TroubleQueue {
 public:
  void Push(ServerTrouble trouble) {
    const std::lock_guard lock(mutex_);
    troubles_.push_back(std::move(trouble));
    changed_.notify_all();
  }
  // Waits for one; nullopt: Close was called.
  std::optional<ServerTrouble> Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !troubles_.empty(); });
    if (closed_) return std::nullopt;
    ServerTrouble trouble = std::move(troubles_.front());
    troubles_.pop_front();
    return trouble;
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ServerTrouble> troubles_;
  bool closed_ = false;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_TROUBLE_QUEUE_H_
