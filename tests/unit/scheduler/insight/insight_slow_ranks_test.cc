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
class InsightSlowRanksTest : public ::testing::Test {
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

  LateRankReport Late(uint64_t window) const {
    return {.job = job_,
            .group = group_,
            .epoch = epoch_,
            .rank = Rank(1),
            .window = window,
            .window_ns = kNsPerS,
            .ops = 20,
            .late_ops = 20,
            .waited_ns = kNsPerS / 4,
            .began_late_ns = kNsPerS / 4};
  }
  void Tell(const LateRankReport& late) { TellAs(server_, 11, {late}); }
  void TellAs(ServerId server, uint64_t incarnation, std::vector<LateRankReport> late) {
    harness_.Ask<ServerRenewed>(HeartbeatServer{.server = server,
                                                .incarnation = Incarnation(incarnation),
                                                .load = {},
                                                .absent_ranks = {},
                                                .late_ranks = std::move(late)});
  }
  // Two windows, and another heartbeat when the cause has settled.
  void TellThreeTimes() {
    for (uint64_t window = 1; window <= 3; ++window) {
      Tell(Late(window));
      harness_.Advance(kTtlMs / 3 - 100);
      BeatAll();
      harness_.Advance(101);
    }
  }
  std::vector<SlowRank> Slow() { return harness_.Jobs()[0].slow_ranks; }
  WorkerRenewed BeatOf(uint32_t rank) {
    HeartbeatWorker beat = Beat(job_, rank, 100 + rank);
    beat.load.away_ns_total = away_ns_[rank];
    beat.load.counted_ns_total = counted_ns_;
    return harness_.Ask<WorkerRenewed>(beat);
  }
  // Of all ranks; what rank 0 is told is kept.
  void BeatAll() {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      for (std::string& line : BeatOf(rank).news) {
        EXPECT_EQ(rank, 0u) << line;
        news_.push_back(std::move(line));
      }
    }
  }
  // All ranks tell of another ten seconds.
  void Compute(double slow_share) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      away_ns_[rank] += static_cast<uint64_t>((rank == 2 ? slow_share : 0.1) * 10 * kNsPerS);
    }
    counted_ns_ += 10 * kNsPerS;
    BeatAll();
  }

  MachineHarness harness_;
  ServerId server_;
  JobId job_;
  GroupId group_;
  Epoch epoch_;
  uint64_t away_ns_[3] = {};
  uint64_t counted_ns_ = 0;
  std::vector<std::string> news_;
};

TEST_F(InsightSlowRanksTest, ASlowRankIsNamedEverywhere) {
  Compute(0.4);
  Compute(0.4);
  TellThreeTimes();
  const std::vector<std::string> kinds = harness_.EventKinds();
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), "rank-slow"), 1);
  ASSERT_THAT(Slow(), SizeIs(1));
  EXPECT_EQ(Slow()[0].rank, JobRank(2)) << "rank 1 of the group";
  EXPECT_EQ(Slow()[0].cause, SlowCause::kLateCompute);
  BeatAll();
  BeatAll();
  EXPECT_THAT(news_, ElementsAre(AllOf(HasSubstr("rank 2 of job \"gpt\""),
                                       HasSubstr("25 % of the time, 12.5 ms an op (late-compute)"))))
      << "told once";
}

TEST_F(InsightSlowRanksTest, WhatCanNotBeIsNotBelieved) {
  const auto change = [&](auto set) {
    LateRankReport late = Late(0);
    set(&late);
    return late;
  };
  const std::vector<LateRankReport> wrong = {
      change([&](LateRankReport* late) { late->epoch = Epoch(epoch_.value() + 1); }),
      change([](LateRankReport* late) { late->rank = Rank(3); }),
      change([](LateRankReport* late) { late->group = GroupId(77); }),
      change([](LateRankReport* late) { late->job = JobId(77); }),
      change([](LateRankReport* late) { late->window_ns = 0; }),
      change([](LateRankReport* late) { late->window_ns = UINT64_MAX; }),
      change([](LateRankReport* late) { late->waited_ns = UINT64_MAX; }),
      change([](LateRankReport* late) { late->began_late_ns = UINT64_MAX; }),
      change([](LateRankReport* late) { late->late_ops = 21; }),
  };
  uint64_t window = 0;
  for (LateRankReport late : wrong) {
    for (int i = 0; i < 3; ++i) {
      late.window = ++window;
      Tell(late);
      harness_.Advance(kTtlMs / 3 + 1);
      BeatAll();
    }
    EXPECT_THAT(Slow(), IsEmpty());
  }
}

TEST_F(InsightSlowRanksTest, AServerThatTheGroupDoesNotUseIsNotBelieved) {
  RegisterServer of_another_job = Server("b", 12, 1);
  of_another_job.addresses = {"10.0.0.9:1"};
  of_another_job.job = harness_.Ask<JobJoined>(Join("other", 1, 0, 500)).job;
  const ServerId stranger = harness_.Ask<ServerRegistered>(of_another_job).server;
  for (uint64_t window = 1; window <= 3; ++window) {
    TellAs(stranger, 12, {Late(window)});
    harness_.Advance(1000);
    BeatAll();
  }
  EXPECT_THAT(Slow(), IsEmpty());
}

TEST_F(InsightSlowRanksTest, TheEndIsToldAsWell) {
  TellThreeTimes();
  ASSERT_THAT(news_, SizeIs(1));
  for (uint64_t seconds = 1; seconds <= 8; ++seconds) {
    harness_.Advance(1000);
    Compute(0.1);
  }
  EXPECT_EQ(harness_.EventKinds().back(), "rank-slow-no-more");
  ASSERT_THAT(news_, SizeIs(2));
  EXPECT_THAT(news_[1], HasSubstr("nothing shows any more"));
  EXPECT_THAT(Slow(), IsEmpty());
}

TEST_F(InsightSlowRanksTest, ALostRankIsNotNamed) {
  TellThreeTimes();
  ASSERT_THAT(Slow(), SizeIs(1));
  harness_.Ask<Done>(LeaveJob{
      .job = job_, .rank = JobRank(2), .incarnation = Incarnation(102), .reason = "out of memory", .failed = true});
  EXPECT_THAT(Slow(), IsEmpty());
  for (uint64_t window = 10; window <= 12; ++window) {
    Tell(Late(window));
    harness_.Advance(kTtlMs / 3 + 1);
    for (const uint32_t rank : {0u, 1u}) BeatOf(rank);
  }
  EXPECT_THAT(Slow(), IsEmpty()) << "a server tells its newest window until the group ends there";
}

}  // namespace
}  // namespace shoal::scheduler
