#include "process/node_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(OwnAddress, IsTheDevicesWhereItHasOne) {
  EXPECT_EQ(*OwnAddress("lo", "no.such.name.invalid:1"), "127.0.0.1");
  EXPECT_EQ(*OwnAddress("lo:1,eth9", "no.such.name.invalid:1"), "127.0.0.1");
}

TEST(OwnAddress, IsOnTheWayToThePeerElse) {
  EXPECT_EQ(*OwnAddress("", "127.0.0.1:7070"), "127.0.0.1");
  EXPECT_EQ(*OwnAddress("mlx5_9:1", "127.0.0.1:7070"), "127.0.0.1") << "an RDMA device has no address of its own";
  EXPECT_EQ(*OwnAddress("", "127.0.0.1:7070,127.0.0.2:7070"), "127.0.0.1");
}

TEST(OwnAddress, SaysThatThereIsNoWay) {
  const absl::StatusOr<std::string> address = OwnAddress("", "name.invalid:7070");
  ASSERT_FALSE(address.ok());
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(address.status().message()), HasSubstr("cannot resolve the name name.invalid"));
}

TEST(DevicesWithLink, AreThoseThatCanBeUsedNow) {
  EXPECT_TRUE(DevicesWithLink().contains("lo"));
  EXPECT_FALSE(DevicesWithLink().contains("eth999"));
}

}  // namespace
}  // namespace shoal
