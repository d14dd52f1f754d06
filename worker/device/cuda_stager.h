// The Stager port for CUDA devices, and what callers need of a device: an op is put into a stream, and streams wait for
// it, without the host waiting for either.
//
// For each op one kernel (copy_kernel.h) goes into a stream of its group at the call, behind the caller's work. The
// loop then writes what is to be copied to memory that the kernel reads, and reads there what is done; no call to the
// driver is made for it. A group's ops take turns in two streams, so that one begins while the one before it ends.
//
// Where the ranks of a node reduce among their devices, NCCL's kernels come before and behind that one, which then
// copies this rank's part alone; and last a kernel that fills the tensor if the op has failed.
//
// All host memory that devices touch is one region, set aside at the start and registered with the driver before the
// first kernel runs.
//
// Threads: functions under "callers": any, all at the same time; under "the loop": that of the worker's loop. There are
// two locks: one for calls to the driver, which callers alone take, and one for tables, which nobody holds while the
// driver is called. So the loop waits for no device, and a device that waits for the loop keeps nobody from it.
#ifndef SHOAL_WORKER_DEVICE_CUDA_STAGER_H_
#define SHOAL_WORKER_DEVICE_CUDA_STAGER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/now.h"
#include "process/mutex.h"
#include "worker/device/copy_kernel.h"
#include "worker/device/cuda_api.h"
#include "worker/device/cuda_device.h"
#include "worker/device/device_op.h"
#include "worker/device/locked_region.h"
#include "worker/device/stager.h"
#include "worker/machine/staging_arena.h"

namespace shoal {

struct CudaStagerOptions {
  std::string library = "libcuda.so.1";
  uint64_t arena_bytes = StagingArena::kDefaultBytes;
};

class CudaStager final : public Stager {
 public:
  // All-reduces under way on devices at the same time. A local reduction counts as two.
  static constexpr size_t kMaxOps = 1024;
  // While copies are under way. A chunk takes some ten microseconds. (The I/O thread sees to it that the sleep is not
  // much longer.)
  static constexpr uint64_t kPollWithinNs = 20'000;

  // Touches no device. Errors: those of cuda::Api::Load; ResourceExhausted: no memory for the arena.
  static absl::StatusOr<std::unique_ptr<CudaStager>> Make(const CudaStagerOptions& options);
  // Waits for kernels that run (half a second at most). Where they do not end, what they may touch is never freed.
  ~CudaStager() override;
  CudaStager(const CudaStager&) = delete;
  CudaStager& operator=(const CudaStager&) = delete;

  // For chunks on their way; its thread is that of the loop.
  const std::shared_ptr<StagingArena>& arena() const { return arena_; }

  // ---- callers ----

  // Loads the kernel there, and locks the memory that chunks go through; otherwise the first op does. The driver waits
  // for all that runs on the device before it loads a kernel. InvalidArgument: there is no such device.
  // ResourceExhausted: the host's memory can't be locked. Internal: what the driver said.
  absl::Status Open(uint32_t ordinal);
  // Begins an op, behind what is in the caller's stream now; Launch or Drop follows. From here on EndOp and copies find
  // it. With kMaxOps under way it first waits for one to leave its device, until the op's deadline (DeadlineExceeded)
  // or until `is_over`, which is asked meanwhile, has an error, which is returned. InvalidArgument: there is no such
  // device. FailedPrecondition: the stream is being captured into a graph. ResourceExhausted: the host's memory can't
  // be locked, or all that are under way have ended, and their devices don't give back what they use. Internal: what
  // the driver said.
  absl::StatusOr<std::shared_ptr<DeviceOp>> Prepare(
      const DeviceOpCall& call, const std::function<absl::Status()>& is_over = [] { return absl::OkStatus(); });
  // Of an op with a local reduction, before Launch: waits for the other ranks' first calls. Errors: those of
  // LocalDevices::Meet.
  absl::Status Meet(const DeviceOp& op, const std::function<absl::Status()>& is_over);
  // Launches its kernel. `when_ready` is called once, on a thread of the driver, which it must not keep: when all that
  // was in the caller's stream is done, or with Internal if the device has failed. Not OK: it may be called or not, and
  // the op is to be ended as failed. Internal: what the driver said.
  // `when_done`: likewise, after a local reduction, when the tensor is gathered.
  absl::Status Launch(const std::shared_ptr<DeviceOp>& op, std::function<void(const absl::Status&)> when_ready,
                      std::function<void(const absl::Status&)> when_done = nullptr);
  // In place of Launch, for an op that the loop is to end as failed.
  void GiveUp(const std::shared_ptr<DeviceOp>& op, const absl::Status& why);
  // In place of Launch, for an op of which the loop knows nothing.
  void Drop(const std::shared_ptr<DeviceOp>& op);
  // What comes in the stream after this call sees the result. FailedPrecondition: it is being captured into a graph;
  // otherwise what the driver said, and nothing was put into the stream; or why the op was not launched, of which the
  // stream waits for what was.
  absl::Status WaitOnStream(const DeviceOp& op, DeviceStream stream);

