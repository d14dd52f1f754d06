#include "cli/node_settings.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "process/lockable_memory.h"

namespace shoal::cli {
namespace {

std::string FirstWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// The last of "least usual most"; 0: it can't be read.
uint64_t MostOf(const std::string& path) {
  std::ifstream file(path);
  uint64_t least = 0;
  uint64_t usual = 0;
  uint64_t most = 0;
  return file >> least >> usual >> most ? most : 0;
}

}  // namespace

NodeSettings ReadNodeSettings(const std::string& root) {
  NodeSettings settings;
  if (rlimit limit{}; getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    settings.open_files = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
  }
  settings.may_lock_for_rdma = MayLock(kLockableBytesForRdma);
  settings.slow_start_after_idle = FirstWord(root + "proc/sys/net/ipv4/tcp_slow_start_after_idle") == "1";
  settings.tcp_send_buffer_bytes = MostOf(root + "proc/sys/net/ipv4/tcp_wmem");
  settings.tcp_receive_buffer_bytes = MostOf(root + "proc/sys/net/ipv4/tcp_rmem");
  std::error_code none_there;
  std::filesystem::directory_iterator entry(root + "sys/class/infiniband", none_there);
  for (; !none_there && entry != std::filesystem::directory_iterator(); entry.increment(none_there)) {
    settings.rdma_devices.push_back(entry->path().filename().string());
  }
  std::sort(settings.rdma_devices.begin(), settings.rdma_devices.end());
  return settings;
}

}  // namespace shoal::cli
