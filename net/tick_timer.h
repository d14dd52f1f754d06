// Makes an epoll readable once a second, while something has to be looked at that often.
//
// One thread.
#ifndef SHOAL_NET_TICK_TIMER_H_
#define SHOAL_NET_TICK_TIMER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "process/file_descriptor.h"

namespace shoal {

class TickTimer {
 public:
  // Once, before everything else. `epoll` outlives this; `key` is what its events say of the timer. ResourceExhausted:
  // the process has no file descriptors left.
  absl::Status Open(int epoll, uint64_t key);
  // It ticks a second from now, and then each second. Nothing happens if it runs.
  void Start();
  void Stop();
  bool runs() const { return runs_; }
  // It has ticked; say so before you look at what is due.
  void Drain();

 private:
  void Set(time_t period_s);

  WatchedDescriptor timer_;
  bool runs_ = false;
};

}  // namespace shoal

#endif  // SHOAL_NET_TICK_TIMER_H_
