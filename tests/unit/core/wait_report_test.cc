#include "core/wait_report.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(WaitReport, ALineIsDueAfterAQuarterOfTheTimeThenAfterAsLongAgain) {
  WaitReport wait(100 * kNsPerS, 108 * kNsPerS);
  EXPECT_EQ(wait.due_ns(), 102 * kNsPerS);
  EXPECT_FALSE(wait.TakeDue(102 * kNsPerS - 1));
  EXPECT_FALSE(wait.reported());
  EXPECT_TRUE(wait.TakeDue(102 * kNsPerS));
  EXPECT_TRUE(wait.reported());
  EXPECT_EQ(wait.due_ns(), 104 * kNsPerS);
}

TEST(WaitReport, NoWaitLastsTenSecondsWithoutALineNorAMinuteWithoutTheNext) {
  WaitReport wait(0, kNoDeadline);
  EXPECT_EQ(wait.due_ns(), 10 * kNsPerS);
  EXPECT_TRUE(wait.TakeDue(600 * kNsPerS));
  EXPECT_EQ(wait.due_ns(), 660 * kNsPerS);
  EXPECT_EQ(WaitReport().due_ns(), kNoDeadline);
}

TEST(WaitReport, ALineSaysHowLongItWaitedForWhomAndHowLongItMayStillWait) {
  EXPECT_EQ(WaitReport(kNsPerS, 31 * kNsPerS).WaitedFor("rank 2", 13 * kNsPerS), "waited 12 s for rank 2 (18 s left)");
  EXPECT_EQ(WaitReport(kNsPerS, 31 * kNsPerS).WaitedFor("rank 2", 32 * kNsPerS), "waited 31 s for rank 2 (0 s left)");
  EXPECT_EQ(WaitReport(0, kNoDeadline).WaitedFor("the scheduler", 1'500'000'000), "waited 1.5 s for the scheduler");
}

}  // namespace
}  // namespace shoal
