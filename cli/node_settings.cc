#include "cli/node_settings.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace shoal::cli {
namespace {

// As net/ucx/ucx_worker.cc wants it.
constexpr size_t kLockedBytesForRdma = size_t{256} << 20;

std::string FirstWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Asks the kernel: a capability may lift the limit. No memory is taken.
bool MayLock(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  const bool locked = mlock2(memory, bytes, MLOCK_ONFAULT) == 0;
  munmap(memory, bytes);
  return locked;
}

}  // namespace

NodeSettings ReadNodeSettings(const std::string& root) {
  NodeSettings settings;
  if (rlimit limit{}; getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    settings.open_files = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
  }
  settings.may_lock_for_rdma = MayLock(kLockedBytesForRdma);
  settings.slow_start_after_idle = FirstWord(root + "proc/sys/net/ipv4/tcp_slow_start_after_idle") == "1";
  std::error_code none_there;
  std::filesystem::directory_iterator entry(root + "sys/class/infiniband", none_there);
  for (; !none_there && entry != std::filesystem::directory_iterator(); entry.increment(none_there)) {
    settings.rdma_devices.push_back(entry->path().filename().string());
  }
  std::sort(settings.rdma_devices.begin(), settings.rdma_devices.end());
  return settings;
}

}  // namespace shoal::cli
