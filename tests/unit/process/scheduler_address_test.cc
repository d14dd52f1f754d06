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

TEST(OneSchedulerAddress, AnIpv6AddressMayLackTheBracketsThatKubernetesDoesNotWrite) {
  for (const std::string address : {"10.0.0.7:7070", "scheduler.example:7070", "[fd00::7]:7070"}) {
    EXPECT_EQ(*OneSchedulerAddress(address, "--advertise"), address);
  }
  EXPECT_EQ(*OneSchedulerAddress("fd00::7:7070", "--advertise"), "[fd00::7]:7070");
  EXPECT_EQ(*OneSchedulerAddress("fd00:1:2:3:4:5:6:7:7070", "--advertise"), "[fd00:1:2:3:4:5:6:7]:7070");
}

TEST(OneSchedulerAddress, WhatIsWrongIsSaid) {
  for (const std::string address : {"", "a", "fd00::7", "[fd00::7]", "10.0.0.7", "a:", ":7070", "a:0", "a:65536",
                                    "a b:1", "a:1,b:1", "fd00::x:1"}) {
    const auto wrong = OneSchedulerAddress(address, "--advertise");
    EXPECT_TRUE(absl::IsInvalidArgument(wrong.status())) << address;
    EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("give --advertise HOST:PORT")) << address;
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
