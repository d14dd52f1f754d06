// When a server gives the memory of a failed group back.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/machine/server_driver.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

void RunTicks(ServerDriver* server, uint64_t until_ns) {
  while (server->machine().NextDeadlineNs() <= until_ns) {
    server->TickAt(std::max(server->machine().NextDeadlineNs(), server->now.monotonic_ns));
  }
  server->TickAt(until_ns);
}

Note Failed(uint32_t rank, const std::string& why) {
  return MakeTextNote(ServerDriver::Header(FrameType::kGroupFailed, rank), why);
}

TEST(Invariant, I8ARankThatStandsStillDoesNotKeepTheMemoryOfItsFailedGroup) {
  ServerDriver server;
  const std::vector<PeerId> others = server.JoinAll(2, 2);
  const uint64_t used_by_others = server.counters().slot_memory_used_bytes;
  const std::vector<PeerId> peers = server.JoinAll(3);
  server.Push(peers[0], ServerDriver::PushHeader(0, 1));
  server.LandAll();
  // The scheduler told the survivors of the loss; rank 2 is connected, and silent.
  server.GiveNote(peers[0], Failed(0, "rank 2 of the job on node-2 was lost"));
  server.GiveNote(peers[0], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 0)));
  server.GiveNote(peers[1], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 1)));
  EXPECT_EQ(server.counters().groups_open, 2u);
  RunTicks(&server, server.now.monotonic_ns + kNsPerS);
  EXPECT_EQ(server.counters().groups_open, 1u);
  EXPECT_EQ(server.counters().slot_memory_used_bytes, used_by_others);

  // When it goes on, it learns what happened; the connection stays for its other groups.
  server.Clear();
  server.Push(peers[2], ServerDriver::PushHeader(2, 1));
  EXPECT_EQ(server.declines.size(), 1u);
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kUnknownGroup);
  server.Hello(peers[2], server.Token(2, 3));
  EXPECT_THAT(server.TakeRefusal().text(), HasSubstr("rank 2 of the job on node-2 was lost"));
  EXPECT_TRUE(server.closes.empty());

  server.Push(others[0], ServerDriver::PushHeader(0, 1, 0, 256, 2));
  server.Push(others[1], ServerDriver::PushHeader(1, 1, 0, 256, 2));
  server.LandAll();
  server.ReduceAll();
  EXPECT_EQ(server.sends.size(), 2u) << "the other group goes on";
}

TEST(ServerRelease, MemoryThatTheNetworkUsesWaitsForIt) {
  ServerDriver server(2);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1));
  ASSERT_EQ(server.accepts.size(), 1u);
  server.GiveNote(server.peers[1], Failed(1, "enough"));
  RunTicks(&server, server.now.monotonic_ns + 2 * kNsPerS);
  EXPECT_EQ(server.counters().groups_open, 1u);
  server.LandAll();
  EXPECT_EQ(server.counters().groups_open, 0u);
  EXPECT_EQ(server.counters().slot_memory_used_bytes, 0u);
}

}  // namespace
}  // namespace shoal
