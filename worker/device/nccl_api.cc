#include "worker/device/nccl_api.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace shoal::nccl {
namespace {

constexpr char kLibrary[] = "libnccl.so.2";

template <typename Function>
bool Find(void* library, const char* name, Function* function, std::string* missing) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) *missing = name;
  return *function != nullptr;
}

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
  const bool found = Find(handle, "ncclGetVersion", &api->get_version, &missing) &&
                     Find(handle, "ncclGetUniqueId", &api->get_unique_id, &missing) &&
                     Find(handle, "ncclGetErrorString", &api->get_error_string, &missing) &&
                     Find(handle, "ncclGetLastError", &api->get_last_error, &missing) &&
                     Find(handle, "ncclCommInitRankConfig", &api->comm_init_rank_config, &missing) &&
                     Find(handle, "ncclCommGetAsyncError", &api->comm_get_async_error, &missing) &&
                     Find(handle, "ncclCommAbort", &api->comm_abort, &missing) &&
                     Find(handle, "ncclCommDestroy", &api->comm_destroy, &missing) &&
                     Find(handle, "ncclReduceScatter", &api->reduce_scatter, &missing) &&
                     Find(handle, "ncclAllGather", &api->all_gather, &missing) &&
                     Find(handle, "ncclReduce", &api->reduce, &missing) &&
                     Find(handle, "ncclBroadcast", &api->broadcast, &missing) &&
                     Find(handle, "ncclGroupStart", &api->group_start, &missing) &&
                     Find(handle, "ncclGroupEnd", &api->group_end, &missing) &&
                     Find(handle, "ncclRedOpCreatePreMulSum", &api->red_op_create_pre_mul_sum, &missing) &&
                     Find(handle, "ncclRedOpDestroy", &api->red_op_destroy, &missing);
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
