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

// One group whose ops come one after the other; the first one of a map does not count.
class ServerWaitBookTest : public ::testing::Test {
 protected:
  ServerWaitBookTest() { Use({{1}, {2}, {3}}); }

  // By shard in the order of servers.
  void Use(const std::vector<TestShard>& shards) {
    group_.reset();
    group_ = std::make_unique<GroupServerWaits>(&book_, Map(shards));
  }
  // Each shard is busy for so many milliseconds from the op's beginning on, which ends with the last of them.
  void Op(const std::vector<uint64_t>& busy_ms, uint32_t chunk_count = 48) {
    const uint64_t began_ns = now_.monotonic_ns;
    for (uint32_t shard = 0; shard < busy_ms.size(); ++shard) group_->OnPushed(shard, now_);
    std::vector<std::pair<uint64_t, uint32_t>> ends;
    for (uint32_t shard = 0; shard < busy_ms.size(); ++shard) ends.emplace_back(busy_ms[shard], shard);
    std::ranges::sort(ends);
    for (const auto& [ms, shard] : ends) {
      now_.monotonic_ns = began_ns + ms * kNsPerMs;
      group_->OnLanded(shard, now_);
    }
    group_->OnOpDone(chunk_count, now_);
  }
  void Ops(int count, const std::vector<uint64_t>& busy_ms) {
    for (int i = 0; i < count; ++i) Op(busy_ms);
  }

  ServerWaitBook book_;
  std::unique_ptr<GroupServerWaits> group_;
  Now now_{.monotonic_ns = 50 * kNsPerS};
};

TEST_F(ServerWaitBookTest, AServerThatIsBusyForLongerIsWaitedFor) {
  Op({1, 1, 1});
  Ops(11, {60, 100, 60});
  const ServerWaitWindow& window = book_.last_window();
  EXPECT_EQ(window.number, 1u);
  EXPECT_EQ(window.ops, 11u);
  EXPECT_EQ(window.length_ns, kNsPerS) << "from the end of the first op that counts";
  EXPECT_EQ(window.end_ns, now_.monotonic_ns);
  // 40 ms of each op, less two chunks of 100 ms / 16.
  EXPECT_THAT(window.servers, ElementsAre(ServerWait{ServerId(2), 11 * 27'500'000, 11}));
}

