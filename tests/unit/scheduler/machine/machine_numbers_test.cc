// What the scheduler's metrics are made of.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

void StartJob(MachineHarness* harness, const std::string& name, uint64_t incarnation, uint64_t bytes_pushed) {
  const JobJoined joined = harness->Ask<JobJoined>(Join(name, 1, 0, incarnation));
  HeartbeatWorker heartbeat{.job = joined.job, .rank = JobRank(0), .incarnation = Incarnation(incarnation)};
  heartbeat.load.bytes_pushed = bytes_pushed;
  heartbeat.load.ops_completed = 1;
  harness->Ask<WorkerRenewed>(heartbeat);
}

TEST(MachineNumbersTest, TheLargestJobsHaveNamesAndTheRestIsAddedUp) {
  MachineHarness harness;
  constexpr uint64_t kJobs = kMaxJobsInNumbers + 10;
  for (uint64_t i = 1; i <= kJobs; ++i) StartJob(&harness, absl::StrCat("job-", i), 100 + i, i);
  const SchedulerNumbers numbers = harness.machine().Numbers();
  EXPECT_EQ(numbers.jobs, kJobs);
  EXPECT_EQ(numbers.workers, kJobs);
  ASSERT_EQ(numbers.largest_jobs.size(), kMaxJobsInNumbers + 1);
  EXPECT_EQ(numbers.largest_jobs.front().name, absl::StrCat("job-", kJobs));
  EXPECT_EQ(numbers.largest_jobs.back().name, "other");
  EXPECT_EQ(numbers.largest_jobs.back().live_ranks, 10u);
  EXPECT_EQ(numbers.largest_jobs.back().load.ops_completed, 10u);
  EXPECT_EQ(numbers.largest_jobs.back().load.bytes_pushed, 55u) << "1 + 2 + ... + 10";
}

TEST(MachineNumbersTest, AJobThatIsCalledOtherIsPartOfTheRest) {
  MachineHarness harness;
  StartJob(&harness, "other", 1, 1'000'000);
  for (uint64_t i = 1; i <= kMaxJobsInNumbers + 1; ++i) StartJob(&harness, absl::StrCat("job-", i), 100 + i, i);
  const SchedulerNumbers numbers = harness.machine().Numbers();
  ASSERT_EQ(numbers.largest_jobs.size(), kMaxJobsInNumbers + 1);
  EXPECT_EQ(numbers.largest_jobs.back().name, "other");
  EXPECT_EQ(numbers.largest_jobs.back().load.bytes_pushed, 1'000'001u);
}

}  // namespace
}  // namespace shoal::scheduler
