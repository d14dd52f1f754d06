#include "worker/machine/worker_counters.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(WorkerTallyTest, OpsThatEndWellAreCountedByTheirTime) {
  WorkerTally tally;
  const SubmitCommand command{.submitted_ns = kNsPerS};
  for (int i = 0; i < 3; ++i) tally.CountSubmit({.monotonic_ns = kNsPerS});
  tally.CountOp(command, absl::OkStatus(), {.monotonic_ns = kNsPerS + 3 * kNsPerMs});
  tally.CountOp(command, absl::OkStatus(), {.monotonic_ns = kNsPerS + 700 * kNsPerMs});
  tally.CountOp(command, absl::DeadlineExceededError("late"), {.monotonic_ns = 31 * kNsPerS});
  OpTimeHistogram expected;
  expected.Count(3 * kNsPerMs);
  expected.Count(700 * kNsPerMs);
  EXPECT_EQ(tally.counters().op_times, expected);
  EXPECT_EQ(tally.counters().op_times.Total(), tally.counters().ops_completed);
  EXPECT_EQ(tally.counters().op_time_ns_total, 703 * kNsPerMs);
}

}  // namespace
}  // namespace shoal
