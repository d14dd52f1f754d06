// What this node is like, as far as it matters to Shoal: limits of a process, how the kernel's TCP is set, RDMA
// devices.
#ifndef SHOAL_CLI_NODE_SETTINGS_H_
#define SHOAL_CLI_NODE_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::cli {

struct NodeSettings {
  uint64_t open_files = 0;      // that a process may have; UINT64_MAX: without limit
  uint64_t lockable_bytes = 0;  // likewise
  std::string congestion_control;
  bool slow_start_after_idle = false;
  std::vector<std::string> rdma_devices;
};

// Reads them below `root` ("/", or a test's folder). What can't be read stays as it is above. Any thread.
NodeSettings ReadNodeSettings(const std::string& root);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_NODE_SETTINGS_H_
