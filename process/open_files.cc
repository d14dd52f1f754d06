#include "process/open_files.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Some programs of others go through all descriptors that there may be.
constexpr rlim_t kMost = 1 << 20;

// Those with a descriptor below the limit: others, from before it was lowered, take no room. Where they can't be
// listed, for the want of a descriptor, it is all.
uint64_t CountOpenFiles(uint64_t limit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return limit;
  uint64_t count = 0;
  while (const dirent* const entry = readdir(folder.get())) {
    uint64_t descriptor = 0;
    const bool is_file = absl::SimpleAtoi(entry->d_name, &descriptor);
    if (is_file && descriptor < limit && descriptor != static_cast<uint64_t>(dirfd(folder.get()))) ++count;
  }
  return count;
}

}  // namespace

void RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kMost);
  if (wanted <= limit.rlim_cur) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status CheckFilesLeft(uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return absl::OkStatus();
  const uint64_t used = CountOpenFiles(limit.rlim_cur);
  if (used + wanted <= limit.rlim_cur) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("this process has ", used, " files and sockets open, may have ", limit.rlim_cur, ", and wants ",
                   wanted, " more; raise the limit with ulimit -n (up to ", limit.rlim_max,
                   " without root), LimitNOFILE (systemd) or --ulimit nofile (Docker)"));
}

}  // namespace shoal
