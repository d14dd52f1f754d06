// The Stager port where the "device" is host memory: the loop's own thread copies at once.
//
// What other implementations are compared with, and what stands for a device where there is none.
// Thread: one at a time.
#ifndef SHOAL_WORKER_DEVICE_HOST_STAGER_H_
#define SHOAL_WORKER_DEVICE_HOST_STAGER_H_

#include <vector>

#include "core/now.h"
#include "worker/device/stager.h"

namespace shoal {

class HostStager final : public Stager {
 public:
  void Start(DeviceCopy copy) override;
  std::span<const DeviceCopyEnded> Poll() override;
  void EndCopies(uint64_t /*ticket*/) override {}
  void EndOp(uint64_t /*ticket*/, bool /*well*/) override {}
  void Abandon(GroupHandle /*group*/) override {}
  uint64_t PollWithinNs() const override { return next_.empty() ? kNoDeadline : 0; }

 private:
  std::vector<DeviceCopyEnded> next_;
  std::vector<DeviceCopyEnded> polled_;
};

// Moves the elements of a copy, both ends being memory that this process can touch.
void MoveElements(const DeviceCopy& copy);

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_HOST_STAGER_H_
