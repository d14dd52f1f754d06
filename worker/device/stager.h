// Copies chunks between tensors on devices and host memory, on behalf of the worker's loop.
//
// Rules, for every implementation (tests/conformance/stager):
//   S1 Every copy that Start took ends with exactly one DeviceCopyEnded; neither the tensor's chunk nor the place is
//      touched after that. Copies may end in any order.
//   S2 A copy that ended well has moved every element. Where the types differ, float32 numbers were rounded to the 16
//      bits of the place (nearest even), or widened from them, with the bits of reduce/convert.h.
//      A copy between other types ends with Unimplemented, and touches nothing.
//   S3 Nothing here blocks, whatever the device does.
//   S4 The memory of a place (DeviceCopy::staging) is not let go of before the device is done with it, whatever became
//      of the copy.
// That the tensor's content is there to be read (TensorReadyCommand) is the caller's matter.
//
// Thread: one at a time, that of the worker's loop.
#ifndef SHOAL_WORKER_DEVICE_STAGER_H_
#define SHOAL_WORKER_DEVICE_STAGER_H_

#include <cstdint>
#include <span>

#include "worker/machine/device_copy.h"

namespace shoal {

class Stager {
 public:
  virtual ~Stager() = default;

  virtual void Start(DeviceCopy copy) = 0;

  // Of an op whose tensor the node's devices gather afterwards: its copies are over, and well, and its device goes on.
  // EndOp follows.
  virtual void EndCopies(uint64_t ticket) = 0;
  // The op has ended, and no copy of it is under way any more. `well`: false: its tensor is filled with ones where the
  // device can still do that: NaN, where it holds floating-point numbers.
  virtual void EndOp(uint64_t ticket, bool well) = 0;
  // Copies of the group that have not ended do so now, with Aborted, if the next Poll does not find them done: the
  // device is stuck, and may still touch the tensor's chunk and the place.
  virtual void Abandon(GroupHandle group) = 0;

  // What has ended. Valid until the next Poll.
  virtual std::span<const DeviceCopyEnded> Poll() = 0;
  // Within what time the loop has to poll again: devices wake nobody. kNoDeadline: nothing is under way.
  virtual uint64_t PollWithinNs() const = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_STAGER_H_
