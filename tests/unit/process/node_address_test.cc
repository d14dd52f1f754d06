#include "process/node_address.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(OwnAddress, IsTheDevicesWhereItHasOne) {
  EXPECT_EQ(*OwnAddress("lo", "no.such.name.invalid:1"), "127.0.0.1");
  EXPECT_EQ(*OwnAddress("lo:1,eth9", "no.such.name.invalid:1"), "127.0.0.1");
  EXPECT_EQ(*OwnAddress("lo/eth9", "no.such.name.invalid:1"), "127.0.0.1");
}

TEST(OwnAddress, IsOnTheWayToThePeerElse) {
  EXPECT_EQ(*OwnAddress("", "127.0.0.1:7070"), "127.0.0.1");
  EXPECT_EQ(*OwnAddress("mlx5_9:1", "127.0.0.1:7070"), "127.0.0.1") << "an RDMA device has no address of its own";
  EXPECT_EQ(*OwnAddress("", "127.0.0.1:7070,127.0.0.2:7070"), "127.0.0.1");
  EXPECT_TRUE(IsLoopback(*OwnAddress("", "localhost:7070")));
}

TEST(IsLoopback, TellsWhatIsOfThisNodeAlone) {
  for (const char* const ip : {"127.0.0.1", "127.0.1.1", "::1"}) EXPECT_TRUE(IsLoopback(ip)) << ip;
  for (const char* const ip : {"10.0.0.1", "fd00::1", "128.0.0.1", "localhost", ""}) EXPECT_FALSE(IsLoopback(ip)) << ip;
}

TEST(OwnAddress, SaysThatThereIsNoWay) {
  const absl::StatusOr<std::string> address = OwnAddress("", "name.invalid:7070");
  ASSERT_FALSE(address.ok());
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(address.status().message()), HasSubstr("cannot resolve the name name.invalid"));
}

TEST(AdvertisedAddressTest, IsAnAddressANetworkOrADevice) {
  const absl::StatusOr<std::string> address = FindAdvertisedAddress("127.0.0.7");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, "127.0.0.7") << "loopback answers for more addresses than it lists";
  for (const char* const text : {"lo", "127.0.0.0/8", "127.0.0.1/32", "127.255.0.0/8"}) {
    const absl::StatusOr<std::string> found = FindAdvertisedAddress(text);
    ASSERT_TRUE(found.ok()) << text << ": " << found.status();
    EXPECT_EQ(*found, "127.0.0.1") << text;
  }
}

TEST(AdvertisedAddressTest, WhatWorkersCannotUseIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"0.0.0.0", "stands for every address"},
      {"::", "stands for every address"},
      {"203.0.113.1", "is not an address of this node"},
      {"localhost", "is neither an IP address nor a device"},
      {"", "is neither an IP address nor a device"},
      {"203.0.113.0/24", "in which this node has no address"},
      {"2001:db8::/32", "in which this node has no address"},
      {"127.0.0.0/33", "is no network"},
      {"127.0.0.0/", "is no network"},
      {"127.0.0.0/-1", "is no network"},
      {"lo/8", "is no network"},
  };
  for (const auto& [text, why] : cases) {
    const absl::StatusOr<std::string> found = FindAdvertisedAddress(text);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(why)) << text;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr("127.0.0.1 on lo")) << text;
  }
}

}  // namespace
}  // namespace shoal
