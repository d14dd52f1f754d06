// How an op is cut into chunks on its way in, which groups take it, and how it would go.
#include "worker/machine/op_layout.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/flow_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/machine/op_plan.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

GroupInfo Group(uint32_t max_chunk_bytes, WireFormat wire = WireFormat::kAsIs) {
  GroupInfo group;
  group.max_chunk_bytes = max_chunk_bytes;
  group.wire = wire;
  return group;
}

TEST(OpLayout, SaysWhereEachChunkLiesAndHowLongItIsOnTheWire) {
  const absl::StatusOr<OpLayout> layout = OpLayout::Make(Group(1024), 600, DataType::kFloat32);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->element_count(), 600u);
  ASSERT_EQ(layout->chunk_count(), 3u);
  EXPECT_TRUE(layout->codec().is_identity());
  EXPECT_EQ(layout->OffsetBytes(ChunkNumber(0)), 0u);
  uint64_t bytes = 0;
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(layout->OffsetBytes(ChunkNumber(chunk)), bytes) << "chunk " << chunk;
    EXPECT_LE(layout->BytesOnWire(ChunkNumber(chunk)), 1024u);
    bytes += layout->BytesOnWire(ChunkNumber(chunk));
  }
  EXPECT_EQ(bytes, 2400u);
}

TEST(OpLayout, ANarrowWireHalvesTheBytesOfAChunkAndNotItsPlace) {
  const absl::StatusOr<OpLayout> layout = OpLayout::Make(Group(1024, WireFormat::kBfloat16), 1024, DataType::kFloat32);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->codec(), WireCodec(DataType::kFloat32, WireFormat::kBfloat16));
  ASSERT_EQ(layout->chunk_count(), 2u);
  EXPECT_EQ(layout->BytesOnWire(ChunkNumber(0)), 1024u);
  EXPECT_EQ(layout->OffsetBytes(ChunkNumber(1)), 2048u);
}

TEST(OpLayout, BlocksHaveAThirtysecondMoreThanAByteForAnElement) {
  for (const WireFormat wire : {WireFormat::kInt8, WireFormat::kFloat8}) {
    const absl::StatusOr<OpLayout> layout = OpLayout::Make(Group(1024, wire), 1000, DataType::kFloat32);
    ASSERT_TRUE(layout.ok()) << layout.status();
    ASSERT_EQ(layout->chunk_count(), 2u);
    EXPECT_EQ(layout->plan().ElementCount(ChunkNumber(0)), 512u) << "equal parts";
    EXPECT_EQ(layout->BytesOnWire(ChunkNumber(0)), 512u + 16);
    EXPECT_EQ(layout->BytesOnWire(ChunkNumber(1)), 488u + 16) << "the last block is short";
    EXPECT_EQ(layout->OffsetBytes(ChunkNumber(1)), 2048u);
    EXPECT_TRUE(OpLayout::Make(Group(1024, wire), 1000, DataType::kInt32)->codec().is_identity());
  }
}

TEST(OpLayout, WhatCannotBeCutIsRefusedBeforeItIsSubmitted) {
  EXPECT_EQ(OpLayout::Make(Group(1024), uint64_t{1} << 60, DataType::kFloat32).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpLayout::Make(Group(1), 100, DataType::kFloat32).status().code(), absl::StatusCode::kInvalidArgument);
}

