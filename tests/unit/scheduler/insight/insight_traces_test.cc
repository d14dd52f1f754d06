// An operator traces a job: which members are asked, what they may send, and what of it is kept.
#include <algorithm>
#include <string>
#include <vector>

#include "core/failure_detection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/insight/traces.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A heartbeat is due every third of the lease, and may be a little late.
constexpr uint64_t kBegunInMs = HeartbeatPeriodNs(kTtlMs * kNsPerMs) * 5 / 4 / kNsPerMs;

class InsightTracesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RegisterServer two_threads = Server("a", 1, 'a');
    two_threads.addresses.push_back("10.0.0.1:7");
    harness_.Ask<ServerRegistered>(two_threads);
    for (uint32_t rank = 0; rank < 2; ++rank) job_ = harness_.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
    const RequestHandle first = harness_.Send(Group(job_, 0, 100, {0, 1}));
    harness_.Send(Group(job_, 1, 101, {0, 1}));
    ASSERT_TRUE(harness_.StatusOf(first).ok());
    // The group has moved away from it again.
    harness_.Ask<ServerRegistered>(Server("b", 1, 'b'));
    harness_.Ask<ServerDraining>(DrainServer{"b"});
    harness_.Ask<JobJoined>(Join("bert", 1, 0, 200));
  }
  TraceStarted Start(uint64_t duration_ms = 2000) {
    return harness_.Ask<TraceStarted>(TraceJob{.name = "gpt", .duration_ms = duration_ms});
  }
  std::optional<TraceRequest> AskedOfRank(uint32_t rank, uint64_t incarnation) {
    return harness_
        .Ask<WorkerRenewed>(
            HeartbeatWorker{.job = job_, .rank = JobRank(rank), .incarnation = Incarnation(incarnation)})
        .trace;
  }
  std::optional<TraceRequest> AskedOfServer(uint64_t server) {
    return harness_.Ask<ServerRenewed>(HeartbeatServer{ServerId(server), Incarnation(1), {}}).trace;
  }
  SendTrace FromRank(uint64_t trace, uint32_t rank, const std::string& record) {
    return {.trace = trace,
            .member = {.job = job_, .rank = JobRank(rank), .incarnation = Incarnation(100 + rank)},
            .record = record};
  }
  static SendTrace FromServer(uint64_t trace, uint32_t io_thread, const std::string& record) {
    return {.trace = trace,
            .member = {.server = ServerId(1), .incarnation = Incarnation(1)},
            .io_thread = io_thread,
            .record = record};
  }
  void SendAll(uint64_t trace) {
    for (uint32_t i = 0; i < 2; ++i) {
      harness_.Ask<Done>(FromRank(trace, i, "r"));
      harness_.Ask<Done>(FromServer(trace, i, "s"));
    }
  }

  MachineHarness harness_;
  JobId job_;
};

TEST_F(InsightTracesTest, TheRanksAndTheServersOfTheJobsGroupsAreAskedUntilItEnds) {
  const TraceStarted started = Start();
  EXPECT_NE(started.trace, 0u);
  EXPECT_EQ(started.ends_in_ms, kBegunInMs + 2000);
  EXPECT_EQ(started.members, 4u) << "two I/O threads, two ranks";
  EXPECT_EQ(started.left_out, 0u);
  harness_.Advance(1000);
  const TraceRequest expected{.id = started.trace, .left_ms = kBegunInMs + 1000, .most_bytes = 3 << 20};
  EXPECT_EQ(AskedOfRank(0, 100), expected);
  EXPECT_EQ(AskedOfRank(1, 101), expected);
  EXPECT_EQ(AskedOfServer(1), expected);
  EXPECT_EQ(AskedOfServer(2), std::nullopt) << "the job has nothing there";
  EXPECT_EQ(
      harness_.Ask<WorkerRenewed>(HeartbeatWorker{.job = JobId(2), .rank = JobRank(0), .incarnation = Incarnation(200)})
          .trace,
      std::nullopt);
  harness_.Advance(kBegunInMs + 1000);
  EXPECT_EQ(AskedOfRank(0, 100), std::nullopt);
  EXPECT_EQ(AskedOfServer(1), std::nullopt);
  EXPECT_THAT(harness_.EventKinds(), Contains("job-traced"));
}

TEST_F(InsightTracesTest, DigestsAreAskedOfRanksAlone) {
  const TraceStarted started = harness_.Ask<TraceStarted>(
      TraceJob{.name = "gpt", .duration_ms = 100, .kind = static_cast<uint32_t>(TraceKind::kDigests)});
  EXPECT_EQ(started.members, 2u);
  EXPECT_EQ(AskedOfServer(1), std::nullopt);
  const std::optional<TraceRequest> asked = AskedOfRank(1, 101);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->kind, TraceKind::kDigests);
}

