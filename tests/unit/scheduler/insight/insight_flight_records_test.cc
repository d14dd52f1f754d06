// What happened before a group failed: who may send it, how much of it is kept, and who is shown it.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/insight/flight_records.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InsightFlightRecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RegisterServer two_threads = Server("a", 1, 'a');
    two_threads.addresses.push_back("10.0.0.1:7");
    harness_.Ask<ServerRegistered>(two_threads);
    for (uint32_t rank = 0; rank < 2; ++rank) job_ = harness_.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
  }
  SendFlightRecord FromRank(uint32_t rank, const std::string& record, uint64_t group = 1) const {
    return {.job = job_,
            .group = GroupId(group),
            .rank = JobRank(rank),
            .server = {},
            .incarnation = Incarnation(100 + rank),
            .record = record};
  }
  SendFlightRecord FromServer(uint32_t io_thread, const std::string& record, uint64_t group = 1) const {
    return {.job = job_,
            .group = GroupId(group),
            .rank = {},
            .server = ServerId(1),
            .io_thread = io_thread,
            .incarnation = Incarnation(1),
            .record = record};
  }
  FlightRecordsView View(uint32_t member = 0, const std::string& job = "gpt", uint64_t group = 0) {
    return harness_.Ask<FlightRecordsView>(GetFlightRecords{job, GroupId(group), member});
  }

  MachineHarness harness_;
  JobId job_;
};

