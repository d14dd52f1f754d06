// When the scheduler takes a rank's process for ended before its lease has run out (core/failure_detection.h).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/failure_detection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kProcessEndedMs = kProcessEndedPatienceNs / kNsPerMs;
constexpr uint64_t kTakeOverMs = kTakeOverPatienceNs / kNsPerMs;

// A group of two ranks on server a, each with its stream.
class MachineLossesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = harness_.Ask<ServerRegistered>(Server("a", 11, 1)).server;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      job_ = harness_.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
      streams_[rank] = harness_.WatchAs(job_, rank, 100 + rank);
    }
    const RequestHandle first = harness_.Send(Group(job_, 0, 100, {0, 1}));
    harness_.Send(Group(job_, 1, 101, {0, 1}));
    group_ = harness_.Get<GroupJoined>(first).group;
    epoch_ = harness_.Get<GroupJoined>(first).map->epoch();
    harness_.watched(streams_[0]).clear();
  }

  void CloseStream(uint32_t rank) { harness_.StepEvent(StreamClosed{streams_[rank]}); }
  // Server a's.
  HeartbeatServer ServerBeat() const {
    HeartbeatServer beat;
    beat.server = server_;
    beat.incarnation = Incarnation(11);
    return beat;
  }
  // Server a tells of rank 1 with its heartbeat.
  void ReportAbsentRank(uint64_t ago_ms = 0) {
    HeartbeatServer beat = ServerBeat();
    beat.absent_ranks.push_back({.job = job_,
                                 .group = group_,
                                 .epoch = epoch_,
                                 .rank = Rank(1),
                                 .ago_ms = ago_ms,
                                 .because = "server a lost its connection: connection reset by peer"});
    harness_.Ask<ServerRenewed>(std::move(beat));
  }
  void BeatAll() {
    for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(harness_.Try(Beat(job_, rank, 100 + rank)).ok());
  }
  // Everybody who was there from the start.
  void BeatFor(uint64_t seconds) {
    for (uint64_t second = 0; second < seconds; ++second) {
      harness_.Advance(1000);
      BeatAll();
      harness_.Ask<ServerRenewed>(ServerBeat());
    }
  }
  bool IsLost() const {
    const std::vector<std::string> kinds = harness_.EventKinds();
    return std::count(kinds.begin(), kinds.end(), "rank-lost") > 0;
  }

  MachineHarness harness_;
  ServerId server_;
  JobId job_;
  GroupId group_;
  Epoch epoch_;
  WatcherId streams_[2];
};

TEST_F(MachineLossesTest, AProcessWhoseConnectionsEndTogetherIsLostLongBeforeItsLease) {
  CloseStream(1);
  ReportAbsentRank();
  harness_.Advance(kProcessEndedMs - 1);
  EXPECT_FALSE(IsLost());
  harness_.Advance(1);
  ASSERT_TRUE(IsLost());
  ASSERT_EQ(harness_.watched(streams_[0]).size(), 1u);
  const SendWatch& update = harness_.watched(streams_[0])[0];
  ASSERT_EQ(update.lost_ranks.size(), 1u);
  EXPECT_EQ(update.lost_ranks[0].rank, JobRank(1));
  EXPECT_EQ(update.lost_ranks[0].reason,
            "its process ended: it closed its stream to the scheduler, and server a lost its connection: connection "
            "reset by peer");
}

TEST_F(MachineLossesTest, ItIsTheSameWhenTheServerIsHeardFirst) {
  ReportAbsentRank();
  harness_.Advance(200);
  CloseStream(1);
  harness_.Advance(kProcessEndedMs);
  EXPECT_TRUE(IsLost());
}

TEST_F(MachineLossesTest, AServerThatIsHeardLateIsBelievedAtOnce) {
  CloseStream(1);
  harness_.Advance(3000);
  ReportAbsentRank(/*ago_ms=*/3000);
  harness_.Advance(0);
  EXPECT_TRUE(IsLost());
  EXPECT_THAT(harness_.EventKinds(), Not(Contains("scheduler-stalled")));
}

TEST_F(MachineLossesTest, AStreamThatEndsAloneSaysNothing) {
  CloseStream(1);
  harness_.Advance(kTtlMs - 1);
  EXPECT_FALSE(IsLost());
}

TEST_F(MachineLossesTest, AConnectionThatBreaksAloneSaysNothing) {
  for (int i = 0; i < 20; ++i) {
    ReportAbsentRank(/*ago_ms=*/1000 * static_cast<uint64_t>(i));
    BeatAll();
    harness_.Advance(1000);
  }
  EXPECT_FALSE(IsLost());
}

