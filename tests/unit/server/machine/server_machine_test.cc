#include "server/machine/server_machine.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/machine/server_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(ServerMachine, ChunksAreGatheredInAnyOrderReducedOnceAndAnsweredToAll) {
  std::vector<uint32_t> order = {0, 1, 2};
  do {
    ServerDriver server;
    const std::vector<PeerId> peers = server.JoinAll(3);
    for (uint32_t rank : order) server.Push(peers[rank], ServerDriver::PushHeader(rank, 1));
    ASSERT_EQ(server.accepts.size(), 3u);
    // Each lies where its rank's contribution belongs, whatever came first.
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(server.accepts[i].offset, order[i] * 1024u);
    server.LandAll();
    ASSERT_EQ(server.reduces.size(), 1u);
    EXPECT_EQ(server.reduces[0].offset, 0u);
    EXPECT_EQ(server.reduces[0].stride_bytes, 1024u);
    EXPECT_EQ(server.reduces[0].input_count, 3u);
    EXPECT_EQ(server.reduces[0].elements, 256u);
    server.ReduceAll();
    ASSERT_EQ(server.sends.size(), 3u);
    std::set<PeerId> answered;
    for (const SendPayloadAction& send : server.sends) {
      const FrameHeader header = *DecodeHeader(send.header);
      EXPECT_EQ(header.type, FrameType::kResult);
      EXPECT_EQ(header.contributors, 3u);
      EXPECT_EQ(header.op, OpNumber(1));
      EXPECT_EQ(peers[header.rank.value()], send.peer);
      EXPECT_EQ(send.bytes, 1024u);
      answered.insert(send.peer);
    }
    EXPECT_EQ(answered.size(), 3u);
    server.SendAll();
    EXPECT_EQ(server.counters().chunks_reduced, 1u);
    EXPECT_EQ(server.counters().contributions_landed, 3u);
    EXPECT_EQ(server.counters().bytes_in, 3u * 1024);
    EXPECT_EQ(server.counters().bytes_out, 3u * 1024);
    EXPECT_TRUE(server.notes.empty());
  } while (std::next_permutation(order.begin(), order.end()));
}

// Two nodes of four ranks: each member of the rail brings the sum of four.
TEST(ServerMachine, ARailsMembersAreAskedForOneContributionEachAndItsAverageCountsTheirRanks) {
  ServerDriver server;
  std::vector<PeerId> peers;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    peers.push_back(server.Up());
    server.Hello(peers.back(), server.Token(rank, 2, 1, 1024, 4));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) server.Push(peers[rank], ServerDriver::PushHeader(rank, 1));
  server.LandAll();
  ASSERT_EQ(server.reduces.size(), 1u);
  EXPECT_EQ(server.reduces[0].input_count, 2u);
  EXPECT_EQ(server.reduces[0].spec.ranks_per_input, 4u);
  server.ReduceAll();
  ASSERT_EQ(server.sends.size(), 2u);
  EXPECT_EQ(DecodeHeader(server.sends[0].header)->contributors, 2u) << "of those that the servers count";
}

// A thread that has small ops looks for the next one, also while it sums large tensors.
TEST(ServerMachine, LargeOpsDoNotMakeItForgetASmallOne) {
  ServerDriver server(2);
  EXPECT_EQ(server.machine().last_small_op_ns(), 0u);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1, 0, 1 << 20));
  EXPECT_EQ(server.machine().last_small_op_ns(), 0u);
  server.now.monotonic_ns += 1000;
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 2));
  const uint64_t small_ns = server.machine().last_small_op_ns();
  EXPECT_GT(small_ns, 0u);
  server.now.monotonic_ns += 1000;
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 3, 0, 1 << 20));
  EXPECT_EQ(server.machine().last_small_op_ns(), small_ns);
}

