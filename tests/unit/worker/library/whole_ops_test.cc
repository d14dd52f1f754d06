#include "worker/library/whole_ops.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/clock.h"
#include "worker/library/caller_records.h"

namespace shoal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kPatienceMs = 30'000;

class WholeOpsTest : public testing::Test {
 protected:
  WholeOpsTest() {
    auto info = std::make_shared<GroupInfo>();
    info->job_ranks = {JobRank(0), JobRank(1)};
    info->max_chunk_bytes = 4096;
    info->map = std::make_shared<const ShardMap>();
    info_ = info;
    group_ = std::make_shared<CallerGroup>(GroupHandle(0), info_);
  }

  SubmitCommand Command(std::vector<float>* tensor, uint64_t ticket) {
    SubmitCommand command;
    command.ticket = ticket;
    command.data = reinterpret_cast<std::byte*>(tensor->data());
    command.layout = *OpLayout::Make(*info_, tensor->size(), DataType::kFloat32);
    return command;
  }
  std::shared_ptr<CallerOp> Op(uint64_t ticket) { return std::make_shared<CallerOp>(group_, ticket, 0, 0); }

  std::shared_ptr<const GroupInfo> info_;
  std::shared_ptr<CallerGroup> group_;
  WholeOps ops_;
  std::vector<float> first_ = std::vector<float>(100, 1.0f);
  std::vector<float> second_ = std::vector<float>(100, 2.0f);
};

TEST_F(WholeOpsTest, OneOpIsUnderWayAtATime) {
  EXPECT_EQ(*ops_.Begin(Command(&first_, 1), Op(1)), true);
  EXPECT_EQ(*ops_.Begin(Command(&second_, 2), Op(2)), false);
  EXPECT_FALSE(ops_.WaitUntilIdle(0));
  const std::optional<WholeOps::Pass> next = ops_.Next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->command.ticket, 2u);
  EXPECT_EQ(next->op->ticket(), 2u);
  EXPECT_FALSE(ops_.Next().has_value());
  EXPECT_TRUE(ops_.WaitUntilIdle(DeadlineIn(kPatienceMs)));
  EXPECT_EQ(*ops_.Begin(Command(&first_, 3), Op(3)), true);
}

TEST_F(WholeOpsTest, AnOpIsRepeatedWithItsContributionUntilAllChunksHaveTheSameContributors) {
  ASSERT_EQ(*ops_.Begin(Command(&first_, 1), Op(1)), true);
  for (const Contributors mixed : {Contributors{2, 3}, Contributors{1, 2}}) {
    first_.assign(first_.size(), 6.0f);  // a result
    const std::optional<WholeOps::Pass> again = ops_.Again(mixed);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->command.ticket, 1u);
    EXPECT_THAT(first_, Each(1.0f));
  }
  first_.assign(first_.size(), 3.0f);
  EXPECT_FALSE(ops_.Again({1, 1}).has_value());
  EXPECT_THAT(first_, Each(3.0f));
}

TEST_F(WholeOpsTest, AfterAFailureNothingBegins) {
  ASSERT_EQ(*ops_.Begin(Command(&first_, 1), Op(1)), true);
  ASSERT_EQ(*ops_.Begin(Command(&second_, 2), Op(2)), false);
  std::vector<uint64_t> tickets;
  for (const auto& op : ops_.End(absl::AbortedError("a rank was lost"))) tickets.push_back(op->ticket());
  EXPECT_THAT(tickets, ElementsAre(1, 2));
  EXPECT_TRUE(ops_.WaitUntilIdle(0));
  EXPECT_EQ(ops_.Begin(Command(&first_, 3), Op(3)).status(), absl::AbortedError("a rank was lost"));
  EXPECT_THAT(ops_.End(absl::CancelledError("closed")), IsEmpty());
}

TEST_F(WholeOpsTest, WhoeverWaitsForTheLastOpHearsOfIt) {
  ASSERT_EQ(*ops_.Begin(Command(&first_, 1), Op(1)), true);
  std::thread waiter([this] { EXPECT_TRUE(ops_.WaitUntilIdle(DeadlineIn(kPatienceMs))); });
  EXPECT_FALSE(ops_.Next().has_value());
  waiter.join();
}

}  // namespace
}  // namespace shoal
