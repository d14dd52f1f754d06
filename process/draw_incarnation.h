// A new incarnation for a process that starts. Any thread.
#ifndef SHOAL_PROCESS_DRAW_INCARNATION_H_
#define SHOAL_PROCESS_DRAW_INCARNATION_H_

#include "absl/status/statusor.h"
#include "core/ids.h"

namespace shoal {

// A number that the kernel drew at random, never 0. Internal: the kernel returned none; the process can't start.
absl::StatusOr<Incarnation> DrawIncarnation();

}  // namespace shoal

#endif  // SHOAL_PROCESS_DRAW_INCARNATION_H_