TEST(ServerMachine, NoRankIsAlwaysAnsweredFirst) {
  ServerDriver server(3);
  std::set<PeerId> first;
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    for (uint32_t r = 0; r < 3; ++r) server.Push(server.peers[r], ServerDriver::PushHeader(r, 1, chunk, 3 * 256));
    server.LandAll();
    server.ReduceAll();
    first.insert(server.sends.front().peer);
    server.SendAll();
  }
  EXPECT_EQ(first.size(), 3u);
}

TEST(Invariant, I2AContributionCountsOnce) {
  ServerDriver server(2);
  const FrameHeader push = ServerDriver::PushHeader(0, 1);
  server.Push(server.peers[0], push);
  const auto expect_refused = [&](const FrameHeader& header, Refusal refusal, const char* when) {
    const OfferId offer = server.Push(server.peers[0], header);
    EXPECT_EQ(server.TakeRefusal().header.refusal, refusal) << when;
    EXPECT_THAT(server.declines, ElementsAre(offer)) << when;
    server.declines.clear();
  };
  expect_refused(push, Refusal::kDuplicate, "while the first lands");
  EXPECT_EQ(server.accepts.size(), 1u);
  server.LandAll();
  expect_refused(push, Refusal::kDuplicate, "after it landed");
  server.Push(server.peers[1], ServerDriver::PushHeader(1, 1));
  server.LandAll();
  expect_refused(push, Refusal::kDuplicate, "while it is summed");
  server.ReduceAll();
  expect_refused(push, Refusal::kDuplicate, "while the result is sent");
  server.SendAll();
  expect_refused(push, Refusal::kDuplicate, "after the result was sent and the slot is free");
  EXPECT_TRUE(server.accepts.empty());
  EXPECT_TRUE(server.reduces.empty());

  // Both say that op 1 landed: it is committed and forgotten, but not its number.
  for (uint32_t r = 0; r < 2; ++r) {
    FrameHeader commit = ServerDriver::Header(FrameType::kCommit, r);
    commit.landed_watermark = OpNumber(1);
    server.GiveNote(server.peers[r], MakeNote(commit));
  }
  expect_refused(push, Refusal::kStaleOp, "after it was committed");
  EXPECT_EQ(server.counters().chunks_reduced, 1u);
  EXPECT_EQ(server.refusals(Refusal::kDuplicate), 5u);
  EXPECT_EQ(server.refusals(Refusal::kStaleOp), 1u);
}

TEST(Invariant, I2AContributionCountsOnceAlsoWhenItsCopyWasHeldForASlot) {
  ServerDriver server(ServerDriver::Options(1 << 20, /*window_bytes=*/2048));  // 4 slots
  const std::vector<PeerId> peers = server.JoinAll(2);
  const auto push = [&](uint32_t rank, uint64_t op) { server.Push(peers[rank], ServerDriver::PushHeader(rank, op)); };
  const auto end_all = [&] {
    server.LandAll();
    server.ReduceAll();
    server.SendAll();
  };
  for (const uint64_t op : {1, 2, 3, 4}) push(0, op);  // all slots
  for (const uint64_t op : {5, 6, 5}) push(0, op);     // held, the copy behind op 6
  push(1, 5);
  end_all();
  push(1, 1);
  end_all();  // op 5 has op 1's slot now
  push(1, 5);
  end_all();  // op 5 is summed, and op 6 has the slot
  ASSERT_EQ(server.counters().chunks_reduced, 2u);
  push(1, 2);
  end_all();  // a slot for the copies, if they wanted one
  EXPECT_EQ(server.counters().chunks_reduced, 3u) << "op 5 was summed again";
  EXPECT_EQ(server.refusals(Refusal::kDuplicate), 2u);
  push(1, 6);
  end_all();
  EXPECT_EQ(server.counters().chunks_reduced, 4u);
}

TEST(ServerMachine, AContributionThatDidNotLandMayBeSentAgain) {
  ServerDriver server(1);
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1));
  server.Land(server.accepts.at(0), false);
  server.accepts.clear();
  EXPECT_TRUE(server.reduces.empty());
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1));
  server.LandAll();
  EXPECT_EQ(server.reduces.size(), 1u);
}

