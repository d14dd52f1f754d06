// Where threads and their memory should be on hardware with several memory nodes (NUMA): both on one memory node, that
// of the network device if it is known, else the threads in turn over all memory nodes.
//
// Memory of another memory node is slower, and the path to it is shared. What the device writes goes through the cache
// of its own memory node only. Read from sysfs, so that no library is needed.
//
// Thread: any. Nothing here fails a server: what can't be read or set is left as the kernel has it, and `description`
// says so.
#ifndef SHOAL_SERVER_THREAD_MEMORY_NODES_H_
#define SHOAL_SERVER_THREAD_MEMORY_NODES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace shoal {

struct MemoryNode {
  int number = 0;
  std::vector<int> cpus;  // that this process may use; not empty
};

class MemoryNodes {
 public:
  // `sysfs` is "/sys", or a test's copy of a part of it. `net_device` is the name of the device ("eth0", "mlx5_0:1",
  // the first of a list counts), empty if none is named. `allowed_cpus` are those that this process may use.
  static MemoryNodes Read(const std::string& sysfs, const std::string& net_device,
                          const std::vector<int>& allowed_cpus);

  // For the I/O thread of that index; none where the node has one memory node.
  std::optional<MemoryNode> PlaceOf(uint32_t thread_index) const;

  // "one memory node", "2 memory nodes: all on node 1, where eth0 is", "2 memory nodes: in turn on 0, 1 (...)".
  const std::string& description() const { return description_; }

 private:
  std::vector<MemoryNode> nodes_;  // to be used, in turn; empty: leave all as it is
  std::string description_;
};

// The processors that the calling thread may use.
std::vector<int> AllowedCpus();

// Puts the calling thread on the node's processors. Internal: the kernel refused, the text says why.
absl::Status MoveThisThread(const MemoryNode& node);

// Has the kernel take the pages, which were not touched yet, from the node while it has some. Internal: it refused.
absl::Status PreferNode(std::span<std::byte> memory, const MemoryNode& node);

}  // namespace shoal

#endif  // SHOAL_SERVER_THREAD_MEMORY_NODES_H_
