// That the loop carries out what the machine asks of the reduction within the node, and hands its events in.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "net/loopback/loopback_transport.h"
#include "worker/loop/worker_loop.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const GroupHandle kGroup(3);
constexpr uint32_t kElements = 100;

// Lists what it is asked for; the test gives its events.
class ListingLocalReduce final : public LocalReduce {
 public:
  void Open(const LocalGroup& group) override {
    calls.push_back(absl::StrCat("open ", group.group.value(), " as ", group.rank.value(), " of ", group.size, " at ",
                                 group.meeting_name));
  }
  void Start(const LocalOp& op) override {
    calls.push_back(absl::StrCat("start ", op.ticket));
    if (is_last_rank) next.push_back(LocalOpEnded{op.group, op.ticket, absl::OkStatus()});
  }
  void PublishPart(GroupHandle /*group*/, uint64_t ticket, ElementRange /*elements*/,
                   uint32_t /*contributors*/) override {
    calls.push_back(absl::StrCat("publish ", ticket));
  }
  void Fail(GroupHandle group, const absl::Status& why) override {
    calls.push_back(absl::StrCat("fail ", group.value(), ": ", why.message()));
  }
  void Close(GroupHandle group) override { calls.push_back(absl::StrCat("close ", group.value())); }
  std::vector<LocalRank> Missing(GroupHandle /*group*/) const override { return missing; }
  std::span<const LocalReduceEvent> Poll() override {
    current_ = std::exchange(next, {});
    return current_;
  }
  bool Arm() override { return next.empty(); }
  int wake_fd() const override { return -1; }

  std::vector<std::string> calls;
  std::vector<LocalReduceEvent> next;
  std::vector<LocalRank> missing;
  bool is_last_rank = false;  // the others have contributed to every op before

 private:
  std::vector<LocalReduceEvent> current_;
};

class WorkerLoopNodeTest : public ::testing::Test {
 protected:
  WorkerLoopNodeTest()
      : tensor_(4 * kElements),
        transport_(network_.MakeTransport({}).value()),
        loop_({}, transport_.get(), &local_reduce_) {
    auto info = std::make_shared<GroupInfo>();
    info->id = GroupId(1);
    info->name = "world";
    info->job_ranks = {JobRank(0), JobRank(1)};
    info->nodes = {"node-a", "node-a"};
    info->max_chunk_bytes = 1024;
    info->map = std::make_shared<ShardMap>();
    info->node_reduce = NodeReduceMode::kNodeAlone;
    info->meeting_name = "cluster/1";
    info_ = info;
  }

  bool Run(const std::vector<WorkerCommand>& commands = {}) { return loop_.RunOnce(now_, commands, &outcomes_); }
  OpenGroupCommand Open() const { return {.group = kGroup, .info = info_, .deadline_ns = 60 * kNsPerS}; }
  SubmitCommand Submit(uint64_t ticket) {
    return {.group = kGroup,
            .ticket = ticket,
            .data = tensor_.data(),
            .layout = OpLayout::Make(*info_, kElements, DataType::kFloat32).value(),
            .submitted_ns = now_.monotonic_ns,
            .deadline_ns = now_.monotonic_ns + 4 * kNsPerS};
  }

  Now now_{.monotonic_ns = kNsPerS};
  std::shared_ptr<const GroupInfo> info_;
  std::vector<std::byte> tensor_;
  LoopbackNetwork network_;
  std::unique_ptr<Transport> transport_;
  ListingLocalReduce local_reduce_;
  WorkerOutcomes outcomes_;
  WorkerLoop loop_;
};

TEST_F(WorkerLoopNodeTest, AGroupAndItsOpGoToTheNodeAndComeBackFromThere) {
  EXPECT_TRUE(Run({Open()}));
  local_reduce_.next = {LocalGroupMet{kGroup}};
  EXPECT_TRUE(Run());
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(std::get<GroupOpened>(outcomes_[0]).status, absl::OkStatus());
  Run({Submit(9)});
  local_reduce_.next = {LocalOpEnded{kGroup, 9, absl::OkStatus()}};
  EXPECT_TRUE(Run({CloseGroupCommand{kGroup}})) << "commands come before events";
  ASSERT_THAT(outcomes_, SizeIs(3));
  EXPECT_EQ(std::get<OpDone>(outcomes_[1]).ticket, 9u);
  EXPECT_TRUE(std::holds_alternative<GroupClosed>(outcomes_[2]));
  EXPECT_THAT(local_reduce_.calls, ElementsAre("open 3 as 0 of 2 at cluster/1", "start 9", "close 3"));
  EXPECT_FALSE(Run()) << "nothing is left to do";
  EXPECT_EQ(loop_.NextDeadlineNs(), kNoDeadline);
}

TEST_F(WorkerLoopNodeTest, AnOpThatWaitsForNobodyEndsInTheRunThatStartsIt) {
  Run({Open()});
  local_reduce_.next = {LocalGroupMet{kGroup}};
  Run();
  outcomes_.clear();
  local_reduce_.is_last_rank = true;
  EXPECT_TRUE(Run({Submit(9)}));
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_EQ(std::get<OpDone>(outcomes_[0]).ticket, 9u);
  EXPECT_EQ(std::get<OpDone>(outcomes_[0]).status, absl::OkStatus());
  EXPECT_FALSE(Run()) << "nothing is left to do";
}

TEST_F(WorkerLoopNodeTest, ADeadlineAsksWhoIsMissingAndFailsTheGroupInTheSameRun) {
  Run({Open()});
  local_reduce_.next = {LocalGroupMet{kGroup}};
  local_reduce_.missing = {LocalRank(1)};
  Run({Submit(9)});
  now_.monotonic_ns += 4 * kNsPerS;
  local_reduce_.calls.clear();
  Run();
  EXPECT_THAT(local_reduce_.calls, ElementsAre(HasSubstr("it waits for rank 1 on node-a, which made fewer calls")));
  EXPECT_EQ(loop_.NextDeadlineNs(), kNoDeadline);
  local_reduce_.next = {LocalOpEnded{kGroup, 9, absl::DeadlineExceededError("late")}};
  outcomes_.clear();
  Run();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(std::get<OpDone>(outcomes_[0]).status));
}

TEST_F(WorkerLoopNodeTest, AWaitThatLastsIsReportedInTheRunInWhichItsLineIsDue) {
  Run({Open()});
  local_reduce_.next = {LocalGroupMet{kGroup}};
  local_reduce_.missing = {LocalRank(1)};
  Run({Submit(9)});
  now_.monotonic_ns = loop_.NextDeadlineNs();
  outcomes_.clear();
  Run();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THAT(std::get<WaitReported>(outcomes_[0]).line, HasSubstr("waited 1 s for rank 1 on node-a"));
  EXPECT_GT(loop_.NextDeadlineNs(), now_.monotonic_ns);
}

TEST_F(WorkerLoopNodeTest, ALoopWithoutThePortRefusesTheGroup) {
  WorkerLoop loop({}, transport_.get(), /*local_reduce=*/nullptr);
  loop.RunOnce(now_, std::vector<WorkerCommand>{Open()}, &outcomes_);
  ASSERT_THAT(outcomes_, SizeIs(2));
  const absl::Status& refusal = std::get<GroupOpened>(outcomes_[1]).status;
  EXPECT_TRUE(absl::IsUnimplemented(refusal)) << refusal;
  EXPECT_EQ(std::get<GroupFailure>(outcomes_[0]).reason, refusal.message()) << "the other ranks are told";
  EXPECT_THAT(local_reduce_.calls, IsEmpty());
}

}  // namespace
}  // namespace shoal
