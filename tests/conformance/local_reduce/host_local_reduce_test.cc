// The port within a node on shared memory, and what only that can do wrong: strangers, garbage, sleeping threads.
#include "worker/local_reduce/host_local_reduce.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <deque>
#include <regex>
#include <thread>

#include "net/flight_recorder.h"
#include "net/wake_up.h"
#include "process/clock.h"
#include "tests/conformance/forbidden_call.h"
#include "tests/conformance/local_reduce/local_reduce_suite.h"
#include "tests/conformance/open_file_limit.h"
#include "worker/local_reduce/node_peers.h"

namespace shoal {
namespace {

class HostNode : public LocalReduceNode {
 public:
  std::unique_ptr<LocalReduce> Make() override { return *MakeHostLocalReduce(); }
};

const LocalReduceKind kHost{"Host", [] { return std::make_unique<HostNode>(); }};
INSTANTIATE_TEST_SUITE_P(Host, LocalReduceSuite, testing::Values(kHost), LocalReduceKindName);
INSTANTIATE_TEST_SUITE_P(Host, LocalGroupEnds, testing::Values(kHost), LocalReduceKindName);
INSTANTIATE_TEST_SUITE_P(Host, LocalParts, testing::Values(kHost), LocalReduceKindName);

constexpr GroupHandle kGroup{1};

TEST(HostLocalReduce, L5ThreadsThatSleepAreWokenForEveryOp) {
  constexpr uint32_t kRanks = 4;
  constexpr uint64_t kOps = 400;
  const std::string name = RanksUnderTest::MeetingName(0);
  std::atomic<uint32_t> unfinished = kRanks;
  const auto run = [&](uint32_t rank) {
    const std::unique_ptr<LocalReduce> port = *MakeHostLocalReduce();
    port->Open({.group = kGroup, .meeting_name = name, .rank = LocalRank(rank), .size = kRanks});
    std::vector<int32_t> tensor(200'000);
    for (uint64_t ticket = 0; ticket < kOps; ++ticket) {
      const uint64_t elements = ticket % 10 == 0 ? tensor.size() : 1 + ticket * 13 % 20'000;
      std::fill_n(tensor.begin(), elements, static_cast<int32_t>(rank + ticket));
      port->Start({.group = kGroup,
                   .ticket = ticket,
                   .data = reinterpret_cast<std::byte*>(tensor.data()),
                   .element_count = elements,
                   .codec = WireCodec(DataType::kInt32)});
      for (bool ended = false; !ended;) {
        for (const LocalReduceEvent& event : port->Poll()) {
          ASSERT_FALSE(std::holds_alternative<LocalGroupFailed>(event));
          ended = ended || std::holds_alternative<LocalOpEnded>(event);
        }
        if (ended || !port->Arm()) continue;
        ASSERT_TRUE(WaitReadable({port->wake_fd()}, 30'000'000'000))
            << "rank " << rank << " slept through op " << ticket;
      }
      const auto expected = static_cast<int32_t>(kRanks * ticket + 6);
      ASSERT_TRUE(std::all_of(tensor.begin(), tensor.begin() + static_cast<ptrdiff_t>(elements),
                              [&](int32_t element) { return element == expected; }));
    }
    port->Close(kGroup);
    --unfinished;
  };
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(unfinished, 0u);
}

// Each rank's reductions are recorded.
class RecordedNode : public LocalReduceNode {
 public:
  std::unique_ptr<LocalReduce> Make() override { return *MakeHostLocalReduce(&recorders_.emplace_back()); }
  std::string Text(uint32_t rank) const { return recorders_[rank].Text({.monotonic_ns = MonotonicNs(), .unix_ms = 1}); }

 private:
  std::deque<FlightRecorder> recorders_;
};

void OpenAs12(RanksUnderTest* ranks) {
  const std::string name = RanksUnderTest::MeetingName(0);
  for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
    (*ranks)[rank].port().Open(
        {.group = kGroup, .meeting_name = name, .rank = LocalRank(rank), .size = ranks->size(), .id = GroupId(12)});
  }
}

TEST(HostLocalReduce, AnOpThatHasEndedIsRecordedWithWhatItsStagesTook) {
  RecordedNode node;
  RanksUnderTest ranks(&node, 3, 1);
  OpenAs12(&ranks);
  // Of one round, and of many.
  const std::vector<uint64_t> element_counts = {10, 1'000'000};
  for (const uint64_t elements : element_counts) {
    OpUnderTest op(&ranks,
                   {.group = kGroup, .ticket = elements, .number = OpNumber(elements + 1), .element_count = elements});
    op.StartAll();
    ASSERT_TRUE(op.HasEnded());
  }
  const std::regex line(
      "-[0-9.]+ within node group=12 op=(\\d+) length_ns=(\\d+) contribute_ns=(\\d+) "
      "reduce_ns=(\\d+) publish_ns=0 payload=(\\d+)\n");
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string text = node.Text(rank);
    EXPECT_THAT(text, testing::StartsWith("The last 2 of 2 events"));
    std::sregex_iterator entry(text.begin(), text.end(), line);
    for (const uint64_t elements : element_counts) {
      ASSERT_NE(entry, std::sregex_iterator()) << text;
      const auto number = [&](size_t group) { return std::stoull((*entry)[group].str()); };
      EXPECT_EQ(number(1), elements + 1);
      EXPECT_GT(number(2), 0u);
      EXPECT_LE(number(3) + number(4), number(2)) << "one after the other: " << text;
      EXPECT_EQ(number(5), elements * sizeof(float));
      ++entry;
    }
  }
}

TEST(HostLocalReduce, OfAGroupThatFailsTheOpsUnderWayAreRecorded) {
  RecordedNode node;
  RanksUnderTest ranks(&node, 2, 1);
  OpenAs12(&ranks);
  std::deque<OpUnderTest> ops;
  for (uint64_t ticket = 0; ticket < kMaxOpsUnderWay + 10; ++ticket) {
    ops.emplace_back(&ranks,
                     LocalOp{.group = kGroup, .ticket = ticket, .number = OpNumber(ticket + 1), .element_count = 10});
    ops.back().StartAt(0);
  }
  ranks.PollForAWhile();
  ranks[0].port().Fail(kGroup, absl::DeadlineExceededError("rank 1 did not come"));
  const std::string text = node.Text(0);
  EXPECT_THAT(text, testing::StartsWith("The last 64 of 64 events")) << "of ops that can have begun";
  EXPECT_THAT(text, testing::ContainsRegex(" within node group=12 op=1 length_ns=[0-9]+ contribute_ns=[0-9]+ "
                                           "payload=40 FAILED\n"));
  EXPECT_THAT(text, testing::ContainsRegex(" within node group=12 op=64 length_ns=[0-9]+ payload=40 FAILED\n"))
      << "it has not contributed: others are before it";
}

// As a data loader does, whose processes keep copies of all descriptors.
TEST(HostLocalReduce, AForkedChildKeepsNoClosedGroupAwake) {
  HostNode node;
  RanksUnderTest ranks(&node, 2, 1);
  ranks.OpenAll(kGroup);
  ASSERT_TRUE(ranks.PollUntilAll([](RankUnderTest& rank) { return rank.HasMet(kGroup); }));
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  for (uint32_t rank = 0; rank < 2; ++rank) ranks[rank].port().Close(kGroup);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(ranks[rank].port().Arm());
    EXPECT_FALSE(WaitReadable({ranks[rank].port().wake_fd()}, 0));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(HostLocalReduce, ARankWhoseNameIsTakenFailsAndSaysSo) {
  HostNode node;
  RanksUnderTest ranks(&node, 2, 1);
  const std::string name = RanksUnderTest::MeetingName(0);
  ranks[0].port().Open({.group = kGroup, .meeting_name = name, .rank = LocalRank(0), .size = 2});
  ranks[1].port().Open({.group = kGroup, .meeting_name = name, .rank = LocalRank(0), .size = 2});
  ranks[1].Poll();
  ASSERT_TRUE(ranks[1].failure(kGroup).has_value());
  EXPECT_TRUE(absl::IsAlreadyExists(ranks[1].failure(kGroup)->status)) << ranks[1].failure(kGroup)->status;
}

TEST(HostLocalReduce, LongMeetingNamesThatBeginAlikeAreDifferentMeetings) {
  HostNode node;
  RanksUnderTest ranks(&node, 2, 1);
  const std::string name = RanksUnderTest::MeetingName(0) + std::string(500, 'n');
  for (const GroupHandle group : {GroupHandle(1), GroupHandle(2)}) {
    for (uint32_t rank = 0; rank < 2; ++rank) ranks.Open(group, name + std::to_string(group.value()), rank);
  }
  EXPECT_TRUE(ranks.PollUntilAll(
      [](RankUnderTest& rank) { return rank.HasMet(GroupHandle(1)) && rank.HasMet(GroupHandle(2)); }));
}

TEST(HostLocalReduce, StrangersAtTheMeetingAreTurnedAway) {
  HostNode node;
  RanksUnderTest ranks(&node, 2, 1);
  const std::string name = RanksUnderTest::MeetingName(0);
  ranks.Open(kGroup, name, 1);
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    absl::StatusOr<FileDescriptor> stranger = ConnectOnThisNode("local-" + name + ".1");
    ASSERT_TRUE(stranger.ok()) << stranger.status();
    const Bytes noise = RandomBytes(static_cast<size_t>(i), &ranks.random());
    if (i % 3 != 0) SendOnThisNode(stranger->get(), noise, {}).IgnoreError();
    if (i % 5 != 0) strangers.push_back(*std::move(stranger));
    ranks[1].Poll();
  }
  ranks.Open(kGroup, name, 0);
  EXPECT_TRUE(ranks.PollUntilAll([](RankUnderTest& rank) { return rank.HasMet(kGroup); }));
}

// As where the containers of two ranks have different SELinux categories.
TEST(HostLocalReduce, ARankThatMayNotConnectToAnotherFailsAtOnceAndSaysWhatToDo) {
  HostNode node;
  RanksUnderTest ranks(&node, 2, 1);
  const std::string name = RanksUnderTest::MeetingName(0);
  ranks.Open(kGroup, name, 0);
  std::thread([&] {
    ForbidThisThread(SYS_connect, EACCES);
    ranks.Open(kGroup, name, 1);
    ranks[1].Poll();
  }).join();
  const std::optional<LocalGroupFailed>& failure = ranks[1].failure(kGroup);
  ASSERT_TRUE(failure.has_value()) << "it waits for a rank that it can't meet";
  EXPECT_TRUE(absl::IsPermissionDenied(failure->status)) << failure->status;
  EXPECT_EQ(failure->culprit, std::nullopt) << "then ranks that have not met this one hear it from the scheduler";
  EXPECT_THAT(std::string(failure->status.message()),
              testing::AllOf(testing::StartsWith("local rank 1 of 2 can't meet local rank 0 of 2: "),
                             testing::HasSubstr("Permission denied"), testing::HasSubstr("one security profile"),
                             testing::HasSubstr("SHOAL_NODE_REDUCE=off")));
}

// Of very many ranks that knock at one, which has no time yet.
TEST(HostLocalReduce, ARankAtWhichThereIsNoRoomIsKnockedAtAgain) {
  HostNode node;
  RanksUnderTest ranks(&node, 2, 1);
  const std::string name = RanksUnderTest::MeetingName(0);
  ranks.Open(kGroup, name, 1);
  // Those that have hung up take room as well.
  int knocks = 0;
  while (ConnectOnThisNode("local-" + name + ".1").ok()) ASSERT_LT(++knocks, 100'000);
  ranks.Open(kGroup, name, 0);
  EXPECT_TRUE(ranks[0].port().Arm() && WaitReadable({ranks[0].port().wake_fd()}, 30'000'000'000))
      << "it sleeps, and nobody else will wake it";
  EXPECT_TRUE(ranks.PollUntilAll([](RankUnderTest& rank) { return rank.HasMet(kGroup); }));
  EXPECT_TRUE(ranks[0].port().Arm() && !WaitReadable({ranks[0].port().wake_fd()}, 50'000'000)) << "it is still woken";
}

TEST(HostLocalReduce, ARankOfAGroupOfAnotherSizeIsRefusedByName) {
  HostNode node;
  RanksUnderTest ranks(&node, 2, 1);
  const std::string name = RanksUnderTest::MeetingName(0);
  ranks[0].port().Open({.group = kGroup, .meeting_name = name, .rank = LocalRank(0), .size = 2});
  ranks[1].port().Open({.group = kGroup, .meeting_name = name, .rank = LocalRank(1), .size = 3});
  ASSERT_TRUE(ranks.PollUntil([&] { return ranks[0].failure(kGroup).has_value(); }));
  EXPECT_THAT(std::string(ranks[0].failure(kGroup)->status.message()), testing::HasSubstr("rank 1 of 3"));
}

TEST(HostLocalReduce, AGroupThatLacksDescriptorsFailsNamesTheLimitAndLetsItsThreadsSleep) {
  const OpenFileLimit limit;
  bool all_have_met = false;
  for (int descriptors = 0; !all_have_met; ++descriptors) {
    ASSERT_LT(descriptors, 100);
    HostNode node;
    RanksUnderTest ranks(&node, 3, 1);
    limit.Leave(descriptors);
    ranks.OpenAll(kGroup);
    ranks.PollForAWhile();
    all_have_met = true;
    bool any_has_failed = false;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const std::optional<LocalGroupFailed>& failure = ranks[rank].failure(kGroup);
      all_have_met = all_have_met && ranks[rank].HasMet(kGroup) && !failure.has_value();
      EXPECT_TRUE(ranks[rank].port().Arm() && !WaitReadable({ranks[rank].port().wake_fd()}, 0))
          << "rank " << rank << " does not sleep with " << descriptors << " descriptors for all";
      if (!failure.has_value()) continue;
      any_has_failed = true;
      EXPECT_TRUE(absl::IsResourceExhausted(failure->status)) << failure->status;
      EXPECT_THAT(std::string(failure->status.message()), testing::HasSubstr("ulimit -n"));
    }
    EXPECT_TRUE(all_have_met || any_has_failed) << "nothing is said with " << descriptors << " descriptors for all";
    limit.Restore();
  }
}

// A rank that met as it should and then writes anything, anywhere in its memory, and says anything.
class Rogue {
 public:
  Rogue(const std::string& name, uint32_t rank, uint32_t size)
      : epoll_(epoll_create1(EPOLL_CLOEXEC)),
        peers_({.group = kGroup, .meeting_name = name, .rank = LocalRank(rank), .size = size}, epoll_.get(), 0),
        memory_bytes_(NodePlaces(size).MemoryBytes()) {
    peers_.Begin();
  }

  void Poll() {
    epoll_event event{};
    if (epoll_wait(epoll_.get(), &event, 1, 0) > 0) peers_.OnReadable(event.data.u64);
  }
  bool met() const { return peers_.met(); }
  void WriteGarbage(std::mt19937_64* random) {
    NodeMemoryHeader& header = peers_.own_header();
    for (auto& counter : header.counters) {
      // Not always so far ahead that nothing counts any more.
      const uint64_t number = (*random)();
      counter.rounds.store(number % 3 == 0 ? number : number % 16);
    }
    header.sleeps.rounds.store((*random)());
    const Bytes noise = RandomBytes(4096, random);
    const size_t at = sizeof(NodeMemoryHeader::Counter) * (kNodeCounters + 1) + (*random)() % (memory_bytes_ / 2);
    std::memcpy(peers_.own_memory() + at, noise.data(), noise.size());
  }
  // An honest description of the op, so that the ranks go on.
  void Describe(const OpRecord& record) { peers_.own_header().records[record.number % kMaxOpsUnderWay].op = record; }

 private:
  const FileDescriptor epoll_;
  NodePeers peers_;
  const uint64_t memory_bytes_;
};

TEST(HostLocalReduce, L6GarbageInAnothersMemorySpoilsASumAtWorst) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    HostNode node;
    RanksUnderTest ranks(&node, 3, seed);
    const std::string name = RanksUnderTest::MeetingName(0);
    ranks.Open(kGroup, name, 0);
    ranks.Open(kGroup, name, 1);
    Rogue rogue(name, 2, 3);
    ASSERT_TRUE(ranks.PollUntil([&] {
      rogue.Poll();
      return rogue.met() && ranks[0].HasMet(kGroup) && ranks[1].HasMet(kGroup);
    }));
    std::deque<OpUnderTest> ops;
    for (uint64_t ticket = 0; ticket < 5; ++ticket) {
      LocalOp op{.group = kGroup, .ticket = ticket, .element_count = 200'000};
      if (ticket == 2) op.codec = WireCodec(DataType::kFloat32, WireFormat::kBfloat16);
      ops.emplace_back(&ranks, op);
      ops.back().StartAt(0);
      ops.back().StartAt(1);
    }
    for (int i = 0; i < 300; ++i) {
      rogue.WriteGarbage(&ranks.random());
      for (uint64_t ticket = 0; ticket < 5 && i % 4 != 0; ++ticket) {
        rogue.Describe({.number = ticket,
                        .element_count = 200'000,
                        .dtype = static_cast<uint8_t>(DataType::kFloat32),
                        .reduce_op = static_cast<uint8_t>(ReduceOp::kSum),
                        .wire = static_cast<uint8_t>(ops[ticket].op().codec.format())});
      }
      ranks[0].Poll();
      ranks[1].Poll();
      ranks[0].port().Arm();
      EXPECT_LE(ranks[0].port().Missing(kGroup).size(), 2u);
    }
    // Whatever became of them, all ops end when the caller has had enough.
    ranks[0].port().Fail(kGroup, absl::DeadlineExceededError("enough"));
    ranks[1].port().Fail(kGroup, absl::DeadlineExceededError("enough"));
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ranks[rank].Poll();
      EXPECT_EQ(ranks[rank].ended_count(kGroup), ops.size());
      for (OpUnderTest& op : ops) EXPECT_TRUE(op.tensor(rank).IsGuardIntact());
    }
  }
}

}  // namespace
}  // namespace shoal
