// Host memory that devices can reach: mapped once, registered with the driver once, and never unmapped. Where a worker
// is gone the next one takes its region.
//
// To unregister memory may wait for a device, also for work of the program that never ends. Any thread.
#ifndef SHOAL_WORKER_DEVICE_LOCKED_REGION_H_
#define SHOAL_WORKER_DEVICE_LOCKED_REGION_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace shoal {

struct LockedRegion {
  std::span<std::byte> memory;
  bool is_registered = false;

  // One of that size, in whole pages; its content is whatever it is. ResourceExhausted: no memory.
  static absl::StatusOr<LockedRegion> Take(uint64_t bytes);
  // Nothing touches it any more, on no device.
  static void GiveBack(const LockedRegion& region);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_LOCKED_REGION_H_
