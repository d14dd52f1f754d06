#include "core/shard_map.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/bucket_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Shard> Shards(const std::vector<uint32_t>& weights) {
  std::vector<Shard> shards;
  for (size_t i = 0; i < weights.size(); ++i) {
    shards.push_back({.server = ServerId(10 + i),
                      .incarnation = Incarnation(100 + i),
                      .server_name = absl::StrCat("server-", i),
                      .address = absl::StrCat("10.0.0.", i, ":7000"),
                      .weight = weights[i]});
  }
  return shards;
}

ShardMap Map(const std::vector<uint32_t>& weights, uint64_t epoch = 1) {
  return *ShardMap::Make(Epoch(epoch), Shards(weights));
}

TEST(ShardMap, DoesNotDependOnTheOrderOfRegistration) {
  std::vector<Shard> shards = Shards({1, 2, 3, 1, 5});
  const ShardMap sorted = *ShardMap::Make(Epoch(4), shards);
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(shards.begin(), shards.end(), random);
    const ShardMap map = *ShardMap::Make(Epoch(4), shards);
    EXPECT_EQ(map.Digest(), sorted.Digest());
    EXPECT_EQ(map.shards(), sorted.shards());
    EXPECT_EQ(map.deal_table(), sorted.deal_table());
  }
}

TEST(ShardMap, DigestIsFrozenAndSeesEveryField) {
  const ShardMap map = Map({1, 2}, 7);
  EXPECT_EQ(map.Digest(), 0x94494edcedb7a0b2);
  std::set<uint64_t> digests = {map.Digest(), Map({1, 2}, 8).Digest(), Map({1, 2, 1}, 7).Digest()};
  const auto with = [](auto change) {
    std::vector<Shard> shards = Shards({1, 2});
    change(&shards[1]);
    return ShardMap::Make(Epoch(7), shards)->Digest();
  };
  digests.insert(with([](Shard* s) { s->server = ServerId(99); }));
  digests.insert(with([](Shard* s) { s->incarnation = Incarnation(1); }));
  digests.insert(with([](Shard* s) { s->server_name = "other"; }));
  digests.insert(with([](Shard* s) { s->address = "10.0.0.9:1"; }));
  digests.insert(with([](Shard* s) { s->weight = 3; }));
  EXPECT_EQ(digests.size(), 8u);
}

TEST(ShardMap, OwnersAreFrozen) {
  const ShardMap map = Map({1, 1, 1});
  std::vector<uint32_t> owners;
  for (uint64_t group = 1; group <= 3; ++group) {
    for (uint64_t position = 0; position < 4; ++position) owners.push_back(map.Owner(GroupId(group), position));
  }
  EXPECT_THAT(owners, ElementsAre(2, 0, 1, 2, 2, 0, 1, 2, 2, 0, 1, 2));
}

// Bytes of the busiest shard over the mean, for a bucket of 25 MiB fp32.
double Imbalance(const ShardMap& map, uint32_t chunk_bytes, uint64_t first_position) {
  const BucketPlan plan = *MakeBucketPlan((25u << 20) / 4, WireCodec(DataType::kFloat32), chunk_bytes);
  std::vector<uint64_t> elements(map.shards().size(), 0);
  for (uint32_t c = 0; c < plan.chunk_count; ++c) {
    elements[map.Owner(GroupId(3), first_position + c)] += plan.ElementCount(ChunkNumber(c));
  }
  const double mean = static_cast<double>(plan.element_count) / static_cast<double>(elements.size());
  return static_cast<double>(*std::max_element(elements.begin(), elements.end())) / mean;
}