TEST_F(MachineLossesTest, ANewStreamOrAHeartbeatShowsLife) {
  for (const bool by_stream : {true, false}) {
    CloseStream(1);
    ReportAbsentRank();
    harness_.Advance(kProcessEndedMs - 1);
    if (by_stream) {
      streams_[1] = harness_.WatchAs(job_, 1, 101);
    } else {
      BeatAll();
    }
    harness_.Advance(kProcessEndedMs);
    EXPECT_FALSE(IsLost());
  }
}

TEST_F(MachineLossesTest, AHeartbeatThatWasUnderWayWhenTheProcessEndedShowsNoLife) {
  CloseStream(1);
  ReportAbsentRank();
  harness_.Advance(kHeartbeatUnderWayNs / kNsPerMs - 1);
  BeatAll();
  harness_.Advance(kProcessEndedMs);
  EXPECT_TRUE(IsLost());
}

TEST_F(MachineLossesTest, WhatEndsWhileTheStoreFailsIsLostWhenItWorksAgain) {
  CloseStream(1);
  ReportAbsentRank();
  harness_.set_save_at_once(false);
  harness_.Send(Server("b", 12, 2));
  for (int failures = 0; failures < 3; ++failures) {
    harness_.FinishSave(absl::ResourceExhaustedError("No space left on device"));
    harness_.Advance(kSaveRetryNs / kNsPerMs);
    EXPECT_FALSE(IsLost()) << "a loss could not be saved";
  }
  harness_.set_save_at_once(true);
  harness_.FinishSave();
  harness_.Advance(0);
  EXPECT_TRUE(IsLost());
}

TEST_F(MachineLossesTest, ALossIsToldToNobodyBeforeItIsSaved) {
  harness_.set_save_at_once(false);
  for (int beat = 0; beat < 3; ++beat) {
    harness_.Advance(kTtlMs / 3 + 1);
    EXPECT_TRUE(harness_.Try(Beat(job_, 0, 100)).ok());
    harness_.Ask<ServerRenewed>(ServerBeat());
  }
  ASSERT_TRUE(harness_.save_under_way()) << "rank 1 is lost";
  // The next scheduler would know nothing of it, if this one does not get to save it.
  const RequestHandle heartbeat = harness_.Send(Beat(job_, 1, 101));
  const RequestHandle group = harness_.Send(Group(job_, 0, 100, {0, 1}));
  EXPECT_FALSE(harness_.HasReply(heartbeat));
  EXPECT_FALSE(harness_.HasReply(group));
  harness_.FinishSave(absl::UnavailableError("no answer"));
  EXPECT_TRUE(absl::IsUnavailable(harness_.StatusOf(heartbeat))) << "it asks again";
  EXPECT_TRUE(absl::IsUnavailable(harness_.StatusOf(group)));
  harness_.Advance(kSaveRetryNs / kNsPerMs);
  harness_.set_save_at_once(true);
  harness_.FinishSave();
  EXPECT_TRUE(absl::IsNotFound(harness_.Try(Beat(job_, 1, 101))));
  EXPECT_TRUE(absl::IsAborted(harness_.Try(Group(job_, 0, 100, {0, 1}))));
}

TEST_F(MachineLossesTest, LeasesCountFromTheAnswerHoweverLongTheSaveTook) {
  harness_.set_save_at_once(false);
  const RequestHandle rank = harness_.Send(Join("late", 1, 0, 200));
  const RequestHandle server = harness_.Send(Server("late", 12, 2));
  BeatFor(2 * kTtlMs / 1000);
  harness_.FinishSave();
  harness_.set_save_at_once(true);
  if (harness_.save_under_way()) harness_.FinishSave();
  const JobId job = harness_.Get<JobJoined>(rank).job;
  const ServerId id = harness_.Get<ServerRegistered>(server).server;
  BeatFor(2);
  EXPECT_TRUE(harness_.Try(Beat(job, 0, 200)).ok());
  EXPECT_TRUE(harness_.Try(HeartbeatServer{.server = id, .incarnation = Incarnation(12), .load = {}}).ok());
}

TEST_F(MachineLossesTest, AStoreThatWorksAgainGivesLeasesAndNoLife) {
  harness_.set_save_at_once(false);
  harness_.Send(Server("b", 12, 2));
  harness_.FinishSave(absl::ResourceExhaustedError("No space left on device"));
  harness_.Advance(kSaveRetryNs / kNsPerMs);
  CloseStream(1);
  ReportAbsentRank();
  harness_.FinishSave();
  harness_.set_save_at_once(true);
  harness_.Advance(kProcessEndedMs);
  EXPECT_TRUE(IsLost());
}

