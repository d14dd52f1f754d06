// What the scheduler makes of servers' words about late ranks: an event, the job's status, and a line for rank 0.
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A group of three ranks on server a; rank 1 of the group is rank 2 of the job.
class MachineSlowRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = harness_.Ask<ServerRegistered>(Server("a", 11, 1)).server;
    for (uint32_t rank = 0; rank < 3; ++rank) job_ = harness_.Ask<JobJoined>(Join("gpt", 3, rank, 100 + rank)).job;
    const std::vector<uint32_t> ranks = {0, 2, 1};
    std::vector<RequestHandle> handles;
    for (const uint32_t rank : {0u, 1u, 2u}) handles.push_back(harness_.Send(Group(job_, rank, 100 + rank, ranks)));
    group_ = harness_.Get<GroupJoined>(handles[0]).group;
    epoch_ = harness_.Get<GroupJoined>(handles[0]).map->epoch();
  }

  void ReportLate(uint64_t window, Epoch epoch, uint32_t rank = 1) {
    harness_.Ask<ServerRenewed>(HeartbeatServer{.server = server_,
                                                .incarnation = Incarnation(11),
                                                .load = {},
                                                .absent_ranks = {},
                                                .late_ranks = {{.job = job_,
                                                                .group = group_,
                                                                .epoch = epoch,
                                                                .rank = Rank(rank),
                                                                .window = window,
                                                                .window_ns = kNsPerS,
                                                                .ops = 20,
                                                                .late_ops = 20,
                                                                .waited_ns = kNsPerS / 4,
                                                                .began_late_ns = kNsPerS / 4}}});
  }
  WorkerRenewed BeatOf(uint32_t rank, uint64_t away_ns = 0, uint64_t counted_ns = 0) {
    HeartbeatWorker beat = Beat(job_, rank, 100 + rank);
    beat.load.away_ns_total = away_ns;
    beat.load.counted_ns_total = counted_ns;
    return harness_.Ask<WorkerRenewed>(beat);
  }
  void Compute(uint64_t seconds, uint64_t slow_away_ms) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      BeatOf(rank, seconds * (rank == 2 ? slow_away_ms : 100) * kNsPerMs, seconds * kNsPerS);
    }
  }

  MachineHarness harness_;
  ServerId server_;
  JobId job_;
  GroupId group_;
  Epoch epoch_;
};

TEST_F(MachineSlowRanksTest, ASlowRankIsNamedEverywhere) {
  Compute(1, 400);
  ReportLate(1, epoch_);
  harness_.Advance(kTtlMs / 3 + 1);
  ReportLate(2, epoch_);
  const std::vector<std::string> kinds = harness_.EventKinds();
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), "rank-slow"), 1);
  const std::vector<JobView> jobs = harness_.Ask<std::vector<JobView>>(ListJobs{});
  ASSERT_THAT(jobs[0].slow_ranks, SizeIs(1));
  EXPECT_EQ(jobs[0].slow_ranks[0].rank, JobRank(2)) << "rank 1 of the group";
  EXPECT_EQ(jobs[0].slow_ranks[0].cause, SlowCause::kLateCompute);
  EXPECT_THAT(BeatOf(1).news, IsEmpty());
  EXPECT_THAT(BeatOf(0).news,
              ElementsAre(AllOf(HasSubstr("rank 2 of job \"gpt\""), HasSubstr("25 % of the time (late-compute)"))));
  EXPECT_THAT(BeatOf(0).news, IsEmpty()) << "told once";
}

TEST_F(MachineSlowRanksTest, AServerOfAnotherEpochOrWithAWrongRankIsNotBelieved) {
  ReportLate(1, Epoch(epoch_.value() + 1));
  ReportLate(2, epoch_, /*rank=*/3);
  harness_.Advance(kTtlMs / 3 + 1);
  ReportLate(3, Epoch(epoch_.value() + 1));
  EXPECT_THAT(harness_.Ask<std::vector<JobView>>(ListJobs{})[0].slow_ranks, IsEmpty());
}

TEST_F(MachineSlowRanksTest, TheEndIsToldAsWell) {
  ReportLate(1, epoch_);
  harness_.Advance(kTtlMs / 3 + 1);
  ReportLate(2, epoch_);
  BeatOf(0);
  harness_.Advance(3000);
  Compute(1, 100);
  harness_.Advance(4000);
  EXPECT_THAT(BeatOf(0).news, ElementsAre(HasSubstr("do not wait for it any more")));
  EXPECT_EQ(harness_.EventKinds().back(), "rank-slow-no-more");
}

}  // namespace
}  // namespace shoal::scheduler
