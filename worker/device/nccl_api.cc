#include "worker/device/nccl_api.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "process/library_function.h"

namespace shoal::nccl {
namespace {

constexpr char kLibrary[] = "libnccl.so.2";

// Never closed: NCCL's threads outlive whoever called it.
void* Open(const std::string& library) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
  if (!library.empty()) return dlopen(library.c_str(), kFlags);
  // Two versions in one process would each take memory of the device, and could not share what they know of it.
  if (void* const loaded = dlopen(kLibrary, kFlags | RTLD_NOLOAD); loaded != nullptr) return loaded;
  return dlopen(kLibrary, kFlags);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Api>> Api::Load(const std::string& library) {
  void* const handle = Open(library);
  if (handle == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("NCCL can't be loaded: ", dlerror(), "; install it, or set SHOAL_NCCL_LIBRARY to where it is"));
  }
  auto api = std::make_unique<Api>();
  std::string missing;
  const bool found = FindFunction(handle, "ncclGetVersion", &api->get_version, &missing) &&
                     FindFunction(handle, "ncclGetUniqueId", &api->get_unique_id, &missing) &&
                     FindFunction(handle, "ncclGetErrorString", &api->get_error_string, &missing) &&
                     FindFunction(handle, "ncclGetLastError", &api->get_last_error, &missing) &&
                     FindFunction(handle, "ncclCommInitRankConfig", &api->comm_init_rank_config, &missing) &&
                     FindFunction(handle, "ncclCommGetAsyncError", &api->comm_get_async_error, &missing) &&
                     FindFunction(handle, "ncclCommAbort", &api->comm_abort, &missing) &&
                     FindFunction(handle, "ncclCommDestroy", &api->comm_destroy, &missing) &&
                     FindFunction(handle, "ncclReduceScatter", &api->reduce_scatter, &missing) &&
                     FindFunction(handle, "ncclAllGather", &api->all_gather, &missing) &&
                     FindFunction(handle, "ncclReduce", &api->reduce, &missing) &&
                     FindFunction(handle, "ncclBroadcast", &api->broadcast, &missing) &&
                     FindFunction(handle, "ncclGroupStart", &api->group_start, &missing) &&
                     FindFunction(handle, "ncclGroupEnd", &api->group_end, &missing) &&
                     FindFunction(handle, "ncclRedOpCreatePreMulSum", &api->red_op_create_pre_mul_sum, &missing) &&
                     FindFunction(handle, "ncclRedOpDestroy", &api->red_op_destroy, &missing);
  if (!found) {
    return absl::NotFoundError(absl::StrCat("NCCL's library ", library.empty() ? kLibrary : library,
                                            " has no function ", missing, "; NCCL 2.14 or later has it"));
  }
  return api;
}

absl::Status Api::Check(Result result, const char* what) const {
  if (result == kSuccess) return absl::OkStatus();
  std::string text = absl::StrCat("NCCL: ", what, ": ", get_error_string(result), " (", result, ")");
  // It may be of another communicator: NCCL keeps one text for all.
  if (const char* const last = get_last_error(nullptr); last != nullptr && *last != '\0') {
    absl::StrAppend(&text, "; its last error: ", last);
  }
  return absl::InternalError(text);
}

}  // namespace shoal::nccl