TEST_F(MachineLossesTest, OnlyTheEndOfTheLastStreamCounts) {
  const WatcherId second = harness_.WatchAs(job_, 1, 101);
  CloseStream(1);
  ReportAbsentRank();
  harness_.Advance(2 * kProcessEndedMs);
  EXPECT_FALSE(IsLost());
  harness_.StepEvent(StreamClosed{second});
  ReportAbsentRank();
  harness_.Advance(kProcessEndedMs);
  EXPECT_TRUE(IsLost());
}

TEST_F(MachineLossesTest, TwoEndsAtDifferentTimesAreTwoFaults) {
  ReportAbsentRank();
  harness_.Advance(1500);
  CloseStream(1);
  ReportAbsentRank(/*ago_ms=*/1500);
  harness_.Advance(2000);
  EXPECT_FALSE(IsLost());
}

// The process that ended ran a server as well, say, and the group has left that one before this one is heard.
TEST_F(MachineLossesTest, WhatAServerSaysOfAnEpochThatIsOverIsBelieved) {
  harness_.Ask<ServerRegistered>(Server("b", 12, 2));  // the group moves
  CloseStream(1);
  ReportAbsentRank();
  harness_.Advance(kProcessEndedMs);
  EXPECT_TRUE(IsLost());
}

TEST_F(MachineLossesTest, WhatAServerSaysOfAnEpochThatIsToComeSaysNothing) {
  epoch_ = Epoch(epoch_.value() + 1);
  CloseStream(1);
  ReportAbsentRank();
  harness_.Advance(3000);
  EXPECT_FALSE(IsLost());
}

TEST_F(MachineLossesTest, AProcessThatComesForTheRankTakesThePlaceOfOneThatHasEnded) {
  CloseStream(1);
  harness_.Advance(kTakeOverMs);
  JoinJob again = Join("gpt", 2, 1, 201);
  again.pid = 4321;
  const JobJoined joined = harness_.Ask<JobJoined>(again);
  EXPECT_NE(joined.job, job_) << "the old job has failed, so its name starts another";
  ASSERT_TRUE(IsLost());
  EXPECT_THAT(harness_.watched(streams_[0])[0].lost_ranks[0].reason,
              AllOf(HasSubstr("its process ended"), HasSubstr("process 4321 on node node1 joined as this rank")));
}

TEST_F(MachineLossesTest, AProcessThatComesEarlierWaitsForThatMoment) {
  const RequestHandle handle = harness_.Send(Join("gpt", 2, 1, 201));
  harness_.Advance(500);
  CloseStream(1);
  harness_.Advance(kTakeOverMs - 1);
  EXPECT_FALSE(harness_.HasReply(handle));
  harness_.Advance(1);
  EXPECT_TRUE(harness_.HasReply(handle));
}

TEST_F(MachineLossesTest, AllRanksOfAJobThatIsStartedAgainJoinTheNewOne) {
  CloseStream(0);
  CloseStream(1);
  const RequestHandle first = harness_.Send(Join("gpt", 2, 1, 201));
  const RequestHandle second = harness_.Send(Join("gpt", 2, 0, 200));
  harness_.Advance(kTakeOverMs);
  EXPECT_EQ(harness_.Get<JobJoined>(first).job, harness_.Get<JobJoined>(second).job);
  EXPECT_NE(harness_.Get<JobJoined>(first).job, job_);
}

// Of a job of three ranks, rank 0 of which has not come yet.
class HalfAJobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.Ask<ServerRegistered>(Server("a", 11, 1));
    for (uint32_t rank = 1; rank < kRanks; ++rank) {
      job_ = harness_.Ask<JobJoined>(Join("half", kRanks, rank, 100 + rank)).job;
      streams_[rank] = harness_.WatchAs(job_, rank, 100 + rank);
    }
  }

  void CloseStream(uint32_t rank) { harness_.StepEvent(StreamClosed{streams_[rank]}); }
  JobId JoinAgain(uint32_t rank) {
    const JobId job = harness_.Ask<JobJoined>(Join("half", kRanks, rank, 200 + rank)).job;
    streams_[rank] = harness_.WatchAs(job, rank, 200 + rank);
    return job;
  }
  bool HasEvent(EventKind kind) const {
    return std::ranges::any_of(harness_.events(), [&](const EventRecord& event) { return event.kind == kind; });
  }

  static constexpr uint32_t kRanks = 3;
  MachineHarness harness_;
  JobId job_;
  WatcherId streams_[kRanks];
};

