// One CUDA device, for ops of the worker: its context, the copy kernel, streams and events.
//
// Every function calls the driver, and takes as long as the driver's own locks do. Its objects are never destroyed:
// work that uses them may be in streams for ever. What is kept when it is not used any more is used again, in the whole
// process: workers that come and go make no more than they have in use at a time. Thread: one at a time, of each
// object.
#ifndef SHOAL_WORKER_DEVICE_CUDA_DEVICE_H_
#define SHOAL_WORKER_DEVICE_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/copy_kernel.h"
#include "worker/device/cuda_api.h"

namespace shoal {

class CudaDevice {
 public:
  // InvalidArgument: there is no such device. Internal, here and below: what the driver said.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(std::shared_ptr<const cuda::Api> api, uint32_t ordinal);

  // Locks memory of the host and makes it known to all devices. ResourceExhausted: it can't be locked.
  absl::Status Register(std::span<std::byte> memory);

  // One that was kept, or a new one.
  absl::StatusOr<cuda::Stream> MakeStream();
  absl::StatusOr<cuda::Event> MakeEvent();
  // Nothing is in the stream, and what was recorded in the event has happened.
  void Keep(cuda::Stream stream);
  void KeepEvent(cuda::Event event);

  // Calls it with the device's context as the thread's current one. Also while another thread is in another function.
  absl::Status InContext(const std::function<absl::Status()>& call) const;

  // FailedPrecondition: the stream is being captured into a graph.
  absl::Status CheckNotCapturing(cuda::Stream stream);
  absl::Status Record(cuda::Event event, cuda::Stream stream);
  absl::Status Wait(cuda::Stream stream, cuda::Event event);
  // `callback` is called once, on a thread of the driver, when all that is in the stream is done, or with Internal if
  // the device has failed.
  absl::Status CallBack(cuda::Stream stream, std::function<void(const absl::Status&)> callback);
  absl::Status LaunchCopyKernel(cuda::Stream stream, device::OpControl* control, std::byte* tensor, uint64_t bytes);

 private:
  class Current;
  struct Shared;

  CudaDevice(std::shared_ptr<const cuda::Api> api, Shared* shared) : api_(std::move(api)), shared_(*shared) {}

  // Of the process, made once for each device.
  static Shared* FindShared(const cuda::Api& api, uint32_t ordinal);
  absl::Status LoadKernel();

  const std::shared_ptr<const cuda::Api> api_;
  Shared& shared_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_CUDA_DEVICE_H_
