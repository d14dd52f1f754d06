// Ranks that push to an op hear of a rank that has left and does not call it (docs/failover.md, F24).
#include <vector>

#include "core/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/machine/server_driver.h"

namespace shoal {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

void Leave(ServerDriver* server, uint32_t rank, uint64_t calls_none_from) {
  FrameHeader leave = ServerDriver::Header(FrameType::kLeaveGroup, rank);
  leave.op = OpNumber(calls_none_from);
  server->GiveNote(server->peers[rank], MakeNote(leave));
}

std::vector<SeenNote> NewsOfLeavers(const ServerDriver& server) {
  std::vector<SeenNote> news;
  for (const SeenNote& note : server.notes) {
    if (note.header.type == FrameType::kGroupFailed) news.push_back(note);
  }
  return news;
}

TEST(ServerLeavers, F24WhoPushesToAnOpThatARankLeftBeforeHearsOfItOnce) {
  ServerDriver server(3);
  Leave(&server, 1, 6);
  EXPECT_THAT(server.notes, IsEmpty()) << "nobody has called op 6";
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 5));
  EXPECT_THAT(NewsOfLeavers(server), IsEmpty()) << "rank 1 has called op 5";
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 6));
  ASSERT_THAT(NewsOfLeavers(server), SizeIs(1));
  const SeenNote news = NewsOfLeavers(server)[0];
  EXPECT_EQ(news.peer, server.peers[0]);
  EXPECT_EQ(news.header.rank, Rank(1));
  EXPECT_EQ(news.header.op, OpNumber(6));
  EXPECT_EQ(news.text(), "it has left the group, and does not call op 6");
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 7));
  EXPECT_THAT(NewsOfLeavers(server), SizeIs(1));
  server.Push(server.peers[2], ServerDriver::PushHeader(2, 6));
  ASSERT_THAT(NewsOfLeavers(server), SizeIs(2));
  EXPECT_EQ(NewsOfLeavers(server)[1].peer, server.peers[2]);
  EXPECT_EQ(server.counters().groups_failed, 0u) << "whether the group goes on is not the server's to say";
}

TEST(ServerLeavers, F24ThoseWhoHavePushedHearOfItWhenTheRankLeaves) {
  ServerDriver server(3);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 6));
  server.Push(server.peers[2], ServerDriver::PushHeader(2, 5));
  Leave(&server, 1, 6);
  ASSERT_THAT(NewsOfLeavers(server), SizeIs(1));
  EXPECT_EQ(NewsOfLeavers(server)[0].peer, server.peers[0]) << "op 5 may still be done";
}

TEST(ServerLeavers, ARankThatGoesOnWithOtherServersHasNotLeft) {
  ServerDriver server(2);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 6));
  Leave(&server, 1, 0);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 7));
  EXPECT_THAT(NewsOfLeavers(server), IsEmpty());
}

// A rank that is quick may have left before another one says hello.
TEST(ServerLeavers, F24ARankThatComesWhenTheOthersHaveLeftHearsOfThem) {
  ServerDriver server;
  server.peers = {server.Join(0, 3)};
  Leave(&server, 0, 1);
  EXPECT_EQ(server.counters().groups_open, 0u);
  const PeerId late = server.Join(1, 3);
  server.Clear();
  server.Push(late, ServerDriver::PushHeader(1, 1));
  ASSERT_THAT(NewsOfLeavers(server), SizeIs(1));
  EXPECT_EQ(NewsOfLeavers(server)[0].header.rank, Rank(0));
}

TEST(ServerLeavers, F24ItIsKnownInTheNextEpochUnlessThatIsWithoutTheRank) {
  for (const bool is_without : {true, false}) {
    ServerDriver server(3);
    Leave(&server, 1, 6);
    FrameHeader hello = ServerDriver::Header(FrameType::kHello, 0);
    hello.epoch = Epoch(4);
    const Roster roster(3, is_without ? std::vector<Rank>{Rank(1)} : std::vector<Rank>{});
    server.GiveNote(server.peers[0],
                    MakeHello(hello, EncodeToken(server.Token(0, 3)),
                              SealRoster(ServerDriver::Options().token_key, GroupId(1), Epoch(4), roster)));
    FrameHeader push = ServerDriver::PushHeader(0, 6);
    push.epoch = Epoch(4);
    server.Push(server.peers[0], push);
    EXPECT_THAT(NewsOfLeavers(server), SizeIs(is_without ? 0 : 1));
  }
}

}  // namespace
}  // namespace shoal
