// The ranks of a node share its network card and its processors. Each measures the way to a server before its first
// group, in the same moment as all others; so they take turns, or each would measure what the others leave of the link.
//
// A turn is an abstract Unix socket's name that one process holds: the kernel frees it with the process. Such names
// belong to a network namespace, so ranks in containers with networks of their own do not see each other's turn, and
// measure at once. One thread.
#ifndef SHOAL_WORKER_LIBRARY_LINK_TURN_H_
#define SHOAL_WORKER_LIBRARY_LINK_TURN_H_

#include <cstdint>
#include <string>

#include "net/shm/same_node_socket.h"

namespace shoal {

class LinkTurn {
 public:
  // Waits for the turn until then, on the monotonic clock, and holds it until this object's end. Nobody may hold up
  // others for longer: what has no turn by then goes on without.
  LinkTurn(const std::string& name, uint64_t until_ns);

  bool has() const { return name_.valid(); }

 private:
  FileDescriptor name_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_LINK_TURN_H_
