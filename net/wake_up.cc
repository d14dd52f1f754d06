#include "net/wake_up.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

timespec WithinOf(std::optional<int64_t> timeout_ns) {
  const int64_t ns = std::max<int64_t>(timeout_ns.value_or(0), 0);
  return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
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
  if (count == 1) {
    // Poll would look at an epoll through one more wait queue, and at what it watches once more.
    epoll_event event{};
    if (const auto ready = WaitForEvents(set[0].fd, std::span(&event, 1), timeout_ns)) return *ready > 0;
  }
  const timespec within = WithinOf(timeout_ns);
  return ppoll(set.data(), count, timeout_ns.has_value() ? &within : nullptr, nullptr) > 0;
}

std::optional<size_t> WaitForEvents(int epoll, std::span<epoll_event> events, std::optional<int64_t> timeout_ns) {
#ifdef SYS_epoll_pwait2
  const timespec within = WithinOf(timeout_ns);
  const long ready = syscall(SYS_epoll_pwait2, epoll, events.data(), static_cast<int>(events.size()),
                             timeout_ns.has_value() ? &within : nullptr, nullptr, 0);
  if (ready >= 0) return static_cast<size_t>(ready);
  if (errno == EINTR) return 0;
#endif
  return std::nullopt;
}

}  // namespace shoal
