// Whether the memory in which chunks are gathered fits this node.
#ifndef SHOAL_SERVER_THREAD_SLOT_MEMORY_H_
#define SHOAL_SERVER_THREAD_SLOT_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"

namespace shoal {

// ResourceExhausted when a server with slot memory of `bytes` could use up what this node, or the control group
// (container) that the process is in, has: it would be killed in the middle of its work instead.
absl::Status CheckSlotMemoryFits(uint64_t bytes);

}  // namespace shoal

#endif  // SHOAL_SERVER_THREAD_SLOT_MEMORY_H_