TEST(ServerMachine, RanksThatDisagreeFailTheGroupAndBothAreNamed) {
  ServerDriver server(3);
  server.Push(server.peers[2], ServerDriver::PushHeader(2, 1, 0, 256));
  const OfferId offer = server.Push(server.peers[1], ServerDriver::PushHeader(1, 1, 0, 200));
  EXPECT_THAT(server.declines, ElementsAre(offer));
  ASSERT_EQ(server.notes.size(), 4u);
  EXPECT_EQ(server.notes[0].header.refusal, Refusal::kLayoutMismatch);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(server.notes[i].header.type, FrameType::kGroupFailed);
    EXPECT_EQ(server.notes[i].header.rank, Rank(1));
    EXPECT_EQ(
        server.notes[i].text(),
        "the ranks disagree on op 1: rank 2 called sum of 256 float32, rank 1 called sum of 200 float32: all ranks "
        "must make the same calls in the same order");
  }
  server.notes.clear();
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 1));
  const SeenNote later = server.TakeRefusal();
  EXPECT_EQ(later.header.refusal, Refusal::kGroupFailedBefore);
  EXPECT_THAT(later.text(), HasSubstr("rank 2 called sum of 256 float32"));
  EXPECT_EQ(server.counters().groups_failed, 1u);
}

// A server knows no more of a rail than its own numbers, which mean nothing to the user.
TEST(ServerMachine, RanksOfARailThatDisagreeAreMarkedForTheWorkersToName) {
  ServerDriver server;
  std::vector<PeerId> peers;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    peers.push_back(server.Up());
    server.Hello(peers[rank], server.Token(rank, 2, 1, 1024, /*ranks_per_contribution=*/4));
  }
  server.Clear();
  server.Push(peers[0], ServerDriver::PushHeader(0, 1, 0, 256));
  server.Push(peers[1], ServerDriver::PushHeader(1, 1, 0, 200));
  ASSERT_FALSE(server.notes.empty());
  EXPECT_EQ(
      server.notes[0].text(),
      "the ranks disagree on op 1: {rank 0} called sum of 256 float32, {rank 1} called sum of 200 float32 (a part "
      "of the tensor): all ranks must make the same calls in the same order");
}

// A slot stays in use until its replies are sent, so pushes may find none free.
TEST(ServerMachine, PushesWithoutAFreeSlotAreHeldAndTakenLater) {
  ServerDriver server(ServerDriver::Options(64 << 20, 2048));  // credit 2, so 4 slots
  const std::vector<PeerId> peers = server.JoinAll(1);
  for (uint32_t chunk = 0; chunk < 4; ++chunk) server.Push(peers[0], ServerDriver::PushHeader(0, 1, chunk, 8 * 256));
  EXPECT_EQ(server.accepts.size(), 4u);
  server.LandAll();
  server.ReduceAll();
  const OfferId held = server.Push(peers[0], ServerDriver::PushHeader(0, 1, 4, 8 * 256));
  const OfferId held_too = server.Push(peers[0], ServerDriver::PushHeader(0, 1, 5, 8 * 256));
  EXPECT_TRUE(server.accepts.empty());
  EXPECT_TRUE(server.notes.empty());
  server.Push(peers[0], ServerDriver::PushHeader(0, 1, 5, 8 * 256));
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kDuplicate) << "a copy of what is held";
  server.Push(peers[0], ServerDriver::PushHeader(0, 1, 6, 8 * 256));
  EXPECT_EQ(server.TakeRefusal().header.refusal, Refusal::kNoSlot) << "more than the credit of the whole group is held";
  const SendPayloadAction first = server.sends.at(0);
  server.sends.erase(server.sends.begin());
  server.Sent(first);
  ASSERT_EQ(server.accepts.size(), 1u);
  EXPECT_EQ(server.accepts[0].offer, held);
  server.SendAll();
  ASSERT_EQ(server.accepts.size(), 2u);
  EXPECT_EQ(server.accepts[1].offer, held_too);
}

