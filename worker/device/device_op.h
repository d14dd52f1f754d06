// One all-reduce of a tensor on a device, as the stager and its caller know it.
//
// Shared by the caller's handle and the stager. The stager alone looks into it.
#ifndef SHOAL_WORKER_DEVICE_DEVICE_OP_H_
#define SHOAL_WORKER_DEVICE_DEVICE_OP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "core/dtype.h"
#include "core/now.h"
#include "worker/device/copy_kernel.h"
#include "worker/device/cuda_api.h"
#include "worker/device/local_devices.h"
#include "worker/machine/device_copy.h"

namespace shoal {

// A stream of a caller, as the driver knows it (a cudaStream_t; nullptr: the default one).
using DeviceStream = void*;

// Of an op that the ranks of a node reduce among their devices first, and gather afterwards.
struct LocalReduction {
  std::shared_ptr<LocalDevices> devices;
  uint64_t element_count = 0;
  DataType dtype = DataType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
  double premul_factor = 1.0;
  bool other_nodes = false;  // this rank's part goes to them in between
};

struct DeviceOpCall {
  uint64_t ticket = 0;  // of the op in the worker
  GroupHandle group;
  GroupId group_id;
  uint32_t device = 0;  // its ordinal
  DeviceStream stream = nullptr;
  std::byte* tensor = nullptr;
  uint64_t bytes = 0;
  uint64_t deadline_ns = kNoDeadline;
  std::optional<LocalReduction> local = std::nullopt;
};

class DeviceOp {
 public:
  // `last_control`: of a local reduction.
  DeviceOp(const DeviceOpCall& call, device::OpControl* control, device::OpControl* last_control, cuda::Event produced)
      : call_(call), control_(control), last_control_(last_control), produced_(produced) {}
  DeviceOp(const DeviceOp&) = delete;
  DeviceOp& operator=(const DeviceOp&) = delete;

 private:
  friend class CudaStager;

  struct UnderWay {
    DeviceCopyToken token;
    std::shared_ptr<const StagingMemory> staging;
  };

  DeviceOpCall call_;  // its LocalDevices only until it is launched
  device::OpControl* const control_;
  // Of a kernel behind the gathering, which copies nothing, and fills the tensor if the op has failed; nullptr: there
  // is none.
  device::OpControl* const last_control_;
  const cuda::Event produced_;  // recorded in the caller's stream at the call

  // Under the stager's lock.
  bool launch_over_ = false;    // its control may be taken back, if nothing runs with it
  absl::Status launched_;       // not OK: why its kernel does not run, or nobody can wait for it
  cuda::Event done_ = nullptr;  // recorded behind the kernel
  bool runs_ = false;           // its kernel was launched,
  bool last_runs_ = false;      // the other one as well,
  bool in_part_ = false;  // or not all that belongs to the op: stream_passed_ says when what was put there is over,
  bool exited_ = false;   // and they have ended
  bool has_lane_ = false;

  std::atomic<bool> stream_passed_ = false;  // set by the driver's thread

  // The loop's.
  uint64_t published_ = 0;
  uint64_t first_ = 0;              // the oldest command that is under way
  std::deque<UnderWay> under_way_;  // from first_ on; without a place: it is done
  std::deque<DeviceCopy> waiting_;  // for room among the commands
  bool abandoned_ = false;
  // What an abandoned copy may still touch.
  std::vector<std::shared_ptr<const StagingMemory>> given_up_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_DEVICE_OP_H_
