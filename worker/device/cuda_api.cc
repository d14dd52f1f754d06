#include "worker/device/cuda_api.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace shoal::cuda {
namespace {

// Later functions of a name have another number of arguments, or wider ones.
template <typename Function>
bool Find(void* library, const char* name, Function* function, std::string* missing) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) *missing = name;
  return *function != nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Api>> Api::Load(const std::string& library) {
  // Never closed: the driver's threads outlive whoever called it.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::NotFoundError(absl::StrCat("CUDA's driver can't be loaded: ", dlerror(),
                                            "; install it, or connect the worker without devices"));
  }
  auto api = std::make_unique<Api>();
  std::string missing;
  const bool found = Find(handle, "cuInit", &api->init, &missing) &&
                     Find(handle, "cuGetErrorString", &api->get_error_string, &missing) &&
                     Find(handle, "cuDeviceGetCount", &api->device_get_count, &missing) &&
                     Find(handle, "cuDeviceGet", &api->device_get, &missing) &&
                     Find(handle, "cuDevicePrimaryCtxRetain", &api->primary_context_retain, &missing) &&
                     Find(handle, "cuCtxPushCurrent_v2", &api->context_push, &missing) &&
                     Find(handle, "cuCtxPopCurrent_v2", &api->context_pop, &missing) &&
                     Find(handle, "cuCtxGetStreamPriorityRange", &api->context_stream_priorities, &missing) &&
                     Find(handle, "cuStreamCreateWithPriority", &api->stream_create, &missing) &&
                     Find(handle, "cuStreamIsCapturing", &api->stream_is_capturing, &missing) &&
                     Find(handle, "cuStreamWaitEvent", &api->stream_wait_event, &missing) &&
                     Find(handle, "cuStreamAddCallback", &api->stream_add_callback, &missing) &&
                     Find(handle, "cuEventCreate", &api->event_create, &missing) &&
                     Find(handle, "cuEventRecord", &api->event_record, &missing) &&
                     Find(handle, "cuMemHostRegister_v2", &api->host_register, &missing) &&
                     Find(handle, "cuMemHostUnregister", &api->host_unregister, &missing) &&
                     Find(handle, "cuModuleLoadData", &api->module_load_data, &missing) &&
                     Find(handle, "cuModuleGetFunction", &api->module_get_function, &missing) &&
                     Find(handle, "cuLaunchKernel", &api->launch_kernel, &missing);
  if (!found) return absl::NotFoundError(absl::StrCat("CUDA's driver ", library, " has no function ", missing));
  const Result initialised = api->init(0);
  if (initialised != kSuccess) {
    return absl::UnavailableError(
        absl::StrCat("CUDA's driver does not start: ", api->Check(initialised, "cuInit").message()));
  }
  return api;
}

absl::Status Api::Check(Result result, const char* what) const {
  if (result == kSuccess) return absl::OkStatus();
  const char* text = nullptr;
  if (get_error_string(result, &text) != kSuccess || text == nullptr) text = "an unknown error";
  return absl::InternalError(absl::StrCat("CUDA: ", what, ": ", text, " (", result, ")"));
}

}  // namespace shoal::cuda
