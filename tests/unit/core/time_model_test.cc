#include "core/time_model.h"

#include <algorithm>
#include <map>

#include "gtest/gtest.h"

namespace shoal {
namespace {

ShardMap MapOf(const std::vector<uint32_t>& weights) {
  std::vector<Shard> shards;
  for (uint32_t i = 0; i < weights.size(); ++i) {
    shards.push_back({.server = ServerId(i + 1),
                      .server_name = "s",
                      .address = "10.0.0.1:" + std::to_string(7000 + i),
                      .weight = weights[i]});
  }
  return *ShardMap::Make(Epoch(1), std::move(shards));
}

TEST(TimeModel, TheDealIsSummedUpAsItIsDealt) {
  for (const std::vector<uint32_t>& weights : {std::vector<uint32_t>{1}, {1, 1, 1}, {7, 7, 2, 2, 2}}) {
    const ShardMap map = MapOf(weights);
    for (const uint64_t elements : {1u, 300u, 5'000u, 100'000u}) {
      const BucketPlan plan = *MakeBucketPlan(elements, WireCodec(DataType::kFloat32), 1024);
      for (uint64_t group = 1; group < 10; ++group) {
        std::map<uint32_t, uint32_t> counts;
        for (uint32_t chunk = 0; chunk < plan.chunk_count; ++chunk) ++counts[map.Owner(GroupId(group), chunk)];
        uint32_t largest = 0;
        for (const auto& [shard, count] : counts) largest = std::max(largest, count);
        const DealSummary summary = SummarizeDeal(plan, map, GroupId(group));
        EXPECT_EQ(summary.shards_used, counts.size());
        EXPECT_EQ(summary.largest_part_chunks, largest);
      }
    }
  }
}

TEST(TimeModel, ALargeTensorTakesWhatItsLinkNeeds) {
  // 25 MiB over 8 equal servers at 25 MB/s.
  const OpShape shape{
      .bytes = 25u << 20, .chunk_bytes = 16u << 10, .chunk_count = 1608, .largest_part_chunks = 201, .group_size = 8};
  const uint64_t ns = PredictOpNs(shape, {.bytes_per_s = 25'000'000, .round_trip_ns = 100'000, .message_ns = 2'000});
  EXPECT_NEAR(static_cast<double>(ns), (25u << 20) / 25e6 * 1e9, 0.01 * 1.05e9);
}

TEST(TimeModel, ASmallTensorTakesARoundTripAndItsMessages) {
  const OpShape shape{.bytes = 4, .chunk_bytes = 64, .chunk_count = 1, .largest_part_chunks = 1, .group_size = 8};
  EXPECT_NEAR(PredictOpNs(shape, {.bytes_per_s = 1'000'000'000, .round_trip_ns = 50'000, .message_ns = 1'000}), 58'000,
              1'000);
}

TEST(TimeModel, OneServerForAllReceivesFromEveryRank) {
  OpShape shape{.bytes = 1 << 20, .chunk_bytes = 1 << 20, .chunk_count = 1, .largest_part_chunks = 1, .group_size = 8};
  const uint64_t one_server = PredictOpNs(shape, {.bytes_per_s = 1'000'000'000});
  shape.chunk_bytes = 1 << 17;
  shape.chunk_count = 8;
  EXPECT_GT(one_server, 4 * PredictOpNs(shape, {.bytes_per_s = 1'000'000'000}));
}

TEST(TimeModel, WithoutAMeasurementNothingIsSaid) {
  EXPECT_EQ(PredictOpNs({.bytes = 100, .chunk_bytes = 64, .chunk_count = 2, .largest_part_chunks = 1}, {}), 0u);
}

}  // namespace
}  // namespace shoal
