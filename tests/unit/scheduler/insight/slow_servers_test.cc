// When a server is called slow, why, and when no more.
#include "scheduler/insight/slow_servers.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr ServerId kSlowServer(5);
constexpr GroupId kFirstGroup(1);
constexpr GroupId kOtherGroup(2);

// A job of four ranks with two groups, whose windows are a second long.
class SlowServersTest : public ::testing::Test {
 protected:
  SlowServersTest() {
    for (const GroupId id : {kFirstGroup, kOtherGroup}) {
      GroupState& group = groups_[id];
      group.id = id;
      group.epoch = Epoch(7);
      group.ranks = {JobRank(0), JobRank(1), JobRank(2), JobRank(3)};
      group.shards = {{.server = kSlowServer}, {.server = ServerId(6)}};
    }
  }

  void Pass(uint64_t ns) {
    now_.monotonic_ns += ns;
    now_.unix_ms += ns / kNsPerMs;
  }
  // The ranks' next windows: of the server for these shares of the time, 0: not listed.
  void Windows(const std::vector<double>& shares, uint32_t late_bursts = 20, GroupId group = kFirstGroup) {
    Pass(kNsPerS);
    ++window_;
    for (uint32_t rank = 0; rank < shares.size(); ++rank) {
      ServerWaitReport report{
          .group = group, .epoch = groups_[group].epoch, .window = window_, .window_ns = kNsPerS, .bursts = 20};
      if (shares[rank] > 0) {
        report.servers.push_back({.server = kSlowServer,
                                  .waited_ns = static_cast<uint64_t>(shares[rank] * kNsPerS),
                                  .late_bursts = late_bursts});
      }
      servers_.OnReport(JobRank(rank), report, heartbeat_ns_, now_);
    }
  }
  void TwoWindows(const std::vector<double>& shares) {
    Windows(shares);
    Windows(shares);
  }
  std::vector<SlowServers::Change> Judge() {
    const auto find_group = [this](GroupId id) {
      const auto group = groups_.find(id);
      return group == groups_.end() ? nullptr : &group->second;
    };
    const auto find_live = [this](ServerId id) { return id == kSlowServer && is_live_ ? &state_ : nullptr; };
    const auto compare = [&](const GroupState&, ServerId id) {
      if (!why_not_.empty()) return ServerComparison{.why_not = why_not_};
      return ServerComparison{.server = find_live(id), .biased = biased_};
    };
    const auto find_late_rank = [this](ServerId, double least_share) {
      return late_share_ >= least_share ? late_rank_ : std::nullopt;
    };
    return servers_.Judge({find_group, find_live, compare, find_late_rank}, settle_ns_, now_);
  }
  // Why the one verdict is over.
  std::string Over() {
    const auto changes = Judge();
    return changes.size() == 1 ? changes[0].over : "";
  }

  SlowServers servers_;
  std::map<GroupId, GroupState> groups_;
  ServerState state_{.id = kSlowServer, .name = "alpha", .incarnation = Incarnation(3), .node = "node-a"};
  bool is_live_ = true;
  std::string why_not_;
  std::set<JobRank> biased_;
  std::optional<JobRank> late_rank_;
  double late_share_ = 0.3;
  uint64_t heartbeat_ns_ = kNsPerS;
  uint64_t settle_ns_ = 0;
  Now now_{.monotonic_ns = 1000 * kNsPerS, .unix_ms = 1'700'000'000'000};
  uint64_t window_ = 0;
};

TEST_F(SlowServersTest, MostRanksWaitForIt) {
  Windows({0.3, 0.2, 0.4, 0});
  EXPECT_THAT(Judge(), IsEmpty()) << "one window";
  Windows({0.3, 0.2, 0.4, 0});
  const auto changes = Judge();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_THAT(changes[0].over, IsEmpty());
  const SlowServer& slow = changes[0].server;
  EXPECT_EQ(slow.name, "alpha");
  EXPECT_EQ(slow.node, "node-a");
  EXPECT_NEAR(slow.waited_share, 0.3, 1e-9);
  EXPECT_EQ(slow.since_unix_ms, now_.unix_ms - 2000) << "the first of the windows began";
  EXPECT_EQ(slow.CauseName(), "slow-server");
  EXPECT_THAT(slow.Advice(), HasSubstr("its node's network link"));
  Windows({0.5, 0.5, 0.5, 0});
  EXPECT_THAT(Judge(), IsEmpty()) << "told once";
  ASSERT_THAT(servers_.slow(), SizeIs(1));
  EXPECT_NEAR(servers_.slow()[0].waited_share, 0.5, 1e-9) << "as it is now";
}

