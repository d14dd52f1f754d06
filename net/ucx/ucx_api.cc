#include "net/ucx/ucx_api.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "process/library_function.h"

namespace shoal {
namespace {

constexpr char kLibrary[] = "libucp.so.0";

// Never closed: UCX's modules and threads outlive whoever called it.
absl::StatusOr<UcxApi> LoadOnce() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrCat("data over RDMA needs UCX, which can't be loaded: ", dlerror(),
                                            "; install it (Debian: libucx0), or use transports=tcp"));
  }
  UcxApi api;
  std::string missing;
  const bool found =
      FindFunction(library, "ucp_am_data_release", &api.ucp_am_data_release, &missing) &&
      FindFunction(library, "ucp_am_recv_data_nbx", &api.ucp_am_recv_data_nbx, &missing) &&
      FindFunction(library, "ucp_am_send_nbx", &api.ucp_am_send_nbx, &missing) &&
      FindFunction(library, "ucp_cleanup", &api.ucp_cleanup, &missing) &&
      FindFunction(library, "ucp_config_modify", &api.ucp_config_modify, &missing) &&
      FindFunction(library, "ucp_config_read", &api.ucp_config_read, &missing) &&
      FindFunction(library, "ucp_config_release", &api.ucp_config_release, &missing) &&
      FindFunction(library, "ucp_context_print_info", &api.ucp_context_print_info, &missing) &&
      FindFunction(library, "ucp_ep_close_nbx", &api.ucp_ep_close_nbx, &missing) &&
      FindFunction(library, "ucp_ep_create", &api.ucp_ep_create, &missing) &&
      FindFunction(library, "ucp_ep_print_info", &api.ucp_ep_print_info, &missing) &&
      FindFunction(library, "ucp_get_version", &api.ucp_get_version, &missing) &&
      FindFunction(library, "ucp_init_version", &api.ucp_init_version, &missing) &&
      FindFunction(library, "ucp_mem_map", &api.ucp_mem_map, &missing) &&
      FindFunction(library, "ucp_mem_unmap", &api.ucp_mem_unmap, &missing) &&
      FindFunction(library, "ucp_request_free", &api.ucp_request_free, &missing) &&
      FindFunction(library, "ucp_worker_arm", &api.ucp_worker_arm, &missing) &&
      FindFunction(library, "ucp_worker_create", &api.ucp_worker_create, &missing) &&
      FindFunction(library, "ucp_worker_destroy", &api.ucp_worker_destroy, &missing) &&
      FindFunction(library, "ucp_worker_get_address", &api.ucp_worker_get_address, &missing) &&
      FindFunction(library, "ucp_worker_get_efd", &api.ucp_worker_get_efd, &missing) &&
      FindFunction(library, "ucp_worker_progress", &api.ucp_worker_progress, &missing) &&
      FindFunction(library, "ucp_worker_query", &api.ucp_worker_query, &missing) &&
      FindFunction(library, "ucp_worker_release_address", &api.ucp_worker_release_address, &missing) &&
      FindFunction(library, "ucp_worker_set_am_recv_handler", &api.ucp_worker_set_am_recv_handler, &missing) &&
      FindFunction(library, "ucs_status_string", &api.ucs_status_string, &missing);
  if (!found) {
    return absl::NotFoundError(
        absl::StrCat("UCX's ", kLibrary, " has no function ", missing, "; UCX 1.13 or later has it"));
  }
  return api;
}

}  // namespace

absl::StatusOr<const UcxApi*> UcxApi::Load() {
  static const absl::StatusOr<UcxApi>& loaded = *new absl::StatusOr<UcxApi>(LoadOnce());
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

std::string UcxApi::Version() const {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  return absl::StrCat(major, ".", minor, ".", release);
}

void PrepareUcxEnvironment() {
  constexpr std::array<std::pair<const char*, const char*>, 5> kSettings = {{
      {"UCX_ERROR_SIGNALS", ""},
      {"UCX_HANDLE_ERRORS", "none"},
      {"UCX_MEM_EVENTS", "n"},
      {"UCX_LOG_LEVEL", "fatal"},
      {"UCX_WARN_UNUSED_ENV_VARS", "n"},
  }};
  for (const auto& [name, value] : kSettings) setenv(name, value, /*overwrite=*/0);
}

}  // namespace shoal
