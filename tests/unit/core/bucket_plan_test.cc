#include "core/bucket_plan.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr DataType kAllTypes[] = {DataType::kFloat32,  DataType::kFloat64, DataType::kFloat16,
                                  DataType::kBfloat16, DataType::kInt8,    DataType::kInt64};

void ExpectTiles(uint64_t elements, DataType type, uint32_t max_chunk_bytes) {
  const absl::StatusOr<BucketPlan> plan = MakeBucketPlan(elements, WireCodec(type), max_chunk_bytes);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_GT(plan->chunk_count, 0u);
  ASSERT_LE(plan->chunk_count, kMaxChunksPerBucket);
  ASSERT_EQ(plan->element_count, elements);
  uint64_t next = 0;
  for (uint32_t c = 0; c < plan->chunk_count; ++c) {
    ASSERT_EQ(plan->FirstElement(ChunkNumber(c)), next) << elements << " elements, chunk " << c;
    const uint32_t count = plan->ElementCount(ChunkNumber(c));
    ASSERT_GT(count, 0u);
    ASSERT_LE(count * DataTypeSize(type), max_chunk_bytes);
    ASSERT_EQ(next * DataTypeSize(type) % kChunkAlignmentBytes, 0u);
    if (c + 1 < plan->chunk_count) {
      ASSERT_EQ(count, plan->elements_per_chunk);
    }
    next += count;
  }
  ASSERT_EQ(next, elements);
}

TEST(BucketPlan, ChunksTileTheBucketExactlyAndAligned) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    const uint64_t elements = 1 + random() % (uint64_t{1} << (1 + random() % 22));
    const auto max_chunk_bytes = static_cast<uint32_t>(kMinChunkBytes + random() % (256 << (random() % 8)));
    const DataType type = kAllTypes[random() % std::size(kAllTypes)];
    ExpectTiles(elements, type, max_chunk_bytes);
    if (HasFatalFailure()) return;
  }
}

TEST(BucketPlan, SmallBucketsAreOneChunk) {
  for (uint64_t elements : {1, 15, 16, 17, 255, 256}) {
    const BucketPlan plan = *MakeBucketPlan(elements, WireCodec(DataType::kFloat32), 1024);
    EXPECT_EQ(plan.chunk_count, 1u);
    EXPECT_EQ(plan.ElementCount(ChunkNumber(0)), elements);
  }
  EXPECT_EQ(MakeBucketPlan(257, WireCodec(DataType::kFloat32), 1024)->chunk_count, 2u);
}

TEST(BucketPlan, APlanIsWhatItAlwaysWas) {
  const BucketPlan plan = *MakeBucketPlan((25u << 20) / 4, WireCodec(DataType::kFloat32), 64 << 10);
  EXPECT_EQ(plan.chunk_count, 408u);
  EXPECT_EQ(plan.elements_per_chunk, 16064u);
  const BucketPlan small = *MakeBucketPlan(1000, WireCodec(DataType::kFloat16), 1024);
  EXPECT_EQ(small.chunk_count, 2u);
  EXPECT_EQ(small.elements_per_chunk, 512u);
}

// Where rounding to whole 64-byte lines does not eat a chunk, the count is a multiple of the deal unit.
TEST(BucketPlan, LargeBucketsDealEvenly) {
  for (uint64_t bytes : {uint64_t{2} << 20, uint64_t{25} << 20, uint64_t{100} << 20, uint64_t{1} << 30}) {
    for (uint32_t chunk_bytes : {16u << 10, 32u << 10, 64u << 10, 128u << 10}) {
      const BucketPlan plan = *MakeBucketPlan(bytes / 4, WireCodec(DataType::kFloat32), chunk_bytes);
      if (bytes / chunk_bytes < kDealUnit) continue;
      // Every shard's share differs from the mean by less than one chunk in the worst case.
      const uint64_t lines = bytes / kChunkAlignmentBytes / plan.chunk_count;
      if (lines > plan.chunk_count) {
        EXPECT_EQ(plan.chunk_count % kDealUnit, 0u) << bytes << " in " << chunk_bytes;
      }
    }
  }
}

