#include "worker/machine/server_wait_book.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct TestShard {
  uint64_t server;
  uint32_t weight = 1;
};

ShardMap Map(const std::vector<TestShard>& of_shards) {
  std::vector<Shard> shards;
  for (const TestShard& each : of_shards) {
    shards.push_back({.server = ServerId(each.server),
                      .incarnation = Incarnation(1),
                      .server_name = absl::StrCat("server-", each.server),
                      .address = absl::StrCat("10.0.0.", each.server, ":", 7000 + shards.size()),
                      .weight = each.weight});
  }
  return *ShardMap::Make(Epoch(1), std::move(shards));
}

// One group; the first burst of a map does not count.
class ServerWaitBookTest : public ::testing::Test {
 protected:
  ServerWaitBookTest() { Use({{1}, {2}, {3}}); }

  // By shard in the order of servers.
  void Use(const std::vector<TestShard>& shards) {
    group_.reset();
    group_ = std::make_unique<GroupServerWaits>(&book_, GroupId(7), Map(shards));
  }
  // Each shard is busy for so many milliseconds from the op's beginning on, which ends with the last of them.
  void Op(const std::vector<uint64_t>& busy_ms, uint32_t chunk_count = 48) { OpOf(group_.get(), busy_ms, chunk_count); }
  void OpOf(GroupServerWaits* group, const std::vector<uint64_t>& busy_ms, uint32_t chunk_count = 48) {
    const uint64_t began_ns = now_.monotonic_ns;
    for (uint32_t shard = 0; shard < busy_ms.size(); ++shard) group->OnPushed(shard, now_);
    std::vector<std::pair<uint64_t, uint32_t>> ends;
    for (uint32_t shard = 0; shard < busy_ms.size(); ++shard) ends.emplace_back(busy_ms[shard], shard);
    std::ranges::sort(ends);
    for (const auto& [ms, shard] : ends) {
      now_.monotonic_ns = began_ns + ms * kNsPerMs;
      group->OnLanded(shard, now_);
    }
    group->OnOpDone(chunk_count, now_);
  }
  void Ops(int count, const std::vector<uint64_t>& busy_ms) {
    for (int i = 0; i < count; ++i) Op(busy_ms);
  }
  void Pass(uint64_t ms) { now_.monotonic_ns += ms * kNsPerMs; }
  // Of the group; number 0: there is none.
  ServerWaitWindow Window() const {
    const std::vector<ServerWaitWindow> windows = book_.Newest();
    return windows.empty() ? ServerWaitWindow() : windows[0];
  }

  ServerWaitBook book_;
  std::unique_ptr<GroupServerWaits> group_;
  Now now_{.monotonic_ns = 50 * kNsPerS};
};

TEST_F(ServerWaitBookTest, AServerThatIsBusyForLongerIsWaitedFor) {
  Op({1, 1, 1});
  Ops(10, {60, 100, 60});
  const ServerWaitWindow window = Window();
  EXPECT_EQ(window.group, GroupId(7));
  EXPECT_EQ(window.epoch, Epoch(1));
  EXPECT_EQ(window.number, 1u);
  EXPECT_EQ(window.bursts, 5u) << "stretches of two";
  EXPECT_EQ(window.length_ns, kNsPerS);
  EXPECT_EQ(window.end_ns, now_.monotonic_ns);
  // 40 ms of each op, less two chunks of 100 ms / 16.
  EXPECT_THAT(window.servers, ElementsAre(ServerWait{ServerId(2), 10 * 27'500'000, 5}));
}

