#include "net/wake_up.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Of an epoll alone: poll would look at it through one more wait queue, and at what it watches once more. nullopt: this
// is no epoll, or the kernel is older than 5.11 or does not let us.
std::optional<bool> WaitForEpoll(int fd, const timespec* timeout) {
#ifdef SYS_epoll_pwait2
  epoll_event event{};
  const long ready = syscall(SYS_epoll_pwait2, fd, &event, 1, timeout, nullptr, 0);
  if (ready >= 0) return ready > 0;
  if (errno == EINTR) return false;
#endif
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WakeUp>> WakeUp::Make() {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("can't create an eventfd: ", strerror(errno), " (raise the limit of open files, ulimit -n)"));
  }
  return std::unique_ptr<WakeUp>(new WakeUp(fd));
}

WakeUp::~WakeUp() { close(fd_); }

void WakeUp::Signal() {
  // Fails only when the counter is full, and then fd() is readable anyway.
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

void WakeUp::Drain() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof(count));
}

bool WaitReadable(std::initializer_list<int> fds, std::optional<int64_t> timeout_ns) {
  std::array<pollfd, 8> set{};
  size_t count = 0;
  for (const int fd : fds) {
    if (fd >= 0 && count < set.size()) set[count++] = {fd, POLLIN, 0};
  }
  timespec timeout{};
  if (timeout_ns.has_value() && *timeout_ns > 0) {
    timeout.tv_sec = *timeout_ns / 1'000'000'000;
    timeout.tv_nsec = *timeout_ns % 1'000'000'000;
  }
  const timespec* const within = timeout_ns.has_value() ? &timeout : nullptr;
  if (count == 1) {
    if (const std::optional<bool> readable = WaitForEpoll(set[0].fd, within)) return *readable;
  }
  return ppoll(set.data(), count, within, nullptr) > 0;
}

}  // namespace shoal
