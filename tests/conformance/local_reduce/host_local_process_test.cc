// Local ranks in processes of their own that are killed or stopped in the middle of ops (L4).
#include <chrono>

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

}  // namespace
}  // namespace shoal
