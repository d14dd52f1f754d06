// How a group moves to a new epoch on a server, and how its chunks are settled there (docs/failover.md).
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/machine/server_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

FrameHeader In(uint64_t epoch, FrameHeader header) {
  header.epoch = Epoch(epoch);
  return header;
}

// All ranks say hello in an epoch; `newest_result` by rank.
void HelloAll(ServerDriver* server, const std::vector<PeerId>& peers, uint64_t epoch,
              const std::vector<uint64_t>& newest_result) {
  for (uint32_t r = 0; r < peers.size(); ++r) {
    server->Hello(peers[r], server->Token(r, static_cast<uint32_t>(peers.size())), epoch, newest_result[r]);
  }
}

std::vector<SeenNote> Asks(const ServerDriver& server) {
  std::vector<SeenNote> asks;
  for (const SeenNote& note : server.notes) {
    if (note.header.type == FrameType::kAsk) asks.push_back(note);
  }
  return asks;
}

TEST(ServerSettling, TheFirstHelloOfANewEpochGivesUpWhatWasGathered) {
  ServerDriver server(2);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1));
  const AcceptAction old_landing = server.accepts.at(0);
  server.Clear();
  server.Hello(server.peers[0], server.Token(0, 2), 4);
  EXPECT_EQ(server.TakeNote().header.type, FrameType::kWelcome);
  server.Land(old_landing);
  // Rank 1 has not heard of it: what it says in the old epoch is refused and changes nothing.
  server.Push(server.peers[1], ServerDriver::PushHeader(1, 1));
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kStaleEpoch);
  EXPECT_THAT(server.accepts, IsEmpty());
  EXPECT_THAT(server.declines, SizeIs(1));
  server.Hello(server.peers[1], server.Token(1, 2), 4);
  server.Clear();
  for (uint32_t r = 0; r < 2; ++r) server.Push(server.peers[r], In(4, ServerDriver::PushHeader(r, 1)));
  server.LandAll();
  EXPECT_THAT(server.reduces, SizeIs(1)) << "each contribution once, of the new epoch";
  server.ReduceAll();
  ASSERT_THAT(server.sends, SizeIs(2));
  EXPECT_EQ(DecodeHeader(server.sends[0].header)->epoch, Epoch(4));
}

TEST(ServerSettling, AHelloOfAnOlderEpochIsRefused) {
  ServerDriver server;
  const PeerId first = server.Up();
  server.Hello(first, server.Token(0, 2), 5);
  server.Clear();
  const PeerId second = server.Up();
  server.Hello(second, server.Token(1, 2), 4);
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kStaleEpoch);
}

TEST(Invariant, I2WhatWasReducingWhenTheGroupMovedIsNotSent) {
  ServerDriver server(2);
  for (uint32_t r = 0; r < 2; ++r) server.Push(server.peers[r], ServerDriver::PushHeader(r, 1));
  server.LandAll();
  ASSERT_THAT(server.reduces, SizeIs(1));
  HelloAll(&server, server.peers, 4, {0, 0});
  // Rank 0 is quick: its new push is of the chunk that the reducer still works on.
  server.Push(server.peers[0], In(4, ServerDriver::PushHeader(0, 1)));
  server.ReduceAll();
  EXPECT_THAT(server.sends, IsEmpty());
  server.Push(server.peers[1], In(4, ServerDriver::PushHeader(1, 1)));
  server.LandAll();
  server.ReduceAll();
  EXPECT_THAT(server.sends, SizeIs(2));
}

