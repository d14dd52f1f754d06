#include "scheduler/insight/job_load.h"

#include <gtest/gtest.h>

namespace shoal::scheduler {
namespace {

class JobLoadTest : public ::testing::Test {
 protected:
  // What a rank tells after so many ops of 3 ms each and 1000 bytes.
  static WorkerLoad Told(uint64_t ops) {
    WorkerLoad load{.ops_completed = ops,
                    .bytes_pushed = 1000 * ops,
                    .bytes_pulled = 2000 * ops,
                    .op_time_ns_total = 3 * kNsPerMs * ops};
    for (uint64_t i = 0; i < ops; ++i) load.op_times.Count(3 * kNsPerMs);
    return load;
  }
  void Pass(uint64_t ms) { now_.monotonic_ns += ms * kNsPerMs; }

  Now now_{.monotonic_ns = 1000 * kNsPerS};
  JobLoad load_;
};

TEST_F(JobLoadTest, IsTheSumOfItsRanks) {
  EXPECT_TRUE(load_.Add({}, Told(2), now_));
  EXPECT_TRUE(load_.Add({}, Told(5), now_));
  EXPECT_TRUE(load_.Add(Told(2), Told(4), now_));
  EXPECT_EQ(load_.sum().ops_completed, 9u);
  EXPECT_EQ(load_.sum().bytes_pushed, 9000u);
  EXPECT_EQ(load_.sum().bytes_pulled, 18'000u);
  EXPECT_EQ(load_.sum().op_time_ns_total, 27 * kNsPerMs);
  EXPECT_EQ(load_.sum().op_times, Told(9).op_times);
  EXPECT_TRUE(load_.sum().HasOpTimes());
}

TEST_F(JobLoadTest, ALostHeartbeatLosesNothing) {
  WorkerLoad known;
  for (const uint64_t ops : {10, 20, 50}) {
    EXPECT_TRUE(load_.Add(known, Told(ops), now_));
    known = Told(ops);
  }
  EXPECT_EQ(load_.sum().op_times, Told(50).op_times);
}

TEST_F(JobLoadTest, DoesNotFallWhenAProcessTakesTheRankOfAnother) {
  EXPECT_TRUE(load_.Add({}, Told(7), now_));
  EXPECT_TRUE(load_.Add({}, Told(1), now_)) << "the first heartbeat of the next process";
  EXPECT_EQ(load_.sum().op_times, Told(8).op_times);
}

TEST_F(JobLoadTest, TakesNothingFromARankWhoseTotalsFall) {
  EXPECT_TRUE(load_.Add({}, Told(7), now_));
  EXPECT_FALSE(load_.Add(Told(7), Told(6), now_)) << "overtaken by the one before";
  WorkerLoad wrong = Told(7);
  wrong.ops_completed = 100;
  wrong.op_times = {};  // as with another number of buckets
  EXPECT_FALSE(load_.Add(Told(7), wrong, now_));
  EXPECT_EQ(load_.sum().ops_completed, 7u);
  EXPECT_EQ(load_.sum().op_times, Told(7).op_times);
}

TEST_F(JobLoadTest, OpTimesAreNotWholeWithARankThatDoesNotTellThem) {
  EXPECT_TRUE(load_.Add({}, Told(7), now_));
  WorkerLoad of_older = Told(3);
  of_older.op_times = {};
  EXPECT_TRUE(load_.Add({}, of_older, now_));
  EXPECT_EQ(load_.sum().ops_completed, 10u);
  EXPECT_FALSE(load_.sum().HasOpTimes());
}

TEST_F(JobLoadTest, RatesAreOfTheLastSeconds) {
  EXPECT_TRUE(load_.Add({}, Told(1000), now_));
  EXPECT_FALSE(load_.Rates().has_value()) << "one heartbeat has no rate";
  Pass(1000);
  EXPECT_TRUE(load_.Add(Told(1000), Told(1010), now_));
  ASSERT_TRUE(load_.Rates().has_value());
  EXPECT_DOUBLE_EQ(load_.Rates()->ops, 10);
  EXPECT_DOUBLE_EQ(load_.Rates()->bytes_pushed, 10'000);
  EXPECT_DOUBLE_EQ(load_.Rates()->bytes_pulled, 20'000);
  EXPECT_DOUBLE_EQ(load_.Rates()->failed_ops, 0);
  EXPECT_EQ(load_.Rates()->mean_op_ns, 3 * kNsPerMs);
  EXPECT_EQ(load_.Rates()->op_times, Told(10).op_times);
  for (uint64_t second = 0; second < 20; ++second) {  // it does nothing
    Pass(1000);
    EXPECT_TRUE(load_.Add(Told(1010), Told(1010), now_));
  }
  EXPECT_EQ(load_.Rates()->ops, 0) << "what was long ago does not count";
  EXPECT_EQ(load_.Rates()->mean_op_ns, 0u);
}

TEST_F(JobLoadTest, WhatWasCountedBeforeItWasHeardIsNoRate) {
  EXPECT_TRUE(load_.Add({}, Told(10), now_));
  Pass(1000);
  load_.ForgetRates();
  EXPECT_TRUE(load_.Add({}, Told(1'000), now_)) << "a rank that has run for an hour";
  EXPECT_FALSE(load_.Rates().has_value());
  Pass(1000);
  EXPECT_TRUE(load_.Add(Told(10), Told(12), now_));
  EXPECT_DOUBLE_EQ(load_.Rates()->ops, 2);
}

TEST(RankGrowthTest, RatesOfARankAreOfTheLastSeconds) {
  RankGrowth growth;
  Now now{.monotonic_ns = 1000 * kNsPerS};
  growth.Note({.ops_completed = 1000, .bytes_pushed = 1'000'000, .bytes_pulled = 5'000'000}, now);
  EXPECT_FALSE(growth.Rates().has_value()) << "one heartbeat has no rate";
  now.monotonic_ns += 2 * kNsPerS;
  growth.Note({.ops_completed = 1010, .bytes_pushed = 1'000'200, .bytes_pulled = 5'000'400}, now);
  ASSERT_TRUE(growth.Rates().has_value());
  EXPECT_DOUBLE_EQ(growth.Rates()->ops, 5);
  EXPECT_DOUBLE_EQ(growth.Rates()->bytes_pushed, 100);
  EXPECT_DOUBLE_EQ(growth.Rates()->bytes_pulled, 200);
}

}  // namespace
}  // namespace shoal::scheduler