TEST_F(ServerWaitBookTest, EqualServersAreNotWaitedFor) {
  for (int i = 0; i < 12; ++i) Op(i % 2 == 0 ? std::vector<uint64_t>{95, 100, 90} : std::vector<uint64_t>{100, 92, 95});
  EXPECT_EQ(book_.last_window().number, 1u);
  EXPECT_THAT(book_.last_window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, TheSlowerOfTwoServersIsWaitedFor) {
  Use({{7}, {8}});
  Ops(12, {50, 100});
  EXPECT_THAT(book_.last_window().servers, ElementsAre(ServerWait{ServerId(8), 11 * (50 * kNsPerMs - 8'333'333), 11}));
}

TEST_F(ServerWaitBookTest, AServerIsBusyWhileOneOfItsShardsIs) {
  Use({{7}, {7}, {8}, {8}});  // two I/O threads each
  Ops(12, {20, 100, 100, 20});
  EXPECT_EQ(book_.last_window().number, 1u);
  EXPECT_THAT(book_.last_window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, OnlyServersOfEqualWeightAreCompared) {
  Use({{1, 4}, {2, 4}, {3, 1}, {4, 1}, {5, 1}, {6, 2}});
  for (int i = 0; i < 12; ++i) Op({90, 90, 30, 70, 30, 100}, 13 * 16);
  ASSERT_EQ(book_.last_window().number, 1u);
  ASSERT_THAT(book_.last_window().servers, SizeIs(1));
  EXPECT_EQ(book_.last_window().servers[0].server, ServerId(4));
}

TEST_F(ServerWaitBookTest, AServerThatPausesInTheMiddleIsBusyForLess) {
  // Kept waiting by the bound on how far chunks may run ahead.
  for (int op = 0; op < 12; ++op) {
    for (int i = 0; i < 5; ++i) {
      for (const uint32_t shard : {0u, 1u, 2u}) group_->OnPushed(shard, now_);
      now_.monotonic_ns += 8 * kNsPerMs;
      for (const uint32_t shard : {0u, 2u}) group_->OnLanded(shard, now_);
      now_.monotonic_ns += 12 * kNsPerMs;
      group_->OnLanded(1, now_);
    }
    group_->OnOpDone(48, now_);
  }
  ASSERT_THAT(book_.last_window().servers, SizeIs(1));
  EXPECT_EQ(book_.last_window().servers[0].server, ServerId(2));
  EXPECT_EQ(book_.last_window().servers[0].waited_ns, 11 * (60 * kNsPerMs - 12'500'000));
}

TEST_F(ServerWaitBookTest, AWindowHasASecondAndFiveOps) {
  Ops(11, {100, 100, 100});
  EXPECT_EQ(book_.last_window().number, 0u) << "0.9 s after the end of the second";
  Ops(1, {100, 100, 100});
  EXPECT_EQ(book_.last_window().number, 1u);
  Ops(4, {1000, 1000, 1000});
  EXPECT_EQ(book_.last_window().number, 1u) << "four ops";
  Ops(1, {1000, 1000, 1000});
  EXPECT_EQ(book_.last_window().number, 2u);
}

TEST_F(ServerWaitBookTest, OneOpAloneMakesNoServerSlow) {
  Ops(2, {100, 100, 100});
  Op({100, 5000, 100});
  Ops(9, {100, 100, 100});
  EXPECT_GE(book_.last_window().number, 1u);
  EXPECT_THAT(book_.last_window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, OpsOfTwoGroupsAtOnceCountOnce) {
  GroupServerWaits other(&book_, Map({{1}, {2}, {3}}));
  for (int i = 0; i < 20; ++i) {
    const uint64_t began_ns = now_.monotonic_ns;
    for (const uint32_t shard : {0u, 1u, 2u}) other.OnPushed(shard, now_);
    Op({60, 100, 60});
    for (const uint32_t shard : {0u, 1u, 2u}) other.OnLanded(shard, now_);
    other.OnOpDone(48, now_);
    EXPECT_EQ(now_.monotonic_ns - began_ns, 100 * kNsPerMs);
  }
  ASSERT_EQ(book_.last_window().number, 1u);
  EXPECT_THAT(book_.last_window().servers, IsEmpty()) << "the other group's chunks keep all servers busy";
}

TEST_F(ServerWaitBookTest, SmallOpsSayNothing) {
  for (int i = 0; i < 40; ++i) Op({60, 100, 60}, ServerWaitBook::kFewestChunks * 3 - 1);
  EXPECT_EQ(book_.last_window().number, 0u);
}

TEST_F(ServerWaitBookTest, TheFirstOpOfAMapDoesNotCount) {
  for (int i = 0; i < 40; ++i) {
    Op({60, 100, 60});
    group_->OnPushed(1, now_);  // is pushed anew
    group_->MoveTo(Map({{1}, {2}, {4}}));
  }
  EXPECT_EQ(book_.last_window().number, 0u);
}

TEST_F(ServerWaitBookTest, AServerThatCameBackIsAnother) {
  for (int life = 0; life < 3; ++life) {
    for (int i = 0; i < 3; ++i) Op({60, 100, 60});
    group_->OnPushed(1, now_);
    now_.monotonic_ns += 100 * kNsPerS;  // it is gone
    group_->MoveTo(Map({{1}, {10u + life}, {3}}));
  }
  Ops(14, {100, 100, 100});
  EXPECT_THAT(book_.last_window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, AGroupThatEndsLeavesNothingUnderWay) {
  GroupServerWaits other(&book_, Map({{1}, {2}, {3}}));
  Op({100, 100, 100});
  other.OnPushed(1, now_);
  Op({100, 100, 100});
  other.End();
  other.OnLanded(1, now_);  // late
  Ops(12, {100, 60, 100});
  EXPECT_THAT(book_.last_window().servers, IsEmpty());
}

// Two servers of one shard each; the results of the second one land 40 ms later.
TEST(ServerWaits, AreCountedByTheMachine) {
  WorkerDriver worker;
  worker.OpenAll(2, 2, 64);
  constexpr uint64_t kChunkElements = 256;
  for (uint64_t ticket = 1; ticket <= 25; ++ticket) {
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
  const ServerWaitWindow window = worker.machine().counters().server_waits;
  EXPECT_EQ(window.number, 1u);
  ASSERT_THAT(window.servers, SizeIs(1));
  EXPECT_EQ(window.servers[0].server, ServerId(2));
  EXPECT_EQ(window.servers[0].late_ops, window.ops);
  EXPECT_GT(static_cast<double>(window.servers[0].waited_ns), 0.5 * static_cast<double>(window.length_ns));
}

}  // namespace
}  // namespace shoal
