#include "process/lockable_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace shoal {

bool MayLock(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  const bool locked = mlock2(memory, bytes, MLOCK_ONFAULT) == 0;
  munmap(memory, bytes);
  return locked;
}

bool MayLockAnything() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY) return true;
  return MayLock(static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace shoal
