// How a bucket (the tensor of one op) is cut into chunks.
//
// The plan depends on the bucket and on the group's chunk size alone, never on the shard map: all ranks cut alike, also
// while the map changes. Pieces are equal but for the last, start at multiples of 64 bytes, and their number is a
// multiple of kDealUnit where there are that many (unless rounding to 64 bytes saves a piece), so that a deal over 1,
// 2, 3, 4, 6, 8, 12 or 24 servers is even. Bytes are those on the wire.
#ifndef SHOAL_CORE_BUCKET_PLAN_H_
#define SHOAL_CORE_BUCKET_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/ids.h"
#include "core/wire_codec.h"

namespace shoal {

inline constexpr uint32_t kDealUnit = 24;
inline constexpr uint32_t kMinChunkBytes = 1024;
inline constexpr uint32_t kMaxChunkBytes = 16u << 20;
// The smallest chunk that is chosen by itself (core/flow_plan.h).
inline constexpr uint32_t kSmallestChosenChunkBytes = 8 << 10;
// A bucket may not have more bytes than this, as it is sent, whatever the chunk size is: that may follow from a
// measured link, and whether a tensor is taken must not.
inline constexpr uint64_t kMaxBucketBytes = uint64_t{64} << 30;
// Nor more chunks than this: it bounds what a layout in a peer's message can make us hold. Only a group with chunks
// below kSmallestChosenChunkBytes can meet it, which asked for them or whose operator said what ports hold: with 4 KiB,
// the smallest that are planned then, a tensor may have 32 GiB.
inline constexpr uint32_t kMaxChunksPerBucket = 1u << 23;
static_assert(kMaxBucketBytes / kSmallestChosenChunkBytes <= kMaxChunksPerBucket);

struct BucketPlan {
  uint64_t element_count = 0;       // of the whole bucket
  uint32_t elements_per_chunk = 0;  // of every chunk but the last
  uint32_t chunk_count = 0;

  uint64_t FirstElement(ChunkNumber chunk) const;
  uint32_t ElementCount(ChunkNumber chunk) const;
};

// `max_chunk_bytes` is an upper bound for a chunk, between kMinChunkBytes and kMaxChunkBytes.
// InvalidArgument: no elements, chunk size out of range, more than kMaxBucketBytes or kMaxChunksPerBucket.
absl::StatusOr<BucketPlan> MakeBucketPlan(uint64_t element_count, WireCodec codec, uint32_t max_chunk_bytes);

}  // namespace shoal

#endif  // SHOAL_CORE_BUCKET_PLAN_H_
