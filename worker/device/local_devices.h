// How the ranks of one group that are on one node reduce among their devices: communicators of NCCL, one for each of
// the streams in which the group's ops take turns. (Ops of one communicator come one after another, whatever their
// streams are.)
//
// They are made when the first tensor comes, by the first calls of all local ranks, and hold for the device that it is
// on: a group has its tensors on one device of each rank.
//
// Threads: Meet on callers' threads, for one op after another; the rest on any.
#ifndef SHOAL_WORKER_DEVICE_LOCAL_DEVICES_H_
#define SHOAL_WORKER_DEVICE_LOCAL_DEVICES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device_comm.h"
#include "worker/device/nccl_api.h"
#include "worker/machine/local_op.h"

namespace shoal {

class LocalDevices {
 public:
  static constexpr size_t kStreams = 2;

  // What local rank 0 says to the others. Internal: what NCCL said.
  static absl::StatusOr<DeviceMeeting> DrawMeeting(const nccl::Api& api);

  LocalDevices(std::shared_ptr<const nccl::Api> api, const DeviceMeeting& meeting, DeviceComm::Place place)
      : api_(std::move(api)), meeting_(meeting), place_(place) {}

  // Makes the communicators unless they are there, and waits for the other ranks' calls of this. `device`, whose
  // context is the thread's current one, of `driver`. `is_over` is asked meanwhile: not OK ends it. FailedPrecondition:
  // they are another device's; Aborted: after Abort; Internal: what NCCL said.
  absl::Status Meet(uint32_t device, const std::shared_ptr<const cuda::Api>& driver,
                    const std::function<absl::Status()>& is_over);
  // After Meet. `stream`: below kStreams.
  DeviceComm& Comm(size_t stream) { return *comms_[stream]; }

  const DeviceComm::Place& place() const { return place_; }

  // A rank is gone: what waits for it ends, and the tensors of ops that have not ended hold anything. Returns at once.
  void Abort();
  bool aborted() const { return aborted_.load(); }

 private:
  const std::shared_ptr<const nccl::Api> api_;
  const DeviceMeeting meeting_;
  const DeviceComm::Place place_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::optional<uint32_t> device_;                           // under mutex_
  std::array<std::unique_ptr<DeviceComm>, kStreams> comms_;  // set under mutex_, once
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_LOCAL_DEVICES_H_