TEST_F(InsightFlightRecordsTest, TheRecordOfEachMemberIsKeptForTheOperator) {
  harness_.Ask<Done>(FromRank(1, "what rank 1 did"));
  harness_.Ask<Done>(FromServer(1, "what thread 1 did"));
  harness_.Ask<Done>(FromServer(1, "the same, said again"));
  const FlightRecordsView view = View(2);
  EXPECT_EQ(view.group, GroupId(1));
  EXPECT_EQ(view.job_name, "gpt");
  EXPECT_THAT(view.members, ElementsAre(HasSubstr("rank 1 on "), "I/O thread 1 of server a"));
  EXPECT_EQ(view.record, "what thread 1 did");
  EXPECT_EQ(View(1).record, "what rank 1 did");
  EXPECT_EQ(View(0).record, "");
  EXPECT_EQ(harness_.Try(GetFlightRecords{"gpt", {}, 3}).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(InsightFlightRecordsTest, ThoseWhoAreGoneByThenMaySendTheirs) {
  harness_.Ask<Done>(Leave(job_, 0, 100, /*failed=*/true));
  harness_.Ask<Done>(Leave(job_, 1, 101));
  harness_.Ask<ServerEvicted>(EvictServer{"a"});
  harness_.Ask<Done>(FromRank(1, "sent after the job had ended"));
  harness_.Ask<Done>(FromServer(0, "sent by one that was evicted"));
  EXPECT_THAT(View().members, SizeIs(2));
  // The job is started again: that of its last run stays what there is.
  harness_.Ask<JobJoined>(Join("gpt", 2, 0, 300));
  EXPECT_EQ(View(1).record, "sent after the job had ended");
}

TEST_F(InsightFlightRecordsTest, WhoIsNoMemberIsRefused) {
  SendFlightRecord stranger = FromRank(0, "x");
  stranger.incarnation = Incarnation(999);
  SendFlightRecord of_no_job = FromRank(0, "x");
  of_no_job.job = JobId(77);
  SendFlightRecord server = FromServer(0, "x");
  server.incarnation = Incarnation(2);
  for (const SendFlightRecord& sent : {stranger, of_no_job, server, FromRank(2, "x"), FromServer(2, "x")}) {
    EXPECT_EQ(harness_.Try(sent).code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(harness_.Try(FromRank(0, "x", /*group=*/0)).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status too_long = harness_.Try(FromRank(0, std::string(kMostBytesOfFlightRecord + 1, 'x')));
  EXPECT_EQ(too_long.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_long.message()), HasSubstr("524289 bytes; at most 524288 are taken"));
  const absl::Status none = harness_.Try(GetFlightRecords{"", {}, 0});
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("no flight records of any job: "));
  EXPECT_THAT(std::string(none.message()), HasSubstr("there are those of jobs: none"));
}

TEST_F(InsightFlightRecordsTest, TheGroupThatFailedLastIsShownUnlessAnotherIsNamed) {
  harness_.Ask<Done>(FromRank(0, "first", 7));
  harness_.Ask<Done>(FromRank(0, "second", 9));
  harness_.Ask<Done>(FromServer(0, "late, and of the first", 7));
  const JobId other = harness_.Ask<JobJoined>(Join("bert", 1, 0, 200)).job;
  harness_.Ask<Done>(SendFlightRecord{.job = other,
                                      .group = GroupId(10),
                                      .rank = {},
                                      .server = {},
                                      .incarnation = Incarnation(200),
                                      .record = "of another job"});
  EXPECT_EQ(View(1).record, "second");
  EXPECT_THAT(View().other_groups, ElementsAre(GroupId(7)));
  EXPECT_EQ(View(2, "", 7).record, "late, and of the first");
  EXPECT_EQ(View(1, "").record, "of another job");
  EXPECT_THAT(View(1, "").other_groups, IsEmpty());
  const absl::Status none = harness_.Try(GetFlightRecords{"gpt\n", GroupId(8), 0});
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()),
              testing::AllOf(HasSubstr("no flight records of job \"gpt?\", group 8: "), HasSubstr("jobs: bert, gpt")));
}

TEST_F(InsightFlightRecordsTest, TheGroupsThatFailedFirstMakeRoom) {
  for (uint64_t group = 1; group <= kMostFailedGroups; ++group) harness_.Ask<Done>(FromRank(0, "x", group));
  harness_.Ask<Done>(FromRank(0, "one more", kMostFailedGroups + 1));
  EXPECT_EQ(harness_.Try(GetFlightRecords{"gpt", GroupId(1), 0}).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(View().other_groups, SizeIs(kMostFailedGroups - 1));
}

TEST(FlightRecords, AreBoundedInMemory) {
  FlightRecords records;
  Job job{.id = JobId(1), .name = "gpt"};
  for (uint32_t rank = 0; rank <= kMostBytesOfFlightRecords / kLeastBytesCounted; ++rank) job.workers[JobRank(rank)];
  const ServerRegistry servers(kNsPerS);
  const std::string longest(kMostBytesOfFlightRecord, 'x');
  constexpr size_t kRoom = kMostBytesOfFlightRecords / kMostBytesOfFlightRecord;
  const auto send = [&](uint64_t group, size_t member, const std::string& text) {
    const JobRank rank(static_cast<uint32_t>(member));
    const SendFlightRecord sent{
        .job = job.id, .group = GroupId(group), .rank = rank, .server = {}, .incarnation = {}, .record = text};
    return records.Take(sent, &job, servers);
  };
  const auto members_of = [&](uint64_t group) {
    const auto view = records.View({"gpt", GroupId(group), 0});
    return view.ok() ? view->members.size() : 0;
  };
  ASSERT_TRUE(send(1, 0, longest).ok());
  ASSERT_TRUE(send(2, 0, longest).ok());
  // The first that failed goes on to send: those after it make room, as long as there are any.
  for (size_t member = 1; member < kRoom; ++member) ASSERT_TRUE(send(1, member, longest).ok());
  EXPECT_EQ(members_of(1), kRoom);
  EXPECT_EQ(members_of(2), 0u);
  const absl::Status full = send(1, kRoom, "x");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("of group 1 takes all the room"));
  // The next failure matters more.
  ASSERT_TRUE(send(3, 0, "x").ok());
  EXPECT_EQ(members_of(1), 0u);
  size_t taken = 1;
  while (send(3, taken, "").ok()) ++taken;
  EXPECT_EQ(taken, kMostBytesOfFlightRecords / kLeastBytesCounted) << "short ones count as well";
}

}  // namespace
}  // namespace shoal::scheduler
