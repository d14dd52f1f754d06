// Each reason of core/frame.h for which a server says no: what leads to it, what the peer is told, and that the server
// goes on serving.
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/machine/server_machine.h"
#include "tests/unit/server/machine/server_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// That a fresh group of two still gets its sum.
void ExpectServes(ServerDriver* server, uint64_t group = 99) {
  server->Clear();
  const uint64_t reduced = server->counters().chunks_reduced;
  const std::vector<PeerId> peers = server->JoinAll(2, group);
  for (uint32_t r = 0; r < 2; ++r) server->Push(peers[r], ServerDriver::PushHeader(r, 1, 0, 256, group));
  server->LandAll();
  server->ReduceAll();
  EXPECT_EQ(server->sends.size(), 2u);
  server->SendAll();
  EXPECT_EQ(server->counters().chunks_reduced, reduced + 1);
}

void ExpectCutOff(ServerDriver* server, PeerId peer, Refusal refusal, const std::string& text) {
  const SeenNote note = server->TakeRefusal();
  EXPECT_EQ(note.peer, peer);
  EXPECT_EQ(note.header.refusal, refusal);
  EXPECT_THAT(note.text(), HasSubstr(text));
  EXPECT_THAT(server->closes, ElementsAre(peer));
  EXPECT_EQ(server->refusals(refusal), 1u);
  server->closes.clear();
}

TEST(ServerRefusal, GarbageIsToldWhatItIsAndCutOff) {
  ServerDriver server;
  const PeerId peer = server.Up();
  Note garbage;
  garbage.bytes.fill(std::byte{'G'});
  garbage.size = 200;
  server.GiveNote(peer, garbage);
  ExpectCutOff(&server, peer, Refusal::kMalformed, "does not start as a Shoal frame");
  server.Down(peer, absl::OkStatus());
  ExpectServes(&server);
}

TEST(ServerRefusal, ProbesAreDroppedAndEchoedWithoutAHello) {
  ServerDriver server;
  const PeerId peer = server.Up();
  server.GiveNote(peer, MakeNote({.type = FrameType::kProbe, .chunk = ChunkNumber(3)}));
  const OfferId offer =
      server.GiveOffer(peer, EncodeHeader({.type = FrameType::kProbe, .chunk = ChunkNumber(4)}), 8192);
  EXPECT_THAT(server.declines, ElementsAre(offer));
  ASSERT_EQ(server.notes.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(server.notes[i].peer, peer);
    EXPECT_EQ(server.notes[i].header.type, FrameType::kProbe);
    EXPECT_EQ(server.notes[i].header.chunk, ChunkNumber(3 + i));
  }
  EXPECT_EQ(server.counters().RefusalTotal(), 0u);
  EXPECT_EQ(server.counters().slot_memory_used_bytes, 0u);
  ExpectServes(&server);
}

TEST(ServerRefusal, GarbageWithAPayloadIsDeclinedAndCutOff) {
  ServerDriver server;
  const PeerId peer = server.Up();
  const OfferId offer = server.GiveOffer(peer, {}, 1 << 20);
  EXPECT_THAT(server.declines, ElementsAre(offer));
  ExpectCutOff(&server, peer, Refusal::kMalformed, "the message of 0 bytes is shorter than a frame");
}

TEST(ServerRefusal, APayloadOfAnotherSizeThanItsHeaderSaysIsCutOff) {
  ServerDriver server(1);
  server.GiveOffer(server.peers[0], EncodeHeader(ServerDriver::PushHeader(0, 1)), 1023);
  EXPECT_TRUE(server.accepts.empty());
  ExpectCutOff(&server, server.peers[0], Refusal::kMalformed, "not a push, or does not have the size of its chunk");
}

TEST(ServerRefusal, FramesThatOnlyServersSendAreCutOff) {
  for (FrameType type : {FrameType::kWelcome, FrameType::kRefuse, FrameType::kWaiting, FrameType::kRankLost}) {
    ServerDriver server;
    const PeerId peer = server.Up();
    server.GiveNote(peer, MakeNote({.type = type}));
    ExpectCutOff(&server, peer, Refusal::kMalformed, "no server takes a ");
  }
}

