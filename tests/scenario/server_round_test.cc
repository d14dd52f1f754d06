// What a server's thread does between two looks at the network is bounded, so a group with large tensors does not keep
// another one's messages waiting. Counted in bytes that are summed, not in time: the same on every machine.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tests/scenario/cluster.h"

namespace shoal {
namespace {

constexpr uint32_t kRanks = 8;
constexpr uint32_t kChunkBytes = 16 << 10;
constexpr uint64_t kChunkSumBytes = uint64_t{kRanks} * kChunkBytes;  // that are read for one sum
constexpr uint16_t kLarge = 0;
constexpr uint16_t kSmall = 1;
constexpr uint64_t kLargeOp = 1;
constexpr uint64_t kSmallOp = 2;

// One server, a group of all workers whose windows are large, and a group of two of them.
class ServerRounds : public ::testing::Test {
 protected:
  ServerRounds() : cluster_(Options()) {
    cluster_.OpenGroup(1, kLarge);
    cluster_.OpenGroup(2, kSmall, {0, 1});
    cluster_.RunUntilQuiet();
  }

  ClusterOptions Options() {
    ClusterOptions options{.workers = kRanks, .servers = 1, .max_chunk_bytes = kChunkBytes, .credit_chunks = 64};
    options.in_turn = true;
    options.after_each_turn = [this] { after_each_turn_(); };
    return options;
  }

  void SubmitLarge() {
    large_.assign(kRanks, std::vector<float>(4 << 20, 1));
    for (uint32_t w = 0; w < kRanks; ++w) Submit(w, kLarge, kLargeOp, &large_[w]);
  }
  void SubmitSmall() {
    small_.assign(2, std::vector<float>(1024, 1));
    for (uint32_t w = 0; w < 2; ++w) Submit(w, kSmall, kSmallOp, &small_[w]);
  }
  void Submit(uint32_t worker, uint16_t group, uint64_t ticket, std::vector<float>* tensor) {
    cluster_.Submit(worker, group, ticket, std::as_writable_bytes(std::span(*tensor)), DataType::kFloat32,
                    ReduceOp::kSum);
  }

  uint64_t summed_bytes() const { return cluster_.server_counters(0).chunks_reduced * kChunkSumBytes; }
  bool LargeIsDone() const {
    return std::all_of(workers_.begin(), workers_.end(), [this](uint32_t w) { return cluster_.Done(w, kLargeOp); });
  }
  bool SmallIsDone() const { return cluster_.Done(0, kSmallOp) != nullptr && cluster_.Done(1, kSmallOp) != nullptr; }

  const std::vector<uint32_t> workers_ = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<std::vector<float>> large_;
  std::vector<std::vector<float>> small_;
  std::function<void()> after_each_turn_ = [] {};
  Cluster cluster_;
};

TEST_F(ServerRounds, SumABoundedNumberOfBytes) {
  uint64_t most_bytes = 0;
  uint64_t before_bytes = 0;
  after_each_turn_ = [&] {
    most_bytes = std::max(most_bytes, summed_bytes() - before_bytes);
    before_bytes = summed_bytes();
  };
  SubmitLarge();
  ASSERT_TRUE(cluster_.RunUntil([this] { return LargeIsDone(); }));
  EXPECT_GE(most_bytes, kReduceBytesPerRound) << "the windows were too small to show anything";
  EXPECT_LE(most_bytes, kReduceBytesPerRound + kChunkSumBytes) << "the last sum may have begun in earlier rounds";
  for (const std::vector<float>& tensor : large_) EXPECT_EQ(tensor, std::vector<float>(tensor.size(), kRanks));
}

TEST_F(ServerRounds, ASmallOpIsNotSummedBehindWhatWaitsOfALargeOne) {
  SubmitLarge();
  ASSERT_TRUE(cluster_.RunUntil([this] { return summed_bytes() > 16 * kReduceBytesPerRound; }));
  ASSERT_FALSE(LargeIsDone());
  SubmitSmall();
  const uint64_t before_bytes = summed_bytes();
  ASSERT_TRUE(cluster_.RunUntil([this] { return SmallIsDone(); }));
  EXPECT_FALSE(LargeIsDone());
  // The loopback network needs two rounds each way: one in which a payload is offered, one in which it has landed.
  EXPECT_LE(summed_bytes() - before_bytes, 4 * kReduceBytesPerRound + kChunkSumBytes);
  for (const std::vector<float>& tensor : small_) EXPECT_EQ(tensor, std::vector<float>(tensor.size(), 2));
}

}  // namespace
}  // namespace shoal
