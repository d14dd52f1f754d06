#include "net/ucx/ucx_environment.h"

#include <limits.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace shoal {
namespace {

constexpr std::array<UcxEnvironmentSetting, 6> kSettings = {{
    {"UCX_ERROR_SIGNALS", ""},
    {"UCX_HANDLE_ERRORS", "none"},
    {"UCX_MEM_EVENTS", "n"},
    {"UCX_LOG_LEVEL", "fatal"},
    {"UCX_WARN_UNUSED_ENV_VARS", "n"},
    {"UCX_ASYNC_MAX_EVENTS", "65536"},
}};

}  // namespace

std::span<const UcxEnvironmentSetting> UcxEnvironment() { return kSettings; }

void PrepareUcxEnvironment(char** argv) {
  bool changed = false;
  for (const UcxEnvironmentSetting& setting : kSettings) {
    if (getenv(setting.name) != nullptr) continue;
    // A variable that can't be set would have us start again for ever.
    if (setenv(setting.name, setting.value, 0) != 0) return;
    changed = true;
  }
  if (!changed) return;
  // The real path, so that the process keeps its name.
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length > 0) execv(path.data(), argv);
}

}  // namespace shoal