TEST(ServerRefusal, AHelloThatIsCutShortIsCutOff) {
  ServerDriver server;
  const PeerId peer = server.Up();
  const auto token = EncodeToken(server.Token(0, 1));
  server.GiveNote(peer, MakeHello(ServerDriver::Header(FrameType::kHello, 0), std::span(token).first(91)));
  ExpectCutOff(&server, peer, Refusal::kMalformed, "a group token has 92 bytes, not 91");
}

TEST(ServerRefusal, ARankThatWasCutOffIsLostForTheOthersWithTheReason) {
  ServerDriver server(2);
  server.GiveOffer(server.peers[1], EncodeHeader(ServerDriver::PushHeader(1, 1)), 7);
  server.Clear();
  server.Down(server.peers[1], absl::OkStatus());
  EXPECT_EQ(server.TakeNote().text(),
            "server server-a closed its connection: the payload is not a push, or does not have the size of its chunk");
}

TEST(ServerRefusal, ARankThatWentWithoutAWordIsLostEvenWhenTheNetworkSaysOk) {
  ServerDriver server(2);
  server.Down(server.peers[1], absl::OkStatus());
  server.EndPatience();
  EXPECT_EQ(server.TakeNote().text(), "server server-a lost its connection: it was closed without a goodbye");
}

TEST(ServerRefusal, AChunkThatDoesNotLieInItsBucketIsMalformed) {
  ServerDriver server(1);
  FrameHeader push = ServerDriver::PushHeader(0, 1, 0, 1000);
  push.first_element = 16;
  server.Push(server.peers[0], push);
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kMalformed);
  EXPECT_TRUE(server.accepts.empty());
  EXPECT_EQ(server.declines.size(), 1u);
}

TEST(ServerRefusal, AnotherWireVersionIsToldBothNumbers) {
  ServerDriver server;
  const PeerId peer = server.Up();
  Note note = MakeNote({.type = FrameType::kHello});
  note.bytes[4] = std::byte{5};
  server.GiveNote(peer, note);
  ExpectCutOff(&server, peer, Refusal::kOtherVersion, "wire version 5, this process 4");
}

TEST(ServerRefusal, BadTokensAreToldWhy) {
  ServerDriver server;
  const auto refusal_text = [&](GroupToken token) {
    TokenKey key;
    key.fill(std::byte{5});
    SignToken(key, &token);
    const PeerId peer = server.Up();
    server.Hello(peer, token);
    const SeenNote note = server.TakeRefusal();
    EXPECT_EQ(note.peer, peer);
    EXPECT_EQ(note.header.refusal, Refusal::kBadToken);
    EXPECT_EQ(note.header.group, GroupId(1)) << "so that the worker knows which group it is about";
    return note.text();
  };
  GroupToken token = server.Token(0, 2);
  token.expires_at_unix_s = ServerDriver::kNowUnixS;
  EXPECT_THAT(refusal_text(token), HasSubstr("ran out"));
  token = server.Token(2, 2);
  EXPECT_THAT(refusal_text(token), HasSubstr("rank 2 of 2"));
  token = server.Token(0, 2);
  token.ranks_per_contribution = 0;
  EXPECT_THAT(refusal_text(token), HasSubstr("2 contributions of 0 ranks each"));
  EXPECT_TRUE(server.closes.empty()) << "other groups of the same process may be fine";
  EXPECT_EQ(server.counters().groups_open, 0u);
}

TEST(ServerRefusal, ATokenOfAnotherSchedulerIsRefusedWhenNoKeyHasComeInASecond) {
  ServerDriver server;
  GroupToken token = server.Token(0, 2);
  token.group_size = 3;
  const PeerId peer = server.Up();
  server.Hello(peer, token);
  EXPECT_EQ(server.machine().NextDeadlineNs(), server.now.monotonic_ns + kNsPerS);
  server.TickAt(server.now.monotonic_ns + kNsPerS - 1);
  EXPECT_TRUE(server.notes.empty());
  server.TickAt(server.now.monotonic_ns + 1);
  const SeenNote note = server.TakeRefusal();
  EXPECT_EQ(note.peer, peer);
  EXPECT_EQ(note.header.refusal, Refusal::kBadToken);
  EXPECT_EQ(note.header.group, GroupId(1));
  EXPECT_THAT(note.text(), HasSubstr("signature is wrong"));
  EXPECT_EQ(server.counters().groups_open, 0u);
  EXPECT_EQ(server.machine().NextDeadlineNs(), kNoDeadline);
}

