// A descriptor that an epoll watches for as long as it is open here.
//
// The kernel itself goes on watching a closed descriptor while a forked child has a copy of it, and would keep waking
// whoever sleeps on the epoll.
#ifndef SHOAL_WORKER_LOCAL_REDUCE_WATCHED_DESCRIPTOR_H_
#define SHOAL_WORKER_LOCAL_REDUCE_WATCHED_DESCRIPTOR_H_

#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "net/shm/same_node_socket.h"

namespace shoal {

class WatchedDescriptor {
 public:
  WatchedDescriptor() = default;
  ~WatchedDescriptor() { Reset(); }
  WatchedDescriptor(const WatchedDescriptor&) = delete;
  WatchedDescriptor& operator=(const WatchedDescriptor&) = delete;

  // Takes a descriptor in place of the one that was here. `epoll` outlives this. ResourceExhausted: it can't watch one
  // more.
  absl::Status Watch(FileDescriptor descriptor, int epoll, uint64_t key) {
    Reset();
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.u64 = key;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor.get(), &event) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("epoll can't watch one more descriptor: ", std::strerror(errno)));
    }
    descriptor_ = std::move(descriptor);
    epoll_ = epoll;
    return absl::OkStatus();
  }

  void Reset() {
    if (descriptor_.valid()) epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor_.get(), nullptr);
    descriptor_.Reset();
  }

  int get() const { return descriptor_.get(); }
  bool valid() const { return descriptor_.valid(); }

 private:
  FileDescriptor descriptor_;
  int epoll_ = -1;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LOCAL_REDUCE_WATCHED_DESCRIPTOR_H_
