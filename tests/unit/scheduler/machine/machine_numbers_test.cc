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
  const SchedulerNumbers numbers = harness.machine().Numbers(harness.now());
  EXPECT_EQ(numbers.jobs, kJobs);
  EXPECT_EQ(numbers.workers, kJobs);
  ASSERT_EQ(numbers.largest_jobs.size(), kMaxJobsInNumbers + 1);
  EXPECT_EQ(numbers.largest_jobs.front().name, absl::StrCat("job-", kJobs));
  EXPECT_EQ(numbers.largest_jobs.back().name, "other");
  EXPECT_EQ(numbers.largest_jobs.back().live_ranks, 10u);
  EXPECT_FALSE(numbers.largest_jobs.back().load_is_whole) << "a sum would fall when one of the jobs ends";
}

TEST(MachineNumbersTest, AJobThatIsCalledOtherIsPartOfTheRest) {
  MachineHarness harness;
  StartJob(&harness, "other", 1, 1'000'000);
  for (uint64_t i = 1; i <= kMaxJobsInNumbers + 1; ++i) StartJob(&harness, absl::StrCat("job-", i), 100 + i, i);
  const SchedulerNumbers numbers = harness.machine().Numbers(harness.now());
  ASSERT_EQ(numbers.largest_jobs.size(), kMaxJobsInNumbers + 1);
  EXPECT_EQ(numbers.largest_jobs.back().name, "other");
  EXPECT_EQ(numbers.largest_jobs.back().live_ranks, 2u);
}

TEST(MachineNumbersTest, CountersOfAJobAreShownWhenAllItsRanksWereHeard) {
  MachineHarness harness;
  JobId job;
  for (uint32_t rank = 0; rank < 2; ++rank) job = harness.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
  const auto shown = [&] { return harness.machine().Numbers(harness.now()).largest_jobs.at(0).load_is_whole; };
  EXPECT_FALSE(shown());
  EXPECT_TRUE(harness.Try(Beat(job, 0, 100)).ok());
  EXPECT_FALSE(shown()) << "the counters would jump when rank 1 is heard";
  EXPECT_TRUE(harness.Try(Beat(job, 1, 101)).ok());
  EXPECT_TRUE(shown());
}

TEST(MachineNumbersTest, TheNumbersOfAJobThatEndedAreShownForAWhile) {
  MachineHarness harness;
  StartJob(&harness, "gpt", 100, 17);
  const JobId job = harness.Ask<std::vector<JobView>>(ListJobs{})[0].job;
  harness.Ask<Done>(LeaveJob{.job = job, .rank = JobRank(0), .incarnation = Incarnation(100), .reason = ""});
  ASSERT_EQ(harness.machine().Numbers(harness.now()).largest_jobs.size(), 1u);
  EXPECT_EQ(harness.machine().Numbers(harness.now()).largest_jobs[0].load.bytes_pushed, 17u);
  StartJob(&harness, "gpt", 200, 5);
  ASSERT_EQ(harness.machine().Numbers(harness.now()).largest_jobs.size(), 1u) << "the next of its name takes its place";
  EXPECT_EQ(harness.machine().Numbers(harness.now()).largest_jobs[0].load.bytes_pushed, 5u);
  StartJob(&harness, "other-one", 300, 1);
  const std::vector<JobView> jobs = harness.Ask<std::vector<JobView>>(ListJobs{});
  harness.Ask<Done>(LeaveJob{.job = jobs[1].job, .rank = JobRank(0), .incarnation = Incarnation(200), .reason = ""});
  harness.Advance(kEndedJobShownNs / kNsPerMs);
  for (const JobNumbers& shown : harness.machine().Numbers(harness.now()).largest_jobs) EXPECT_NE(shown.name, "gpt");
}

}  // namespace
}  // namespace shoal::scheduler