TEST(Invariant, I8ALostRankFailsItsGroupOnAllSurvivorsAndOthersDoNotNotice) {
  ServerDriver server;
  const std::vector<PeerId> peers = server.JoinAll(3, 1);
  const std::vector<PeerId> others = server.JoinAll(2, 2);
  const uint64_t used_by_both = server.counters().slot_memory_used_bytes;
  uint64_t of_jobs = 0;
  for (const auto& [job, bytes] : server.counters().memory_by_job) of_jobs += bytes;
  EXPECT_EQ(of_jobs, used_by_both);
  server.Push(peers[0], ServerDriver::PushHeader(0, 1));
  server.Push(peers[1], ServerDriver::PushHeader(1, 1));
  server.Push(others[0], ServerDriver::PushHeader(0, 1, 0, 256, 2));
  const std::vector<AcceptAction> accepts = server.accepts;
  server.accepts.clear();
  server.Down(peers[1], absl::UnavailableError("connection reset by peer"));
  EXPECT_TRUE(server.notes.empty()) << "it may come back";
  server.EndPatience();
  ASSERT_EQ(server.notes.size(), 2u);
  for (const SeenNote& note : server.notes) {
    EXPECT_EQ(note.header.type, FrameType::kRankLost);
    EXPECT_EQ(note.header.group, GroupId(1));
    EXPECT_EQ(note.header.rank, Rank(1));
    EXPECT_EQ(note.text(), "server server-a lost its connection: connection reset by peer");
  }
  EXPECT_EQ(server.notes[0].peer, peers[0]);
  EXPECT_EQ(server.notes[1].peer, peers[2]);
  server.Clear();

  // Its memory goes back only when the network is done with it.
  server.GiveNote(peers[0], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 0)));
  server.GiveNote(peers[2], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 2)));
  EXPECT_EQ(server.counters().slot_memory_used_bytes, used_by_both);
  server.Land(accepts[0]);
  EXPECT_EQ(server.counters().slot_memory_used_bytes, used_by_both);
  server.Land(accepts[1], false);
  EXPECT_LT(server.counters().slot_memory_used_bytes, used_by_both);
  EXPECT_EQ(server.counters().groups_open, 1u);

  // The other group goes on.
  server.Land(accepts[2]);
  server.Push(others[1], ServerDriver::PushHeader(1, 1, 0, 256, 2));
  server.LandAll();
  EXPECT_EQ(server.reduces.size(), 1u);
  server.ReduceAll();
  EXPECT_EQ(server.sends.size(), 2u);
  EXPECT_TRUE(server.notes.empty());
}

TEST(ServerMachine, ARankLostWhileAChunkIsReducedOrSentKeepsTheMemoryUntilTheEnd) {
  for (bool reduced : {false, true}) {
    ServerDriver server;
    const std::vector<PeerId> peers = server.JoinAll(2);
    for (uint32_t r = 0; r < 2; ++r) server.Push(peers[r], ServerDriver::PushHeader(r, 1));
    server.LandAll();
    if (reduced) server.ReduceAll();
    server.Down(peers[0]);
    server.Down(peers[1]);
    EXPECT_GT(server.counters().slot_memory_used_bytes, 0u);
    server.ReduceAll();
    EXPECT_EQ(server.sends.size(), reduced ? 2u : 0u);
    server.SendAll();
    server.EndPatience();
    EXPECT_EQ(server.counters().slot_memory_used_bytes, 0u);
    EXPECT_EQ(server.counters().groups_open, 0u);
    EXPECT_EQ(server.counters().peers, 0u);
  }
}