TEST_F(HalfAJobTest, WhoIsStartedAgainHarmsNobodyWhoCameForAPlaceThatWasFree) {
  CloseStream(1);
  CloseStream(2);
  harness_.Advance(kTakeOverMs);
  EXPECT_EQ(JoinAgain(0), job_);
  for (const uint32_t rank : {1, 2}) EXPECT_EQ(JoinAgain(rank), job_);
  for (const auto& update : harness_.watched(streams_[0])) EXPECT_TRUE(update.lost_ranks.empty());
  EXPECT_TRUE(HasEvent(EventKind::kRankReplaced));
  EXPECT_FALSE(HasEvent(EventKind::kRankLost) || HasEvent(EventKind::kJobFailed));
  const RequestHandle first = harness_.Send(Group(job_, 0, 200, {0, 1, 2}));
  for (const uint32_t rank : {1, 2}) harness_.Send(Group(job_, rank, 200 + rank, {0, 1, 2}));
  EXPECT_TRUE(harness_.StatusOf(first).ok()) << harness_.StatusOf(first);
}

// The first process of the next run comes just before the leases of the earlier one run out.
TEST_F(HalfAJobTest, WhoseLeaseRunsOutAfterTheNextRunHasBegunIsNotMissed) {
  CloseStream(1);
  CloseStream(2);
  for (int beat = 0; beat < 3; ++beat) {
    harness_.Advance(kTtlMs / 3 - 5);
    harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(1), Incarnation(11), {}});
  }
  EXPECT_EQ(JoinAgain(0), job_);
  harness_.Advance(kTtlMs / 100);
  EXPECT_TRUE(HasEvent(EventKind::kRankReplaced));
  EXPECT_FALSE(HasEvent(EventKind::kRankLost) || HasEvent(EventKind::kJobFailed));
  for (const uint32_t rank : {1, 2}) EXPECT_EQ(JoinAgain(rank), job_);
}

// Rank 1 lives and came before rank 2 died: it is no other run, and must not wait for a rank that is gone.
TEST_F(HalfAJobTest, WhoDiesBeforeAllHaveComeIsMissedByThoseWhoLive) {
  CloseStream(2);
  harness_.Advance(kTakeOverMs);
  EXPECT_EQ(JoinAgain(0), job_);
  for (int beat = 0; beat < 4; ++beat) {
    harness_.Advance(kTtlMs / 3);
    harness_.Ask<WorkerRenewed>(Beat(job_, 0, 200));
    harness_.Try(Beat(job_, 1, 101)).IgnoreError();
  }
  EXPECT_TRUE(HasEvent(EventKind::kRankLost) && HasEvent(EventKind::kJobFailed));
}

// It ended with its node, or before its stream was known: nothing but its silence tells of it.
TEST_F(HalfAJobTest, WhoWasOnlySilentLeavesItsPlaceToAProcessOfTheNextRunThatWaitsForIt) {
  CloseStream(2);
  harness_.Advance(kTakeOverMs);
  EXPECT_EQ(JoinAgain(0), job_);
  EXPECT_EQ(JoinAgain(2), job_);
  const RequestHandle last = harness_.Send(Join("half", kRanks, 1, 201));
  for (int beat = 0; beat < 3; ++beat) {
    EXPECT_FALSE(harness_.HasReply(last)) << "the lease has not run out yet";
    harness_.Advance(kTtlMs / 3);
    harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(1), Incarnation(11), {}});
    for (const uint32_t rank : {0, 2}) harness_.Ask<WorkerRenewed>(Beat(job_, rank, 200 + rank));
  }
  EXPECT_EQ(harness_.Get<JobJoined>(last).job, job_);
  EXPECT_FALSE(HasEvent(EventKind::kRankLost) || HasEvent(EventKind::kJobFailed));
  const RequestHandle first = harness_.Send(Group(job_, 0, 200, {0, 1, 2}));
  for (const uint32_t rank : {1, 2}) harness_.Send(Group(job_, rank, 200 + rank, {0, 1, 2}));
  EXPECT_TRUE(harness_.StatusOf(first).ok()) << harness_.StatusOf(first);
}

TEST_F(HalfAJobTest, ThoseWhoFellSilentTogetherLeaveTheirPlacesToThoseWhoWait) {
  harness_.Advance(kTakeOverMs);
  EXPECT_EQ(JoinAgain(0), job_);
  for (const uint32_t rank : {1, 2}) harness_.Send(Group(job_, rank, 100 + rank, {1, 2}));
  std::vector<RequestHandle> next;
  for (const uint32_t rank : {1, 2}) next.push_back(harness_.Send(Join("half", kRanks, rank, 200 + rank)));
  for (int beat = 0; beat < 3; ++beat) {
    harness_.Advance(kTtlMs / 3);
    harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(1), Incarnation(11), {}});
    harness_.Ask<WorkerRenewed>(Beat(job_, 0, 200));
  }
  for (const RequestHandle handle : next) EXPECT_EQ(harness_.Get<JobJoined>(handle).job, job_);
  EXPECT_FALSE(HasEvent(EventKind::kRankLost) || HasEvent(EventKind::kJobFailed));
}

