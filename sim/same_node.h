// Processes of a simulation that share a node, over the real shared-memory transport (net/shm), with small arenas.
//
// The transport itself needs no clock. It is woken by descriptors, which nobody sleeps on here: whenever a process has
// done something, Ring looks which others have been given something, and the world wakes those. One thread (the
// world's).
#ifndef SHOAL_SIM_SAME_NODE_H_
#define SHOAL_SIM_SAME_NODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "net/transport.h"
#include "sim/world.h"

namespace shoal::sim {

class SameNode {
 public:
  SameNode(World* world, uint64_t arena_bytes) : world_(world), arena_bytes_(arena_bytes) {}

  // Outlived by this. `wake` is called when the transport has something. Aborts where the kernel can't share memory.
  std::unique_ptr<Transport> MakeTransport(bool listen, std::function<void()> wake);
  // Wakes processes whose transports have something.
  void Ring();

 private:
  friend class SameNodeTransport;
  struct Member {
    Transport* transport;
    std::function<void()> wake;
  };

  void Leave(Transport* transport);

  World* const world_;
  const uint64_t arena_bytes_;
  uint32_t next_address_ = 1;
  std::vector<Member> members_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SAME_NODE_H_
