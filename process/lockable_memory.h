// How much memory a process may lock, which is what RDMA sends from and receives into. Any thread.
#ifndef SHOAL_PROCESS_LOCKABLE_MEMORY_H_
#define SHOAL_PROCESS_LOCKABLE_MEMORY_H_

#include <cstddef>

namespace shoal {

// With less than this UCX fails over RDMA in the middle of something, or tries for ever.
inline constexpr size_t kLockableBytesForRdma = size_t{256} << 20;

// Asks the kernel for leave, not for the memory: a capability may lift the limit (ulimit -l).
bool MayLock(size_t bytes);

// Whether it may lock as much memory as the node has.
bool MayLockAnything();

}  // namespace shoal

#endif  // SHOAL_PROCESS_LOCKABLE_MEMORY_H_
