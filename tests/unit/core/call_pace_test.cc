#include "core/call_pace.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr uint64_t kSecond = kNsPerS;

CallFacts BadCall(const std::string& who, const std::string& from = "10.0.0.7:1") {
  CallFacts call;
  call.who = who;
  call.from = from;
  call.call = "AbortJob";
  call.outcome = "PERMISSION_DENIED: no";
  call.is_refused = true;
  return call;
}

TEST(CallPace, OfAFloodTheFirstAreToldAndTheRestIsCounted) {
  CallPace pace;
  uint32_t told = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    // Each connection has a port of its own.
    CallFacts call = BadCall("eve", "10.0.0.7:" + std::to_string(1000 + i));
    told += pace.Admit(kSecond, &call) ? 1 : 0;
  }
  EXPECT_EQ(told, kMostRefusedCallsAMinute);
  CallFacts other = BadCall("bob");
  EXPECT_TRUE(pace.Admit(kSecond, &other)) << "another caller is not left out for it";
  CallFacts elsewhere = BadCall("eve", "10.0.0.8:1");
  EXPECT_TRUE(pace.Admit(kSecond, &elsewhere));
  CallFacts later = BadCall("eve");
  ASSERT_TRUE(pace.Admit(62 * kSecond, &later));
  EXPECT_EQ(later.left_out, 5000 - kMostRefusedCallsAMinute);
}

TEST(CallPace, WhatWasLeftOutIsToldAlsoIfItsCallerComesNoMore) {
  CallPace pace;
  for (uint32_t i = 0; i < kMostRefusedCallsAMinute + 3; ++i) {
    CallFacts call = BadCall("eve");
    pace.Admit(kSecond, &call);
  }
  EXPECT_TRUE(pace.TakeOverdue(30 * kSecond).empty());
  const std::vector<CallFacts> overdue = pace.TakeOverdue(70 * kSecond);
  ASSERT_EQ(overdue.size(), 1u);
  EXPECT_EQ(overdue[0].who, "eve");
  EXPECT_EQ(overdue[0].left_out, 2u) << "besides the one that is told";
  EXPECT_TRUE(pace.TakeOverdue(140 * kSecond).empty());
}

TEST(CallPace, CallersWithoutNumberShareARoom) {
  CallPace pace;
  uint32_t told = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    CallFacts call = BadCall("eve" + std::to_string(i));
    told += pace.Admit(kSecond, &call) ? 1 : 0;
  }
  EXPECT_LE(told, 1024 + kMostRefusedCallsAMinute);
}

TEST(CallPace, CallsThatEndWellAreManyMore) {
  CallPace pace;
  for (uint32_t i = 0; i < kMostGoodCallsAMinute; ++i) {
    CallFacts call = BadCall("vision");
    call.outcome = "ok";
    ASSERT_TRUE(pace.Admit(kSecond, &call)) << i;
  }
}

}  // namespace
}  // namespace shoal