TEST(ServerMachine, WhoWaitsIsToldForWhomAndHowLong) {
  ServerDriver server(12);
  const uint64_t start_ns = server.now.monotonic_ns;
  for (uint32_t r : {0u, 5u}) server.Push(server.peers[r], ServerDriver::PushHeader(r, 7, 1, 600));
  server.LandAll();
  EXPECT_LE(server.machine().NextDeadlineNs(), start_ns + kNsPerS);
  server.TickAt(start_ns + kNsPerS - 1);
  EXPECT_TRUE(server.notes.empty());
  server.TickAt(start_ns + kNsPerS);
  ASSERT_EQ(server.notes.size(), 2u);
  EXPECT_EQ(server.notes[0].peer, server.peers[0]);
  EXPECT_EQ(server.notes[1].peer, server.peers[5]);
  for (const SeenNote& note : server.notes) {
    EXPECT_EQ(note.header.type, FrameType::kWaiting);
    EXPECT_EQ(note.header.op, OpNumber(7));
    EXPECT_EQ(note.header.chunk, ChunkNumber(1));
    const Waiting waiting = *DecodeWaiting(note.body);
    EXPECT_EQ(waiting.missing_count, 10u);
    EXPECT_EQ(waiting.listed_count, kMaxMissingRanks);
    EXPECT_THAT(waiting.ranks, ElementsAre(Rank(1), Rank(2), Rank(3), Rank(4), Rank(6), Rank(7), Rank(8), Rank(9)));
  }
  server.Clear();
  EXPECT_EQ(server.machine().NextDeadlineNs(), start_ns + 2 * kNsPerS) << "said again while it lasts";
  server.TickAt(start_ns + 2 * kNsPerS);
  EXPECT_EQ(server.notes.size(), 2u);
}

TEST(ServerMachine, ARankIsToldOfItsOldestChunkThatWaitsAndOfNoOther) {
  ServerDriver server(3);
  const uint64_t start_ns = server.now.monotonic_ns;
  // The newer op comes first. Rank 2 comes with nothing, and has nothing to wait for.
  server.Push(server.peers[1], ServerDriver::PushHeader(1, 8, 0, 600));
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 8, 0, 600));
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 7, 1, 600));
  server.Push(server.peers[0], ServerDriver::PushHeader(0, 7, 0, 600));
  server.LandAll();
  server.TickAt(start_ns + kNsPerS);
  ASSERT_EQ(server.notes.size(), 2u);
  EXPECT_EQ(server.notes[0].peer, server.peers[0]);
  EXPECT_EQ(server.notes[0].header.op, OpNumber(7));
  EXPECT_EQ(server.notes[0].header.chunk, ChunkNumber(0));
  EXPECT_THAT(DecodeWaiting(server.notes[0].body)->missing_count, 2u);
  EXPECT_EQ(server.notes[1].peer, server.peers[1]);
  EXPECT_EQ(server.notes[1].header.op, OpNumber(8));
}

TEST(ServerMachine, WithoutGroupsThereIsNothingToWakeUpFor) {
  ServerDriver server;
  EXPECT_EQ(server.machine().NextDeadlineNs(), kNoDeadline);
  const std::vector<PeerId> peers = server.JoinAll(1);
  EXPECT_NE(server.machine().NextDeadlineNs(), kNoDeadline);
  server.Down(peers[0]);
  server.EndPatience();
  server.TickAt(server.machine().NextDeadlineNs());
  EXPECT_EQ(server.machine().NextDeadlineNs(), kNoDeadline);
}

TEST(ServerMachine, TheCommitWatermarkIsTheSlowestRanks) {
  ServerDriver server(2);
  const auto result_says = [&](uint64_t op, uint64_t landed_0, uint64_t landed_1) {
    FrameHeader push = ServerDriver::PushHeader(0, op);
    push.landed_watermark = OpNumber(landed_0);
    server.Push(server.peers[0], push);
    push.rank = Rank(1);
    push.landed_watermark = OpNumber(landed_1);
    server.Push(server.peers[1], push);
    server.LandAll();
    server.ReduceAll();
    const OpNumber said = DecodeHeader(server.sends.at(0).header)->commit_watermark;
    server.SendAll();
    return said;
  };
  EXPECT_EQ(result_says(1, 0, 0), OpNumber(0));
  EXPECT_EQ(result_says(2, 1, 0), OpNumber(0));
  EXPECT_EQ(result_says(3, 1, 2), OpNumber(1));
  EXPECT_EQ(result_says(4, 3, 3), OpNumber(3));
}

