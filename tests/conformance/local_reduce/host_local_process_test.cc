// Local ranks in processes of their own that are killed or stopped in the middle of ops (L4).
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/conformance/local_reduce/local_reduce_harness.h"
#include "tests/conformance/peer_process.h"
#include "worker/local_reduce/host_local_reduce.h"

namespace shoal {
namespace {

constexpr GroupHandle kGroup{1};
// A death is noticed at once; this is for a node that is busy with something else.
constexpr auto kAtOnce = std::chrono::seconds(5);

class HostNode : public LocalReduceNode {
 public:
  std::unique_ptr<LocalReduce> Make() override { return *MakeHostLocalReduce(); }
};

// Ranks 0 and 1 are here, rank 2 is a process.
class HostLocalProcess : public testing::Test {
 protected:
  static constexpr uint32_t kSize = 3;

  HostLocalProcess() : ranks_(&node_, 2, 1) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      tensors_[rank].resize(1'000'000);
      ranks_[rank].on_op_ended = [this, rank](const LocalOpEnded& event) {
        if (event.status.ok()) StartNext(rank);
      };
    }
  }

  void StartProcess(const std::string& mode) {
    process_ = std::make_unique<PeerProcess>(
        std::vector<std::string>{SHOAL_LOCAL_REDUCE_PEER, name_, "2", std::to_string(kSize), mode});
  }
  void Open(uint32_t rank) {
    ranks_[rank].port().Open({.group = kGroup, .meeting_name = name_, .rank = LocalRank(rank), .size = kSize});
    StartNext(rank);
  }
  // The very ops that the process starts.
  void StartNext(uint32_t rank) {
    const uint64_t ticket = next_[rank]++;
    ranks_[rank].Start({.group = kGroup,
                        .ticket = ticket,
                        .data = reinterpret_cast<std::byte*>(tensors_[rank].data()),
                        .element_count = ticket % 3 == 0   ? uint64_t{1'000'000}
                                         : ticket % 3 == 1 ? uint64_t{1'000}
                                                           : uint64_t{100'000}});
  }
  bool PollUntilOps(uint64_t count) {
    return ranks_.PollUntil([&] { return ranks_[0].ended_count(kGroup) >= count; });
  }

  void ExpectDeathIsNoticed() {
    const auto killed_at = std::chrono::steady_clock::now();
    ASSERT_TRUE(ranks_.PollUntil([&] { return ranks_[0].failure(kGroup) && ranks_[1].failure(kGroup); }));
    EXPECT_LT(std::chrono::steady_clock::now() - killed_at, kAtOnce);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(absl::IsUnavailable(ranks_[rank].failure(kGroup)->status));
      EXPECT_EQ(ranks_[rank].failure(kGroup)->culprit, LocalRank(2));
      EXPECT_TRUE(ranks_.PollUntil([&] { return !ranks_[rank].HasOpenOps(kGroup); }));
    }
  }

  HostNode node_;
  RanksUnderTest ranks_;
  const std::string name_ = RanksUnderTest::MeetingName(0);
  std::array<std::vector<float>, 2> tensors_;
  std::array<uint64_t, 2> next_{};
  std::unique_ptr<PeerProcess> process_;
};

TEST_F(HostLocalProcess, L4AProcessKilledAmongOpsIsNoticedAndNamed) {
  StartProcess("ops");
  Open(0);
  Open(1);
  ASSERT_TRUE(PollUntilOps(50));
  process_->Kill();
  ExpectDeathIsNoticed();
}

TEST_F(HostLocalProcess, L4AProcessKilledWhileItsChildHoldsItsSocketsIsNoticedAndNamed) {
  StartProcess("fork");
  Open(0);
  Open(1);
  ASSERT_TRUE(PollUntilOps(10));
  process_->Kill();
  ExpectDeathIsNoticed();
}

TEST_F(HostLocalProcess, L4AProcessKilledBeforeAllHaveMetIsNoticedAndTheLateRankHears) {
  StartProcess("ops");
  Open(0);
  ASSERT_TRUE(ranks_.PollUntil([&] { return ranks_[0].port().Missing(kGroup) == std::vector{LocalRank(1)}; }));
  Open(1);
  process_->Kill();
  ExpectDeathIsNoticed();
}

TEST_F(HostLocalProcess, AProcessThatStandsStillIsMissingUntilItGoesOn) {
  StartProcess("ops");
  Open(0);
  Open(1);
  ASSERT_TRUE(PollUntilOps(10));
  process_->Send(SIGSTOP);
  ASSERT_TRUE(ranks_.PollUntil([&] { return process_->IsStopped(); }));
  ranks_.PollForAWhile();
  const uint64_t ended = ranks_[0].ended_count(kGroup);
  ranks_.PollForAWhile();
  EXPECT_EQ(ranks_[0].ended_count(kGroup), ended);
  EXPECT_FALSE(ranks_[0].failure(kGroup).has_value());
  EXPECT_THAT(ranks_[0].port().Missing(kGroup), testing::Contains(LocalRank(2)));
  process_->Send(SIGCONT);
  EXPECT_TRUE(PollUntilOps(ended + 10));
}

// As in containers of one pod: they share memory and sockets, and don't see each other's processes. Rank 0 is here, and
// hears nothing while the others are to notice a death themselves.
TEST(HostLocalPidNamespaces, L4RanksThatDoNotSeeEachOthersProcessesReduceAndNoticeADeath) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes PID namespaces";
  constexpr uint32_t kSize = 3;
  HostNode node;
  RanksUnderTest ranks(&node, 1, 1);
  const std::string name = RanksUnderTest::MeetingName(0);
  const auto start = [&](const char* rank) {
    return std::make_unique<PeerProcess>(
        std::vector<std::string>{SHOAL_LOCAL_REDUCE_PEER, name, rank, std::to_string(kSize), "ops"}, CLONE_NEWPID);
  };
  const std::unique_ptr<PeerProcess> killed = start("1");
  const std::unique_ptr<PeerProcess> survivor = start("2");
  ranks[0].port().Open({.group = kGroup, .meeting_name = name, .rank = LocalRank(0), .size = kSize});

  // The ops of the processes, which begin with zeros and go on with each result: so a wrong one there shows here.
  std::vector<float> tensor(1'000'000);
  std::vector<float> expected(tensor.size());
  for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = expected[i] = static_cast<float>(i % 251);
  const std::vector<uint64_t> element_counts = {1'000'000, 1'000, 100'000, 1'000'000, 1'000, 100'000, 1'000'000};
  for (uint64_t ticket = 0; ticket < element_counts.size(); ++ticket) {
    ranks[0].Start({.group = kGroup,
                    .ticket = ticket,
                    .data = reinterpret_cast<std::byte*>(tensor.data()),
                    .element_count = element_counts[ticket]});
    ASSERT_TRUE(ranks.PollUntil([&] { return ranks[0].EndOf(kGroup, ticket) != nullptr; }));
    ASSERT_FALSE(ranks[0].failure(kGroup).has_value()) << ranks[0].failure(kGroup)->status;
    for (size_t i = 0; i < element_counts[ticket] && ticket > 0; ++i) expected[i] *= kSize;
  }
  EXPECT_TRUE(tensor == expected);

  killed->Kill();
  const auto killed_at = std::chrono::steady_clock::now();
  std::optional<int> exit_code;
  while (!exit_code.has_value() && std::chrono::steady_clock::now() - killed_at < kAtOnce) {
    std::this_thread::yield();
    exit_code = survivor->ExitCode();
  }
  EXPECT_EQ(exit_code, 101) << "the other process has not noticed that rank 1 is dead";
  ASSERT_TRUE(ranks.PollUntil([&] { return ranks[0].failure(kGroup).has_value(); }));
  EXPECT_EQ(ranks[0].failure(kGroup)->culprit, LocalRank(1));
}

}  // namespace
}  // namespace shoal
