#include "scheduler/scheduler_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

scheduler::SchedulerNumbers OneJob() {
  scheduler::SchedulerNumbers numbers;
  scheduler::JobNumbers& job = numbers.largest_jobs.emplace_back();
  job.name = "gpt";
  job.load.ops_completed = 3;
  for (const uint64_t ms : {3, 4, 60'000}) {
    job.load.op_times.Count(ms * kNsPerMs);
    job.load.op_time_ns_total += ms * kNsPerMs;
  }
  return numbers;
}

TEST(SchedulerMetricsTest, AJobHasAHistogramOfItsOpTimes) {
  const scheduler::SchedulerNumbers numbers = OneJob();
  const std::string text = SchedulerMetricsText(&numbers, 0);
  EXPECT_THAT(text, HasSubstr("# TYPE shoal_job_op_duration_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("shoal_job_op_duration_seconds_count{job=\"gpt\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("shoal_job_op_duration_seconds_sum{job=\"gpt\"} 60.007"));
  EXPECT_THAT(text, HasSubstr("shoal_job_op_duration_seconds_bucket{job=\"gpt\",le=\"0.002\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("shoal_job_op_duration_seconds_bucket{job=\"gpt\",le=\"0.005\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("shoal_job_op_duration_seconds_bucket{job=\"gpt\",le=\"50\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("shoal_job_op_duration_seconds_bucket{job=\"gpt\",le=\"+Inf\"} 3\n"));
}

TEST(SchedulerMetricsTest, OpTimesThatLackSomeOpsAreNotShown) {
  scheduler::SchedulerNumbers numbers = OneJob();
  numbers.largest_jobs[0].load.ops_completed = 4;  // of a rank that does not tell how long
  EXPECT_THAT(SchedulerMetricsText(&numbers, 0), Not(HasSubstr("shoal_job_op_duration_seconds")));
  numbers = OneJob();
  numbers.largest_jobs[0].load_is_whole = false;
  EXPECT_THAT(SchedulerMetricsText(&numbers, 0), Not(HasSubstr("shoal_job_op_duration_seconds")));
}

TEST(SchedulerMetricsTest, GaugesOfAJobAreShownThoughARankWasNotHeard) {
  scheduler::SchedulerNumbers numbers = OneJob();
  numbers.largest_jobs[0].load_is_whole = false;
  numbers.largest_jobs[0].slot_memory_bytes = 4096;
  numbers.largest_jobs[0].load.retained_results = 5;
  const std::string text = SchedulerMetricsText(&numbers, 0);
  EXPECT_THAT(text, HasSubstr("shoal_job_slot_memory_bytes{job=\"gpt\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("shoal_job_retained_results{job=\"gpt\"} 5\n"));
}

TEST(SchedulerMetricsTest, SavesHaveAHistogramAsWell) {
  scheduler::SchedulerNumbers numbers;
  numbers.saves.Count(true, 2 * kNsPerMs, Now());
  numbers.saves.Count(false, 20 * kNsPerS, Now());
  const std::string text = SchedulerMetricsText(&numbers, 0);
  EXPECT_THAT(text, HasSubstr("shoal_scheduler_save_seconds_count 2\n"));
  EXPECT_THAT(text, HasSubstr("shoal_scheduler_save_seconds_bucket{le=\"0.003\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("shoal_scheduler_save_seconds_bucket{le=\"10\"} 1\n"));
}

}  // namespace
}  // namespace shoal
