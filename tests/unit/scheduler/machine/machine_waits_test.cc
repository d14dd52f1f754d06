// What a rank that waits for a group is told with its heartbeats, and what an operator is told of jobs that wait.
#include <cstdint>
#include <optional>
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

TEST_F(MachineWaitsTest, AJobWhoseRanksWaitForServersSaysHowManyAreThere) {
  const auto join = [this](uint32_t rank, uint32_t min_servers) {
    JoinJob request = Join("gpt", 3, rank, 100 + rank);
    request.min_servers = min_servers;
    harness_.Ask<JobJoined>(request);
  };
  const auto missing = [this] { return OnlyJob(harness_).missing_servers; };
  join(0, 0);
  EXPECT_EQ(missing(), std::nullopt) << "its version does not say how many it wants";
  join(1, 1);
  EXPECT_EQ(missing(), (MissingServers{.registered = 0, .wanted = 1}));
  join(2, 2);
  EXPECT_EQ(missing(), (MissingServers{.registered = 0, .wanted = 2})) << "the most that any of them wants";
  harness_.Ask<ServerRegistered>(Server("a", 1, 7));
  EXPECT_EQ(missing(), (MissingServers{.registered = 1, .wanted = 2}));
  harness_.Ask<ServerRegistered>(Server("b", 2, 8));
  EXPECT_EQ(missing(), std::nullopt);
  for (const uint32_t rank : {1, 2}) join(rank, rank);
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "SIGTERM"});
  EXPECT_EQ(missing(), std::nullopt) << "they heard of enough, and wait no more";
}

TEST_F(MachineWaitsTest, ARankThatLeftWaitsForNoServers) {
  JoinJob request = Join("gpt", 2, 0, 100);
  request.min_servers = 1;
  job_ = harness_.Ask<JobJoined>(request).job;
  harness_.Ask<JobJoined>(Join("gpt", 2, 1, 101));
  ASSERT_NE(OnlyJob(harness_).missing_servers, std::nullopt);
  harness_.Ask<Done>(Leave(job_, 0, 100));
  EXPECT_EQ(OnlyJob(harness_).missing_servers, std::nullopt);
}

TEST_F(MachineWaitsTest, AJobOfOneNodeWaitsForServersOnlyUntilAllItsRanksAreThere) {
  const auto join = [this](uint32_t rank) {
    JoinJob request = Join("gpt", 2, rank, 100 + rank);
    request.min_servers = 1;
    request.node_reduce = {.possible = true, .node_identity = "boot 1"};
    harness_.Ask<JobJoined>(request);
  };
  join(0);
  EXPECT_NE(OnlyJob(harness_).missing_servers, std::nullopt);
  join(1);
  join(0);  // as it does until it hears that it need not wait
  EXPECT_EQ(OnlyJob(harness_).missing_servers, std::nullopt);
}

TEST_F(MachineWaitsTest, ASchedulerThatWasRestartedHearsItFromTheNextPoll) {
  JoinJob request = Join("gpt", 2, 0, 100);
  request.min_servers = 1;
  harness_.Ask<JobJoined>(request);
  MachineHarness after(harness_.last_saved());
  EXPECT_EQ(OnlyJob(after).missing_servers, std::nullopt);
  after.Ask<JobJoined>(request);
  EXPECT_EQ(OnlyJob(after).missing_servers, (MissingServers{.registered = 0, .wanted = 1}));
}

TEST_F(MachineWaitsTest, AGroupThatLacksNoRankSaysHowManyServersAreThere) {
  job_ = harness_.Ask<JobJoined>(Join("gpt", 2, 0, 100)).job;
  harness_.Ask<JobJoined>(Join("gpt", 2, 1, 101));
  const auto ask = [this](uint32_t rank) {
    JoinGroup request = Group(job_, rank, 100 + rank, {0, 1});
    request.min_servers = 2;
    harness_.Send(request);
  };
  const auto missing = [this] { return OnlyJob(harness_).groups.at(0).missing_servers; };
  ask(0);
  EXPECT_EQ(missing(), std::nullopt) << "the ranks that it lacks are named";
  ask(1);
  EXPECT_EQ(missing(), (MissingServers{.registered = 0, .wanted = 2}));
  harness_.Ask<ServerRegistered>(Server("a", 1, 7));
  EXPECT_EQ(missing(), (MissingServers{.registered = 1, .wanted = 2}));
  harness_.Ask<ServerRegistered>(Server("b", 2, 8));
  EXPECT_TRUE(OnlyJob(harness_).groups.at(0).open);
  EXPECT_EQ(missing(), std::nullopt);
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
