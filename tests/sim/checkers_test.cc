// What the checkers ask of a group's plan.
#include "sim/checkers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/frame.h"

namespace shoal::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr LinkFacts kLink = {.bytes_per_s = 125'000'000, .round_trip_ns = 100'000, .message_ns = 2'000};

// Of one rank, planned for three servers in epoch 3: 33 chunks of 8 KiB are what a port holds.
GroupInfo Planned(Epoch epoch, uint32_t servers) {
  std::vector<Shard> shards;
  for (uint32_t i = 1; i <= servers; ++i) {
    shards.push_back({.server = ServerId(i),
                      .incarnation = Incarnation(i),
                      .server_name = "server",
                      .address = "10.0.0.1:" + std::to_string(i)});
  }
  GroupToken token;
  token.group = GroupId(7);
  token.epoch = Epoch(3);
  token.group_size = 1;
  token.max_chunk_bytes = 8192;
  token.credit_chunks = 11;
  const auto bytes = EncodeToken(token);
  GroupInfo group;
  group.id = token.group;
  group.max_chunk_bytes = token.max_chunk_bytes;
  group.credit_chunks = token.credit_chunks;
  group.link = kLink;
  group.token.assign(bytes.begin(), bytes.end());
  group.map = std::make_shared<const ShardMap>(*ShardMap::Make(epoch, std::move(shards)));
  return group;
}

class PlanCheckTest : public testing::Test {
 protected:
  void Check(const GroupInfo& group, PlanFacts facts = {.asked_chunk_bytes = 8192}) {
    facts.link = kLink;
    checkers_.CheckPlan(group, facts);
  }

  World world_{1};
  Checkers checkers_{&world_, [](uint32_t) { return uint64_t{0}; }, /*healing_ns=*/kNsPerS};
};

TEST_F(PlanCheckTest, WhatIsUnderWayFitsThePortsOfTheServersThatItWasPlannedFor) {
  Check(Planned(Epoch(3), 3));
  EXPECT_THAT(checkers_.failures(), IsEmpty());
  Check(Planned(Epoch(3), 4));
  EXPECT_THAT(checkers_.failures(), ElementsAre(HasSubstr("does not fit a port")));
}

// The first answer was lost (seed 93697), or another rank's was.
TEST_F(PlanCheckTest, AMapThatCameLaterDoesNotCount) {
  Check(Planned(Epoch(4), 4));
  EXPECT_THAT(checkers_.failures(), IsEmpty());
  Check(Planned(Epoch(3), 4));
  EXPECT_THAT(checkers_.failures(), ElementsAre(HasSubstr("does not fit a port"))) << "no rank was heard before";
}

// 264 KiB of payload are planned, and 12.5 KB are on the way: a port that holds 288 KiB with headers has room for them.
TEST_F(PlanCheckTest, WhatTheSchedulerWasToldOfPortsCounts) {
  constexpr uint64_t kKib = 1024;
  Check(Planned(Epoch(3), 3), {.port_buffer_bytes = 288 * kKib});
  EXPECT_THAT(checkers_.failures(), IsEmpty());
  Check(Planned(Epoch(3), 3), {.port_buffer_bytes = 280 * kKib});
  EXPECT_THAT(checkers_.failures(), ElementsAre(HasSubstr("does not fit a port")));
}

// The least credit is no excuse where chunks could have been smaller, unless the ranks asked for them.
TEST_F(PlanCheckTest, ChunksAreAsSmallAsAKnownPortNeedsThem) {
  GroupInfo group = Planned(Epoch(3), 3);
  group.credit_chunks = 2;
  Check(group, {.asked_chunk_bytes = 8192, .port_buffer_bytes = 24 << 10});
  EXPECT_THAT(checkers_.failures(), IsEmpty());
  Check(group, {.port_buffer_bytes = 24 << 10});
  EXPECT_THAT(checkers_.failures(), ElementsAre(HasSubstr("does not fit a port")));
}

TEST_F(PlanCheckTest, WhatMeetsAtServersIsOfAllRanksOfTheJob) {
  GroupInfo group = Planned(Epoch(3), 3);
  group.credit_chunks = 2;
  group.busiest_port = 2;
  Check(group, {.asked_chunk_bytes = 8192, .ranks_of_job = 6});
  EXPECT_THAT(checkers_.failures(), IsEmpty());
  Check(group, {.asked_chunk_bytes = 8192, .ranks_of_job = 7});
  EXPECT_THAT(checkers_.failures(), ElementsAre(HasSubstr("are left out")));
}

}  // namespace
}  // namespace shoal::sim
