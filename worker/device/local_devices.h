// How the ranks of one group that are on one node reduce among their devices: communicators of NCCL, one for each of
// the streams in which the group's ops take turns. (Ops of one communicator come one after another, whatever their
// streams are.)
//
// They are made when the first tensor comes, by the first calls of all local ranks, and hold for the device that it is
// on: a group has its tensors on one device of each rank.
//
// Whether a gathered tensor is what it should be, NCCL does not say: the kernels of a rank that was aborted let those
// of the others end, with whatever lay there. So a rank says in the node's memory that the group has failed before it
// has anything aborted or filled (NodeFailures), and a tensor counts only if none has said so when its gathering has
// ended.
//
// Threads: CheckDevice, Meet and TakeTurn on callers' threads, for one op after another; the rest on any. Ownership:
// shared. What NCCL had is given back on a thread of its own, which may wait for devices; a process that ends meanwhile
// would take NCCL and the driver apart beneath it, so a worker's Close waits for such threads a while.
#ifndef SHOAL_WORKER_DEVICE_LOCAL_DEVICES_H_
#define SHOAL_WORKER_DEVICE_LOCAL_DEVICES_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "process/mutex.h"
#include "worker/device/device_comm.h"
#include "worker/device/nccl_api.h"
#include "worker/machine/local_op.h"

namespace shoal {

// Whether what a group's ranks have gathered on this node counts. Any thread; also callbacks of the driver.
class GatheringVerdict {
 public:
  explicit GatheringVerdict(std::shared_ptr<const NodeFailures> failures) : failures_(std::move(failures)) {}

  void NoteAborted() { aborted_ = true; }
  bool aborted() const { return aborted_.load(); }
  bool Counts() const { return !aborted() && (failures_ == nullptr || !failures_->AnyRankHasFailed()); }

 private:
  const std::shared_ptr<const NodeFailures> failures_;
  std::atomic<bool> aborted_{false};
};

class LocalDevices {
 public:
  static constexpr size_t kStreams = 2;

  // What local rank 0 says to the others. Internal: what NCCL said.
  static absl::StatusOr<DeviceMeeting> DrawMeeting(const nccl::Api& api);

  // `meeting`: of local rank 0.
  static std::shared_ptr<LocalDevices> Make(std::shared_ptr<const nccl::Api> api, const DeviceMeeting& meeting,
                                            DeviceComm::Place place, std::shared_ptr<const NodeFailures> failures);

  // Waits until what this process has let go of is given back. False: it is not `within` that time.
  static bool AwaitGivenBack(std::chrono::milliseconds within);

  // FailedPrecondition: the group's tensors are on another device of this rank.
  absl::Status CheckDevice(uint32_t device);
  // Makes the communicators unless they are there, and waits for the other ranks' calls of this. `device`, whose
  // context is the thread's current one, of `driver`. `is_over` is asked meanwhile: not OK ends it. Aborted: after
  // Abort; Internal: what NCCL said.
  absl::Status Meet(const std::shared_ptr<const cuda::Api>& driver, const std::function<absl::Status()>& is_over);
  // The stream of the next op, below kStreams: the same on all ranks.
  size_t TakeTurn() { return turns_++ % kStreams; }
  // After Meet.
  DeviceComm& Comm(size_t stream) { return *comms_[stream]; }

  const DeviceComm::Place& place() const { return place_; }
  const std::shared_ptr<GatheringVerdict>& verdict() const { return verdict_; }

  // A rank is gone: what waits for it ends, and the tensors of ops that have not ended hold anything. Returns at once.
  void Abort();

 private:
  LocalDevices(std::shared_ptr<const nccl::Api> api, const DeviceMeeting& meeting, DeviceComm::Place place,
               std::shared_ptr<const NodeFailures> failures);
  ~LocalDevices() = default;

  const std::shared_ptr<const nccl::Api> api_;
  const DeviceMeeting meeting_;
  const DeviceComm::Place place_;
  const std::shared_ptr<GatheringVerdict> verdict_;
  uint64_t turns_ = 0;
  Mutex mutex_;
  std::optional<uint32_t> device_ SHOAL_GUARDED_BY(mutex_);
  bool met_ = false;                                         // all of them, or it was tried; a caller's
  absl::Status meeting_status_;                              // likewise
  std::array<std::unique_ptr<DeviceComm>, kStreams> comms_;  // set under mutex_, once
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_LOCAL_DEVICES_H_
