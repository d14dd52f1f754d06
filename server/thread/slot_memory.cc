#include "server/thread/slot_memory.h"

#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace shoal {

absl::Status CheckSlotMemoryFits(uint64_t bytes) {
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  uint64_t limit = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const char* owner = "this node";
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
