// A group's ranks on one node as NCCL knows them: what they reduce and gather among their devices, without the host.
//
// A DeviceComm puts NCCL's kernels into streams and waits for no device. Its ranks make the same calls in the same
// order. Rank r of it owns part r of a tensor (core/node_parts.h): Reduce leaves the sum over the node there, Gather
// gives each rank the parts of all. Results are NCCL's: the order in which it sums depends on its version and on the
// node.
//
// Its kernels run one after the other, in the order of the calls, in whatever streams they are: NCCL makes each stream
// wait for the kernels before. What is to overlap needs a DeviceComm of its own.
//
// Where a rank is gone, kernels of the others never end by themselves: Abort ends them.
//
// The communicator is non-blocking: each call starts a thread of NCCL's, and returns when that has put the kernels into
// the stream. The first calls of a kind may wait there until all ranks have made them, because NCCL connects devices
// when it first needs to.
//
// Threads: Make, Reduce and Gather on callers' threads, one at a time, with the device's context the thread's current
// one; Abort from any, also while they run. The destructor waits for an Abort that is under way, and otherwise takes
// NCCL's resources back, when all work is done. Both include NCCL's own wait for its kernels: what stands before
// these in their streams has to end.
#ifndef SHOAL_WORKER_DEVICE_DEVICE_COMM_H_
#define SHOAL_WORKER_DEVICE_DEVICE_COMM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/dtype.h"
#include "process/mutex.h"
#include "worker/device/cuda_api.h"
#include "worker/device/nccl_api.h"

namespace shoal {

class DeviceComm {
 public:
  struct Place {
    uint32_t rank = 0;  // among the ranks of the group on the node
    uint32_t size = 0;
  };

  // Meets the other ranks, which all call it with the same id; the device's context is the thread's current one.
  // `is_over` is asked while it waits: not OK ends the waiting with that status. Internal: what NCCL said.
  // With a `driver` the context is the current one too where NCCL gives its resources back; without, NCCL may make
  // itself a context on the node's first device there.
  static absl::StatusOr<std::unique_ptr<DeviceComm>> Make(std::shared_ptr<const nccl::Api> api,
                                                          const nccl::UniqueId& id, Place place,
                                                          const std::function<absl::Status()>& is_over,
                                                          std::shared_ptr<const cuda::Api> driver = nullptr);
  ~DeviceComm();
  DeviceComm(const DeviceComm&) = delete;
  DeviceComm& operator=(const DeviceComm&) = delete;

  // OK, or Unimplemented: NCCL has no such type; the text says what to do.
  static absl::Status CheckReduces(DataType dtype);

  // Puts kernels into the stream, in place: after them this rank's part holds the node's sum. The stream is
  // not a thread's default one: NCCL's thread has another. kPremulSum, of floating types, multiplies each contribution
  // first. kAvg is summed, and divided by the number of ranks if they are `all` of the group. Internal: what NCCL said;
  // no further call succeeds then. Aborted: Abort was called. Unimplemented: as CheckReduces; nothing was put into the
  // stream. (Products of integers wrap around; the host's and the servers' do not.)
  absl::Status Reduce(cuda::Stream stream, std::byte* tensor, uint64_t element_count, DataType dtype, ReduceOp op,
                      double premul_factor, bool all = false);
  // Likewise: after them the tensor holds each rank's part as that rank has it.
  absl::Status Gather(cuda::Stream stream, std::byte* tensor, uint64_t element_count, DataType dtype);

  // Ends its kernels that wait for other ranks. Returns at once; NCCL may take its time, on a thread of this object.
  void Abort();

 private:
  // The latest multiplication that was asked for, as NCCL knows it.
  struct PremulSum {
    DataType dtype = DataType::kFloat32;
    double factor = 1;
    nccl::RedOp op = 0;
  };
  // One collective, or one group of them; what is common to them.
  struct Collective {
    cuda::Stream stream;
    std::byte* tensor;
    uint64_t element_count;
    DataType dtype;
    nccl::DataType type;  // the same, as NCCL has it
  };

  class Entered;  // the device's context is this thread's current one

  DeviceComm(std::shared_ptr<const nccl::Api> api, Place place, std::shared_ptr<const cuda::Api> driver);

  absl::Status Meet(const nccl::UniqueId& id, const std::function<absl::Status()>& is_over);
  // Calls NCCL by `put`, unless Abort was called, and waits until what it put is in the stream.
  absl::Status Call(const char* what, absl::FunctionRef<absl::Status()> put);
  absl::Status AwaitPut(const char* what, const std::function<absl::Status()>& is_over);
  // OK as well if NCCL goes on with it on its own.
  absl::Status CheckPut(nccl::Result result, const char* what) const;

  absl::Status PutReduce(const Collective& collective, nccl::RedOp op) SHOAL_REQUIRES(mutex_);
  absl::Status PutGather(const Collective& collective) SHOAL_REQUIRES(mutex_);
  // One collective for each part that is not empty, in a group: `put` gets the part, its length and its owner.
  absl::Status PutParts(const Collective& collective, const char* what,
                        absl::FunctionRef<nccl::Result(std::byte*, uint64_t, int)> put) SHOAL_REQUIRES(mutex_);
  absl::StatusOr<nccl::RedOp> FindPremulSum(DataType dtype, nccl::DataType type, double factor) SHOAL_REQUIRES(mutex_);

  const std::shared_ptr<const nccl::Api> api_;
  const Place place_;
  const std::shared_ptr<const cuda::Api> driver_;  // may be null
  cuda::Context context_ = nullptr;                // null without a driver

  std::atomic<bool> is_aborted_ = false;
  // Held for one call to NCCL at a time, never while waiting: NCCL allows no call beside another, Abort's included.
  Mutex mutex_;
  nccl::Comm comm_ SHOAL_GUARDED_BY(mutex_) = nullptr;  // null: there is none, or Abort's thread has it
  bool has_failed_ SHOAL_GUARDED_BY(mutex_) = false;    // NCCL takes no more calls but the one that ends it
  std::unique_ptr<PremulSum> premul_sum_ SHOAL_GUARDED_BY(mutex_);
  std::thread aborter_;  // started by the first Abort
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_DEVICE_COMM_H_