TEST(ServerRefusal, TooManyTokensOfAnotherSchedulerAreRefusedAtOnce) {
  ServerDriver server;
  const auto say_hello = [&](PeerId peer, uint64_t group) {
    GroupToken token = server.Token(0, 2, group);
    token.signature[0] ^= std::byte{1};
    server.Hello(peer, token);
  };
  for (int p = 0; p < 4; ++p) {
    const PeerId peer = server.Up();
    for (uint64_t group = 1; group <= 256; ++group) say_hello(peer, group);
    say_hello(peer, 256);
    EXPECT_TRUE(server.notes.empty()) << "the newest of a group takes the place of the one before";
    say_hello(peer, 257);
    EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kBadToken) << "one connection takes a quarter at most";
  }
  say_hello(server.Up(), 1);
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kBadToken);
}

TEST(ServerRefusal, AHelloThatIsNotItsTokensIsABadToken) {
  ServerDriver server;
  const PeerId peer = server.Up();
  server.GiveNote(peer, MakeHello(ServerDriver::Header(FrameType::kHello, 1), EncodeToken(server.Token(0, 2))));
  const SeenNote note = server.TakeRefusal();
  EXPECT_EQ(note.header.refusal, Refusal::kBadToken);
  EXPECT_THAT(note.text(), HasSubstr("names another group or rank than its token"));
}

TEST(ServerRefusal, ATokenThatDescribesTheGroupUnlikeTheOthersIsABadToken) {
  ServerDriver server;
  server.Join(0, 2);
  server.Clear();
  server.Join(1, 3);
  EXPECT_THAT(server.TakeRefusal().text(), HasSubstr("differently from the other ranks'"));
  server.Join(1, 2, 1, 2048);
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kBadToken);
  server.Hello(server.Up(), server.Token(1, 2, 1, 1024, 4));
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kBadToken) << "the ranks would disagree on an average";
}

TEST(ServerRefusal, AnUnknownGroupIsOneThatThisConnectionDidNotOpen) {
  ServerDriver server;
  server.JoinAll(2);
  const PeerId stranger = server.Up();
  for (uint64_t group : {1, 5}) {
    const OfferId offer = server.Push(stranger, ServerDriver::PushHeader(0, 1, 0, 256, group));
    EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kUnknownGroup) << group;
    EXPECT_EQ(server.declines.back(), offer);
    for (FrameType type : {FrameType::kCommit, FrameType::kLeaveGroup, FrameType::kGroupFailed}) {
      server.GiveNote(stranger, MakeNote(ServerDriver::Header(type, 0, group)));
      EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kUnknownGroup) << FrameTypeName(type);
    }
  }
  EXPECT_TRUE(server.accepts.empty());
  EXPECT_EQ(server.counters().groups_failed, 0u) << "a stranger failed a group";
}

TEST(ServerRefusal, NobodySpeaksForAnotherRank) {
  ServerDriver server(2);
  for (uint32_t rank : {1u, 2u, UINT32_MAX}) {
    FrameHeader push = ServerDriver::PushHeader(0, 1);
    push.rank = Rank(rank);
    server.Push(server.peers[0], push);
    EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kWrongRank);
  }
  server.GiveNote(server.peers[0], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 1)));
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kWrongRank);
}

TEST(ServerRefusal, ARankThatIsTakenIsRefusedAndTheFirstKeepsIt) {
  ServerDriver server(2);
  const PeerId second = server.Join(1, 2);
  const SeenNote note = server.TakeRefusal();
  EXPECT_EQ(note.peer, second);
  EXPECT_EQ(note.header.refusal, Refusal::kRankTaken);
  EXPECT_THAT(note.text(), HasSubstr("rank 1 of the group has said hello on another connection already"));
  server.Down(second);
  EXPECT_TRUE(server.notes.empty());
  server.Push(server.peers[1], ServerDriver::PushHeader(1, 1));
  EXPECT_EQ(server.accepts.size(), 1u);
}

TEST(Invariant, I4AMessageOfAnotherEpochIsRefusedWhateverTheTime) {
  ServerDriver server(1);
  for (uint64_t epoch : {0, 2, 4}) {
    FrameHeader push = ServerDriver::PushHeader(0, 1);
    push.epoch = Epoch(epoch);
    const OfferId offer = server.Push(server.peers[0], push);
    EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kStaleEpoch);
    EXPECT_EQ(server.declines.back(), offer);
  }
  EXPECT_TRUE(server.accepts.empty());
  server.now.unix_ms += 365ull * 24 * 3600 * 1000;  // the token ran out long ago: it only let the group in
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1));
  EXPECT_EQ(server.accepts.size(), 1u);
}

