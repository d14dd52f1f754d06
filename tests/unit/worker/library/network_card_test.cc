#include "worker/library/network_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kRdma = "rc";

std::vector<std::string> Deal(const std::string& devices, uint32_t ranks) {
  std::vector<std::string> dealt;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    dealt.push_back(ChooseNetworkCard(devices, kRdma, rank, ranks)->devices);
  }
  return dealt;
}

uint32_t CardCount(const std::string& devices, uint32_t ranks) {
  return ChooseNetworkCard(devices, kRdma, 0, ranks)->card_count;
}

TEST(NetworkCard, RanksAreDealtInBlocks) {
  EXPECT_THAT(Deal("a/b", 4), ElementsAre("a", "a", "b", "b"));
  EXPECT_THAT(Deal("a/b", 5), ElementsAre("a", "a", "a", "b", "b"));
  EXPECT_THAT(Deal("a/b/c/d", 4), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(Deal("a/b/c/d", 2), ElementsAre("a", "c"));
  EXPECT_THAT(Deal("mlx5_0:1,mlx5_1:1/mlx5_2:1", 2), ElementsAre("mlx5_0:1,mlx5_1:1", "mlx5_2:1"));
  EXPECT_THAT(Deal("a/b/a/b", 4), ElementsAre("a", "b", "a", "b")) << "by turns, if asked for";
}

TEST(NetworkCard, CardsInUseAreCountedOnce) {
  EXPECT_EQ(CardCount("a:1/b:1", 4), 2u);
  EXPECT_EQ(CardCount("a:1/b:1/a:1/b:1", 4), 2u);
  EXPECT_EQ(CardCount("a:1/b:1/c:1/d:1", 2), 2u);
  EXPECT_EQ(CardCount("a:1/b:1", 4'000'000'000), 2u);
  EXPECT_EQ(CardCount("a:1/a:2", 2), 2u) << "two ports";
}

TEST(NetworkCard, AnUnevenDealCountsByItsBusiestCard) {
  EXPECT_EQ(CardCount("a:1/a:1/a:1/b:1", 4), 1u) << "three of four are at one";
  EXPECT_EQ(CardCount("a:1/a:1/b:1/c:1", 4), 2u);
  EXPECT_EQ(CardCount("a:1,b:1/c:1", 2), 2u) << "the second rank has a card to itself";
}

TEST(NetworkCard, DevicesThatOnlyMakeConnectionsAreNotCounted) {
  EXPECT_EQ(CardCount("mlx5_0:1,eth0", 0), 1u);
  EXPECT_EQ(CardCount("mlx5_0:1,mlx5_1:1", 0), 2u);
  EXPECT_EQ(CardCount("mlx5_0:1,eth0/mlx5_1:1,eth0", 2), 2u);
  EXPECT_EQ(CardCount("eth0/eth1", 2), 1u) << "not known";
  EXPECT_EQ(ChooseNetworkCard("eth0,eth1", "tcp", 0, 0)->card_count, 2u);
  EXPECT_EQ(ChooseNetworkCard("lo,eth0", "tcp", 0, 0)->card_count, 1u);
}

TEST(NetworkCard, WhatIsNotDealtIsEverybodysWhateverIsKnownOfTheNode) {
  for (const std::string devices : {"", "eth0", "eth0,eth1"}) {
    for (const std::string& transports : {kRdma, std::string("tcp")}) {
      EXPECT_EQ(ChooseNetworkCard(devices, transports, 7, 0)->devices, devices);
    }
  }
  EXPECT_EQ(CardCount("", 0), 1u);
  EXPECT_EQ(CardCount("eth0", 0), 1u);
}

TEST(NetworkCard, WhatCanNotBeDealtIsRefusedWithTheReason) {
  const auto refusal = [](const std::string& devices, const std::string& transports, uint32_t rank, uint32_t ranks) {
    const absl::Status status = ChooseNetworkCard(devices, transports, rank, ranks).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal("a/b", kRdma, 0, 0), HasSubstr("it is not known which one this is; set LOCAL_RANK"));
  EXPECT_THAT(refusal("a/b", kRdma, 4, 4), HasSubstr("local rank 4 is not below the local world size, 4"));
  EXPECT_THAT(refusal("eth0/eth1", "tcp", 0, 2), HasSubstr("name the devices with commas: eth0,eth1"));
  for (const std::string devices : {"eth0/", "/eth0", "eth0//eth1", "/"}) {
    EXPECT_THAT(refusal(devices, kRdma, 0, 2), HasSubstr("\"" + devices + "\": a name is missing beside a slash"));
  }
}

}  // namespace
}  // namespace shoal
