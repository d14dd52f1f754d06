#include "process/scheduler_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SchedulerTarget, OneAddressStaysAsItIs) {
  for (const std::string address : {"scheduler.example:7070", "10.0.0.7:1", "[::1]:65535"}) {
    EXPECT_EQ(*SchedulerTarget(address), address);
  }
}

TEST(SchedulerTarget, AListOfAddressesIsWhatGrpcCallsOne) {
  EXPECT_EQ(*SchedulerTarget("10.0.0.1:7070,10.0.0.2:7071"), "ipv4:10.0.0.1:7070,10.0.0.2:7071");
  EXPECT_EQ(*SchedulerTarget("[fd00::1]:7070,[fd00::2]:7070"), "ipv6:[fd00::1]:7070,[fd00::2]:7070");
}

TEST(SchedulerTarget, WhatIsWrongIsSaid) {
  for (const std::string address :
       {"", "a", "a:", ":7070", "a:0", "a:65536", "a b:1", "::1:7070", "10.0.0.1:1,", "a:+1"}) {
    const auto target = SchedulerTarget(address);
    EXPECT_TRUE(absl::IsInvalidArgument(target.status())) << address;
    EXPECT_THAT(std::string(target.status().message()), HasSubstr("give HOST:PORT")) << address;
  }
  for (const std::string address : {"a:1,b:1", "10.0.0.1:1,[::1]:1", "10.0.0.1:1,b:1", "10.0.0.256:1,10.0.0.1:1"}) {
    const auto target = SchedulerTarget(address);
    EXPECT_TRUE(absl::IsInvalidArgument(target.status())) << address;
    EXPECT_THAT(std::string(target.status().message()), HasSubstr("a list must have IP addresses of one kind"))
        << address;
  }
}

TEST(EachSchedulerAddress, IsThoseOfAListOrThoseThatANameHas) {
  EXPECT_THAT(EachSchedulerAddress("10.0.0.1:7070"), ElementsAre("10.0.0.1:7070"));
  EXPECT_THAT(EachSchedulerAddress("[fd00::1]:7070"), ElementsAre("[fd00::1]:7070"));
  EXPECT_THAT(EachSchedulerAddress("10.0.0.1:7070,10.0.0.2:7071"), ElementsAre("10.0.0.1:7070", "10.0.0.2:7071"));
  EXPECT_THAT(EachSchedulerAddress("localhost:7070"), ElementsAre("127.0.0.1:7070"));
  EXPECT_THAT(EachSchedulerAddress("no-such-name.invalid:7070"), ElementsAre("no-such-name.invalid:7070"));
}

}  // namespace
}  // namespace shoal