TEST(ServerRefusal, AnOpTooFarAheadHasNoSlot) {
  ServerDriver server(1);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, kMaxUncommittedOps + 1));
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kNoSlot);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, kMaxUncommittedOps));
  EXPECT_EQ(server.accepts.size(), 1u);
}

TEST(ServerRefusal, MemoryForSlotsThatIsMissingIsNamedWithWhatToDo) {
  ServerDriver server(ServerDriver::Options(8192));
  server.Join(0, 4, 1, 4096);
  const SeenNote note = server.TakeRefusal();
  EXPECT_EQ(note.header.refusal, Refusal::kNoSlotMemory);
  EXPECT_EQ(note.text(),
            "server server-a has no memory for the slots of a group of 4 ranks with 4096-byte chunks: it needs 32768 "
            "bytes, 8192 of 8192 are free; start the server with more --slot-memory or use smaller chunks");
  ExpectServes(&server);
}

TEST(ServerRefusal, ScarceMemoryLowersTheCreditBeforeAnybodyIsRefused) {
  ServerDriver server(ServerDriver::Options(2 * 4 * 1024, 16 << 10));  // room for credit 4 of one rank
  server.Join(0, 1);
  EXPECT_EQ(DecodeWelcome(server.TakeNote().body)->credit_chunks, 4u);
  ServerDriver roomy(ServerDriver::Options(64 << 20, 16 << 10));
  roomy.Join(0, 1);
  const SeenNote note = roomy.TakeNote();
  EXPECT_EQ(DecodeWelcome(note.body)->credit_chunks, 16u);
  EXPECT_EQ(DecodeWelcome(note.body)->incarnation, Incarnation(77));
}

TEST(ServerRefusal, MoreGroupsThanTheLimitAreRefused) {
  ServerMachineOptions options = ServerDriver::Options();
  options.max_groups = 2;
  ServerDriver server(options);
  server.Join(0, 1, 1);
  const PeerId second = server.Join(0, 1, 2);
  server.Clear();
  server.Join(0, 1, 3);
  const SeenNote note = server.TakeRefusal();
  EXPECT_EQ(note.header.refusal, Refusal::kNoSlotMemory);
  EXPECT_EQ(note.text(), "server server-a has its limit of 2 groups open");
  server.Down(second);
  server.EndPatience();
  server.Join(0, 1, 3);
  EXPECT_EQ(server.TakeNote().header.type, FrameType::kWelcome);
}

TEST(ServerRefusal, TheRailsOfManyJobsFit) {
  ServerDriver server;
  constexpr uint64_t kJobs = 40;
  constexpr uint64_t kRails = 8;
  for (uint64_t group = 1; group <= kJobs * kRails; ++group) {
    server.Join(0, 1, group);
    ASSERT_EQ(server.TakeNote().header.type, FrameType::kWelcome) << group;
  }
}

TEST(ServerRefusal, AHelloToAGroupThatFailedIsToldWhy) {
  ServerDriver server;
  const PeerId first = server.Join(0, 2);
  server.Clear();
  server.GiveNote(first, MakeTextNote(ServerDriver::Header(FrameType::kGroupFailed, 0), "rank 0 gave up"));
  server.Clear();
  server.Join(1, 2);
  const SeenNote note = server.TakeRefusal();
  EXPECT_EQ(note.header.refusal, Refusal::kGroupFailedBefore);
  EXPECT_EQ(note.text(), "rank 0 gave up");
}

TEST(ServerRefusal, WantOfMemoryIsPassedOnAsWhatItIs) {
  ServerDriver server(2);
  FrameHeader failed = ServerDriver::Header(FrameType::kGroupFailed, 1);
  failed.refusal = Refusal::kGroupLackedMemory;
  server.GiveNote(server.peers[1], MakeTextNote(failed, "server b has no memory"));
  ASSERT_EQ(server.notes.size(), 2u);
  EXPECT_EQ(server.notes[0].header.refusal, Refusal::kGroupLackedMemory);
  EXPECT_EQ(server.notes[0].header.rank, Rank(1));
  server.Clear();
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1, 0, 100));
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kGroupLackedMemory);
}