TEST(ServerMachine, AWatermarkThatMovedFarIsAnnouncedToAll) {
  ServerDriver server(2);
  FrameHeader commit = ServerDriver::Header(FrameType::kCommit, 0);
  commit.landed_watermark = OpNumber(300);
  server.GiveNote(server.peers[0], MakeNote(commit));
  EXPECT_TRUE(server.notes.empty()) << "rank 1 has not come so far";
  commit.rank = Rank(1);
  commit.landed_watermark = OpNumber(kCommitAnnounceOps);
  server.GiveNote(server.peers[1], MakeNote(commit));
  ASSERT_EQ(server.notes.size(), 2u);
  for (uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(server.notes[r].peer, server.peers[r]);
    EXPECT_EQ(server.notes[r].header.type, FrameType::kCommit);
    EXPECT_EQ(server.notes[r].header.commit_watermark, OpNumber(kCommitAnnounceOps));
  }
  server.Clear();
  FrameHeader push = ServerDriver::PushHeader(1, 301);
  push.landed_watermark = OpNumber(300);
  server.Push(server.peers[1], push);
  EXPECT_EQ(server.notes.size(), 2u) << "the word may come with a push as well";
  EXPECT_EQ(server.accepts.size(), 1u);
}

// Everything that a job can do to a server, at random; afterwards nothing of it is left.
TEST(ServerMachine, MemoryReturnsToZeroAfterEverythingEnds) {
  std::mt19937_64 random(17);
  ServerDriver server(ServerDriver::Options(1 << 20, 4096));
  for (int round = 0; round < 300; ++round) {
    const auto size = static_cast<uint32_t>(1 + random() % 4);
    const uint64_t group = 1 + static_cast<uint64_t>(round);
    std::vector<PeerId> peers;
    for (uint32_t r = 0; r < size; ++r) peers.push_back(server.Join(r, size, group));
    std::vector<bool> up(size, true);
    for (int step = 0; step < 60; ++step) {
      const auto r = static_cast<uint32_t>(random() % size);
      const uint64_t what = random() % 40;
      if (what < 20 && up[r]) {
        server.Push(peers[r],
                    ServerDriver::PushHeader(r, 1 + random() % 3, static_cast<uint32_t>(random() % 4), 1000, group));
      } else if (what < 25 && !server.accepts.empty()) {
        const size_t i = random() % server.accepts.size();
        const AcceptAction accept = server.accepts[i];
        server.accepts.erase(server.accepts.begin() + static_cast<std::ptrdiff_t>(i));
        server.Land(accept, random() % 8 != 0);
      } else if (what < 30) {
        server.ReduceAll();
      } else if (what < 36) {
        server.SendAll();
      } else if (what == 36 && up[r] && random() % 10 == 0) {
        server.GiveNote(peers[r], MakeTextNote(ServerDriver::Header(FrameType::kGroupFailed, r, group), "gave up"));
      } else if (what == 37 && up[r] && random() % 10 == 0) {
        up[r] = false;
        server.Down(peers[r]);
      }
    }
    ASSERT_LE(server.counters().slot_memory_used_bytes, 1u << 20);
    for (uint32_t r = 0; r < size; ++r) {
      if (up[r]) server.Down(peers[r], absl::OkStatus());
    }
    server.EndPatience();
    for (int i = 0; i < 3; ++i) {
      server.LandAll();
      server.ReduceAll();
      server.SendAll();
    }
    ASSERT_EQ(server.counters().slot_memory_used_bytes, 0u) << "round " << round;
    ASSERT_EQ(server.counters().groups_open, 0u) << "round " << round;
    ASSERT_EQ(server.counters().peers, 0u) << "round " << round;
    server.Clear();
  }
}

}  // namespace
}  // namespace shoal
