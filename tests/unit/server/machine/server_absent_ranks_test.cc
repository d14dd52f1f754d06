// Ranks whose connection breaks: a server waits for them and names them, and decides only as the last resort. What it
// decides binds no later epoch.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/machine/server_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Ranks 0 to 2, whose rank 1 was given up in epoch 3.
class ServerThatGaveARankUp : public ::testing::Test {
 protected:
  ServerThatGaveARankUp() : peers_(server_.JoinAll(3)) {
    server_.Down(peers_[1], absl::UnavailableError("Connection timed out"));
    server_.EndPatience();
    EXPECT_THAT(server_.notes, SizeIs(2));
    server_.Clear();
  }
  // The others are told, and don't answer.
  void ReleaseGroup() {
    server_.TickAt(server_.machine().NextDeadlineNs());
    server_.TickAt(server_.now.monotonic_ns + kNsPerS);
    ASSERT_EQ(server_.counters().groups_open, 0u);
    server_.Clear();
  }
  void ExpectThatEpochWorks(uint64_t epoch) {
    const PeerId back = server_.Up();
    const std::vector<PeerId> peers = {peers_[0], back, peers_[2]};
    for (uint32_t r = 0; r < 3; ++r) server_.Hello(peers[r], server_.Token(r, 3), epoch);
    ASSERT_THAT(server_.notes, SizeIs(3));
    for (const SeenNote& note : server_.notes) EXPECT_EQ(note.header.type, FrameType::kWelcome) << note.text();
    server_.Clear();
    for (uint32_t r = 0; r < 3; ++r) {
      FrameHeader push = ServerDriver::PushHeader(r, 1);
      push.epoch = Epoch(epoch);
      server_.Push(peers[r], push);
    }
    server_.LandAll();
    server_.ReduceAll();
    EXPECT_THAT(server_.sends, SizeIs(3));
  }

  ServerDriver server_;
  std::vector<PeerId> peers_;
};

TEST_F(ServerThatGaveARankUp, TakesTheGroupInAgainInANewerEpoch) { ExpectThatEpochWorks(4); }

TEST_F(ServerThatGaveARankUp, TakesTheGroupInAgainAfterItsMemoryWasGivenBack) {
  ReleaseGroup();
  ExpectThatEpochWorks(4);
}

TEST_F(ServerThatGaveARankUp, RefusesItInTheSameEpoch) {
  server_.Hello(server_.Up(), server_.Token(1, 3));
  EXPECT_THAT(server_.TakeRefusal().text(), HasSubstr("Connection timed out"));
  ReleaseGroup();
  server_.Hello(server_.Up(), server_.Token(1, 3));
  EXPECT_EQ(server_.TakeRefusal().header.refusal, Refusal::kGroupFailedBefore);
}

TEST_F(ServerThatGaveARankUp, RefusesItInEveryEpochOnceARankHasFailedIt) {
  server_.GiveNote(peers_[0], MakeTextNote(ServerDriver::Header(FrameType::kGroupFailed, 0), "rank 0 is done with it"));
  for (const bool released : {false, true}) {
    if (released) ReleaseGroup();
    server_.Hello(server_.Up(), server_.Token(1, 3), 4);
    const SeenNote note = server_.TakeRefusal();
    EXPECT_EQ(note.header.refusal, Refusal::kGroupFailedBefore);
    EXPECT_EQ(note.text(), "rank 0 is done with it");
  }
}

TEST(ServerLosses, AsLongAsTheSchedulerIsHeardItDecides) {
  ServerDriver server(3);
  server.Down(server.peers[1]);
  for (int i = 0; i < 100; ++i) {
    server.TickAt(server.now.monotonic_ns + kNsPerS);
    server.Order(SchedulerHeard{.lease_ttl_ns = ServerDriver::kLeaseTtlNs});
  }
  EXPECT_THAT(server.notes, IsEmpty());
  EXPECT_EQ(server.counters().groups_failed, 0u);
  const uint64_t give_up_ns = server.now.monotonic_ns + ServerDriver::kPatienceNs;
  server.TickAt(give_up_ns - 1);
  EXPECT_THAT(server.notes, IsEmpty());
  server.TickAt(give_up_ns);
  ASSERT_THAT(server.notes, SizeIs(2));
  EXPECT_EQ(server.notes[0].header.type, FrameType::kRankLost);
  EXPECT_EQ(server.notes[0].header.rank, Rank(1));
}