TEST(BucketPlan, WhatCannotBeCutIsRefused) {
  EXPECT_THAT(std::string(MakeBucketPlan(0, WireCodec(DataType::kFloat32), 4096).status().message()),
              HasSubstr("at least one"));
  for (uint32_t chunk_bytes : {0u, kMinChunkBytes - 1, kMaxChunkBytes + 1, UINT32_MAX}) {
    EXPECT_THAT(std::string(MakeBucketPlan(10, WireCodec(DataType::kFloat32), chunk_bytes).status().message()),
                HasSubstr("is not between 1024 and 16777216"));
  }
  const uint64_t too_many = uint64_t{kMinChunkBytes / sizeof(float)} * kMaxChunksPerBucket + 1;
  EXPECT_THAT(std::string(MakeBucketPlan(too_many, WireCodec(DataType::kFloat32), kMinChunkBytes).status().message()),
              HasSubstr("use larger chunks"));
  for (uint64_t elements : {UINT64_MAX, UINT64_MAX / 2}) {
    EXPECT_THAT(std::string(MakeBucketPlan(elements, WireCodec(DataType::kFloat32), kMinChunkBytes).status().message()),
                HasSubstr("more than 64 GiB: reduce the tensor in parts"));
  }
}

// The chunk size follows from a measured link, and which tensors are taken must not.
TEST(BucketPlan, TheSameTensorsAreTakenWithEveryChunkSizeThatALinkMayGive) {
  for (uint32_t chunk_bytes = kSmallestChosenChunkBytes; chunk_bytes <= kMaxChunkBytes; chunk_bytes *= 2) {
    for (const DataType type : kAllTypes) {
      const uint64_t most = kMaxBucketBytes / DataTypeSize(type);
      for (const uint64_t elements : {most, most - 1, most - 100'000}) {
        const absl::StatusOr<BucketPlan> plan = MakeBucketPlan(elements, WireCodec(type), chunk_bytes);
        ASSERT_TRUE(plan.ok()) << plan.status() << " in chunks of " << chunk_bytes;
        EXPECT_LE(plan->chunk_count, kMaxChunksPerBucket);
        EXPECT_LE(uint64_t{plan->elements_per_chunk} * DataTypeSize(type), chunk_bytes);
        const ChunkNumber last(plan->chunk_count - 1);
        EXPECT_EQ(plan->FirstElement(last) + plan->ElementCount(last), elements);
      }
      EXPECT_TRUE(absl::IsInvalidArgument(MakeBucketPlan(most + 1, WireCodec(type), chunk_bytes).status()));
    }
  }
}

// A chunk of blocks has some bytes left over, so that fewer of them fit into so many chunks.
TEST(BucketPlan, TheSameTensorsAreTakenInBlocksWithEveryChunkSizeThatALinkMayGive) {
  const WireCodec codec(DataType::kFloat32, WireFormat::kInt8);
  const uint64_t most = uint64_t{7936} << 23;
  for (uint32_t chunk_bytes = kSmallestChosenChunkBytes; chunk_bytes <= kMaxChunkBytes; chunk_bytes *= 2) {
    for (const uint64_t elements : {most, most - 1, most - 100'000, uint64_t{100'000}, uint64_t{33}}) {
      const absl::StatusOr<BucketPlan> plan = MakeBucketPlan(elements, codec, chunk_bytes);
      ASSERT_TRUE(plan.ok()) << plan.status() << " in chunks of " << chunk_bytes;
      EXPECT_LE(plan->chunk_count, kMaxChunksPerBucket);
      EXPECT_LE(codec.WireBytes(plan->elements_per_chunk), chunk_bytes);
      EXPECT_EQ(plan->elements_per_chunk % kBlockElements, 0u);
      const ChunkNumber last(plan->chunk_count - 1);
      EXPECT_EQ(plan->FirstElement(last) + plan->ElementCount(last), elements);
    }
    EXPECT_TRUE(absl::IsInvalidArgument(MakeBucketPlan(most + 1, codec, chunk_bytes).status()));
  }
}

// A plan with more chunks than a frame may number would have its last pushes refused as malformed.
TEST(BucketPlan, NeverMoreChunksThanAFrameMayNumber) {
  for (uint32_t chunk_bytes : {kMinChunkBytes, kSmallestChosenChunkBytes}) {
    for (uint64_t pieces = kMaxChunksPerBucket - 30; pieces <= kMaxChunksPerBucket; ++pieces) {
      const absl::StatusOr<BucketPlan> plan =
          MakeBucketPlan(pieces * chunk_bytes, WireCodec(DataType::kInt8), chunk_bytes);
      if (!plan.ok()) continue;
      EXPECT_LE(plan->chunk_count, kMaxChunksPerBucket) << chunk_bytes << " x " << pieces;
    }
  }
}

}  // namespace
}  // namespace shoal
