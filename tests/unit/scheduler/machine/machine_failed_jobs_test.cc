// A job that ends without the group that it wanted has failed, with the reason; one that got over it has not.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class MachineFailedJobsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.Ask<ServerRegistered>(Server("a", 1, 'a'));
    for (uint32_t rank = 0; rank < 2; ++rank) job_ = harness_.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
  }
  JoinGroup Request(uint32_t rank, const std::string& name) const {
    JoinGroup request = Group(job_, rank, 100 + rank, {0, 1}, 1000);
    request.group_name = name;
    return request;
  }
  GroupId Make(const std::string& name) {
    harness_.Send(Request(0, name));
    return harness_.Ask<GroupJoined>(Request(1, name)).group;
  }
  void Close(uint32_t rank, GroupId group, const std::string& failure = "") {
    CloseGroups request = {.job = job_, .rank = JobRank(rank), .incarnation = Incarnation(100 + rank)};
    request.groups = {group};
    if (!failure.empty()) request.failures = {{group, failure}};
    harness_.Ask<Done>(request);
  }
  // Its op timed out on both ranks.
  void FailAndClose(GroupId group) {
    Close(0, group, "all-reduce 4 timed out");
    Close(1, group, "all-reduce 4 timed out as well");
  }
  void LeaveAll(MachineHarness* harness) {
    for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(harness->Try(Leave(job_, rank, 100 + rank)).ok());
  }
  std::string ReasonOf(MachineHarness& harness, const std::string& kind) {
    std::string reason;
    for (const EventRecord& event : harness.events()) {
      if (EventKey(event.kind) == kind) reason = event.reason;
    }
    return reason;
  }

  MachineHarness harness_;
  JobId job_;
};

TEST_F(MachineFailedJobsTest, AGroupThatFailedIsTheReason) {
  FailAndClose(Make("world"));
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kRunning) << "its ranks may make another group";
  LeaveAll(&harness_);
  const JobView job = OnlyJob(harness_);
  EXPECT_EQ(job.phase, JobPhase::kFailed);
  EXPECT_EQ(job.failure, "group \"world\": rank 0 on node0: all-reduce 4 timed out");
  EXPECT_EQ(ReasonOf(harness_, "job-failed"), job.failure);
  EXPECT_THAT(harness_.EventKinds(), Not(Contains("job-ended")));
}

TEST_F(MachineFailedJobsTest, AGroupThatWasMadeAfterItShowsThatTheJobGotOverIt) {
  FailAndClose(Make("world"));
  const GroupId next = Make("world");
  EXPECT_EQ(OnlyJob(harness_).failure, "");
  Close(0, next);
  Close(1, next);
  LeaveAll(&harness_);
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kEnded);
  EXPECT_THAT(harness_.EventKinds(), AllOf(Contains("job-ended"), Not(Contains("job-failed"))));
}

TEST_F(MachineFailedJobsTest, TheFirstFailureIsTheReason) {
  const GroupId world = Make("world");
  const GroupId other = Make("other");
  FailAndClose(world);
  Close(0, other, "the worker is closing");
  LeaveAll(&harness_);
  EXPECT_THAT(OnlyJob(harness_).failure, HasSubstr("group \"world\": rank 0 on node0: all-reduce 4 timed out"));
}

TEST_F(MachineFailedJobsTest, AGroupThatAllCloseInOrderAfterItShowsThatTheJobGotOverIt) {
  const GroupId world = Make("world");
  FailAndClose(Make("optional"));
  EXPECT_THAT(OnlyJob(harness_).failure, HasSubstr("group \"optional\""));
  Close(0, world);
  EXPECT_NE(OnlyJob(harness_).failure, "") << "one rank may still use it";
  Close(1, world);
  LeaveAll(&harness_);
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kEnded);
}

TEST_F(MachineFailedJobsTest, GroupsOfOtherRanksShowNothing) {
  JobId four;
  for (uint32_t rank = 0; rank < 4; ++rank) four = harness_.Ask<JobJoined>(Join("four", 4, rank, 200 + rank)).job;
  const auto make = [&](uint32_t low, uint32_t high, const std::string& name) {
    GroupId made;
    for (const uint32_t rank : {low, high}) {
      JoinGroup request = Group(four, rank, 200 + rank, {low, high}, 1000);
      request.group_name = name;
      if (rank == low) {
        harness_.Send(request);
      } else {
        made = harness_.Ask<GroupJoined>(request).group;
      }
    }
    return made;
  };
  const GroupId failed = make(0, 1, "of-the-first");
  for (const uint32_t rank : {0u, 1u}) {
    CloseGroups request = {.job = four, .rank = JobRank(rank), .incarnation = Incarnation(200 + rank)};
    request.groups = {failed};
    request.failures = {{failed, "timed out"}};
    harness_.Ask<Done>(request);
  }
  make(2, 3, "of-the-others");
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(harness_.Try(Leave(four, rank, 200 + rank)).ok());
  const auto jobs = harness_.Jobs();
  EXPECT_EQ(jobs.back().phase, JobPhase::kFailed);
  EXPECT_THAT(jobs.back().failure, HasSubstr("timed out"));
}

