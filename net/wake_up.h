// Sleeping in a loop until a transport has something, another thread calls, or a deadline passes.
//
//   while (running) {
//     ... look at what callers left for you, Poll the transport, step ...
//     if (transport.Arm()) transport.Sleep(ns_until_next_deadline, -1);
//   }
//
// A loop that is called by a WakeUp of its own drains it before it looks at what the caller left, never after: then no
// call is missed.
#ifndef SHOAL_NET_WAKE_UP_H_
#define SHOAL_NET_WAKE_UP_H_

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"

namespace shoal {

// An eventfd. Signal() may be called from any thread and from a signal handler; the rest belongs to the loop's thread.
class WakeUp {
 public:
  // ResourceExhausted: the process has no file descriptors left.
  static absl::StatusOr<std::unique_ptr<WakeUp>> Make();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  // Makes fd() readable until the next Drain().
  void Signal();
  void Drain();
  int fd() const { return fd_; }

 private:
  explicit WakeUp(int fd) : fd_(fd) {}

  const int fd_;
};

// Blocks until one of `fds` (at most 8) is readable, a signal arrived or `timeout_ns` has passed (nullopt: no limit; 0
// or less: returns at once). True if one is readable.
bool WaitReadable(std::initializer_list<int> fds, std::optional<int64_t> timeout_ns);

// The same for an epoll, whose events go to `events`; there may be none. nullopt: `epoll` is none, or the kernel is
// older than 5.11 or does not let us wait so exactly.
std::optional<size_t> WaitForEvents(int epoll, std::span<epoll_event> events, std::optional<int64_t> timeout_ns);

}  // namespace shoal

#endif  // SHOAL_NET_WAKE_UP_H_