  // ---- the loop ----

  void Start(DeviceCopy copy) override;
  void EndCopies(uint64_t ticket) override;
  void EndOp(uint64_t ticket, bool well) override;
  void Abandon(GroupHandle group) override;
  std::span<const DeviceCopyEnded> Poll() override;
  uint64_t PollWithinNs() const override { return copies_under_way_ > 0 ? kPollWithinNs : kNoDeadline; }

 private:
  static constexpr size_t kStreamsOfGroup = LocalDevices::kStreams;
  // One of a lane's streams.
  struct Turn {
    cuda::Stream stream;
    size_t number;  // below kStreamsOfGroup
  };

  // The streams of a group on one device, while it has ops there. Where ops do not end, their streams are never another
  // group's.
  struct Lane {
    std::vector<cuda::Stream> streams;
    uint64_t launched = 0;
    uint64_t open = 0;  // ops whose kernels have not ended
  };
  using LaneKey = std::pair<uint32_t, GroupId>;  // device, group

  CudaStager(std::shared_ptr<const cuda::Api> api, const LockedRegion& region);

  absl::StatusOr<cuda::Event> TakeEvent(CudaDevice* device, uint32_t ordinal) SHOAL_REQUIRES(driver_mutex_);
  absl::StatusOr<Turn> TakeTurn(CudaDevice* device, DeviceOp* op) SHOAL_REQUIRES(driver_mutex_);
  absl::Status Enqueue(const std::shared_ptr<DeviceOp>& op, std::function<void(const absl::Status&)> when_ready,
                       std::function<void(const absl::Status&)> when_done) SHOAL_REQUIRES(driver_mutex_);
  // Of a local reduction, what comes last: the end of the op for its caller's stream.
  static absl::Status EnqueueLast(CudaDevice* device, const Turn& turn, const std::shared_ptr<DeviceOp>& op,
                                  std::function<void(const absl::Status&)> when_done);

  // Of a local reduction, before the copies and after them. Without driver_mutex_.
  static absl::Status ReduceOnNode(const CudaDevice& device, const Turn& turn, const DeviceOpCall& call);
  static absl::Status GatherOnNode(const CudaDevice& device, const Turn& turn, const DeviceOpCall& call);

  // At the end, when nothing of it is in use.
  void KeepForOthers();

  // Until so many controls are free. mutex_ is free while it waits.
  absl::Status AwaitControls(size_t count, uint64_t deadline_ns, const std::function<absl::Status()>& is_over,
                             MutexLock* lock) SHOAL_REQUIRES(mutex_);
  device::OpControl* TakeControl() SHOAL_REQUIRES(mutex_);
  void TakeBackExited() SHOAL_REQUIRES(mutex_);
  void LeaveLane(DeviceOp* op) SHOAL_REQUIRES(mutex_);

  // The loop's.
  DeviceOp* FindOp(uint64_t ticket);
  bool Publish(DeviceOp* op, const DeviceCopy& copy);
  void TakeDone(DeviceOp* op);

  const std::shared_ptr<const cuda::Api> api_;
  LockedRegion region_;  // controls first, then the arena
  const std::span<device::OpControl> controls_;
  const std::shared_ptr<StagingArena> arena_;

  Mutex driver_mutex_;                                                                       // taken before mutex_
  std::map<uint32_t, std::unique_ptr<CudaDevice>> devices_ SHOAL_GUARDED_BY(driver_mutex_);  // by ordinal, when open

  Mutex mutex_;
  std::condition_variable op_ended_;
  std::vector<device::OpControl*> free_controls_ SHOAL_GUARDED_BY(mutex_);
  std::map<uint32_t, std::vector<cuda::Event>> free_events_ SHOAL_GUARDED_BY(mutex_);                 // by device
  std::map<uint32_t, std::vector<std::vector<cuda::Stream>>> free_streams_ SHOAL_GUARDED_BY(mutex_);  // by device
  std::map<LaneKey, Lane> lanes_ SHOAL_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, std::shared_ptr<DeviceOp>> begun_
      SHOAL_GUARDED_BY(mutex_);                                            // by ticket; the loop has not seen them
  std::vector<std::shared_ptr<DeviceOp>> ended_ SHOAL_GUARDED_BY(mutex_);  // whose kernels may still run
  std::vector<std::shared_ptr<const StagingMemory>> given_up_
      SHOAL_GUARDED_BY(mutex_);  // that nothing touches any more; the loop lets go of it

  // The loop's.
  std::unordered_map<uint64_t, std::shared_ptr<DeviceOp>> ops_;  // by ticket
  uint64_t copies_under_way_ = 0;
  bool may_hold_given_up_ = false;  // an op was abandoned, and what it holds was not let go of
  std::vector<DeviceCopyEnded> next_;
  std::vector<DeviceCopyEnded> polled_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_CUDA_STAGER_H_
