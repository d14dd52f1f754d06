// The functions of CUDA's driver that the worker calls, found in the driver's library when the program runs.
//
// Declared here because nothing of CUDA is needed to build the worker, or loaded where there are no devices. They are
// those of cuda.h, whose binary interface does not change (tests/pytorch checks them against the header). Any thread.
#ifndef SHOAL_WORKER_DEVICE_CUDA_API_H_
#define SHOAL_WORKER_DEVICE_CUDA_API_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal::cuda {

using Result = int;  // CUresult
using Device = int;  // CUdevice
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using StreamCallback = void (*)(Stream stream, Result status, void* user_data);

inline constexpr Result kSuccess = 0;
inline constexpr unsigned int kStreamNonBlocking = 1;     // CU_STREAM_NON_BLOCKING
inline constexpr unsigned int kEventDisableTiming = 2;    // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned int kHostRegisterPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE
inline constexpr unsigned int kHostRegisterMapped = 2;    // CU_MEMHOSTREGISTER_DEVICEMAP

struct Api {
  // Of the driver that is installed. NotFound: there is none, or it lacks a function (the text says which).
  // Unavailable: it found no device that it can use.
  static absl::StatusOr<std::unique_ptr<const Api>> Load(const std::string& library);

  // OK, or Internal: what the driver says of the result; `what` says what was tried.
  absl::Status Check(Result result, const char* what) const;

  Result (*init)(unsigned int flags);
  Result (*get_error_string)(Result error, const char** text);
  Result (*device_get_count)(int* count);
  Result (*device_get)(Device* device, int ordinal);
  Result (*primary_context_retain)(Context* context, Device device);
  Result (*context_push)(Context context);
  Result (*context_pop)(Context* context);
  Result (*context_stream_priorities)(int* least, int* greatest);
  Result (*stream_create)(Stream* stream, unsigned int flags, int priority);
  Result (*stream_is_capturing)(Stream stream, int* status);
  Result (*stream_wait_event)(Stream stream, Event event, unsigned int flags);
  Result (*stream_add_callback)(Stream stream, StreamCallback callback, void* user_data, unsigned int flags);
  Result (*event_create)(Event* event, unsigned int flags);
  Result (*event_record)(Event event, Stream stream);
  Result (*host_register)(void* start, size_t bytes, unsigned int flags);
  Result (*host_unregister)(void* start);
  Result (*module_load_data)(Module* module, const void* image);
  Result (*module_get_function)(Function* function, Module module, const char* name);
  Result (*launch_kernel)(Function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                          Stream stream, void** parameters, void** extra);
};

}  // namespace shoal::cuda

#endif  // SHOAL_WORKER_DEVICE_CUDA_API_H_