TEST(ServerRefusal, AHelloToAGroupThatLackedMemoryHearsThatWhetherItIsOverOrNot) {
  for (const bool is_over : {false, true}) {
    ServerDriver server;
    const PeerId first = server.Join(0, 2);
    FrameHeader failed = ServerDriver::Header(FrameType::kGroupFailed, 0);
    failed.refusal = Refusal::kGroupLackedMemory;
    server.GiveNote(first, MakeTextNote(failed, "server b has no memory"));
    if (is_over) server.Down(first);
    server.Clear();
    server.Join(1, 2);
    const SeenNote note = server.TakeRefusal();
    EXPECT_EQ(note.header.refusal, Refusal::kGroupLackedMemory);
    EXPECT_EQ(note.text(), "server b has no memory");
  }
}

// The late rank would wait for its deadline in a group of its own, and blame ranks that did nothing wrong.
TEST(ServerRefusal, AHelloToAGroupThatFailedAndIsOverIsToldWhy) {
  ServerDriver server;
  const PeerId failed = server.Join(0, 2, 1);
  server.GiveNote(failed, MakeTextNote(ServerDriver::Header(FrameType::kGroupFailed, 0), "rank 0 gave up"));
  server.Down(failed);
  EXPECT_EQ(server.counters().groups_open, 0u);
  server.Clear();
  server.Join(1, 2, 1);
  const SeenNote note = server.TakeRefusal();
  EXPECT_EQ(note.header.refusal, Refusal::kGroupFailedBefore);
  EXPECT_EQ(note.text(), "rank 0 gave up");
  EXPECT_EQ(server.counters().groups_open, 0u);
  EXPECT_EQ(server.counters().slot_memory_used_bytes, 0u);
  ExpectServes(&server);
}

TEST(ServerRefusal, ALateRankMayOpenAGroupThatTheOthersLeftInGoodOrder) {
  ServerDriver server;
  const PeerId left = server.Join(0, 2, 1);
  server.GiveNote(left, MakeNote({.type = FrameType::kBye}));
  server.Down(left, absl::OkStatus());
  server.Clear();
  server.Join(1, 2, 1);
  EXPECT_EQ(server.TakeNote().header.type, FrameType::kWelcome);
}

// Whatever bytes come, from strangers and from members: the machine answers, stays within its memory and serves.
TEST(Invariant, I7NothingThatAPeerSendsCanAbortOrGrowAServer) {
  std::mt19937_64 random(23);
  ServerDriver server(ServerDriver::Options(4 << 20));
  for (uint64_t round = 0; round < 400; ++round) {
    const std::vector<PeerId> peers = server.JoinAll(2, round + 1);
    for (int step = 0; step < 50; ++step) {
      const PeerId peer = random() % 3 == 0 ? server.Up() : peers[random() % 2];
      FrameHeader header = ServerDriver::PushHeader(random() % 2, 1 + random() % 4, 0, 256, round + 1);
      if (random() % 2 == 0) header.type = static_cast<FrameType>(1 + random() % 11);
      FrameHeaderBytes bytes = EncodeHeader(header);
      for (uint64_t i = random() % 4; i > 0; --i) bytes[random() % bytes.size()] = std::byte(random());
      const uint64_t payload = random() % 4 == 0 ? random() : uint64_t{header.chunk_elements} * 4;
      if (random() % 2 == 0) {
        server.GiveOffer(peer, std::span(bytes).first(random() % 5 == 0 ? random() % 97 : 96), payload);
      } else {
        Note note = MakeTextNote(header, std::string(random() % 300, 'z'));
        std::copy(bytes.begin(), bytes.end(), note.bytes.begin());
        server.GiveNote(peer, note);
      }
      for (const AcceptAction& accept : server.accepts) {
        ASSERT_LE(accept.offset + accept.bytes, 4u << 20);
        ASSERT_LE(accept.bytes, 1024u);
      }
      server.LandAll();
      server.ReduceAll();
      server.SendAll();
      ASSERT_LE(server.counters().groups_open, 1u);
    }
    server.Down(peers[0]);
    server.Down(peers[1]);
    ASSERT_EQ(server.counters().slot_memory_used_bytes, 0u) << "round " << round;
    server.Clear();
  }
  ExpectServes(&server, 1'000'000);
}

}  // namespace
}  // namespace shoal