// Also F9 of docs/failover.md.
TEST(Invariant, I5ARankThatHasTheResultHandsItOverToThoseWhoLackIt) {
  ServerDriver server(3);
  HelloAll(&server, server.peers, 4, {0, 2, 1});
  server.Clear();
  server.Push(server.peers[0], In(4, ServerDriver::PushHeader(0, 2)));
  ASSERT_THAT(Asks(server), SizeIs(1)) << "only rank 1 may have results of op 2";
  EXPECT_EQ(Asks(server)[0].peer, server.peers[1]);
  EXPECT_EQ(Asks(server)[0].header.op, OpNumber(2));
  FrameHeader result = In(4, ServerDriver::PushHeader(1, 2));
  result.contributors = 3;
  server.Push(server.peers[1], result);
  EXPECT_TRUE(server.accepts.back().into_slot) << "it is sent on, so it must not be borrowed";
  server.LandAll();
  EXPECT_THAT(server.sends, IsEmpty()) << "rank 2 has not said what it has";
  server.Push(server.peers[2], In(4, ServerDriver::PushHeader(2, 2)));
  const AcceptAction last = server.accepts.at(0);
  server.LandAll();
  EXPECT_THAT(server.reduces, IsEmpty()) << "nothing is summed";
  ASSERT_THAT(server.sends, SizeIs(2));
  EXPECT_EQ(server.sends[0].offset, server.sends[1].offset);
  EXPECT_LT(server.sends[0].offset, last.offset) << "the place of rank 1";
  std::vector<PeerId> receivers;
  for (const SendPayloadAction& send : server.sends) {
    receivers.push_back(send.peer);
    EXPECT_EQ(DecodeHeader(send.header)->type, FrameType::kResult);
    EXPECT_EQ(DecodeHeader(send.header)->contributors, 3u);
  }
  EXPECT_THAT(receivers, ::testing::UnorderedElementsAre(server.peers[0], server.peers[2]));
}

TEST(ServerSettling, F9ARankThatComesLaterIsAskedForWhatIsGathered) {
  ServerDriver server(2);
  server.Hello(server.peers[0], server.Token(0, 2), 4, 0);
  server.Push(server.peers[0], In(4, ServerDriver::PushHeader(0, 3)));
  EXPECT_THAT(Asks(server), IsEmpty());
  server.Hello(server.peers[1], server.Token(1, 2), 4, 3);
  ASSERT_THAT(Asks(server), SizeIs(1));
  EXPECT_EQ(Asks(server)[0].peer, server.peers[1]);
}

TEST(ServerSettling, F9InItsFirstEpochNobodyIsAsked) {
  ServerDriver server(2);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1));
  EXPECT_THAT(server.notes, IsEmpty());
}

TEST(ServerSettling, TheOldestChunkTakesTheSlotOfTheYoungest) {
  ServerDriver server(ServerDriver::Options(64 << 20, 2048));  // a credit of 2: 4 slots
  const std::vector<PeerId> peers = server.JoinAll(2);
  HelloAll(&server, peers, 4, {0, 0});
  server.Clear();
  for (uint32_t chunk = 4; chunk < 8; ++chunk) {
    server.Push(peers[0], In(4, ServerDriver::PushHeader(0, 1, chunk, 8 * 256)));
  }
  server.LandAll();
  server.Push(peers[1], In(4, ServerDriver::PushHeader(1, 1, 3, 8 * 256)));
  EXPECT_THAT(server.accepts, SizeIs(1));
  const SeenNote again = server.TakeRefusal();
  EXPECT_EQ(again.header.refusal, Refusal::kPreempted);
  EXPECT_EQ(again.header.chunk, ChunkNumber(7));
  EXPECT_EQ(again.peer, peers[0]);
  // What was told to come again waits; when there is room the oldest goes first.
  server.Push(peers[0], In(4, ServerDriver::PushHeader(0, 1, 7, 8 * 256)));
  const OfferId older = server.Push(peers[0], In(4, ServerDriver::PushHeader(0, 1, 3, 8 * 256)));
  EXPECT_EQ(server.accepts.at(1).offer, older);
  server.LandAll();
  server.ReduceAll();
  server.SendAll();
  EXPECT_THAT(server.accepts, SizeIs(1)) << "chunk 7 has its slot again";
}

TEST(ServerSettling, AHandedOverResultThatFindsNoSlotIsDroppedAndAskedForAgain) {
  ServerDriver server(ServerDriver::Options(64 << 20, 2048));  // a credit of 2: 4 slots
  const std::vector<PeerId> peers = server.JoinAll(2);
  HelloAll(&server, peers, 4, {0, 1});
  const auto push = [](uint32_t rank, uint32_t chunk, uint32_t contributors) {
    FrameHeader header = In(4, ServerDriver::PushHeader(rank, 1, chunk, 8 * 256));
    header.contributors = contributors;
    return header;
  };
  for (uint32_t chunk = 0; chunk < 4; ++chunk) server.Push(peers[0], push(0, chunk, 0));
  server.notes.clear();
  const OfferId dropped = server.Push(peers[1], push(1, 4, 2));
  EXPECT_THAT(server.declines, ElementsAre(dropped));
  EXPECT_THAT(server.notes, IsEmpty());
  server.Push(peers[0], push(0, 4, 0));
  EXPECT_THAT(Asks(server), IsEmpty()) << "it has no slot yet";
  for (uint32_t chunk = 0; chunk < 4; ++chunk) server.Push(peers[1], push(1, chunk, 2));
  server.LandAll();
  server.SendAll();
  ASSERT_THAT(Asks(server), SizeIs(1));
  EXPECT_EQ(Asks(server)[0].header.chunk, ChunkNumber(4));
  EXPECT_EQ(Asks(server)[0].peer, peers[1]);
}