TEST_F(HalfAJobTest, WhoWasOnlySilentIsLostToThoseWhoShareAGroupWithIt) {
  harness_.Advance(kTakeOverMs);
  EXPECT_EQ(JoinAgain(0), job_);
  for (const uint32_t rank : {1, 2}) harness_.Send(Group(job_, rank, 100 + rank, {1, 2}));
  const RequestHandle last = harness_.Send(Join("half", kRanks, 1, 201));
  for (int beat = 0; beat < 3; ++beat) {
    harness_.Advance(kTtlMs / 3);
    harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(1), Incarnation(11), {}});
    harness_.Try(Beat(job_, 0, 200)).IgnoreError();
    harness_.Try(Beat(job_, 2, 102)).IgnoreError();
  }
  EXPECT_NE(harness_.Get<JobJoined>(last).job, job_);
  EXPECT_TRUE(HasEvent(EventKind::kRankLost) && HasEvent(EventKind::kJobFailed));
}

TEST_F(HalfAJobTest, GroupsOfTheEarlierRunAreNobodysLoss) {
  for (const uint32_t rank : {1, 2}) harness_.Send(Group(job_, rank, 100 + rank, {1, 2}));
  CloseStream(1);
  CloseStream(2);
  harness_.Advance(kProcessEndedMs);
  for (const uint32_t rank : {0, 1, 2}) EXPECT_EQ(JoinAgain(rank), job_);
  EXPECT_FALSE(HasEvent(EventKind::kRankLost));
}

// Its stream may have ended with a follower, and it opens another one.
TEST_F(HalfAJobTest, WhoseStreamHasJustEndedMayStillMissIt) {
  for (const uint32_t rank : {1, 2}) harness_.Send(Group(job_, rank, 100 + rank, {1, 2}));
  CloseStream(1);
  CloseStream(2);
  harness_.Advance(kTakeOverMs);
  EXPECT_EQ(JoinAgain(0), job_);
  EXPECT_NE(JoinAgain(1), job_);
  EXPECT_TRUE(HasEvent(EventKind::kRankLost));
}

TEST_F(HalfAJobTest, ARankThatALivingOneMissesIsLost) {
  for (const uint32_t rank : {1, 2}) harness_.Send(Group(job_, rank, 100 + rank, {1, 2}));
  CloseStream(1);
  harness_.Advance(kTakeOverMs);
  EXPECT_EQ(JoinAgain(0), job_);
  EXPECT_NE(JoinAgain(1), job_);
  EXPECT_TRUE(HasEvent(EventKind::kRankLost) && HasEvent(EventKind::kJobFailed));
}

TEST_F(HalfAJobTest, WhoHasTheJobToItselfStartsANewOne) {
  CloseStream(1);
  harness_.Advance(kTakeOverMs);
  EXPECT_NE(JoinAgain(1), job_) << "nobody came since, who would be hurt";
}

TEST_F(MachineLossesTest, ARankWhoseStreamStandsKeepsItsPlace) {
  const RequestHandle handle = harness_.Send(Join("gpt", 2, 1, 201));
  harness_.Advance(kTakeOverMs);
  EXPECT_FALSE(harness_.HasReply(handle));
  BeatAll();
  EXPECT_EQ(harness_.StatusOf(handle).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(IsLost());
}

TEST_F(MachineLossesTest, ARivalThatGaveUpLeavesNoTrace) {
  const RequestHandle handle = harness_.Send(Join("gpt", 2, 1, 201));
  harness_.StepEvent(RequestCancelled{handle});
  CloseStream(1);
  harness_.Advance(kTakeOverMs);
  EXPECT_FALSE(IsLost());
}

TEST_F(MachineLossesTest, ASchedulerThatStoodStillForgetsWhatItSaw) {
  CloseStream(1);
  ReportAbsentRank();
  harness_.Stall(3 * kTtlMs);
  EXPECT_THAT(harness_.EventKinds(), Contains("scheduler-stalled"));
  harness_.Advance(kTtlMs - 1);
  EXPECT_FALSE(IsLost());
}

}  // namespace
}  // namespace shoal::scheduler
