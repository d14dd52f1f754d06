#include "worker/machine/op_plan.h"

#include <algorithm>

#include "core/time_model.h"
#include "worker/machine/op_layout.h"

namespace shoal {

absl::StatusOr<OpPlan> PlanOp(const GroupInfo& group, uint64_t element_count, DataType dtype) {
  const absl::StatusOr<OpLayout> layout = OpLayout::Make(group, element_count, dtype);
  if (!layout.ok()) return layout.status();
  if (layout->chunk_count() == 0 || group.map->empty()) return OpPlan();
  const uint64_t element_bytes = DataTypeSize(layout->type_on_wire());
  const uint64_t chunk_elements = std::min<uint64_t>(layout->plan().elements_per_chunk, element_count);
  const DealSummary deal = SummarizeDeal(layout->plan(), *group.map, group.id);
  const OpShape shape = {.bytes = element_count * element_bytes,
                         .chunk_bytes = static_cast<uint32_t>(chunk_elements * element_bytes),
                         .chunk_count = layout->chunk_count(),
                         .largest_part_chunks = deal.largest_part_chunks,
                         .group_size = group.size(),
                         .busiest_port = group.busiest_port};
  return OpPlan{.chunk_count = shape.chunk_count,
                .chunk_bytes = shape.chunk_bytes,
                .shards_used = deal.shards_used,
                .predicted_ns = PredictOpNs(shape, group.link)};
}

}  // namespace shoal
