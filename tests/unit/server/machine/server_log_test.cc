// What a server machine hands to the log: the life of a group, ranks that are absent, and refusals.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/machine/server_driver.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ServerLog, TellsTheLifeOfAGroup) {
  ServerDriver server;
  for (uint32_t r = 0; r < 2; ++r) server.Join(r, 2);
  ASSERT_THAT(server.EventKeys(), ElementsAre("shard-group-opened"));
  EXPECT_EQ(server.events[0].ids, (EventIds{.job = JobId(9), .group = GroupId(1), .epoch = Epoch(3)}));
  EXPECT_THAT(server.events[0].text, StartsWith("2 ranks with "));
  server.Clear();

  std::vector<PeerId> peers;
  for (uint32_t r = 0; r < 2; ++r) {
    peers.push_back(server.Up());
    server.Hello(peers.back(), server.Token(r, 2), /*epoch=*/4);
  }
  ASSERT_THAT(server.EventKeys(), ElementsAre("shard-group-moved"));
  EXPECT_EQ(server.events[0].ids.epoch, Epoch(4));
  server.Clear();

  server.Down(peers[1], absl::UnavailableError("Connection reset"));
  ASSERT_THAT(server.EventKeys(), ElementsAre("rank-absent"));
  EXPECT_EQ(server.events[0].ids.rank, 1u);
  EXPECT_THAT(server.events[0].text, HasSubstr("Connection reset"));
  server.EndPatience();
  server.Down(peers[0], absl::UnavailableError("Connection reset"));
  EXPECT_THAT(server.EventKeys(), ElementsAre("rank-absent", "shard-group-failed", "shard-group-closed"));
}

TEST(ServerLog, TellsWhoWasRefusedAndWhy) {
  ServerDriver server(2);
  server.Hello(server.Up(), server.Token(1, 2));
  ASSERT_THAT(server.EventKeys(), ElementsAre("hello-refused"));
  EXPECT_THAT(server.events[0].text, StartsWith("hello: rank-taken: rank 1 of the group has said hello"));
  server.Clear();

  FrameHeader stale = ServerDriver::PushHeader(0, 1);
  stale.epoch = Epoch(2);
  server.Push(server.peers[0], stale);
  ASSERT_THAT(server.EventKeys(), ElementsAre("message-refused"));
  EXPECT_EQ(server.events[0].text, "push of op 1, chunk 0: stale-epoch");
  EXPECT_EQ(server.events[0].ids.job, JobId(9));
  server.Clear();

  server.GiveOffer(server.peers[0], EncodeHeader(ServerDriver::PushHeader(0, 1)), 1023);
  EXPECT_THAT(server.EventKeys(), Contains("peer-closed"));
}

TEST(ServerLog, ATextThatIsTooLongIsCut) {
  const LogAction action(EventKind::kPeerClosed, {}, std::string(10'000, 'x'));
  EXPECT_EQ(std::string(action.text.data(), action.text_bytes), std::string(action.text.size(), 'x'));
}

}  // namespace
}  // namespace shoal