// The chunk size follows from what was measured on the links, and which tensors are taken must not.
TEST(OpLayout, TheLimitOfATensorIsTheSameWhateverWasMeasuredOnTheLinks) {
  std::set<uint32_t> chunk_sizes;
  for (const uint64_t bytes_per_s : {uint64_t{0}, uint64_t{1'000}, uint64_t{500'000}, uint64_t{125'000'000},
                                     uint64_t{50'000'000'000}, uint64_t{1} << 62}) {
    for (const uint64_t round_trip_ns : {0, 20'000, 1'000'000, 2'000'000'000}) {
      for (const uint64_t message_ns : {0, 500, 1'000'000'000}) {
        for (const uint32_t ranks : {1u, 8u, 1024u}) {
          const LinkFacts link = {.bytes_per_s = bytes_per_s, .round_trip_ns = round_trip_ns, .message_ns = message_ns};
          const uint32_t chunk_bytes = PlanFlow(EvenPortLoad(ranks, 8), link, 0).chunk_bytes;
          if (!chunk_sizes.insert(chunk_bytes).second) continue;
          const uint64_t most = kMaxBucketBytes / sizeof(float);
          const absl::StatusOr<OpLayout> largest = OpLayout::Make(Group(chunk_bytes), most, DataType::kFloat32);
          EXPECT_TRUE(largest.ok()) << "in chunks of " << chunk_bytes << ": " << largest.status();
          const absl::Status refused = OpLayout::Make(Group(chunk_bytes), most + 1, DataType::kFloat32).status();
          EXPECT_TRUE(absl::IsInvalidArgument(refused)) << "in chunks of " << chunk_bytes;
          EXPECT_THAT(std::string(refused.message()), HasSubstr("more than 64 GiB"));
          const GroupInfo narrow = Group(chunk_bytes, WireFormat::kBfloat16);
          EXPECT_TRUE(OpLayout::Make(narrow, 2 * most, DataType::kFloat32).ok()) << "the limit is that of the wire";
          EXPECT_FALSE(OpLayout::Make(narrow, 2 * most + 1, DataType::kFloat32).ok());
        }
      }
    }
  }
  EXPECT_GT(chunk_sizes.size(), 3u) << "the links were too alike to show anything";
  EXPECT_EQ(*chunk_sizes.begin(), kSmallestChosenChunkBytes);
}

TEST(OpLayout, IsForGroupsThatCutAlike) {
  const OpLayout layout = OpLayout::Make(Group(1024), 600, DataType::kFloat32).value();
  EXPECT_TRUE(layout.IsFor(Group(1024)));
  EXPECT_FALSE(layout.IsFor(Group(2048)));
  EXPECT_FALSE(layout.IsFor(Group(1024, WireFormat::kFloat16)));
  const OpLayout integers = OpLayout::Make(Group(1024), 600, DataType::kInt32).value();
  EXPECT_TRUE(integers.IsFor(Group(1024, WireFormat::kFloat16))) << "they cross every wire as they are";
}

TEST(OpLayout, WithNothingToReduceThereIsNothingToCut) {
  const OpLayout nothing = OpLayout::Make(Group(1024), 0, DataType::kInt8).value();
  EXPECT_EQ(nothing.chunk_count(), 0u);
  EXPECT_TRUE(nothing.IsFor(Group(2048)));
  EXPECT_EQ(OpLayout().chunk_count(), 0u);
}

TEST(OpPlan, AGroupWithoutServersHasNoChunks) {
  GroupInfo group = Group(1024);
  group.map = std::make_shared<ShardMap>();
  group.node_reduce = NodeReduceMode::kNodeAlone;
  const absl::StatusOr<OpPlan> plan = PlanOp(group, 1'000'000, DataType::kFloat32);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->chunk_count, 0u);
  EXPECT_EQ(plan->shards_used, 0u);
  EXPECT_EQ(plan->predicted_ns, 0u);
}

GroupInfo GroupOnServers(uint32_t ranks, uint32_t shards, double busiest_link) {
  GroupInfo group = Group(64 << 10);
  group.id = GroupId(1);
  group.job_ranks.resize(ranks);
  group.link = {.bytes_per_s = 25'000'000, .round_trip_ns = 100'000, .message_ns = 10'000};
  group.busiest_link = busiest_link;
  std::vector<Shard> of_map;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    of_map.push_back({.server = ServerId(shard + 1),
                      .incarnation = Incarnation(1),
                      .server_name = "s",
                      .address = "s" + std::to_string(shard) + ":1"});
  }
  group.map = std::make_shared<const ShardMap>(*ShardMap::Make(Epoch(1), std::move(of_map)));
  return group;
}

GroupInfo GroupWithRails(uint32_t nodes, uint32_t ranks_of_node, uint32_t shards) {
  // A node's link carries the parts of all its ranks.
  GroupInfo group = GroupOnServers(nodes * ranks_of_node, shards, ranks_of_node);
  group.node_reduce = NodeReduceMode::kRails;
  for (uint32_t local = 0; local < ranks_of_node; ++local) group.local_ranks.push_back(Rank(local));
  GroupInfo rail = GroupOnServers(nodes, shards, ranks_of_node);
  rail.node_reduce = NodeReduceMode::kRails;
  group.rail = std::make_shared<const GroupInfo>(std::move(rail));
  return group;
}

TEST(OpPlan, RailsShareTheNodesPortSoATensorTakesAsLongAsThatOfOneRank) {
  constexpr uint64_t kElements = 6'553'600;  // 25 MiB
  const absl::StatusOr<OpPlan> one_rank = PlanOp(GroupOnServers(2, 2, 1), kElements, DataType::kFloat32);
  const absl::StatusOr<OpPlan> rails = PlanOp(GroupWithRails(2, 4, 2), kElements, DataType::kFloat32);
  ASSERT_TRUE(one_rank.ok() && rails.ok());
  EXPECT_EQ(one_rank->rails, 1u);
  EXPECT_EQ(rails->rails, 4u);
  EXPECT_NEAR(rails->chunk_count, one_rank->chunk_count / 4, 20) << "each of the four has a quarter";
  EXPECT_NEAR(static_cast<double>(rails->predicted_ns) / static_cast<double>(one_rank->predicted_ns), 1, 0.01);
}

TEST(OpPlan, ServersOnTheRanksNodesShareTheirLinks) {
  constexpr uint64_t kElements = 6'553'600;  // 25 MiB
  const absl::StatusOr<OpPlan> dedicated = PlanOp(GroupOnServers(4, 4, 1), kElements, DataType::kFloat32);
  // Each way, of four nodes: a rank's parts to the other three and a server's results to them.
  const absl::StatusOr<OpPlan> colocated = PlanOp(GroupOnServers(4, 4, 1.5), kElements, DataType::kFloat32);
  ASSERT_TRUE(dedicated.ok() && colocated.ok());
  EXPECT_NEAR(static_cast<double>(colocated->predicted_ns) / static_cast<double>(dedicated->predicted_ns), 1.5, 0.01);
}

TEST(OpPlan, AServerHandlesTheMessagesOfAllRails) {
  GroupInfo group = GroupWithRails(2, 4, 1);
  GroupInfo rail = *group.rail;
  rail.link.message_ns = 20'000'000;  // messages alone decide
  group.rail = std::make_shared<const GroupInfo>(rail);
  const absl::StatusOr<OpPlan> plan = PlanOp(group, 6'553'600, DataType::kFloat32);
  ASSERT_TRUE(plan.ok());
  EXPECT_GE(plan->predicted_ns, uint64_t{2} * 4 * plan->chunk_count * 20'000'000);
}

TEST(OpPlan, WhatIsTooLargeForTheGroupIsRefusedWithRailsAsWell) {
  EXPECT_FALSE(PlanOp(GroupWithRails(2, 4, 2), kMaxBucketBytes / 4 + 1, DataType::kFloat32).ok());
}

}  // namespace
}  // namespace shoal
