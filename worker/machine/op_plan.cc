#include "worker/machine/op_plan.h"

#include <algorithm>

#include "core/bucket_plan.h"
#include "core/time_model.h"

namespace shoal {

absl::StatusOr<OpPlan> PlanOp(const GroupInfo& group, uint64_t element_count, DataType dtype) {
  if (element_count == 0) return OpPlan();
  const DataType type_on_wire = TypeOnWire(group.wire, dtype);
  const absl::StatusOr<BucketPlan> plan = MakeBucketPlan(element_count, type_on_wire, group.max_chunk_bytes);
  if (!plan.ok()) return plan.status();
  const uint64_t element_bytes = DataTypeSize(type_on_wire);
  const uint64_t chunk_elements = std::min<uint64_t>(plan->elements_per_chunk, element_count);
  const DealSummary deal = SummarizeDeal(*plan, *group.map, group.id);
  const OpShape shape = {.bytes = element_count * element_bytes,
                         .chunk_bytes = static_cast<uint32_t>(chunk_elements * element_bytes),
                         .chunk_count = plan->chunk_count,
                         .largest_part_chunks = deal.largest_part_chunks,
                         .group_size = static_cast<uint32_t>(group.job_ranks.size()),
                         .busiest_port = group.busiest_port};
  return OpPlan{.chunk_count = shape.chunk_count,
                .chunk_bytes = shape.chunk_bytes,
                .shards_used = deal.shards_used,
                .predicted_ns = PredictOpNs(shape, group.link)};
}

}  // namespace shoal
