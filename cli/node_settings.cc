#include "cli/node_settings.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace shoal::cli {
namespace {

std::string FirstWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

uint64_t SoftLimit(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

}  // namespace

NodeSettings ReadNodeSettings(const std::string& root) {
  NodeSettings settings;
  settings.open_files = SoftLimit(RLIMIT_NOFILE);
  settings.lockable_bytes = SoftLimit(RLIMIT_MEMLOCK);
  settings.congestion_control = FirstWord(root + "proc/sys/net/ipv4/tcp_congestion_control");
  settings.slow_start_after_idle = FirstWord(root + "proc/sys/net/ipv4/tcp_slow_start_after_idle") == "1";
  std::error_code none_there;
  for (const auto& entry : std::filesystem::directory_iterator(root + "sys/class/infiniband", none_there)) {
    settings.rdma_devices.push_back(entry.path().filename().string());
  }
  std::sort(settings.rdma_devices.begin(), settings.rdma_devices.end());
  return settings;
}

}  // namespace shoal::cli