TEST_F(SlowServersTest, ItIsToldWhenThatHasSettled) {
  settle_ns_ = 2 * kNsPerS;
  TwoWindows({0.3, 0.3, 0.3, 0.3});
  EXPECT_THAT(Judge(), IsEmpty());
  Windows({0.3, 0.3, 0.3, 0.3});
  EXPECT_THAT(Judge(), IsEmpty());
  Windows({0.3, 0.3, 0.3, 0.3});
  EXPECT_THAT(Judge(), SizeIs(1));
}

TEST_F(SlowServersTest, HalfOfTheRanksAreNotEnough) {
  for (int i = 0; i < 5; ++i) Windows({0.3, 0.3, 0, 0});
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, RanksThatTellNothingDoNotCount) {
  TwoWindows({0.3, 0.3, 0});
  EXPECT_THAT(Judge(), SizeIs(1)) << "two of three";
}

TEST_F(SlowServersTest, RanksThatAreNearerToOtherServersDoNotCount) {
  biased_ = {JobRank(0), JobRank(1)};
  TwoWindows({0.3, 0.3, 0.3, 0});
  EXPECT_THAT(Judge(), IsEmpty()) << "one of two";
  TwoWindows({0, 0, 0.3, 0.3});
  EXPECT_THAT(Judge(), SizeIs(1)) << "both";
}

TEST_F(SlowServersTest, EachGroupDecidesForItself) {
  // As where a group of half of the job uses the server alone.
  TwoWindows({0.3, 0.3});
  Windows({0, 0, 0, 0}, 20, kOtherGroup);
  EXPECT_THAT(Judge(), SizeIs(1));
}

TEST_F(SlowServersTest, AShareThatDoesNotMatterIsNotTold) {
  for (int i = 0; i < 5; ++i) Windows({0.09, 0.09, 0.09, 0.09});
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, SomeLateBurstsAreChance) {
  for (int i = 0; i < 5; ++i) Windows({0.3, 0.3, 0.3, 0.3}, 15);
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, OnceToldHalfIsEnough) {
  TwoWindows({0.3, 0.3, 0.3, 0.3});
  ASSERT_THAT(Judge(), SizeIs(1));
  Windows({0.06, 0.06, 0.06, 0.06}, 9);
  EXPECT_THAT(Judge(), IsEmpty());
  Windows({0.04, 0.04, 0.04, 0.04});
  EXPECT_THAT(Over(), HasSubstr("do not say any more"));
  EXPECT_THAT(servers_.slow(), IsEmpty());
}

TEST_F(SlowServersTest, WindowsInBetweenThatWereNotTheCaseStartAnew) {
  Windows({0.3, 0.3, 0.3, 0.3});
  Windows({0, 0, 0, 0});
  Windows({0.3, 0.3, 0.3, 0.3});
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, AWindowThatIsToldAgainIsOne) {
  Windows({0.3, 0.3, 0.3, 0.3});
  --window_;
  Windows({0.3, 0.3, 0.3, 0.3});
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, RareHeartbeatsTellOfEnoughWindows) {
  heartbeat_ns_ = 20 * kNsPerS;
  Windows({0.3, 0.3, 0.3, 0.3});
  Pass(heartbeat_ns_);
  Windows({0.3, 0.3, 0.3, 0.3});
  EXPECT_THAT(Judge(), SizeIs(1));
}

TEST_F(SlowServersTest, WindowsFarApartAreNotInARow) {
  Windows({0.3, 0.3, 0.3, 0.3});
  Pass(20 * kNsPerS);
  Windows({0.3, 0.3, 0.3, 0.3});
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, SilenceIsNoWord) {
  TwoWindows({0.3, 0.3, 0.3, 0.3});
  Pass(8 * kNsPerS + 1);
  EXPECT_THAT(Judge(), IsEmpty()) << "old windows make no verdict";
  TwoWindows({0.3, 0.3, 0.3, 0.3});
  ASSERT_THAT(Judge(), SizeIs(1));
  Pass(300 * kNsPerS);
  EXPECT_THAT(Judge(), IsEmpty()) << "nor do they end one: the job may write a checkpoint";
  groups_[kFirstGroup].epoch = Epoch(8);
  EXPECT_THAT(Judge(), IsEmpty()) << "nor does a move";
  Pass(301 * kNsPerS);
  EXPECT_THAT(Over(), HasSubstr("do not say any more"));
}

