// What the simulated network does with cuts: what gets through, and which connections break, when, at which end.
#include <gtest/gtest.h>

#include "core/failure_detection.h"
#include "sim/fault_log.h"
#include "sim/network_cuts.h"
#include "sim/sim_network.h"
#include "sim/sim_transport.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kBeginNs = kNsPerS;

class NetworkTest : public testing::Test {
 protected:
  NetworkTest()
      : network_(&world_, {.latency_ns = 1000, .jitter_ns = 0}, /*audit=*/nullptr),
        server_(network_.MakeTransport("server", /*listen=*/true, [] {})),
        worker_(network_.MakeTransport("worker", /*listen=*/false, [] {})) {
    peer_ = *worker_->Connect(server_->listen_address());
    Run(kNsPerMs);
    EXPECT_EQ(CountOf(worker_.get(), TransportEventKind::kPeerUp), 1);
    EXPECT_EQ(CountOf(server_.get(), TransportEventKind::kPeerUp), 1);
  }

  void Run(uint64_t ns) { world_.RunUntil(world_.now_ns() + ns); }
  static int CountOf(SimTransport* transport, TransportEventKind kind) {
    int count = 0;
    for (const TransportEvent& event : transport->Poll()) count += event.kind == kind ? 1 : 0;
    return count;
  }
  bool SaysTo(SimTransport* from, PeerId peer, SimTransport* to) {
    const std::byte note[] = {std::byte{1}};
    if (!from->SendNote(peer, note).ok()) return false;
    Run(kNsPerMs);
    return CountOf(to, TransportEventKind::kNote) == 1;
  }

  World world_{1};
  SimNetwork network_;
  std::unique_ptr<SimTransport> server_;
  std::unique_ptr<SimTransport> worker_;
  PeerId peer_;
};

TEST_F(NetworkTest, WhatIsSaidOverACutComesAfterIt) {
  network_.Cut("worker", "server", /*one_way=*/false, world_.now_ns() + kNsPerS);
  EXPECT_FALSE(SaysTo(worker_.get(), peer_, server_.get()));
  Run(kNsPerS);
  EXPECT_EQ(CountOf(server_.get(), TransportEventKind::kNote), 1);
  EXPECT_EQ(CountOf(worker_.get(), TransportEventKind::kPeerDown), 0);
}

TEST_F(NetworkTest, AOneWayCutLetsTheOtherWayThrough) {
  network_.Cut("server", "worker", /*one_way=*/true, world_.now_ns() + kNsPerS);
  EXPECT_TRUE(SaysTo(worker_.get(), peer_, server_.get()));
}

TEST_F(NetworkTest, TheRankGivesASilentPathUpFirstAndTheServerHearsOfItIfItCan) {
  network_.Cut("server", "worker", /*one_way=*/true, world_.now_ns() + 30 * kNsPerS);
  Run(kUnansweredProbes * kRankProbePeriodNs - kNsPerMs);
  EXPECT_EQ(CountOf(worker_.get(), TransportEventKind::kPeerDown), 0);
  Run(kRankNoticesWithinNs - kUnansweredProbes * kRankProbePeriodNs + 2 * kNsPerMs);
  EXPECT_EQ(CountOf(worker_.get(), TransportEventKind::kPeerDown), 1);
  EXPECT_EQ(CountOf(server_.get(), TransportEventKind::kPeerDown), 1);
}

TEST_F(NetworkTest, BehindACutOfBothWaysTheServerFindsOutForItself) {
  network_.Cut("server", "worker", /*one_way=*/false, world_.now_ns() + 30 * kNsPerS);
  Run(kRankNoticesWithinNs + kNsPerMs);
  EXPECT_EQ(CountOf(worker_.get(), TransportEventKind::kPeerDown), 1);
  EXPECT_EQ(CountOf(server_.get(), TransportEventKind::kPeerDown), 0);
  Run(kServerNoticesWithinNs - kRankNoticesWithinNs);
  EXPECT_EQ(CountOf(server_.get(), TransportEventKind::kPeerDown), 1);
}

