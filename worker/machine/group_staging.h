// Carries a group's chunks between their tensors, in host memory or on a device, and the host memory from which they
// cross the network, encoded as the wire has them.
//
// Hands that memory out: places for the chunks of a link, and single chunks for results that are kept or handed over.
// Owns the single ones that are free. What is copied in host memory is there for the actions that follow. A copy from
// or to a device takes a while: DeviceCopyEnded says when it is over. One thread.
#ifndef SHOAL_WORKER_MACHINE_GROUP_STAGING_H_
#define SHOAL_WORKER_MACHINE_GROUP_STAGING_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "worker/machine/device_copy.h"
#include "worker/machine/group_info.h"
#include "worker/machine/staging_arena.h"
#include "worker/machine/staging_memory.h"
#include "worker/machine/worker_actions.h"
#include "worker/machine/worker_op.h"

namespace shoal {

class GroupStaging {
 public:
  // `arena`: as in WorkerMachineOptions.
  GroupStaging(std::shared_ptr<const GroupInfo> info, std::shared_ptr<StagingArena> arena)
      : info_(std::move(info)), arena_(std::move(arena)) {}

  // ---- memory; ResourceExhausted: there is none, or none that devices can reach where it is `for_device` ----

  absl::StatusOr<std::shared_ptr<StagingMemory>> Allocate(uint32_t places, bool for_device) const;
  // Of one chunk. Drop it, or give it back to be used again.
  absl::StatusOr<std::shared_ptr<StagingMemory>> TakeChunk(bool for_device);
  void GiveChunk(std::shared_ptr<StagingMemory> memory);
  // The error where memory that devices can reach is used up.
  absl::Status ArenaIsFull() const;

  // ---- copies ----

  // Brings the chunk from its tensor to the place. False: it comes from a device, and a copy with that token has begun.
  static bool FromTensor(const DeviceCopyToken& token, const WorkerOp& op, ChunkNumber chunk,
                         const std::shared_ptr<StagingMemory>& memory, uint32_t place, WorkerActions* actions);
  // Brings a result from the place to its tensor. False: as above.
  static bool ToTensor(const DeviceCopyToken& token, const WorkerOp& op, ChunkNumber chunk,
                       const std::shared_ptr<StagingMemory>& memory, uint32_t place, WorkerActions* actions);

 private:
  const std::shared_ptr<const GroupInfo> info_;
  const std::shared_ptr<StagingArena> arena_;  // null: no op is on a device
  std::vector<std::shared_ptr<StagingMemory>> free_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_GROUP_STAGING_H_