TEST_F(SlowServersTest, AServerThatIsGoneOrAnotherProcessIsNotSlow) {
  TwoWindows({0.3, 0.3, 0.3, 0.3});
  ASSERT_THAT(Judge(), SizeIs(1));
  state_.incarnation = Incarnation(4);
  EXPECT_EQ(Over(), "it was started anew");
  TwoWindows({0.3, 0.3, 0.3, 0.3});
  ASSERT_THAT(Judge(), SizeIs(1));
  is_live_ = false;
  EXPECT_EQ(Over(), "it is not live any more");
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, WhatIsToldOfARankOfItsNodeIsToldInstead) {
  TwoWindows({0.3, 0.3, 0.3, 0.3});
  ASSERT_THAT(Judge(), SizeIs(1));
  why_not_ = "rank 3 on its node is slow";
  EXPECT_EQ(Over(), why_not_);
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, RanksThatAreGoneDoNotCount) {
  TwoWindows({0.3, 0.3, 0, 0});
  EXPECT_THAT(Judge(), IsEmpty());
  servers_.Forget(JobRank(3));
  EXPECT_THAT(Judge(), SizeIs(1)) << "two of three";
  servers_.Clear();
  EXPECT_THAT(servers_.slow(), IsEmpty());
}

TEST_F(SlowServersTest, TheWayFromOneRankIsToldApartAlsoLater) {
  late_rank_ = JobRank(2);
  TwoWindows({0.3, 0.3, 0.3, 0.3});
  const auto changes = Judge();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].server.CauseName(), "slow-way");
  EXPECT_THAT(changes[0].server.Advice(), HasSubstr("rank 2"));
  late_rank_.reset();
  Windows({0.3, 0.3, 0.3, 0.3});
  EXPECT_THAT(Judge(), IsEmpty()) << "too soon for another cause";
  for (int i = 0; i < 10; ++i) Windows({0.3, 0.3, 0.3, 0.3});
  const auto later = Judge();
  ASSERT_THAT(later, SizeIs(1));
  EXPECT_EQ(later[0].server.CauseName(), "slow-server");
  EXPECT_THAT(later[0].over, IsEmpty());
}

TEST_F(SlowServersTest, ARankForWhichTheServerWaitsFarLessIsNotTheWay) {
  late_rank_ = JobRank(2);
  late_share_ = 0.2;
  TwoWindows({0.3, 0.3, 0.3, 0.3});
  const auto changes = Judge();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].server.CauseName(), "slow-server");
}

TEST_F(SlowServersTest, NumbersThatCanNotBeAreNotTaken) {
  const auto report = [](auto set) {
    ServerWaitReport good{.group = kFirstGroup,
                          .epoch = Epoch(7),
                          .window = 1,
                          .window_ns = kNsPerS,
                          .bursts = 20,
                          .servers = {{kSlowServer, kNsPerS / 2, 20}}};
    set(&good);
    return good;
  };
  const std::vector<ServerWaitReport> wrong = {
      report([](ServerWaitReport* each) { each->window_ns = 0; }),
      report([](ServerWaitReport* each) { each->window_ns = UINT64_MAX; }),
      report([](ServerWaitReport* each) { each->bursts = 0; }),
      report([](ServerWaitReport* each) { each->servers[0].waited_ns = kNsPerS + 1; }),
      report([](ServerWaitReport* each) { each->servers[0].late_bursts = 21; }),
  };
  const auto tell = [&](ServerWaitReport each) {
    for (int i = 0; i < 3; ++i) {
      each.window = ++window_;
      servers_.OnReport(JobRank(0), each, heartbeat_ns_, now_);
      Pass(kNsPerS);
    }
    return Judge().size();
  };
  for (const ServerWaitReport& each : wrong) EXPECT_EQ(tell(each), 0u);
  EXPECT_EQ(tell(report([](ServerWaitReport*) {})), 1u);
}

}  // namespace
}  // namespace shoal::scheduler