TEST_F(MachineFailedJobsTest, ARequestThatARankGivesUpIsTheReason) {
  JoinGroup request = Request(0, "world");
  request.request_number = 7;
  const RequestHandle waits = harness_.Send(request);
  LeaveJob leave = Leave(job_, 0, 100);
  leave.given_up_requests = {{7, "interrupted\nby hand"}};
  EXPECT_TRUE(harness_.Try(leave).ok());
  EXPECT_FALSE(harness_.StatusOf(waits).ok());
  EXPECT_TRUE(harness_.Try(Leave(job_, 1, 101)).ok());
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kFailed);
  EXPECT_EQ(OnlyJob(harness_).failure,
            "rank 0 of job \"gpt\" on node node0: it gave its request for the group up: interrupted?by hand");
}

TEST_F(MachineFailedJobsTest, ARefusalOfNoConsequenceIsNotSaved) {
  FailAndClose(Make("world"));
  const auto before = harness_.saves();
  const RequestHandle waits = harness_.Send(Group(job_, 0, 100, {0, 1}, 1));
  harness_.Advance(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(harness_.StatusOf(waits)));
  EXPECT_EQ(harness_.saves(), before) << "the first reason counts";
}

// More jobs than are remembered once they are over, all lost with one tick: after a power cut, for example.
TEST(ManyJobsTest, AllAreLostAtTheSameInstantAfterARestart) {
  MachineHarness before;
  for (uint32_t number = 0; number < kMaxPastJobs + 3; ++number) {
    before.Ask<JobJoined>(Join("job" + std::to_string(number), 1, 0, 1000 + number));
  }
  MachineHarness after(before.last_saved());
  after.Advance(kTtlMs + 1000);
  const auto jobs = after.Jobs();
  EXPECT_EQ(jobs.size(), kMaxPastJobs);
  for (const JobView& job : jobs) EXPECT_EQ(job.phase, JobPhase::kFailed);
  size_t failed = 0;
  for (const EventRecord& event : after.events()) {
    if (event.kind != EventKind::kJobFailed) continue;
    ++failed;
    EXPECT_THAT(event.reason, HasSubstr("rank 0 of job \"job")) << event.reason;
  }
  EXPECT_EQ(failed, kMaxPastJobs + 3);
}

TEST_F(MachineFailedJobsTest, AGroupThatWasNotMadeIsTheReason) {
  const RequestHandle waits = harness_.Send(Request(0, "world"));
  harness_.Advance(1000);
  EXPECT_TRUE(absl::IsDeadlineExceeded(harness_.StatusOf(waits)));
  LeaveAll(&harness_);
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kFailed);
  EXPECT_THAT(OnlyJob(harness_).failure, HasSubstr("rank 0 waited 1 s in group \"world\" for rank 1"));
}

TEST_F(MachineFailedJobsTest, AGroupThatItsRanksDisagreeOnIsTheReason) {
  JoinGroup other = Request(1, "world");
  other.max_chunk_bytes = 4096;
  const RequestHandle first = harness_.Send(Request(0, "world"));
  EXPECT_TRUE(absl::IsInvalidArgument(harness_.Try(other)));
  EXPECT_TRUE(absl::IsInvalidArgument(harness_.StatusOf(first)));
  LeaveAll(&harness_);
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kFailed);
  EXPECT_THAT(OnlyJob(harness_).failure, HasSubstr("4096 bytes"));
}

TEST_F(MachineFailedJobsTest, ALostRankIsTheReasonWhateverFailedBefore) {
  FailAndClose(Make("world"));
  LeaveJob lost = Leave(job_, 1, 101);
  lost.failed = true;
  EXPECT_TRUE(harness_.Try(lost).ok());
  EXPECT_EQ(OnlyJob(harness_).phase, JobPhase::kFailed);
  EXPECT_THAT(OnlyJob(harness_).failure, HasSubstr("rank 1 of job \"gpt\" on node node1 was lost"));
}

TEST_F(MachineFailedJobsTest, AnotherSchedulerKnowsItToo) {
  FailAndClose(Make("world"));
  MachineHarness after(harness_.last_saved());
  LeaveAll(&after);
  EXPECT_EQ(OnlyJob(after).phase, JobPhase::kFailed);
  EXPECT_THAT(OnlyJob(after).failure, HasSubstr("all-reduce 4 timed out"));
}

}  // namespace
}  // namespace shoal::scheduler