TEST_F(NetworkTest, CutsThatFollowEachOtherAtOnceAreOneSilence) {
  for (int i = 0; i < 4; ++i) {
    network_.Cut("server", "worker", /*one_way=*/i % 2 == 0, world_.now_ns() + kNsPerS + kNsPerMs);
    Run(kNsPerS);
  }
  network_.Cut("server", "worker", /*one_way=*/false, world_.now_ns() + 5 * kNsPerS);
  Run(kNsPerMs + kRankNoticesWithinNs);
  EXPECT_EQ(CountOf(worker_.get(), TransportEventKind::kPeerDown), 1);
}

TEST_F(NetworkTest, AnAttemptToConnectOverACutFailsAndALaterOneComesThrough) {
  const uint64_t mended_ns = world_.now_ns() + 20 * kNsPerS;
  network_.Cut("worker", "", /*one_way=*/false, mended_ns);
  ASSERT_TRUE(worker_->Connect(server_->listen_address()).ok());
  Run(3 * kNsPerS + kNsPerMs);
  EXPECT_EQ(CountOf(worker_.get(), TransportEventKind::kPeerDown), 1);
  Run(mended_ns - world_.now_ns());
  worker_->Poll();
  ASSERT_TRUE(worker_->Connect(server_->listen_address()).ok());
  Run(kNsPerMs);
  EXPECT_EQ(CountOf(worker_.get(), TransportEventKind::kPeerUp), 1);
}

TEST(NetworkCuts, WhatHappensInsideANodeIsNeverCut) {
  NetworkCuts cuts;
  cuts.Add({.from = "node", .to = "", .begin_ns = kBeginNs, .end_ns = 2 * kBeginNs});
  EXPECT_EQ(cuts.OpenNs({"node", "a"}, {"node", "b"}, kBeginNs), kBeginNs);
  EXPECT_EQ(cuts.OpenNs({"node", "a"}, {"other", "b"}, kBeginNs), 2 * kBeginNs);
  EXPECT_EQ(cuts.OpenNs({"other", "b"}, {"node", "a"}, kBeginNs), 2 * kBeginNs);
}

TEST(FaultLog, CountsInWhichPhaseOfTheFirstASecondFaultBegins) {
  FaultLog log(/*healing_ns=*/10);
  log.Begin(FaultKind::kServerStop, {"server-1"}, /*now_ns=*/100, /*end_ns=*/200);
  log.Begin(FaultKind::kClog, {}, 110, 110);
  log.Noticed("server server-12");  // another one
  log.Noticed("server server-1");
  log.Begin(FaultKind::kPause, {}, 120, 120);
  log.Moved(GroupId(1));
  log.Begin(FaultKind::kReset, {}, 130, 130);
  log.Worked(GroupId(2));
  log.Worked(GroupId(1));
  log.Begin(FaultKind::kServerAdd, {}, 140, 140);
  log.Begin(FaultKind::kAbort, {}, 205, 205);
  log.Begin(FaultKind::kDisagree, {}, 211, 211);
  const auto count = [&](FaultKind second, FaultPhase phase) {
    return log.meetings().Of(FaultKind::kServerStop, second, phase);
  };
  EXPECT_EQ(count(FaultKind::kClog, FaultPhase::kUnnoticed), 1u);
  EXPECT_EQ(count(FaultKind::kPause, FaultPhase::kNoticed), 1u);
  EXPECT_EQ(count(FaultKind::kReset, FaultPhase::kSettling), 1u);
  EXPECT_EQ(count(FaultKind::kServerAdd, FaultPhase::kGoingOn), 1u);
  EXPECT_EQ(count(FaultKind::kAbort, FaultPhase::kHealing), 1u);
  EXPECT_EQ(log.meetings().Of(FaultKind::kServerStop, FaultKind::kDisagree), 0u);
}

}  // namespace
}  // namespace shoal::sim
