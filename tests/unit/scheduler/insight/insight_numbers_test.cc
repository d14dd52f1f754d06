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

TEST(InsightNumbersTest, TheLargestJobsHaveNamesAndTheRestIsAddedUp) {
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

TEST(InsightNumbersTest, AJobThatIsCalledOtherIsPartOfTheRest) {
  MachineHarness harness;
  StartJob(&harness, "other", 1, 1'000'000);
  for (uint64_t i = 1; i <= kMaxJobsInNumbers + 1; ++i) StartJob(&harness, absl::StrCat("job-", i), 100 + i, i);
  HeartbeatServer beat{.server = harness.Ask<ServerRegistered>(Server("a", 1, 7000)).server,
                       .incarnation = Incarnation(1),
                       .load = {},
                       .absent_ranks = {}};
  for (const size_t i : {0, 1}) beat.load.memory_by_job.push_back({.job = harness.Jobs().at(i).job, .bytes = 100});
  harness.Ask<ServerRenewed>(beat);
  const SchedulerNumbers numbers = harness.machine().Numbers(harness.now());
  ASSERT_EQ(numbers.largest_jobs.size(), kMaxJobsInNumbers + 1);
  EXPECT_EQ(numbers.largest_jobs.back().name, "other");
  EXPECT_EQ(numbers.largest_jobs.back().live_ranks, 2u);
  EXPECT_EQ(numbers.largest_jobs.back().slot_memory_bytes, 200u) << "of the one that is called so, and of the smallest";
}

TEST(InsightNumbersTest, CountersOfAJobAreShownWhenAllItsRanksWereHeard) {
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

TEST(InsightNumbersTest, TheNumbersOfAJobThatEndedAreShownForAWhile) {
  MachineHarness harness;
  StartJob(&harness, "gpt", 100, 17);
  const JobId job = harness.Jobs()[0].job;
  harness.Ask<Done>(LeaveJob{.job = job, .rank = JobRank(0), .incarnation = Incarnation(100), .reason = ""});
  ASSERT_EQ(harness.machine().Numbers(harness.now()).largest_jobs.size(), 1u);
  EXPECT_EQ(harness.machine().Numbers(harness.now()).largest_jobs[0].load.bytes_pushed, 17u);
  StartJob(&harness, "gpt", 200, 5);
  ASSERT_EQ(harness.machine().Numbers(harness.now()).largest_jobs.size(), 1u) << "the next of its name takes its place";
  EXPECT_EQ(harness.machine().Numbers(harness.now()).largest_jobs[0].load.bytes_pushed, 5u);
  StartJob(&harness, "other-one", 300, 1);
  const std::vector<JobView> jobs = harness.Jobs();
  harness.Ask<Done>(LeaveJob{.job = jobs[1].job, .rank = JobRank(0), .incarnation = Incarnation(200), .reason = ""});
  harness.Advance(kEndedJobShownNs / kNsPerMs);
  for (const JobNumbers& shown : harness.machine().Numbers(harness.now()).largest_jobs) EXPECT_NE(shown.name, "gpt");
}

// A heartbeat after so many ops of 3 ms each.
HeartbeatWorker BeatAfter(uint64_t ops, JobId job, uint32_t rank, uint64_t incarnation) {
  HeartbeatWorker beat = Beat(job, rank, incarnation);
  beat.load.ops_completed = ops;
  beat.load.op_time_ns_total = 3 * kNsPerMs * ops;
  for (uint64_t i = 0; i < ops; ++i) beat.load.op_times.Count(3 * kNsPerMs);
  return beat;
}

TEST(InsightNumbersTest, TheOpTimesOfAJobAreThoseOfAllItsRanks) {
  MachineHarness harness;
  JobId job;
  for (uint32_t rank = 0; rank < 2; ++rank) job = harness.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
  harness.Ask<WorkerRenewed>(BeatAfter(3, job, 0, 100));
  harness.Ask<WorkerRenewed>(BeatAfter(4, job, 1, 101));
  const OpTimeHistogram expected = BeatAfter(7, job, 0, 100).load.op_times;
  EXPECT_EQ(harness.machine().Numbers(harness.now()).largest_jobs.at(0).load.op_times, expected);
  EXPECT_EQ(harness.Jobs().at(0).load.op_times, expected);
}

TEST(InsightNumbersTest, WhatARankCountsAfterItsLastHeartbeatIsToldWhenItLeaves) {
  MachineHarness harness;
  const JobId job = harness.Ask<JobJoined>(Join("gpt", 1, 0, 100)).job;
  harness.Ask<WorkerRenewed>(BeatAfter(3, job, 0, 100));
  LeaveJob leave = Leave(job, 0, 100);
  leave.load = BeatAfter(5, job, 0, 100).load;
  leave.load->ops_failed = 2;
  harness.Ask<Done>(leave);
  const WorkerLoad load = harness.Jobs().at(0).load;
  EXPECT_EQ(load.ops_completed, 5u);
  EXPECT_EQ(load.ops_failed, 2u);
  EXPECT_TRUE(load.HasOpTimes());
}

TEST(InsightNumbersTest, ARankThatLeavesWithoutANumberKeepsThoseOfItsLastHeartbeat) {
  MachineHarness harness;
  const JobId job = harness.Ask<JobJoined>(Join("gpt", 1, 0, 100)).job;
  harness.Ask<WorkerRenewed>(BeatAfter(3, job, 0, 100));
  harness.Ask<Done>(Leave(job, 0, 100));
  EXPECT_EQ(harness.Jobs().at(0).load.ops_completed, 3u);
}

TEST(InsightNumbersTest, NumbersOfAJobDoNotFallWhenAProcessComesBackAsARankThatLeft) {
  MachineHarness harness;
  JobId job;
  for (uint32_t rank = 0; rank < 2; ++rank) job = harness.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
  harness.Ask<WorkerRenewed>(BeatAfter(3, job, 0, 100));
  harness.Ask<WorkerRenewed>(BeatAfter(4, job, 1, 101));
  harness.Ask<Done>(Leave(job, 1, 101));
  ASSERT_EQ(harness.Ask<JobJoined>(Join("gpt", 2, 1, 201)).job, job);
  harness.Ask<WorkerRenewed>(BeatAfter(1, job, 1, 201));
  const JobNumbers numbers = harness.machine().Numbers(harness.now()).largest_jobs.at(0);
  EXPECT_EQ(numbers.load.ops_completed, 8u);
  EXPECT_EQ(numbers.load.op_times, BeatAfter(8, job, 0, 100).load.op_times);
  EXPECT_TRUE(numbers.load_is_whole);
}

TEST(InsightNumbersTest, AHeartbeatWhoseTotalsFallRenewsTheLeaseAndChangesNoNumber) {
  MachineHarness harness;
  const JobId job = harness.Ask<JobJoined>(Join("gpt", 1, 0, 100)).job;
  harness.Ask<WorkerRenewed>(BeatAfter(5, job, 0, 100));
  EXPECT_TRUE(harness.Try(BeatAfter(2, job, 0, 100)).ok());
  const JobView view = harness.Jobs().at(0);
  EXPECT_EQ(view.load.ops_completed, 5u);
  EXPECT_EQ(view.ranks.at(0).load.ops_completed, 5u);
}

TEST(InsightNumbersTest, AJobHasRatesOnceAllItsRanksWereHeardTwice) {
  MachineHarness harness;
  JobId job;
  for (uint32_t rank = 0; rank < 2; ++rank) job = harness.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
  const auto rates = [&] { return harness.Jobs().at(0).rates; };
  harness.Ask<WorkerRenewed>(BeatAfter(100, job, 0, 100));
  harness.Advance(1000);
  harness.Ask<WorkerRenewed>(BeatAfter(110, job, 0, 100));
  EXPECT_FALSE(rates().has_value()) << "rank 1 has not been heard";
  harness.Ask<WorkerRenewed>(BeatAfter(1000, job, 1, 101));
  harness.Advance(1000);
  harness.Ask<WorkerRenewed>(BeatAfter(1010, job, 1, 101));
  ASSERT_TRUE(rates().has_value());
  EXPECT_DOUBLE_EQ(rates()->ops, 10);
}

TEST(InsightNumbersTest, EachLiveRankHasRatesOfItsOwnProcess) {
  MachineHarness harness;
  JobId job;
  for (uint32_t rank = 0; rank < 2; ++rank) job = harness.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
  const auto rates = [&](size_t rank) { return harness.Jobs().at(0).ranks.at(rank).rates; };
  for (const uint64_t second : {0, 1}) {
    if (second > 0) harness.Advance(1000);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      HeartbeatWorker beat = BeatAfter(100 + second * 10 * (rank + 1), job, rank, 100 + rank);
      beat.load.bytes_pushed = 1000 * beat.load.ops_completed;
      beat.load.bytes_pulled = 2000 * beat.load.ops_completed;
      harness.Ask<WorkerRenewed>(beat);
      EXPECT_EQ(rates(rank).has_value(), second > 0) << "from its second heartbeat on";
    }
  }
  EXPECT_DOUBLE_EQ(rates(0)->ops, 10);
  EXPECT_DOUBLE_EQ(rates(1)->ops, 20);
  EXPECT_DOUBLE_EQ(rates(1)->bytes_pushed, 20'000);
  EXPECT_DOUBLE_EQ(rates(1)->bytes_pulled, 40'000);
  harness.Ask<Done>(Leave(job, 1, 101));
  EXPECT_FALSE(rates(1).has_value()) << "it does nothing any more";
  ASSERT_EQ(harness.Ask<JobJoined>(Join("gpt", 2, 1, 201)).job, job);
  harness.Ask<WorkerRenewed>(BeatAfter(1000, job, 1, 201));
  EXPECT_FALSE(rates(1).has_value()) << "another process";
  EXPECT_TRUE(rates(0).has_value());
}

TEST(InsightNumbersTest, TheResultsThatLiveRanksKeepAreAddedUp) {
  MachineHarness harness;
  JobId job;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    job = harness.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
    HeartbeatWorker beat = Beat(job, rank, 100 + rank);
    beat.load.retained_results = 4 + rank;
    harness.Ask<WorkerRenewed>(beat);
  }
  const auto kept = [&] { return harness.Jobs().at(0).load.retained_results; };
  const auto kept_by_numbers = [&] {
    return harness.machine().Numbers(harness.now()).largest_jobs.at(0).load.retained_results;
  };
  EXPECT_EQ(kept(), 9u);
  EXPECT_EQ(kept_by_numbers(), 9u);
  harness.Ask<Done>(Leave(job, 1, 101));
  EXPECT_EQ(kept(), 4u);
  EXPECT_EQ(kept_by_numbers(), 4u);
}

TEST(InsightNumbersTest, TheSlotMemoryOfAJobIsThatOnAllLiveServers) {
  MachineHarness harness;
  std::vector<JobId> jobs;
  for (const uint32_t i : {0, 1}) {
    jobs.push_back(harness.Ask<JobJoined>(Join(absl::StrCat("job-", i), 1, 0, 100 + i)).job);
  }
  for (const uint32_t i : {0, 1}) {
    const std::string name = absl::StrCat("server-", i);
    HeartbeatServer beat{.server = harness.Ask<ServerRegistered>(Server(name, 10 + i, 7000 + i)).server,
                         .incarnation = Incarnation(10 + i),
                         .load = {},
                         .absent_ranks = {}};
    beat.load.memory_by_job = {{.job = jobs[0], .bytes = 100 + i}, {.job = jobs[1], .bytes = 10 + i}};
    harness.Ask<ServerRenewed>(beat);
  }
  const auto listed = [&](size_t i) { return harness.Jobs().at(i).slot_memory_bytes; };
  const auto counted = [&](size_t i) {
    return harness.machine().Numbers(harness.now()).largest_jobs.at(i).slot_memory_bytes;
  };
  EXPECT_EQ(listed(0), 201u);
  EXPECT_EQ(listed(1), 21u);
  EXPECT_EQ(counted(0), 201u);
  EXPECT_EQ(counted(1), 21u);
  harness.Ask<ServerEvicted>(EvictServer{.name = "server-1"});
  EXPECT_EQ(listed(0), 100u) << "what a server had that is lost is free";
  EXPECT_EQ(counted(1), 10u);
}

TEST(InsightNumbersTest, TheClusterTellsItsSavesAndMoves) {
  MachineHarness harness;
  const ClusterView before = harness.Ask<ClusterView>(GetCluster{});
  EXPECT_EQ(before.saves.succeeded, harness.saves());
  EXPECT_EQ(before.moves.servers_changed, 0u);
  harness.set_save_at_once(false);
  harness.Send(Server("a", 1, 7000));
  ASSERT_TRUE(harness.save_under_way());
  harness.FinishSave(absl::UnavailableError("disk full"));
  EXPECT_EQ(harness.Ask<ClusterView>(GetCluster{}).saves.failed, 1u);
}

TEST(InsightNumbersTest, OfSeveralSchedulersTheLeaderIsTold) {
  const auto machine =
      ObservedScheduler::Make({.lease_ttl_ms = kTtlMs, .store = "test", .leader = "10.0.0.1:7070"}, NewState(),
                              /*is_new=*/false, Now());
  ASSERT_TRUE(machine.ok()) << machine.status();
  SchedulerActions actions;
  (*machine)->OnEvent(RequestArrived{RequestHandle(1), GetCluster{}}, Now(), &actions);
  const Reply* reply = nullptr;
  for (const SchedulerAction& action : actions) {
    if (const Reply* const found = std::get_if<Reply>(&action)) reply = found;
  }
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(std::get<ClusterView>(*reply->response).leader, "10.0.0.1:7070");
}

TEST(InsightNumbersTest, AServerHasRatesAndItsLoadIsBounded) {
  MachineHarness harness;
  const ServerId server = harness.Ask<ServerRegistered>(Server("a", 1, 7000)).server;
  HeartbeatServer beat{.server = server, .incarnation = Incarnation(1), .load = {}, .absent_ranks = {}};
  beat.load.bytes_in = 1'000'000;
  beat.load.reduce_ns_total = kNsPerS;
  beat.load.memory_by_job.resize(1000);
  const auto view = [&] { return harness.Servers().at(0); };
  harness.Ask<ServerRenewed>(beat);
  EXPECT_FALSE(view().rates.has_value());
  EXPECT_LE(view().load.memory_by_job.size(), 64u);
  harness.Advance(2000);
  beat.load.bytes_in += 4000;
  beat.load.reduce_ns_total += kNsPerS;
  harness.Ask<ServerRenewed>(beat);
  ASSERT_TRUE(view().rates.has_value());
  EXPECT_DOUBLE_EQ(view().rates->bytes_in, 2000);
  EXPECT_DOUBLE_EQ(view().rates->reducing, 0.5);
  harness.Ask<ServerRegistered>(Server("a", 2, 7000));
  EXPECT_FALSE(view().rates.has_value()) << "another process";
}

}  // namespace
}  // namespace shoal::scheduler
