// What the scheduler makes of ranks' words about servers that they wait for: an event, the job's status, a number, and
// a line for rank 0.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
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

// A group of two ranks on two servers.
class InsightSlowServersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& name : names_) {
      RegisterServer server = Server(name, 11 + servers_.size(), 1);
      server.addresses = {absl::StrCat("10.0.0.", servers_.size(), ":7000")};
      if (have_one_name_) server.boot_id = std::exchange(server.node, "localhost");
      servers_.push_back(harness_.Ask<ServerRegistered>(server).server);
    }
    for (uint32_t rank = 0; rank < 2; ++rank) {
      JoinJob join = Join("gpt", 2, rank, 100 + rank);
      if (rank == 1 && !node_.empty()) join.node = node_;
      if (have_one_name_) join.boot_id = std::exchange(join.node, "localhost");
      job_ = harness_.Ask<JobJoined>(join).job;
    }
    std::vector<RequestHandle> handles;
    for (const uint32_t rank : {0u, 1u}) handles.push_back(harness_.Send(Group(job_, rank, 100 + rank, {0, 1})));
    group_ = harness_.Get<GroupJoined>(handles[0]).group;
    epoch_ = harness_.Get<GroupJoined>(handles[0]).map->epoch();
  }

  // A second passes, in which both ranks wait for server beta.
  void Wait(double share) {
    harness_.Advance(1000);
    for (size_t i = 0; i < servers_.size(); ++i) {
      harness_.Send(HeartbeatServer{
          .server = servers_[i], .incarnation = Incarnation(11 + i), .load = {}, .absent_ranks = {}, .late_ranks = {}});
    }
    ++window_;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      HeartbeatWorker beat = Beat(job_, rank, 100 + rank);
      beat.server_waits = {
          {.group = group_, .epoch = epoch_, .window = window_, .window_ns = kNsPerS, .bursts = 20, .servers = {}}};
      if (share > 0 && only_rank_.value_or(rank) == rank) {
        beat.server_waits[0].servers = {
            {.server = servers_[1], .waited_ns = static_cast<uint64_t>(share * kNsPerS), .late_bursts = 20}};
      }
      for (std::string& line : harness_.Ask<WorkerRenewed>(beat).news) {
        EXPECT_EQ(rank, 0u) << line;
        news_.push_back(std::move(line));
      }
    }
  }
  // Until it is told.
  void WaitForLong() {
    for (int i = 0; i < 8; ++i) Wait(0.25);
  }
  // Server beta finds rank 1 late, for that share of the time, and so do all others, or not.
  void FindRankLate(bool also_elsewhere, double share = 0.25) {
    for (size_t i = 0; i < servers_.size(); ++i) {
      std::vector<LateRankReport> late;
      if (i == 1 || also_elsewhere) {
        late = {{.job = job_,
                 .group = group_,
                 .epoch = epoch_,
                 .rank = Rank(1),
                 .window = window_ + 1,
                 .window_ns = kNsPerS,
                 .ops = 20,
                 .late_ops = 20,
                 .waited_ns = static_cast<uint64_t>(share * kNsPerS)}};
      }
      harness_.Ask<ServerRenewed>(HeartbeatServer{.server = servers_[i],
                                                  .incarnation = Incarnation(11 + i),
                                                  .load = {},
                                                  .absent_ranks = {},
                                                  .late_ranks = std::move(late)});
    }
  }
  std::vector<SlowServer> Slow() { return harness_.Jobs()[0].slow_servers; }

  std::string node_;            // of rank 1; empty: one of its own
  bool have_one_name_ = false;  // all nodes: boot ids tell them apart
  std::vector<std::string> names_ = {"alpha", "beta"};
  MachineHarness harness_;
  std::vector<ServerId> servers_;
  JobId job_;
  GroupId group_;
  Epoch epoch_;
  uint64_t window_ = 0;
  std::optional<uint32_t> only_rank_;  // that waits
  std::vector<std::string> news_;
};

TEST_F(InsightSlowServersTest, ASlowServerIsNamedEverywhere) {
  WaitForLong();
  const std::vector<std::string> kinds = harness_.EventKinds();
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), "server-slow"), 1);
  ASSERT_THAT(Slow(), SizeIs(1));
  EXPECT_EQ(Slow()[0].server, servers_[1]);
  EXPECT_THAT(news_,
              ElementsAre(AllOf(HasSubstr("server beta on node"),
                                HasSubstr("the ranks of job \"gpt\" wait for it 25 % of the time (slow-server)"))));
  EXPECT_EQ(harness_.machine().Numbers(harness_.now()).largest_jobs[0].slow_servers, 1u);
  for (int i = 0; i < 2; ++i) Wait(0);
  EXPECT_EQ(harness_.EventKinds().back(), "server-slow-no-more");
  ASSERT_THAT(news_, SizeIs(2));
  EXPECT_THAT(Slow(), IsEmpty());
}