TEST(ServerSettling, ABrokenConnectionIsForgottenWhenItsRankComesInANewEpoch) {
  ServerDriver server(2);
  server.Down(server.peers[0]);
  const PeerId back = server.Up();
  server.Hello(back, server.Token(0, 2), 4);
  server.Hello(server.peers[1], server.Token(1, 2), 4);
  server.Clear();
  server.EndPatience();
  EXPECT_THAT(server.notes, IsEmpty());
  EXPECT_EQ(server.counters().groups_failed, 0u);
}

TEST(ServerSettling, WhoWantsToLeaveIsToldWhenAllHaveTheirResults) {
  ServerDriver server(2);
  FrameHeader wants = ServerDriver::Header(FrameType::kCommit, 0);
  wants.op = OpNumber(3);
  wants.landed_watermark = OpNumber(3);
  server.GiveNote(server.peers[0], MakeNote(wants));
  EXPECT_THAT(server.notes, IsEmpty());
  FrameHeader landed = ServerDriver::Header(FrameType::kCommit, 1);
  landed.landed_watermark = OpNumber(3);
  server.GiveNote(server.peers[1], MakeNote(landed));
  ASSERT_THAT(server.notes, SizeIs(2));
  EXPECT_EQ(server.notes[0].header.type, FrameType::kCommit);
  EXPECT_EQ(server.notes[0].header.commit_watermark, OpNumber(3));
}

TEST(ServerSettling, WhoWantsToLeaveIsToldWhoHasNotItsResults) {
  ServerDriver server(4);
  const uint64_t start_ns = server.now.monotonic_ns;
  FrameHeader wants = ServerDriver::Header(FrameType::kCommit, 1);
  wants.op = OpNumber(3);
  wants.landed_watermark = OpNumber(3);
  server.GiveNote(server.peers[1], MakeNote(wants));
  FrameHeader behind = ServerDriver::Header(FrameType::kCommit, 2);
  behind.landed_watermark = OpNumber(2);
  server.GiveNote(server.peers[2], MakeNote(behind));
  FrameHeader done = ServerDriver::Header(FrameType::kCommit, 3);
  done.landed_watermark = OpNumber(3);
  server.GiveNote(server.peers[3], MakeNote(done));
  server.TickAt(start_ns + kNsPerS - 1);
  EXPECT_THAT(server.notes, IsEmpty());
  server.TickAt(start_ns + kNsPerS);
  ASSERT_THAT(server.notes, SizeIs(1));
  EXPECT_EQ(server.notes[0].peer, server.peers[1]);
  EXPECT_EQ(server.notes[0].header.type, FrameType::kWaiting);
  EXPECT_EQ(server.notes[0].header.op, OpNumber(3));
  EXPECT_EQ(server.notes[0].header.rank, Rank(1));
  const Waiting waiting = *DecodeWaiting(server.notes[0].body);
  EXPECT_EQ(waiting.missing_count, 2u);
  EXPECT_EQ(waiting.listed_count, 2u);
  EXPECT_EQ(waiting.ranks[0], Rank(0));
  EXPECT_EQ(waiting.ranks[1], Rank(2));
  server.Clear();
  server.GiveNote(server.peers[1], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 1)));
  server.TickAt(start_ns + 2 * kNsPerS);
  EXPECT_THAT(server.notes, IsEmpty()) << "it has left";
}

TEST(ServerSettling, AHandOverOfAnotherGroupSizeIsMalformed) {
  ServerDriver server(2);
  FrameHeader result = ServerDriver::PushHeader(0, 1);
  result.contributors = 3;
  server.Push(server.peers[0], result);
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kMalformed);
}

}  // namespace
}  // namespace shoal
