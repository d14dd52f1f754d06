#include "process/file_descriptor.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

absl::Status Control(int epoll, int operation, int fd, uint64_t key, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  if (epoll_ctl(epoll, operation, fd, &event) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("epoll can't watch one more descriptor: ", std::strerror(errno)));
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

void FileDescriptor::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

WatchedDescriptor& WatchedDescriptor::operator=(WatchedDescriptor&& other) noexcept {
  if (this != &other) {
    Reset();
    descriptor_ = std::move(other.descriptor_);
    epoll_ = other.epoll_;
    key_ = other.key_;
  }
  return *this;
}

absl::Status WatchedDescriptor::Watch(FileDescriptor descriptor, int epoll, uint64_t key, uint32_t events) {
  Reset();
  if (absl::Status status = Control(epoll, EPOLL_CTL_ADD, descriptor.get(), key, events); !status.ok()) return status;
  descriptor_ = std::move(descriptor);
  epoll_ = epoll;
  key_ = key;
  return absl::OkStatus();
}

void WatchedDescriptor::WatchFor(uint32_t events) {
  // Fails only where it is not watched at all.
  if (valid()) Control(epoll_, EPOLL_CTL_MOD, get(), key_, events).IgnoreError();
}

void WatchedDescriptor::Reset() { Release().Reset(); }

void WatchedDescriptor::HangUp() {
  if (valid()) shutdown(get(), SHUT_RDWR);
  Reset();
}

FileDescriptor WatchedDescriptor::Release() {
  if (valid()) UnwatchBorrowed(get(), epoll_);
  return std::move(descriptor_);
}

absl::StatusOr<FileDescriptor> MakeEpoll() {
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (epoll.valid()) return epoll;
  return absl::ResourceExhaustedError(absl::StrCat("can't create an epoll descriptor: ", std::strerror(errno),
                                                   " (raise the limit of open files, ulimit -n)"));
}

absl::Status WatchBorrowed(int fd, int epoll, uint64_t key) {
  return Control(epoll, EPOLL_CTL_ADD, fd, key, WatchedDescriptor::kReadable);
}

void UnwatchBorrowed(int fd, int epoll) { epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr); }

}  // namespace shoal
