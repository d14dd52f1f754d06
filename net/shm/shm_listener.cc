#include "net/shm/shm_listener.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr int64_t kPauseNs = 100'000'000;

}  // namespace

absl::Status ShmListener::Start(const std::string& address, int epoll, uint64_t listener_key, uint64_t pause_key) {
  absl::StatusOr<FileDescriptor> listener = ListenOnThisNode(address);
  if (!listener.ok()) return listener.status();
  FileDescriptor pause(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!pause.valid()) return absl::ResourceExhaustedError(absl::StrCat("no timer: ", std::strerror(errno)));
  if (absl::Status status = pause_.Watch(std::move(pause), epoll, pause_key); !status.ok()) return status;
  return listener_.Watch(*std::move(listener), epoll, listener_key, EPOLLIN);
}

void ShmListener::Pause() {
  listener_.WatchFor(0);
  const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = kPauseNs}};
  timerfd_settime(pause_.get(), 0, &once, nullptr);
}

void ShmListener::Resume() {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t got = read(pause_.get(), &expirations, sizeof(expirations));
  listener_.WatchFor(EPOLLIN);
}

}  // namespace shoal
