// Where processes of this node connect (same_node_socket.h). Without descriptors it pauses: a listener stays readable
// until somebody has been accepted, and would keep the loop awake. One thread.
#ifndef SHOAL_NET_SHM_SHM_LISTENER_H_
#define SHOAL_NET_SHM_SHM_LISTENER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "net/shm/same_node_socket.h"
#include "process/file_descriptor.h"

namespace shoal {

class ShmListener {
 public:
  // `epoll`, which outlives this, says the keys: somebody waits to be accepted, and the pause is over. AlreadyExists:
  // another process listens there. ResourceExhausted: no descriptors.
  absl::Status Start(const std::string& address, int epoll, uint64_t listener_key, uint64_t pause_key);
  // As AcceptOnThisNode.
  absl::StatusOr<FileDescriptor> Accept() { return AcceptOnThisNode(listener_.get()); }
  void Pause();
  void Resume();

 private:
  WatchedDescriptor listener_;
  WatchedDescriptor pause_;  // a timer
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SHM_LISTENER_H_