TEST_F(InsightTracesTest, EachRecordIsKeptForTheOperator) {
  const uint64_t trace = Start().trace;
  TraceView view = harness_.Ask<TraceView>(GetTrace{trace, 0});
  EXPECT_EQ(view.job_name, "gpt");
  EXPECT_GT(view.ends_in_ms, 0u);
  std::vector<std::string> names;
  for (const TraceView::Member& member : view.members) names.push_back(member.name);
  EXPECT_THAT(names, ElementsAre("I/O thread 0 of server a", "I/O thread 1 of server a", HasSubstr("rank 0 on "),
                                 HasSubstr("rank 1 on ")));
  harness_.Advance(kBegunInMs + 2000);
  harness_.Ask<Done>(FromServer(trace, 1, "what thread 1 did"));
  harness_.Ask<Done>(FromServer(trace, 1, "the same, said again"));
  harness_.Ask<Done>(FromRank(trace, 0, "what rank 0 did"));
  view = harness_.Ask<TraceView>(GetTrace{trace, 2});
  EXPECT_EQ(view.ends_in_ms, 0u);
  EXPECT_EQ(view.record, "what thread 1 did");
  EXPECT_FALSE(view.members[0].has_sent);
  EXPECT_TRUE(view.members[1].has_sent);
  EXPECT_TRUE(view.members[2].has_sent);
  for (const TraceView::Member& member : view.members) EXPECT_FALSE(member.is_gone);
  EXPECT_EQ(harness_.Ask<TraceView>(GetTrace{trace, 1}).record, "");
  EXPECT_EQ(harness_.Try(GetTrace{trace, 5}).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(InsightTracesTest, WhoIsGoneIsTold) {
  const uint64_t trace = Start().trace;
  harness_.Ask<Done>(LeaveJob{.job = job_, .rank = JobRank(1), .incarnation = Incarnation(101)});
  harness_.Ask<ServerEvicted>(EvictServer{"a"});
  std::vector<bool> gone;
  for (const TraceView::Member& member : harness_.Ask<TraceView>(GetTrace{trace, 0}).members) {
    gone.push_back(member.is_gone);
  }
  EXPECT_THAT(gone, ElementsAre(true, true, false, true));
  harness_.Ask<Done>(FromServer(trace, 0, "sent while it left"));
  EXPECT_EQ(harness_.Ask<TraceView>(GetTrace{trace, 1}).record, "sent while it left");
}

TEST_F(InsightTracesTest, ARecordOfNobodyWhoWasAskedIsRefused) {
  const uint64_t trace = Start().trace;
  EXPECT_EQ(harness_.Try(FromRank(trace + 1, 0, "x")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(harness_.Try(FromServer(trace, 2, "x")).code(), absl::StatusCode::kNotFound);
  SendTrace other = FromRank(trace, 0, "x");
  other.member.incarnation = Incarnation(999);
  EXPECT_EQ(harness_.Try(other).code(), absl::StatusCode::kNotFound);
  const absl::Status long_one = harness_.Try(FromRank(trace, 0, std::string((3 << 20) + 1, 'x')));
  EXPECT_EQ(long_one.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(long_one.message()), HasSubstr("3145729 bytes; at most 3145728 were asked for"));
  EXPECT_FALSE(harness_.Ask<TraceView>(GetTrace{trace, 0}).members[2].has_sent);
}

TEST_F(InsightTracesTest, OneTraceAtATime) {
  const uint64_t first = Start().trace;
  const absl::Status refused = harness_.Try(TraceJob{.name = "bert", .duration_ms = 100});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a trace of job \"gpt\" is under way, for at most 14"));
  SendAll(first);
  const uint64_t second = Start().trace;
  EXPECT_GT(second, first) << "all records of the first are there";
  EXPECT_EQ(harness_.Try(GetTrace{first, 0}).code(), absl::StatusCode::kNotFound);
  // Members that never send their record hold nobody up for long.
  harness_.Advance(kBegunInMs + 2000 + kTraceSendPatienceMs);
  EXPECT_GT(Start().trace, second);
}

TEST_F(InsightTracesTest, AnOldTraceIsForgotten) {
  const uint64_t trace = Start().trace;
  SendAll(trace);
  for (int i = 0; i < 305; ++i) {
    harness_.Advance(1000);
    for (uint32_t rank = 0; rank < 2; ++rank) AskedOfRank(rank, 100 + rank);
  }
  const absl::Status gone = harness_.Try(GetTrace{trace, 1});
  EXPECT_EQ(gone.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("it is older than 5 minutes"));
}

TEST_F(InsightTracesTest, WhatCannotBeTracedIsRefusedWithTheReason) {
  EXPECT_EQ(harness_.Try(TraceJob{.name = "gpt", .duration_ms = 0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(harness_.Try(TraceJob{.name = "gpt", .duration_ms = kMostTraceMs + 1}).code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status newer = harness_.Try(TraceJob{.name = "gpt", .duration_ms = 100, .kind = kTraceKinds});
  EXPECT_EQ(newer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(newer.message()), HasSubstr("does not know traces of kind 2; update it"));
  const absl::Status unknown = harness_.Try(TraceJob{.name = "t5\n", .duration_ms = 100});
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("no job is named \"t5?\"; open jobs: gpt, bert"));
  harness_.Ask<JobAborted>(AbortJob{"gpt", "no use"});
  const absl::Status failed = harness_.Try(TraceJob{.name = "gpt", .duration_ms = 100});
  EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("there is nothing to trace"));
}

TEST(Traces, ALargeJobHasShortRecordsAndAtMostSoManyMembers) {
  Traces traces;
  const Now now{.monotonic_ns = 5, .unix_ms = 1'700'000'000'000};
  Job job{.id = JobId(1), .name = "large"};
  for (uint32_t rank = 0; rank < 1500; ++rank) job.workers[JobRank(rank)];
  const absl::StatusOr<TraceStarted> started =
      traces.Start({.name = job.name, .duration_ms = 100}, job, ServerRegistry(kNsPerS), /*begun_in_ms=*/1000, now);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->members, kMostTraceMembers);
  EXPECT_EQ(started->left_out, 1500 - kMostTraceMembers);
  const auto asked = traces.RequestFor({.job = job.id, .rank = JobRank(1023)}, now);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->most_bytes * kMostTraceMembers, kMostBytesOfTrace);
  EXPECT_EQ(traces.RequestFor({.job = job.id, .rank = JobRank(1024)}, now), std::nullopt);
}

}  // namespace
}  // namespace shoal::scheduler
