#include "net/tick_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <utility>

#include "net/peer_socket.h"

namespace shoal {

absl::Status TickTimer::Open(int epoll, uint64_t key) {
  FileDescriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer.valid()) return NoDescriptorLeft("can't create a timer descriptor");
  return timer_.Watch(std::move(timer), epoll, key);
}

void TickTimer::Start() {
  if (!std::exchange(runs_, true)) Set(1);
}

void TickTimer::Stop() {
  if (std::exchange(runs_, false)) Set(0);
}

void TickTimer::Drain() {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t got = read(timer_.get(), &expirations, sizeof(expirations));
}

void TickTimer::Set(time_t period_s) {
  const itimerspec every{.it_interval = {period_s, 0}, .it_value = {period_s, 0}};
  timerfd_settime(timer_.get(), 0, &every, nullptr);
}

}  // namespace shoal
