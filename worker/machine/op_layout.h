// How the tensor of one all-reduce is cut into chunks and how they cross the wire.
//
// Made once, by the caller's thread, which hears at once of what can't be reduced; the machine takes it as it is. A
// value; any thread.
#ifndef SHOAL_WORKER_MACHINE_OP_LAYOUT_H_
#define SHOAL_WORKER_MACHINE_OP_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/bucket_plan.h"
#include "core/wire_codec.h"
#include "worker/machine/group_info.h"

namespace shoal {

class OpLayout {
 public:
  OpLayout() = default;  // nothing to reduce

  // `element_count` 0: nothing to reduce. InvalidArgument: the tensor can't be cut into chunks of the group's size; the
  // text says why.
  static absl::StatusOr<OpLayout> Make(const GroupInfo& group, uint64_t element_count, DataType dtype);

  // False: it was made for a group that cuts otherwise.
  bool IsFor(const GroupInfo& group) const;

  uint64_t element_count() const { return plan_.element_count; }
  uint32_t chunk_count() const { return plan_.chunk_count; }
  const BucketPlan& plan() const { return plan_; }
  // Unless it is the identity, chunks go through the staging memory.
  WireCodec codec() const { return codec_; }
  DataType dtype() const { return codec_.tensor_type(); }
  uint64_t TensorBytes() const { return codec_.TensorBytes(element_count()); }
  // Where a chunk starts in the tensor.
  uint64_t OffsetBytes(ChunkNumber chunk) const { return codec_.TensorBytes(plan_.FirstElement(chunk)); }
  uint64_t BytesOnWire(ChunkNumber chunk) const { return codec_.WireBytes(plan_.ElementCount(chunk)); }

 private:
  BucketPlan plan_;  // chunk_count 0: nothing to reduce
  WireCodec codec_;
  uint32_t max_chunk_bytes_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_OP_LAYOUT_H_
