#include "core/bucket_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

uint64_t DivideUp(uint64_t value, uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

uint64_t RoundUp(uint64_t value, uint64_t multiple) { return DivideUp(value, multiple) * multiple; }

}  // namespace

uint64_t BucketPlan::FirstElement(ChunkNumber chunk) const {
  return static_cast<uint64_t>(chunk.value()) * elements_per_chunk;
}

uint32_t BucketPlan::ElementCount(ChunkNumber chunk) const {
  return static_cast<uint32_t>(std::min<uint64_t>(elements_per_chunk, element_count - FirstElement(chunk)));
}

absl::StatusOr<BucketPlan> MakeBucketPlan(uint64_t element_count, WireCodec codec, uint32_t max_chunk_bytes) {
  if (element_count == 0) return absl::InvalidArgumentError("a bucket needs at least one element");
  if (max_chunk_bytes < kMinChunkBytes || max_chunk_bytes > kMaxChunkBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the chunk size of ", max_chunk_bytes, " bytes is not between ",
                                                   kMinChunkBytes, " and ", kMaxChunkBytes));
  }
  // The second bound is the smaller one where bytes of a chunk are left over, as of blocks.
  const uint64_t most_elements =
      std::min(codec.ElementsIn(kMaxBucketBytes), codec.ElementsIn(kSmallestChosenChunkBytes) * kMaxChunksPerBucket);
  if (element_count > most_elements) {
    return absl::InvalidArgumentError(absl::StrCat("a bucket of ", element_count, " elements of ", WireCodecName(codec),
                                                   " has more than ", kMaxBucketBytes >> 30,
                                                   " GiB: reduce the tensor in parts"));
  }
  uint64_t pieces = DivideUp(element_count, codec.ElementsIn(max_chunk_bytes));
  constexpr uint64_t kMostWholeDeals = kMaxChunksPerBucket / kDealUnit;
  if (pieces >= kDealUnit && pieces <= kMostWholeDeals * kDealUnit) pieces = RoundUp(pieces, kDealUnit);
  if (pieces > kMaxChunksPerBucket) {
    return absl::InvalidArgumentError(absl::StrCat("a bucket of ", element_count, " elements has more than ",
                                                   kMaxChunksPerBucket, " chunks of ", max_chunk_bytes,
                                                   " bytes: use larger chunks"));
  }
  const uint64_t per_chunk = RoundUp(DivideUp(element_count, pieces), codec.alignment_elements());
  return BucketPlan{.element_count = element_count,
                    .elements_per_chunk = static_cast<uint32_t>(per_chunk),
                    .chunk_count = static_cast<uint32_t>(DivideUp(element_count, per_chunk))};
}

}  // namespace shoal
