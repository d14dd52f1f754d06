// Pacing where shards have unequal shares: no chunk is pushed too far ahead of the oldest unfinished one.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

constexpr uint32_t kRanks = 2;

// Server 0 has three quarters of every bucket.
std::shared_ptr<const GroupInfo> UnequalShares(uint32_t look_ahead) {
  std::shared_ptr<GroupInfo> info = WorkerDriver::Info(0, kRanks, 2);
  std::vector<Shard> shards = info->map->shards();
  shards[0].weight = 3;
  info->map = std::make_shared<const ShardMap>(*ShardMap::Make(Epoch(3), std::move(shards)));
  info->look_ahead_chunks = look_ahead;
  return info;
}

class WorkerLookAheadTest : public ::testing::Test {
 protected:
  void Open(uint32_t look_ahead, uint32_t credit) {
    worker_.Open(UnequalShares(look_ahead));
    for (uint32_t server = 0; server < 2; ++server) worker_.Up(server);
    for (uint32_t server = 0; server < 2; ++server) worker_.Welcome(server, credit);
    ASSERT_TRUE(worker_.opened.at(0).status.ok());
  }

  // Position in the order that all ranks share, where ops have `chunks` chunks each.
  static uint64_t Position(const WorkerSendAction& send, uint64_t chunks) {
    const FrameHeader header = WorkerDriver::HeaderOf(send);
    return (header.op.value() - 1) * chunks + header.chunk.value();
  }

  void Answer(const WorkerSendAction& send) {
    worker_.Sent(send);
    worker_.OfferResult(send, kRanks);
    worker_.Land(worker_.accepts.at(0));
    worker_.accepts.clear();
  }

  WorkerDriver worker_;
};

TEST_F(WorkerLookAheadTest, WithoutALookAheadCreditAloneBounds) {
  Open(0, 64);
  worker_.Submit(1, 48 * kChunkElements);
  EXPECT_EQ(worker_.sends.size(), 48u);
}

TEST_F(WorkerLookAheadTest, TheFirstPushesAreTheFirstChunksOfTheOrder) {
  Open(8, 64);
  worker_.Submit(1, 48 * kChunkElements);
  std::set<uint64_t> pushed;
  for (const WorkerSendAction& send : worker_.sends) pushed.insert(Position(send, 48));
  EXPECT_EQ(pushed, (std::set<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(WorkerLookAheadTest, AResultOutOfOrderMovesNothingTheOldestOneMovesAll) {
  Open(8, 64);
  worker_.Submit(1, 48 * kChunkElements);
  std::vector<WorkerSendAction> first = std::exchange(worker_.sends, {});
  std::sort(first.begin(), first.end(), [](const auto& a, const auto& b) { return Position(a, 48) < Position(b, 48); });
  for (size_t i = 1; i < 4; ++i) Answer(first[i]);
  EXPECT_TRUE(worker_.sends.empty());
  Answer(first[0]);
  EXPECT_EQ(worker_.sends.size(), 4u);
}

TEST_F(WorkerLookAheadTest, ItReachesOverTheEndsOfOpsAndAllOfThemEnd) {
  constexpr uint64_t kChunks = 5;
  constexpr uint64_t kOps = 12;
  constexpr uint64_t kLookAhead = 7;
  Open(kLookAhead, 3);
  for (uint64_t op = 0; op < kOps; ++op) worker_.Submit(op, kChunks * kChunkElements);
  std::set<uint64_t> open;
  std::map<uint64_t, WorkerSendAction> sends;
  uint64_t answered = 0;
  while (answered < kOps * kChunks) {
    for (const WorkerSendAction& send : std::exchange(worker_.sends, {})) {
      open.insert(Position(send, kChunks));
      sends[Position(send, kChunks)] = send;
    }
    ASSERT_FALSE(open.empty()) << "nothing under way after " << answered << " chunks";
    EXPECT_LT(*open.rbegin() - *open.begin(), kLookAhead);
    // The newest first, as far as that goes on.
    const uint64_t position = answered % 3 == 0 ? *open.begin() : *open.rbegin();
    open.erase(position);
    Answer(sends.at(position));
    ++answered;
  }
  EXPECT_EQ(worker_.done.size(), kOps);
}

// A server measures the rank's link by chunks of which the rank says so (server/machine/lateness_book.h).
TEST_F(WorkerLookAheadTest, ChunksThatWaitForAResultAreNotSentInOneGoWithTheFirst) {
  Open(8, 64);
  const auto in_one_go = [](const WorkerSendAction& send) { return WorkerDriver::HeaderOf(send).in_one_go; };
  for (uint64_t op = 1; op <= 2; ++op) {
    worker_.Submit(op, 12 * kChunkElements);
    std::vector<WorkerSendAction> first = std::exchange(worker_.sends, {});
    ASSERT_EQ(first.size(), 8u);
    EXPECT_TRUE(std::ranges::all_of(first, in_one_go));
    for (const WorkerSendAction& send : first) Answer(send);
    std::vector<WorkerSendAction> rest = std::exchange(worker_.sends, {});
    ASSERT_EQ(rest.size(), 4u);
    EXPECT_TRUE(std::ranges::none_of(rest, in_one_go));
    for (const WorkerSendAction& send : rest) Answer(send);
    EXPECT_EQ(worker_.done.size(), op);
  }
}

// A server tells by it whether the rank could send more (server/machine/lateness_book.h).
TEST_F(WorkerLookAheadTest, APushSaysHowManyChunksAreInFlightUnlessNothingFollows) {
  Open(8, 64);
  const auto in_flight = [](const WorkerSendAction& send) { return WorkerDriver::HeaderOf(send).in_flight; };
  worker_.Submit(1, 12 * kChunkElements);
  const std::vector<WorkerSendAction> first = std::exchange(worker_.sends, {});
  ASSERT_EQ(first.size(), 8u);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(in_flight(first[i]), i + 1) << i;
  for (const WorkerSendAction& send : first) Answer(send);
  const std::vector<WorkerSendAction> rest = std::exchange(worker_.sends, {});
  ASSERT_EQ(rest.size(), 4u);
  EXPECT_EQ(in_flight(rest.back()), 0) << "no chunk is left for its server";
  worker_.Submit(2, 12 * kChunkElements);
  for (const WorkerSendAction& send : std::exchange(worker_.sends, {})) EXPECT_GT(in_flight(send), 4);
}

}  // namespace
}  // namespace shoal
