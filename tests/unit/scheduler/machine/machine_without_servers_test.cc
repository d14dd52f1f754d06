// Which ranks are asked to run colocated servers when none is left (docs/adr/0015).
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

class MachineColocationRequestTest : public ::testing::Test {
 protected:
  // A running job of four ranks on two nodes with an open group; rank 0 does not offer to run a server.
  void StartJob(bool offered) {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      JoinJob request = Join("gpt", 4, rank, 100 + rank);
      request.node = rank < 2 ? "node-a" : "node-b";
      request.colocates_without_servers = offered && rank > 0;
      job_ = harness_.Ask<JobJoined>(request).job;
    }
    for (uint32_t rank = 0; rank < 4; ++rank) harness_.Send(Group(job_, rank, 100 + rank, {0, 1, 2, 3}));
    watcher_ = harness_.Watch(job_);
    harness_.watched(watcher_).clear();
  }
  void SetUp() override { harness_.Ask<ServerRegistered>(Server("a", 1, 7)); }
  void LoseServer() { harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "SIGTERM"}); }
  // Since the last call.
  std::vector<ColocationRequest> TakeRequests() {
    std::vector<ColocationRequest> requests;
    for (const SendWatch& update : harness_.watched(watcher_)) {
      if (update.colocation.has_value()) requests.push_back(*update.colocation);
    }
    harness_.watched(watcher_).clear();
    return requests;
  }
  RegisterServer ColocatedServerOfRank(uint32_t rank) const {
    RegisterServer request = Server("of-rank-" + std::to_string(rank), 500 + rank, 9000 + rank);
    request.job = job_;
    request.node = rank < 2 ? "node-a" : "node-b";
    return request;
  }

  MachineHarness harness_;
  JobId job_;
  WatcherId watcher_;
};

TEST_F(MachineColocationRequestTest, F6OneRankOfEachNodeIsAskedAndTheGroupMovesToItsServer) {
  StartJob(true);
  LoseServer();
  const std::vector<ColocationRequest> requests = TakeRequests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_THAT(requests[0].ranks, ElementsAre(JobRank(1), JobRank(2)));
  EXPECT_EQ(requests[0].reason, "server a is left (SIGTERM)");
  EXPECT_THAT(harness_.EventKinds(), Contains("colocation-requested"));
  harness_.Ask<ServerRegistered>(ColocatedServerOfRank(1));
  const std::vector<SendWatch> updates = harness_.watched(watcher_);
  ASSERT_EQ(updates.size(), 1u);
  ASSERT_EQ(updates[0].groups.size(), 1u);
  EXPECT_EQ(updates[0].groups[0].map->shards()[0].server_name, "of-rank-1");
  EXPECT_FALSE(updates[0].colocation.has_value());
}

TEST_F(MachineColocationRequestTest, JobsThatDidNotOfferItWait) {
  StartJob(false);
  LoseServer();
  EXPECT_TRUE(TakeRequests().empty());
}

TEST_F(MachineColocationRequestTest, WhileThereIsAServerNobodyIsAsked) {
  harness_.Ask<ServerRegistered>(Server("b", 2, 8));
  StartJob(true);
  LoseServer();
  EXPECT_TRUE(TakeRequests().empty());
}

TEST_F(MachineColocationRequestTest, TheLastServerThatIsToLeaveCountsAsGone) {
  StartJob(true);
  harness_.Ask<ServerDraining>(DrainServer{"a"});
  const std::vector<ColocationRequest> requests = TakeRequests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].reason, "server a is draining");
}

TEST_F(MachineColocationRequestTest, WhoConnectsAgainIsToldAgainAlsoByASchedulerThatWasRestarted) {
  StartJob(true);
  LoseServer();
  const WatcherId again = harness_.Watch(job_);
  ASSERT_EQ(harness_.watched(again).size(), 1u);
  EXPECT_TRUE(harness_.watched(again)[0].colocation.has_value());
  MachineHarness after(harness_.last_saved());
  const WatcherId later = after.Watch(job_);
  ASSERT_EQ(after.watched(later).size(), 1u);
  ASSERT_TRUE(after.watched(later)[0].colocation.has_value());
  EXPECT_THAT(after.watched(later)[0].colocation->ranks, ElementsAre(JobRank(1), JobRank(2)));
}

TEST_F(MachineColocationRequestTest, NobodyIsAskedForTheSakeOfAGroupThatWasGivenUp) {
  StartJob(true);
  harness_.GiveOldestGroupUp(job_, JobRank(1), Incarnation(101));
  LoseServer();
  EXPECT_TRUE(TakeRequests().empty());
}

TEST_F(MachineColocationRequestTest, AJobWithNothingOpenIsLeftAlone) {
  JoinJob request = Join("gpt", 2, 0, 100);
  request.colocates_without_servers = true;
  job_ = harness_.Ask<JobJoined>(request).job;
  watcher_ = harness_.Watch(job_);
  LoseServer();
  EXPECT_TRUE(TakeRequests().empty()) << "it waits for servers, which may be on their way";
}

}  // namespace
}  // namespace shoal::scheduler