TEST_F(InsightSlowServersTest, TheWayFromOneRankToTheServerIsTold) {
  for (int i = 0; i < 8; ++i) {
    FindRankLate(/*also_elsewhere=*/false);
    Wait(0.25);
  }
  ASSERT_THAT(Slow(), SizeIs(1));
  EXPECT_EQ(Slow()[0].late_rank, JobRank(1));
}

TEST_F(InsightSlowServersTest, ARankThatIsLateForPartOfTheTimeIsNotTheWay) {
  for (int i = 0; i < 8; ++i) {
    FindRankLate(/*also_elsewhere=*/false, 0.1);
    Wait(0.25);
  }
  ASSERT_THAT(Slow(), SizeIs(1));
  EXPECT_EQ(Slow()[0].late_rank, std::nullopt) << "one rank is always the last on the server's slow link";
}

TEST_F(InsightSlowServersTest, ARankThatIsLateEverywhereIsNotTheWay) {
  for (int i = 0; i < 8; ++i) {
    FindRankLate(/*also_elsewhere=*/true);
    Wait(0.25);
  }
  ASSERT_THAT(Slow(), SizeIs(1));
  EXPECT_EQ(Slow()[0].late_rank, std::nullopt);
}

class InsightRankOnServersNodeTest : public InsightSlowServersTest {
 protected:
  explicit InsightRankOnServersNodeTest(const std::string& node = "node-alpha") { node_ = node; }
};

TEST_F(InsightRankOnServersNodeTest, ARankThatIsNearerToTheOtherServerDoesNotCount) {
  only_rank_ = 1;
  WaitForLong();
  EXPECT_THAT(Slow(), IsEmpty()) << "it alone says so, and its own server is the other one";
  only_rank_ = 0;
  WaitForLong();
  EXPECT_THAT(Slow(), SizeIs(1)) << "one of one";
}

class InsightNodesOfOneNameTest : public InsightRankOnServersNodeTest {
 protected:
  InsightNodesOfOneNameTest() { have_one_name_ = true; }
};

TEST_F(InsightNodesOfOneNameTest, ARankThatIsNearerToTheOtherServerDoesNotCount) {
  only_rank_ = 0;
  WaitForLong();
  EXPECT_THAT(Slow(), SizeIs(1)) << "one of one";
}

class InsightSlowNodeTest : public InsightRankOnServersNodeTest {
 protected:
  InsightSlowNodeTest() : InsightRankOnServersNodeTest("node-beta") {}
};

TEST_F(InsightSlowNodeTest, AServerOnARanksNodeMayBeSlow) {
  WaitForLong();
  EXPECT_THAT(Slow(), SizeIs(1));
}

TEST_F(InsightSlowNodeTest, WhatIsToldOfARankIsNotToldOfTheServerOnItsNode) {
  for (int i = 0; i < 8; ++i) {
    FindRankLate(/*also_elsewhere=*/true);
    Wait(0.25);
  }
  EXPECT_THAT(harness_.Jobs()[0].slow_ranks, SizeIs(1));
  EXPECT_THAT(Slow(), IsEmpty());
}

class MachineRankOnNodeOfServersNameTest : public InsightRankOnServersNodeTest {
 protected:
  MachineRankOnNodeOfServersNameTest() : InsightRankOnServersNodeTest("") { have_one_name_ = true; }
};

TEST_F(MachineRankOnNodeOfServersNameTest, ASlowRankOfAnotherNodeHidesNoServer) {
  for (int i = 0; i < 8; ++i) {
    FindRankLate(/*also_elsewhere=*/true);
    Wait(0.25);
  }
  EXPECT_THAT(harness_.Jobs()[0].slow_ranks, SizeIs(1));
  EXPECT_THAT(Slow(), SizeIs(1));
}

TEST_F(InsightSlowServersTest, WordsOfOtherGroupsAndEpochsDoNotCount) {
  const GroupId group = std::exchange(group_, GroupId(77));
  WaitForLong();
  EXPECT_THAT(Slow(), IsEmpty());
  group_ = group;
  const Epoch epoch = std::exchange(epoch_, Epoch(epoch_.value() + 1));
  WaitForLong();
  EXPECT_THAT(Slow(), IsEmpty());
  epoch_ = epoch;
  WaitForLong();
  EXPECT_THAT(Slow(), SizeIs(1));
}

TEST_F(InsightSlowServersTest, AServerThatIsLostIsNotSlowAnyMore) {
  WaitForLong();
  ASSERT_THAT(Slow(), SizeIs(1));
  harness_.Ask<ServerEvicted>(EvictServer{.name = "beta"});
  Wait(0.25);
  EXPECT_THAT(Slow(), IsEmpty());
}

TEST_F(InsightSlowServersTest, AJobWhoseRanksHaveLeftWaitsForNobody) {
  WaitForLong();
  ASSERT_THAT(Slow(), SizeIs(1));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    harness_.Ask<Done>(
        LeaveJob{.job = job_, .rank = JobRank(rank), .incarnation = Incarnation(100 + rank), .reason = ""});
  }
  EXPECT_THAT(Slow(), IsEmpty());
}

}  // namespace
}  // namespace shoal::scheduler
