#include "worker/machine/op_plan.h"

#include "core/node_parts.h"
#include "core/time_model.h"
#include "worker/machine/op_layout.h"

namespace shoal {
namespace {

absl::StatusOr<OpPlan> PlanParts(const GroupInfo& group, uint32_t rails, uint64_t element_count, DataType dtype) {
  const absl::StatusOr<OpLayout> layout = OpLayout::Make(group, element_count, dtype);
  if (!layout.ok()) return layout.status();
  if (layout->chunk_count() == 0 || group.map->empty()) return OpPlan{.rails = rails};
  const DealSummary deal = SummarizeDeal(layout->plan(), *group.map, group.id);
  const OpShape shape = {.bytes = layout->codec().WireBytes(element_count),
                         .chunk_bytes = static_cast<uint32_t>(layout->BytesOnWire(ChunkNumber(0))),
                         .chunk_count = layout->chunk_count(),
                         .largest_part_chunks = deal.largest_part_chunks,
                         .group_size = group.size() * rails,
                         .busiest_link = group.busiest_link};
  return OpPlan{.rails = rails,
                .chunk_count = shape.chunk_count,
                .chunk_bytes = shape.chunk_bytes,
                .shards_used = deal.shards_used,
                .predicted_ns = PredictOpNs(shape, group.link)};
}

}  // namespace

absl::StatusOr<OpPlan> PlanOp(const GroupInfo& group, uint64_t element_count, DataType dtype) {
  if (group.rail == nullptr) return PlanParts(group, 1, element_count, dtype);
  // What the group refuses as a whole is refused. Each rank of a node pushes a part, the first one the largest.
  const absl::StatusOr<OpLayout> whole = OpLayout::Make(group, element_count, dtype);
  if (!whole.ok()) return whole.status();
  const uint32_t rails = group.local_size();
  return PlanParts(*group.rail, rails, NodePart(element_count, rails, 0).count, dtype);
}

}  // namespace shoal
