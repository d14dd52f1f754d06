// Descriptors that are closed with their owner, and those that an epoll watches.
//
// A forked child (a DataLoader's worker, for example) has a copy of every descriptor. That has two consequences, and
// the two types here are the only place that has to know them:
//   - the kernel goes on watching a descriptor that we closed while a child has a copy of it, and would keep waking
//     whoever sleeps on the epoll, for as long as the child lives;
//   - the other side of a socket does not see its end while a child has a copy.
//
// One thread for each object.
#ifndef SHOAL_PROCESS_FILE_DESCRIPTOR_H_
#define SHOAL_PROCESS_FILE_DESCRIPTOR_H_

#include <sys/epoll.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

// A descriptor that is closed with its owner.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor() { Reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();

 private:
  int fd_;
};

// A descriptor that an epoll watches for as long as it is open here.
class WatchedDescriptor {
 public:
  static constexpr uint32_t kReadable = EPOLLIN | EPOLLRDHUP;

  WatchedDescriptor() = default;
  ~WatchedDescriptor() { Reset(); }
  WatchedDescriptor(WatchedDescriptor&& other) noexcept
      : descriptor_(std::move(other.descriptor_)), epoll_(other.epoll_), key_(other.key_) {}
  WatchedDescriptor& operator=(WatchedDescriptor&& other) noexcept;

  // Takes a descriptor in place of the one that was here; `key` is what the epoll's events say of it. `epoll` outlives
  // this. ResourceExhausted: it can't watch one more; the descriptor is closed.
  absl::Status Watch(FileDescriptor descriptor, int epoll, uint64_t key, uint32_t events = kReadable);
  // What it is watched for from now on; 0: for errors alone.
  void WatchFor(uint32_t events);

  void Reset();
  // Of a socket: the other side sees its end at once.
  void HangUp();
  // Is watched no longer, and belongs to the caller.
  FileDescriptor Release();

  int get() const { return descriptor_.get(); }
  bool valid() const { return descriptor_.valid(); }

 private:
  FileDescriptor descriptor_;
  int epoll_ = -1;
  uint64_t key_ = 0;
};

// An epoll for WatchedDescriptors. ResourceExhausted: the process has no descriptors left.
absl::StatusOr<FileDescriptor> MakeEpoll();

// For a descriptor that a library owns: WatchedDescriptor would close it. The same error as Watch. Its owner closes it
// only after it was unwatched.
absl::Status WatchBorrowed(int fd, int epoll, uint64_t key);
void UnwatchBorrowed(int fd, int epoll);

}  // namespace shoal

#endif  // SHOAL_PROCESS_FILE_DESCRIPTOR_H_
