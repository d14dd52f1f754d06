// What a rank that waits for a group is told with its heartbeats.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MachineWaitsTest : public ::testing::Test {
 protected:
  std::vector<std::string> WaitsOf(uint32_t rank) {
    return harness_.Ask<WorkerRenewed>(Beat(job_, rank, 100 + rank)).waits;
  }

  MachineHarness harness_;
  JobId job_;
};

TEST_F(MachineWaitsTest, TheMissingRanksAndServersAreNamedAfterAQuarterOfTheTime) {
  job_ = harness_.Ask<JobJoined>(Join("gpt", 3, 0, 100)).job;
  harness_.Ask<JobJoined>(Join("gpt", 3, 1, 101));
  harness_.Send(Group(job_, 0, 100, {0, 1, 2}, 8000));
  harness_.Advance(1999);
  EXPECT_THAT(WaitsOf(0), IsEmpty());
  harness_.Advance(1);
  EXPECT_THAT(
      WaitsOf(0),
      ElementsAre("group \"world\": waited 2 s for rank 1 (on node node1, joined the job, has not asked for the "
                  "group), rank 2 (never joined the job), and for servers (0 of 1 registered) (6 s left)"));
  EXPECT_THAT(WaitsOf(1), IsEmpty()) << "it waits for nothing itself";
}

TEST_F(MachineWaitsTest, AGroupThatIsOpenIsNotWaitedFor) {
  harness_.Ask<ServerRegistered>(Server("a", 1, 7));
  job_ = harness_.Ask<JobJoined>(Join("gpt", 1, 0, 100)).job;
  harness_.Send(Group(job_, 0, 100, {0}, 8000));
  harness_.Advance(4000);
  EXPECT_THAT(WaitsOf(0), IsEmpty());
}

}  // namespace
}  // namespace shoal::scheduler
