// What this node is like, as far as it matters to Shoal: limits of a process, RDMA devices.
#ifndef SHOAL_CLI_NODE_SETTINGS_H_
#define SHOAL_CLI_NODE_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::cli {

struct NodeSettings {
  uint64_t open_files =
      0;  // that this process may have, as a program that the same shell starts; UINT64_MAX: any number
  bool may_lock_for_rdma = true;       // as much memory as the data plane wants where it uses RDMA
  bool slow_start_after_idle = false;  // of TCP connections
  // That a TCP connection may come to keep for what goes and for what comes; 0: not known.
  uint64_t tcp_send_buffer_bytes = 0;
  uint64_t tcp_receive_buffer_bytes = 0;
  std::vector<std::string> rdma_devices;
};

// Looks at this process, and reads the kernel's files below `root` ("/", or a test's folder). What can't be read stays
// as it is above. Any thread.
NodeSettings ReadNodeSettings(const std::string& root);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_NODE_SETTINGS_H_
