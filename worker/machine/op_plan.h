// How an all-reduce of a group would be done, for callers that ask beforehand. Pure; any thread.
#ifndef SHOAL_WORKER_MACHINE_OP_PLAN_H_
#define SHOAL_WORKER_MACHINE_OP_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/dtype.h"
#include "worker/machine/group_info.h"

namespace shoal {

// With rails, chunks and shards are those of the largest part; the rails share the ports, which the prediction counts.
struct OpPlan {
  uint32_t rails = 1;        // how many parts go to the servers, each by way of another rank of a node
  uint32_t chunk_count = 0;  // 0: nothing to do, or the group has no servers (NodeReduceMode::kNodeAlone)
  uint32_t chunk_bytes = 0;  // of every chunk but the last, on the wire
  uint32_t shards_used = 0;
  uint64_t predicted_ns = 0;  // 0: the link was not measured
};

// `element_count` 0: nothing to do. Errors: those of OpLayout::Make.
absl::StatusOr<OpPlan> PlanOp(const GroupInfo& group, uint64_t element_count, DataType dtype);

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_OP_PLAN_H_
