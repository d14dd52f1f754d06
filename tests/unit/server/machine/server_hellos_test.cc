// How ranks come to a server's groups and leave them.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/machine/server_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ServerMembership, LeavingAndByeAreOrderly) {
  ServerDriver server(2);
  server.GiveNote(server.peers[0], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 0)));
  EXPECT_TRUE(server.notes.empty());
  server.GiveNote(server.peers[0], MakeNote({.type = FrameType::kBye}));
  EXPECT_EQ(server.TakeNote().header.type, FrameType::kBye);
  server.Down(server.peers[0], absl::OkStatus());
  server.GiveNote(server.peers[1], MakeNote({.type = FrameType::kBye}));
  EXPECT_EQ(server.TakeNote().header.type, FrameType::kBye);
  server.Down(server.peers[1], absl::OkStatus());
  EXPECT_TRUE(server.notes.empty()) << server.notes[0].text();
  EXPECT_EQ(server.counters().slot_memory_used_bytes, 0u);
  EXPECT_EQ(server.counters().groups_failed, 0u);
}

TEST(ServerMembership, AConnectionThatHoldsTwoRanksLeavesThemOneByOne) {
  ServerDriver server;
  const PeerId peer = server.Up();
  server.Hello(peer, server.Token(0, 2));
  server.Hello(peer, server.Token(1, 2));
  server.GiveNote(peer, MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 0)));
  EXPECT_EQ(server.counters().groups_open, 1u);
  server.Down(peer);
  server.EndPatience();
  EXPECT_EQ(server.counters().groups_open, 0u) << "the second rank's membership was forgotten";
  EXPECT_EQ(server.counters().slot_memory_used_bytes, 0u);
}

TEST(ServerMembership, WhoLeavesTakesItsHeldPushesAlong) {
  ServerDriver server(2, ServerDriver::Options(64 << 20, 2048));
  for (uint32_t chunk = 0; chunk < 4; ++chunk)
    server.Push(server.peers[1], ServerDriver::PushHeader(1, 1, chunk, 8 * 256));
  const OfferId held = server.Push(server.peers[0], ServerDriver::PushHeader(0, 1, 4, 8 * 256));
  server.GiveNote(server.peers[0], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 0)));
  EXPECT_THAT(server.declines, ElementsAre(held)) << "an offer nobody answers holds the sender's memory";
}

TEST(ServerMembership, AGroupThatAWorkerGivesUpIsGivenUpForAllWithItsWords) {
  ServerDriver server(2);
  server.GiveNote(server.peers[1], MakeTextNote(ServerDriver::Header(FrameType::kGroupFailed, 1), "out of patience"));
  ASSERT_EQ(server.notes.size(), 2u);
  EXPECT_EQ(server.notes[0].peer, server.peers[0]);
  EXPECT_EQ(server.notes[0].header.type, FrameType::kGroupFailed);
  EXPECT_EQ(server.notes[0].header.rank, Rank(1));
  EXPECT_EQ(server.notes[0].text(), "out of patience");
  server.notes.clear();
  server.GiveNote(server.peers[0], MakeTextNote(ServerDriver::Header(FrameType::kGroupFailed, 0), "me too"));
  EXPECT_TRUE(server.notes.empty()) << "a group fails once";
}

TEST(ServerMembership, DrainingOpensNoNewGroupButCompletesThoseThatAreOpen) {
  ServerDriver server;
  server.Join(0, 2);
  server.Clear();
  server.Order(DrainRequested{});
  server.Join(0, 2, 2);
  const SeenNote refused = server.TakeRefusal();
  EXPECT_EQ(refused.header.refusal, Refusal::kDraining);
  EXPECT_EQ(refused.header.group, GroupId(2));
  EXPECT_EQ(refused.text(), "server server-a is draining and opens no new group");
  server.Join(1, 2, 1);
  EXPECT_EQ(server.TakeNote().header.type, FrameType::kWelcome) << "half of the group was here before";
  server.Order(DrainRequested{.drain = false});
  server.Join(0, 2, 2);
  EXPECT_EQ(server.TakeNote().header.type, FrameType::kWelcome) << "it stays after all";
}

TEST(ServerMembership, AKeyThatChangesConcernsNewGroupsOnly) {
  ServerDriver server(1);
  TokenKey key;
  key.fill(std::byte{9});
  server.Order(TokenKeyChanged{key});
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1));
  EXPECT_EQ(server.accepts.size(), 1u);
  server.Join(0, 1, 2);
  server.TickAt(server.now.monotonic_ns + kNsPerS);
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kBadToken);
}

// The ranks of a group whose token another key has signed than the server's.
class ServerKeyOnItsWay : public testing::Test {
 protected:
  void SetUp() override {
    new_key_.fill(std::byte{9});
    for (uint32_t rank = 0; rank < 4; ++rank) {
      GroupToken token = server_.Token(rank, 4);
      SignToken(new_key_, &token);
      peers_.push_back(server_.Up());
      server_.Hello(peers_.back(), token);
    }
    EXPECT_TRUE(server_.notes.empty());
  }

  ServerDriver server_;
  TokenKey new_key_{};
  std::vector<PeerId> peers_;
};

TEST_F(ServerKeyOnItsWay, LetsRanksInThatCameBeforeTheKey) {
  server_.Order(TokenKeyChanged{new_key_});
  ASSERT_EQ(server_.notes.size(), 4u);
  for (const SeenNote& note : server_.notes) EXPECT_EQ(note.header.type, FrameType::kWelcome) << note.text();
  EXPECT_EQ(server_.counters().groups_open, 1u);
  server_.Push(peers_[0], ServerDriver::PushHeader(0, 1));
  EXPECT_EQ(server_.accepts.size(), 1u);
}

TEST_F(ServerKeyOnItsWay, ForgetsARankThatLeavesOrWhoseConnectionEnds) {
  server_.GiveNote(peers_[0], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 0)));
  server_.GiveNote(peers_[1], MakeNote(ServerDriver::Header(FrameType::kGroupFailed, 1)));
  server_.GiveNote(peers_[2], MakeNote({.type = FrameType::kBye}));
  server_.Down(peers_[3]);
  server_.Clear();
  server_.Order(TokenKeyChanged{new_key_});
  EXPECT_TRUE(server_.notes.empty());
  EXPECT_EQ(server_.counters().groups_open, 0u);
  EXPECT_EQ(server_.machine().NextDeadlineNs(), kNoDeadline);
}
}  // namespace
}  // namespace shoal
