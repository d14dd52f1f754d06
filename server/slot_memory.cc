#include "server/slot_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<SlotMemory>> SlotMemory::Map(uint64_t bytes) {
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1,
                     /*offset=*/0);
  if (start == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for slots: the kernel refuses ", bytes,
                                                     " bytes for an I/O thread (", std::strerror(errno),
                                                     "); give a smaller --slot-memory or raise the process's limits"));
  }
  return std::unique_ptr<SlotMemory>(new SlotMemory({static_cast<std::byte*>(start), bytes}));
}

SlotMemory::~SlotMemory() { munmap(bytes_.data(), bytes_.size()); }

absl::Status CheckSlotMemoryFits(uint64_t bytes) {
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  uint64_t limit = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const char* owner = "this machine";
  // Inside a container with control groups of version 2 this is the container's limit; "max" or no file means none.
  uint64_t group_limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> group_limit && group_limit < limit) {
    limit = group_limit;
    owner = "the control group of this process";
  }
  if (bytes < limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("no memory for slots: --slot-memory is ", bytes, " bytes, but ",
                                                   owner, " has ", limit, " bytes of memory; give less"));
}

}  // namespace shoal