// As with a CPU limit: it is stopped in turns, and most bursts meet no such turn.
TEST_F(ServerWaitBookTest, AServerThatIsStoppedInTurnsIsWaitedForAllTheTime) {
  for (int i = 0; i < 120; ++i) Op({10, i % 10 == 0 ? 100u : 10u, 10});
  const ServerWaitWindow window = Window();
  EXPECT_GE(window.number, 1u);
  ASSERT_THAT(window.servers, SizeIs(1));
  EXPECT_EQ(window.servers[0].server, ServerId(2));
  EXPECT_EQ(window.servers[0].late_bursts, window.bursts);
  EXPECT_GT(static_cast<double>(window.servers[0].waited_ns), 0.3 * static_cast<double>(window.length_ns));
}

TEST_F(ServerWaitBookTest, ServersThatAreLateByTurnsAreNotWaitedFor) {
  for (int i = 0; i < 150; ++i) {
    std::vector<uint64_t> busy_ms = {10, 10, 10};
    busy_ms[static_cast<size_t>(i) % 3] = 16;
    Op(busy_ms);
  }
  EXPECT_GE(Window().number, 1u);
  EXPECT_THAT(Window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, EqualServersAreNotWaitedFor) {
  for (int i = 0; i < 12; ++i) Op(i % 2 == 0 ? std::vector<uint64_t>{95, 100, 90} : std::vector<uint64_t>{100, 92, 95});
  EXPECT_EQ(Window().number, 1u);
  EXPECT_THAT(Window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, TheSlowerOfTwoServersIsWaitedFor) {
  Use({{7}, {8}});
  Ops(11, {50, 100});
  EXPECT_THAT(Window().servers, ElementsAre(ServerWait{ServerId(8), 10 * (50 * kNsPerMs - 8'333'333), 5}));
}

TEST_F(ServerWaitBookTest, AServerIsBusyWhileOneOfItsShardsIs) {
  Use({{7}, {7}, {8}, {8}});  // two I/O threads each
  Ops(12, {20, 100, 100, 20});
  EXPECT_EQ(Window().number, 1u);
  EXPECT_THAT(Window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, OnlyServersOfEqualWeightAreCompared) {
  Use({{1, 4}, {2, 4}, {3, 1}, {4, 1}, {5, 1}, {6, 2}});
  for (int i = 0; i < 12; ++i) Op({90, 90, 30, 70, 30, 100}, 13 * 16);
  ASSERT_EQ(Window().number, 1u);
  ASSERT_THAT(Window().servers, SizeIs(1));
  EXPECT_EQ(Window().servers[0].server, ServerId(4));
}

TEST_F(ServerWaitBookTest, AServerWithASmallShareKeepsNoOthersFromBeingCompared) {
  Use({{1, 64}, {2, 64}, {3, 64}, {4, 1}});
  for (int i = 0; i < 12; ++i) Op({60, 100, 60, 10}, 193);
  ASSERT_THAT(Window().servers, SizeIs(1));
  EXPECT_EQ(Window().servers[0].server, ServerId(2));
}

TEST_F(ServerWaitBookTest, AServerThatPausesInTheMiddleIsBusyForLess) {
  // Kept waiting by the bound on how far chunks may run ahead.
  for (int op = 0; op < 11; ++op) {
    for (int i = 0; i < 5; ++i) {
      for (const uint32_t shard : {0u, 1u, 2u}) group_->OnPushed(shard, now_);
      Pass(8);
      for (const uint32_t shard : {0u, 2u}) group_->OnLanded(shard, now_);
      Pass(12);
      group_->OnLanded(1, now_);
    }
    group_->OnOpDone(48, now_);
  }
  ASSERT_THAT(Window().servers, SizeIs(1));
  EXPECT_EQ(Window().servers[0].server, ServerId(2));
  EXPECT_EQ(Window().servers[0].waited_ns, 10 * (60 * kNsPerMs - 12'500'000));
}

// As the buckets of a step: all are called for at once, and the fast servers run on into the next ones.
TEST_F(ServerWaitBookTest, QueuedOpsAreOneBurst) {
  constexpr int kOps = 10;
  for (int step = 0; step < 12; ++step) {
    for (int op = 0; op < kOps; ++op) {
      for (const uint32_t shard : {0u, 1u, 2u}) group_->OnPushed(shard, now_);
    }
    // In each 10 ms the fast ones do two ops, and the slow one does one.
    for (int op = 0; op < kOps; ++op) {
      Pass(10);
      for (int twice = 0; twice < 2 && 2 * op + twice < kOps; ++twice) {
        for (const uint32_t shard : {0u, 2u}) group_->OnLanded(shard, now_);
      }
      group_->OnLanded(1, now_);
      group_->OnOpDone(12, now_);
    }
  }
  const ServerWaitWindow window = Window();
  EXPECT_EQ(window.bursts, 5u);
  // 50 ms of each step, less two chunks of 100 ms / 40.
  EXPECT_THAT(window.servers, ElementsAre(ServerWait{ServerId(2), 10 * 45 * kNsPerMs, 5}));
}

TEST_F(ServerWaitBookTest, WhereOpsNeverEndNothingIsSaid) {
  group_->OnPushed(1, now_);
  Ops(100, {60, 100, 60});
  EXPECT_EQ(Window().number, 0u);
}

TEST_F(ServerWaitBookTest, AWindowHasASecondAndFiveStretches) {
  Ops(10, {100, 100, 100});
  EXPECT_EQ(Window().number, 0u) << "0.9 s after the first one";
  Ops(1, {100, 100, 100});
  EXPECT_EQ(Window().number, 1u);
  Ops(4, {1000, 1000, 1000});
  EXPECT_EQ(Window().number, 1u) << "four stretches";
  Ops(1, {1000, 1000, 1000});
  EXPECT_EQ(Window().number, 2u);
}

TEST_F(ServerWaitBookTest, OneBurstAloneMakesNoServerSlow) {
  Ops(2, {100, 100, 100});
  Op({100, 5000, 100});
  Ops(9, {100, 100, 100});
  EXPECT_GE(Window().number, 1u);
  EXPECT_THAT(Window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, TheLongestPauseIsNoPartOfAWindow) {
  Ops(6, {60, 100, 60});
  Pass(90'000);  // a checkpoint
  for (int i = 0; i < 5; ++i) {
    Op({60, 100, 60});
    Pass(50);
  }
  EXPECT_EQ(Window().number, 1u);
  EXPECT_EQ(Window().length_ns, 1200 * kNsPerMs) << "ten ops, and four shorter pauses";
}

TEST_F(ServerWaitBookTest, APauseBeforeTheWindowShortensNoWindow) {
  // In the first burst, as where a rank of the node is late with its part of the contribution.
  group_->OnPushed(0, now_);
  group_->OnLanded(0, now_);
  Pass(90'000);
  Ops(11, {60, 100, 60});
  EXPECT_EQ(Window().number, 1u);
  EXPECT_EQ(Window().length_ns, kNsPerS);
}

TEST_F(ServerWaitBookTest, GroupsAreMeasuredForThemselves) {
  // Server 2 is slow for this group alone, whose map has other weights than the other one's.
  GroupServerWaits other(&book_, GroupId(8), Map({{1, 1}, {2, 3}, {3, 1}}));
  for (int i = 0; i < 12; ++i) {
    Op({60, 100, 60});
    OpOf(&other, {40, 100, 40});
  }
  const std::vector<ServerWaitWindow> windows = book_.Newest();
  ASSERT_THAT(windows, SizeIs(2));
  for (const ServerWaitWindow& window : windows) {
    EXPECT_THAT(window.servers, SizeIs(window.group == GroupId(7) ? 1 : 0)) << window.group.value();
  }
  other.End();
  EXPECT_THAT(book_.Newest(), SizeIs(1));
}

TEST_F(ServerWaitBookTest, TheNewestWindowsAreTold) {
  std::vector<std::unique_ptr<GroupServerWaits>> groups;
  for (uint64_t id = 100; id < 120; ++id) {
    groups.push_back(std::make_unique<GroupServerWaits>(&book_, GroupId(id), Map({{1}, {2}})));
    for (int i = 0; i < 12; ++i) OpOf(groups.back().get(), {100, 100});
  }
  const std::vector<ServerWaitWindow> windows = book_.Newest();
  ASSERT_THAT(windows, SizeIs(kMostServerWaitWindows));
  EXPECT_EQ(windows.front().group, GroupId(119));
  EXPECT_EQ(windows.back().group, GroupId(104));
}

TEST_F(ServerWaitBookTest, SmallOpsSayNothing) {
  for (int i = 0; i < 40; ++i) Op({60, 100, 60}, GroupServerWaits::kFewestChunks * 3 - 1);
  EXPECT_EQ(Window().number, 0u);
}

TEST_F(ServerWaitBookTest, TheFirstBurstOfAMapDoesNotCount) {
  for (int i = 0; i < 40; ++i) {
    Op({60, 100, 60});
    group_->OnPushed(1, now_);  // is pushed anew
    group_->MoveTo(Map({{1}, {2}, {4}}));
  }
  EXPECT_EQ(Window().number, 0u);
}

TEST_F(ServerWaitBookTest, WhatWasUnderWayWhenTheMapChangedIsForgotten) {
  Ops(3, {100, 100, 100});
  group_->OnPushed(1, now_);
  Pass(100'000);  // its server is gone
  group_->MoveTo(Map({{1}, {2}, {3}}));
  for (int i = 0; i < 12; ++i) {
    Op({100, 100, 100});
    Pass(50);  // in which a chunk that was left behind would keep server 2 busy
  }
  EXPECT_EQ(Window().number, 1u);
  EXPECT_THAT(Window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, AGroupThatHasEndedTakesNothingMore) {
  Ops(12, {60, 100, 60});
  group_->OnPushed(1, now_);
  group_->End();
  group_->OnLanded(1, now_);  // late
  group_->OnPushed(1, now_);
  group_->OnOpDone(48, now_);
  EXPECT_THAT(book_.Newest(), IsEmpty());
}

// Two servers of one shard each; the results of the second one land 40 ms later.
TEST(ServerWaits, AreCountedByTheMachine) {
  WorkerDriver worker(2, 2, 64);
  constexpr uint64_t kChunkElements = 256;
  for (uint64_t ticket = 1; ticket <= 30; ++ticket) {
    worker.Submit(ticket, 12 * kChunkElements);
    for (const WorkerSendAction& send : std::exchange(worker.sends, {})) {
      worker.Sent(send);
      worker.OfferResult(send, 2);
    }
    ASSERT_THAT(worker.accepts, SizeIs(12));
    std::vector<WorkerAcceptAction> late;
    for (const WorkerAcceptAction& accept : std::exchange(worker.accepts, {})) {
      if (OperationToken::Unpack(accept.token).shard == 1) {
        late.push_back(accept);
        continue;
      }
      worker.now.monotonic_ns += kNsPerMs;
      worker.Land(accept);
    }
    worker.now.monotonic_ns += 40 * kNsPerMs;
    for (const WorkerAcceptAction& accept : late) worker.Land(accept);
    ASSERT_THAT(worker.done, SizeIs(ticket));
  }
  ASSERT_THAT(worker.machine().counters().server_waits, SizeIs(1));
  const ServerWaitWindow window = worker.machine().counters().server_waits[0];
  EXPECT_EQ(window.group, GroupId(1));
  EXPECT_EQ(window.number, 1u);
  ASSERT_THAT(window.servers, SizeIs(1));
  EXPECT_EQ(window.servers[0].server, ServerId(2));
  EXPECT_EQ(window.servers[0].late_bursts, window.bursts);
  EXPECT_GT(static_cast<double>(window.servers[0].waited_ns), 0.5 * static_cast<double>(window.length_ns));
}

}  // namespace
}  // namespace shoal
