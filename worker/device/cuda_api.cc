#include "worker/device/cuda_api.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "process/library_function.h"

namespace shoal::cuda {
absl::StatusOr<std::unique_ptr<const Api>> Api::Load(const std::string& library) {
  // Never closed: the driver's threads outlive whoever called it.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("CUDA's driver can't be loaded: ", dlerror(),
                     "; install it, or connect the worker without devices (SHOAL_DEVICES=none)"));
  }
  auto api = std::make_unique<Api>();
  std::string missing;
  // Later functions of a name have another number of arguments, or wider ones.
  const bool found = FindFunction(handle, "cuInit", &api->init, &missing) &&
                     FindFunction(handle, "cuGetErrorString", &api->get_error_string, &missing) &&
                     FindFunction(handle, "cuDeviceGetCount", &api->device_get_count, &missing) &&
                     FindFunction(handle, "cuDeviceGet", &api->device_get, &missing) &&
                     FindFunction(handle, "cuDevicePrimaryCtxRetain", &api->primary_context_retain, &missing) &&
                     FindFunction(handle, "cuCtxPushCurrent_v2", &api->context_push, &missing) &&
                     FindFunction(handle, "cuCtxPopCurrent_v2", &api->context_pop, &missing) &&
                     FindFunction(handle, "cuCtxGetStreamPriorityRange", &api->context_stream_priorities, &missing) &&
                     FindFunction(handle, "cuStreamCreateWithPriority", &api->stream_create, &missing) &&
                     FindFunction(handle, "cuStreamIsCapturing", &api->stream_is_capturing, &missing) &&
                     FindFunction(handle, "cuStreamWaitEvent", &api->stream_wait_event, &missing) &&
                     FindFunction(handle, "cuStreamAddCallback", &api->stream_add_callback, &missing) &&
                     FindFunction(handle, "cuEventCreate", &api->event_create, &missing) &&
                     FindFunction(handle, "cuEventRecord", &api->event_record, &missing) &&
                     FindFunction(handle, "cuMemHostRegister_v2", &api->host_register, &missing) &&
                     FindFunction(handle, "cuMemHostUnregister", &api->host_unregister, &missing) &&
                     FindFunction(handle, "cuModuleLoadData", &api->module_load_data, &missing) &&
                     FindFunction(handle, "cuModuleGetFunction", &api->module_get_function, &missing) &&
                     FindFunction(handle, "cuLaunchKernel", &api->launch_kernel, &missing);
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
