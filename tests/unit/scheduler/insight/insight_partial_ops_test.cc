// What the scheduler writes down of all-reduces whose results lack ranks.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A group of three ranks.
class InsightPartialOpsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.Ask<ServerRegistered>(Server("a", 11, 1));
    std::vector<RequestHandle> handles;
    for (uint32_t rank = 0; rank < 3; ++rank) job_ = harness_.Ask<JobJoined>(Join("gpt", 3, rank, 100 + rank)).job;
    for (uint32_t rank = 0; rank < 3; ++rank)
      handles.push_back(harness_.Send(Group(job_, rank, 100 + rank, {0, 1, 2})));
    group_ = harness_.Get<GroupJoined>(handles[0]).group;
  }

  PartialOp Op(uint64_t number, uint64_t op, std::vector<ContributedRange> ranges) const {
    return {.number = number, .group = group_, .epoch = Epoch(7), .op = OpNumber(op), .ranges = std::move(ranges)};
  }
  void Tell(uint32_t rank, const std::vector<PartialOp>& ops) {
    HeartbeatWorker beat = Beat(job_, rank, 100 + rank);
    beat.partial_ops = ops;
    harness_.Ask<WorkerRenewed>(beat);
  }
  std::vector<std::string> WrittenDown() const {
    std::vector<std::string> texts;
    for (const EventRecord& event : harness_.events()) {
      if (event.kind == EventKind::kOpLacksRanks) texts.push_back(event.subject + ": " + event.reason);
    }
    return texts;
  }

  MachineHarness harness_;
  JobId job_;
  GroupId group_;
};

TEST_F(InsightPartialOpsTest, WhatSeveralRanksTellAgainAndAgainIsOneEvent) {
  const PartialOp mixed = Op(1, 5, {{.first = 0, .count = 100, .contributors = 3}, {100, 50, 2}, {150, 1, 3}});
  const PartialOp uniform = Op(2, 6, {{.first = 0, .count = 151, .contributors = 2}});
  Tell(1, {mixed});
  Tell(0, {mixed, uniform});
  Tell(1, {mixed, uniform});
  Tell(1, {mixed, uniform});
  EXPECT_THAT(
      WrittenDown(),
      ElementsAre("group \"world\" of job \"gpt\": op 5 of epoch 7: elements 0 to 99 have the contributions of 3 "
                  "ranks, 100 to 149 of 2, 150 to 150 of 3",
                  "group \"world\" of job \"gpt\": op 6 of epoch 7 and those after it: all elements have the "
                  "contributions of 2 ranks"));
}

TEST_F(InsightPartialOpsTest, ARankTellsItsLastOnesWhenItLeaves) {
  LeaveJob leave = Leave(job_, 2, 102);
  leave.partial_ops = {Op(1, 5, {{.first = 0, .count = 10, .contributors = 1}})};
  harness_.Ask<Done>(leave);
  EXPECT_THAT(WrittenDown(),
              ElementsAre(HasSubstr("op 5 of epoch 7 and those after it: all elements have the contribut")));
}

TEST_F(InsightPartialOpsTest, OfAGroupThatWasClosedMeanwhileTheNumberIsWrittenDown) {
  PartialOp op = Op(1, 5, {{.first = 0, .count = 10, .contributors = 1}});
  op.group = GroupId(77);
  Tell(0, {op});
  EXPECT_THAT(WrittenDown(), ElementsAre(HasSubstr("group 77 of job \"gpt\": op 5")));
}

TEST_F(InsightPartialOpsTest, WhatCanNotBeIsPassedOver) {
  Tell(0, {Op(1, 5, {}),                                                   // nothing
           Op(2, 5, {{.first = 1, .count = 10, .contributors = 1}}),       // not from the start
           Op(3, 5, {{0, 10, 1}, {11, 10, 2}}),                            // with a gap
           Op(4, 5, {{.first = 0, .count = 0, .contributors = 1}}),        // of no elements
           Op(5, 5, {{.first = 0, .count = 10, .contributors = 4}}),       // of more ranks than there are
           Op(6, 5, {{.first = 0, .count = 10, .contributors = 0}}),       // of none
           Op(7, 5, {{0, UINT64_MAX, 1}, {UINT64_MAX, UINT64_MAX, 2}})});  // of more elements than numbers
  EXPECT_THAT(WrittenDown(), IsEmpty());
  HeartbeatWorker stranger = Beat(job_, 0, 999);
  stranger.partial_ops = {Op(1, 5, {{.first = 0, .count = 10, .contributors = 1}})};
  EXPECT_FALSE(harness_.Try(stranger).ok());
  EXPECT_THAT(WrittenDown(), IsEmpty());
}

TEST_F(InsightPartialOpsTest, AnOpWithMoreRangesThanAreToldSaysSo) {
  PartialOp op = Op(1, 5, {{0, 10, 1}, {10, 10, 2}});
  op.is_cut = true;
  Tell(0, {op});
  EXPECT_THAT(WrittenDown(), ElementsAre(HasSubstr("10 to 19 of 2, and so on in turns")));
}

}  // namespace
}  // namespace shoal::scheduler
