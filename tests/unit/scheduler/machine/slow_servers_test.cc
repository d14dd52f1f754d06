// When a server is called slow, why, and when no more.
#include "scheduler/machine/slow_servers.h"

#include <optional>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr ServerId kServer(5);

// A job of four ranks, whose windows are a second long.
class SlowServersTest : public ::testing::Test {
 protected:
  // The ranks' next windows: of the server for these shares of the time, 0: not listed.
  void Windows(const std::vector<double>& shares, uint32_t late_ops = 20) {
    now_.monotonic_ns += kNsPerS;
    now_.unix_ms += 1000;
    ++window_;
    for (uint32_t rank = 0; rank < shares.size(); ++rank) {
      ServerWaitsReport report{.window = window_, .window_ns = kNsPerS, .ops = 20};
      if (shares[rank] > 0) {
        report.servers.push_back(
            {.server = kServer, .waited_ns = static_cast<uint64_t>(shares[rank] * kNsPerS), .late_ops = late_ops});
      }
      servers_.OnReport(JobRank(rank), report, now_);
    }
  }
  std::vector<SlowServers::Change> Judge() {
    return servers_.Judge([this](ServerId id) { return id == kServer && is_live_ ? &state_ : nullptr; },
                          [this](ServerId) { return late_rank_; }, settle_ns_, now_);
  }

  SlowServers servers_;
  ServerState state_{.id = kServer, .name = "alpha", .node = "node-a"};
  bool is_live_ = true;
  std::optional<JobRank> late_rank_;
  uint64_t settle_ns_ = 0;
  Now now_{.monotonic_ns = 100 * kNsPerS, .unix_ms = 1'700'000'000'000};
  uint64_t window_ = 0;
};

TEST_F(SlowServersTest, MostRanksWaitForIt) {
  Windows({0.3, 0.2, 0.4, 0});
  EXPECT_THAT(Judge(), IsEmpty()) << "one window";
  Windows({0.3, 0.2, 0.4, 0});
  const auto changes = Judge();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_FALSE(changes[0].is_over);
  const SlowServer& slow = changes[0].server;
  EXPECT_EQ(slow.name, "alpha");
  EXPECT_EQ(slow.node, "node-a");
  EXPECT_NEAR(slow.waited_share, 0.3, 1e-9);
  EXPECT_EQ(slow.since_unix_ms, now_.unix_ms - 2000) << "the first of the windows began";
  EXPECT_THAT(slow.Advice(), HasSubstr("its node's network link"));
  Windows({0.5, 0.5, 0.5, 0});
  EXPECT_THAT(Judge(), IsEmpty()) << "told once";
  ASSERT_THAT(servers_.slow(), SizeIs(1));
  EXPECT_NEAR(servers_.slow()[0].waited_share, 0.5, 1e-9) << "as it is now";
}

TEST_F(SlowServersTest, ItIsToldWhenThatHasSettled) {
  settle_ns_ = 2 * kNsPerS;
  for (int i = 0; i < 2; ++i) Windows({0.3, 0.3, 0.3, 0.3});
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
  for (int i = 0; i < 2; ++i) Windows({0.3, 0.3, 0});
  EXPECT_THAT(Judge(), SizeIs(1)) << "two of three";
}

TEST_F(SlowServersTest, AShareThatDoesNotMatterIsNotTold) {
  for (int i = 0; i < 5; ++i) Windows({0.09, 0.09, 0.09, 0.09});
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, SomeLateOpsAreChance) {
  for (int i = 0; i < 5; ++i) Windows({0.3, 0.3, 0.3, 0.3}, 15);
  EXPECT_THAT(Judge(), IsEmpty());
}

TEST_F(SlowServersTest, OnceToldHalfIsEnough) {
  for (int i = 0; i < 2; ++i) Windows({0.3, 0.3, 0.3, 0.3});
  ASSERT_THAT(Judge(), SizeIs(1));
  Windows({0.06, 0.06, 0.06, 0.06}, 9);
  EXPECT_THAT(Judge(), IsEmpty());
  Windows({0.04, 0.04, 0.04, 0.04});
  const auto changes = Judge();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_TRUE(changes[0].is_over);
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

TEST_F(SlowServersTest, AServerThatIsGoneIsNotSlow) {
  for (int i = 0; i < 2; ++i) Windows({0.3, 0.3, 0.3, 0.3});
  ASSERT_THAT(Judge(), SizeIs(1));
  is_live_ = false;
  const auto changes = Judge();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_TRUE(changes[0].is_over);
  EXPECT_EQ(changes[0].server.name, "alpha");
}

TEST_F(SlowServersTest, OldWordsAndThoseOfRanksThatAreGoneDoNotCount) {
  for (int i = 0; i < 2; ++i) Windows({0.3, 0.3, 0.3, 0.3});
  ASSERT_THAT(Judge(), SizeIs(1));
  now_.monotonic_ns += 6 * kNsPerS;
  EXPECT_THAT(Judge(), IsEmpty()) << "a window of a second counts for six";
  now_.monotonic_ns += 1;
  ASSERT_THAT(Judge(), SizeIs(1));
  for (int i = 0; i < 2; ++i) Windows({0.3, 0.3, 0, 0});
  EXPECT_THAT(Judge(), IsEmpty());
  servers_.Forget(JobRank(3));
  EXPECT_THAT(Judge(), SizeIs(1)) << "two of three";
}

TEST_F(SlowServersTest, TheWayFromOneRankIsToldApart) {
  late_rank_ = JobRank(2);
  for (int i = 0; i < 2; ++i) Windows({0.3, 0.3, 0.3, 0.3});
  const auto changes = Judge();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_THAT(changes[0].server.Advice(), HasSubstr("rank 2"));
}

TEST_F(SlowServersTest, NumbersThatCanNotBeAreNotTaken) {
  const std::vector<ServerWaitsReport> wrong = {
      {.window = 0, .window_ns = kNsPerS, .ops = 20, .servers = {{kServer, kNsPerS / 2, 20}}},
      {.window = 1, .window_ns = 0, .ops = 20, .servers = {{kServer, 0, 20}}},
      {.window = 1, .window_ns = UINT64_MAX, .ops = 20, .servers = {{kServer, UINT64_MAX, 20}}},
      {.window = 1, .window_ns = kNsPerS, .ops = 0, .servers = {{kServer, kNsPerS / 2, 0}}},
      {.window = 1, .window_ns = kNsPerS, .ops = 20, .servers = {{kServer, kNsPerS + 1, 20}}},
      {.window = 1, .window_ns = kNsPerS, .ops = 20, .servers = {{kServer, kNsPerS / 2, 21}}},
  };
  for (ServerWaitsReport report : wrong) {
    for (int i = 0; i < 3; ++i) {
      servers_.OnReport(JobRank(0), report, now_);
      if (report.window > 0) ++report.window;
      now_.monotonic_ns += kNsPerS;
    }
    EXPECT_THAT(Judge(), IsEmpty());
  }
}

}  // namespace
}  // namespace shoal::scheduler
