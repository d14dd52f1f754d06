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