TEST(ShardMap, EveryServerCarriesItsShareOfEveryBucketToOnePercent) {
  for (size_t shards : {2, 3, 8}) {
    const ShardMap map = Map(std::vector<uint32_t>(shards, 1));
    for (uint32_t chunk_bytes = 16 << 10; chunk_bytes <= 256 << 10; chunk_bytes += 16 << 10) {
      for (uint64_t first_position = 0; first_position < 8; ++first_position) {
        EXPECT_LE(Imbalance(map, chunk_bytes, first_position), 1.01)
            << shards << " shards, chunks of " << chunk_bytes << " bytes, from " << first_position;
      }
    }
  }
}

TEST(ShardMap, WeightsAreRespectedToOneChunk) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint32_t> weights(1 + random() % 8);
    for (uint32_t& weight : weights) weight = static_cast<uint32_t>(1 + random() % kMaxShardWeight);
    const ShardMap map = Map(weights);
    double total = 0;
    for (uint32_t weight : weights) total += weight;
    const uint32_t chunks = 1 + static_cast<uint32_t>(random() % 500);
    const uint64_t random_start = random() >> 1;
    std::vector<uint32_t> counts(weights.size(), 0);
    for (uint32_t c = 0; c < chunks; ++c) ++counts[map.Owner(GroupId(1), random_start + c)];
    for (size_t i = 0; i < weights.size(); ++i) {
      // Smooth round robin is within one of a shard's share in every prefix, so within two between any two points.
      EXPECT_NEAR(counts[i], chunks * weights[i] / total, 2.0) << "shard " << i << " of " << weights.size();
    }
    if (chunks % static_cast<uint32_t>(map.deal_table().size()) != 0) continue;
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(counts[i] * total, chunks * weights[i]);
  }
}

TEST(ShardMap, EqualWeightsDealInTurnWhateverTheWeight) {
  EXPECT_THAT(Map({1, 1, 1}).deal_table(), ElementsAre(0, 1, 2));
  EXPECT_THAT(Map({64, 64, 64}).deal_table(), ElementsAre(0, 1, 2));
  EXPECT_THAT(Map({2, 1}).deal_table(), ElementsAre(0, 1, 0));
  EXPECT_THAT(Map({5, 1, 1}).deal_table(), ElementsAre(0, 0, 1, 0, 2, 0, 0));
}

TEST(ShardMap, GroupsStartAnywhereAndGoOnWhereTheLastBucketEnded) {
  const ShardMap map = Map(std::vector<uint32_t>(8, 1));
  std::vector<int> first(8, 0);
  for (uint64_t group = 1; group <= 8000; ++group) {
    const uint32_t start = map.Owner(GroupId(group), 0);
    ++first[start];
    for (const uint64_t position : {uint64_t{5}, uint64_t{1} << 40, UINT64_MAX}) {
      EXPECT_EQ(map.Owner(GroupId(group), position), (start + position % 8) % 8);
      EXPECT_EQ(map.deal_table()[map.Rotation(GroupId(group), position)], map.Owner(GroupId(group), position));
    }
  }
  for (int count : first) EXPECT_NEAR(count, 1000, 150);
}

TEST(ShardMap, WhatIsNoMapIsRefusedWithTheServersName) {
  const auto complaint = [](std::vector<Shard> shards) {
    return std::string(ShardMap::Make(Epoch(1), std::move(shards)).status().message());
  };
  EXPECT_THAT(complaint(Shards({0})), HasSubstr("weight 0 of server server-0 is not between 1 and 64"));
  EXPECT_THAT(complaint(Shards({1, 65})), HasSubstr("weight 65 of server server-1"));
  EXPECT_THAT(complaint(Shards(std::vector<uint32_t>(kMaxShards + 1, 1))), HasSubstr("more than the limit of 4096"));
  std::vector<Shard> shards = Shards({1, 1});
  shards[1].address = shards[0].address;
  EXPECT_THAT(complaint(shards), HasSubstr("stands in the map twice"));
  shards[1].address.clear();
  EXPECT_THAT(complaint(shards), HasSubstr("is empty"));
  EXPECT_TRUE(ShardMap::Make(Epoch(1), {})->empty());
}

}  // namespace
}  // namespace shoal
