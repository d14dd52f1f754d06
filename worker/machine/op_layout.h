// How the tensor of one all-reduce is cut into chunks and in which type they cross the wire.
//
// Made once, by the caller's thread, which hears at once of what can't be reduced; the machine takes it as it is. A
// value; any thread.
#ifndef SHOAL_WORKER_MACHINE_OP_LAYOUT_H_
#define SHOAL_WORKER_MACHINE_OP_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/bucket_plan.h"
#include "core/dtype.h"
#include "core/wire_format.h"
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
  DataType dtype() const { return dtype_; }
  // Unlike dtype(): chunks go through the staging memory as 16-bit numbers.
  DataType type_on_wire() const { return type_on_wire_; }
  bool narrowed() const { return type_on_wire_ != dtype_; }
  // Where a chunk starts in the tensor.
  uint64_t OffsetBytes(ChunkNumber chunk) const { return plan_.FirstElement(chunk) * DataTypeSize(dtype_); }
  uint64_t BytesOnWire(ChunkNumber chunk) const {
    return uint64_t{plan_.ElementCount(chunk)} * DataTypeSize(type_on_wire_);
  }

 private:
  BucketPlan plan_;  // chunk_count 0: nothing to reduce
  DataType dtype_ = DataType::kFloat32;
  DataType type_on_wire_ = DataType::kFloat32;
  uint32_t max_chunk_bytes_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_OP_LAYOUT_H_