TEST(ServerLosses, ALongerLeaseMakesItMorePatient) {
  ServerDriver server(2);
  server.Order(SchedulerHeard{.lease_ttl_ns = 60 * kNsPerS});
  server.Down(server.peers[1]);
  server.TickAt(server.now.monotonic_ns + ServerPatienceNs(60 * kNsPerS, false) - 1);
  EXPECT_THAT(server.notes, IsEmpty());
  server.TickAt(server.now.monotonic_ns + 1);
  EXPECT_THAT(server.notes, SizeIs(1));
}

TEST(ServerLosses, TheEndOfASchedulerInsideAWorkerIsThatOfARank) {
  ServerDriver server(2);
  server.Order(SchedulerHeard{.lease_ttl_ns = ServerDriver::kLeaseTtlNs, .is_colocated = true});
  server.Down(server.peers[0]);
  server.TickAt(server.now.monotonic_ns + ServerDriver::kLeaseTtlNs - 1);
  EXPECT_THAT(server.notes, IsEmpty());
  server.TickAt(server.now.monotonic_ns + 1);
  EXPECT_THAT(server.notes, SizeIs(1)) << "within the lease, as F11 says";
}

TEST(ServerLosses, ASchedulerThatHasLostItsStateDecidesNothingAboutTheGroupsThatItForgot) {
  ServerDriver server(2);
  server.Order(TokenKeyChanged{});
  server.Down(server.peers[1]);
  const uint64_t since_ns = server.now.monotonic_ns;
  server.TickAt(since_ns + ServerDriver::kLeaseTtlNs - 1);
  server.Order(SchedulerHeard{.lease_ttl_ns = ServerDriver::kLeaseTtlNs});
  EXPECT_THAT(server.notes, IsEmpty());
  server.TickAt(since_ns + ServerDriver::kLeaseTtlNs);
  EXPECT_THAT(server.notes, SizeIs(1)) << "within the lease, as F11 says";
}

// Its process may have run a server as well, so that the group moves before the scheduler hears of the rank.
TEST(ServerLosses, AnAbsentRankIsNamedUntilItComesBackInANewEpoch) {
  ServerDriver server(3);
  server.JoinAll(2, 2);
  EXPECT_THAT(server.counters().absent_ranks, IsEmpty());
  server.Down(server.peers[1], absl::UnavailableError("connection reset by peer"));
  const uint64_t since_ns = server.now.monotonic_ns;
  server.TickAt(since_ns + kNsPerS);
  AbsentRank absent{.job = JobId(9),
                    .group = GroupId(1),
                    .epoch = Epoch(3),
                    .rank = Rank(1),
                    .since_ns = since_ns,
                    .because = "server server-a lost its connection: connection reset by peer"};
  EXPECT_THAT(server.counters().absent_ranks, ElementsAre(absent));
  for (uint64_t epoch = 4; epoch < 6; ++epoch) {
    server.Hello(server.peers[0], server.Token(0, 3), epoch);
    absent.epoch = Epoch(epoch);
    EXPECT_THAT(server.counters().absent_ranks, ElementsAre(absent));
  }
  server.Hello(server.Up(), server.Token(1, 3), 5);
  EXPECT_THAT(server.counters().absent_ranks, IsEmpty());
}

TEST(ServerLosses, AGroupWithoutAnyRankIsGivenUpAtOnce) {
  ServerDriver server(2);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1));
  server.Down(server.peers[0]);
  EXPECT_EQ(server.counters().groups_open, 1u);
  server.GiveNote(server.peers[1], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 1)));
  EXPECT_EQ(server.counters().groups_open, 1u) << "the network writes to its memory";
  server.LandAll();
  EXPECT_EQ(server.counters().groups_open, 0u);
  EXPECT_EQ(server.counters().slot_memory_used_bytes, 0u);
  EXPECT_THAT(server.counters().absent_ranks, IsEmpty()) << "nobody waits for it";
  server.Hello(server.Up(), server.Token(0, 2), 4);
  EXPECT_EQ(server.TakeNote().header.type, FrameType::kWelcome);
}

}  // namespace
}  // namespace shoal
