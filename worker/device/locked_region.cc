#include "worker/device/locked_region.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "process/mutex.h"

namespace shoal {
namespace {

struct FreeRegions {
  Mutex mutex;
  std::vector<LockedRegion> regions SHOAL_GUARDED_BY(mutex);
};

FreeRegions& Free() {
  static auto* const free = new FreeRegions;
  return *free;
}

}  // namespace

absl::StatusOr<LockedRegion> LockedRegion::Take(uint64_t bytes) {
  {
    const MutexLock lock(Free().mutex);
    std::vector<LockedRegion>& regions = Free().regions;
    const auto found = std::ranges::find_if(regions, [&](const auto& each) { return each.memory.size() == bytes; });
    if (found != regions.end()) {
      const LockedRegion region = *found;
      regions.erase(found);
      return region;
    }
  }
  void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes >> 20,
                                                     " MiB that devices can reach: ", std::strerror(errno),
                                                     "; set device_memory_bytes to less (SHOAL_DEVICE_MEMORY)"));
  }
  // A page that a forked child shares is copied when the parent writes to it, and devices would go on with the old one.
  madvise(start, bytes, MADV_DONTFORK);
  return LockedRegion{.memory = {static_cast<std::byte*>(start), static_cast<size_t>(bytes)}};
}

void LockedRegion::GiveBack(const LockedRegion& region) {
  const MutexLock lock(Free().mutex);
  Free().regions.push_back(region);
}

}  // namespace shoal
