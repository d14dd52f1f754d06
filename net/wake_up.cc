#include "net/wake_up.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal {

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
  const size_t count = std::min(fds.size(), set.size());
  std::transform(fds.begin(), fds.begin() + count, set.begin(), [](int fd) { return pollfd{fd, POLLIN, 0}; });
  timespec timeout{};
  if (timeout_ns.has_value() && *timeout_ns > 0) {
    timeout.tv_sec = *timeout_ns / 1'000'000'000;
    timeout.tv_nsec = *timeout_ns % 1'000'000'000;
  }
  return ppoll(set.data(), count, timeout_ns.has_value() ? &timeout : nullptr, nullptr) > 0;
}

}  // namespace shoal
