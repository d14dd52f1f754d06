#include "worker/machine/op_layout.h"

namespace shoal {

absl::StatusOr<OpLayout> OpLayout::Make(const GroupInfo& group, uint64_t element_count, DataType dtype) {
  OpLayout layout;
  layout.codec_ = WireCodec(dtype, group.wire);
  layout.max_chunk_bytes_ = group.max_chunk_bytes;
  if (element_count == 0) return layout;
  const absl::StatusOr<BucketPlan> plan = MakeBucketPlan(element_count, layout.codec_, group.max_chunk_bytes);
  if (!plan.ok()) return plan.status();
  layout.plan_ = *plan;
  return layout;
}

bool OpLayout::IsFor(const GroupInfo& group) const {
  return element_count() == 0 ||
         (max_chunk_bytes_ == group.max_chunk_bytes && codec_ == WireCodec(dtype(), group.wire));
}

}  // namespace shoal
