#include "worker/machine/server_wait_book.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kChunks = 48;

// Ops of 100 ms, one after the other, over servers with a shard each. A part of them is 2 x 100 ms / 24 = 8.3 ms.
class ServerWaitBookTest : public ::testing::Test {
 protected:
  explicit ServerWaitBookTest(std::vector<uint64_t> servers = {1, 2, 3}) { SetServers(servers); }

  void SetServers(const std::vector<uint64_t>& servers) {
    std::vector<Shard> shards;
    for (const uint64_t server : servers) {
      shards.push_back({.server = ServerId(server),
                        .incarnation = Incarnation(1),
                        .server_name = absl::StrCat("server-", server),
                        .address = absl::StrCat("10.0.0.", server, ":", 7000 + shards.size())});
    }
    map_ = *ShardMap::Make(Epoch(1), std::move(shards));
  }
  // Each shard is done so many milliseconds after the op's first result; 0: it has no chunk of it.
  void Op(const std::vector<uint64_t>& done_ms, uint32_t chunk_count = kChunks) {
    OpLandings landings = {.first_ns = now_ns_};
    uint64_t last_ms = 0;
    for (const uint64_t ms : done_ms) {
      landings.last_ns.push_back(ms == 0 ? 0 : now_ns_ + ms * kNsPerMs);
      last_ms = std::max(last_ms, ms);
    }
    book_.OnOpDone(map_, chunk_count, landings);
    now_ns_ += last_ms * kNsPerMs;
  }
  void Ops(int count, const std::vector<uint64_t>& done_ms) {
    for (int i = 0; i < count; ++i) Op(done_ms);
  }

  ShardMap map_;
  ServerWaitBook book_;
  uint64_t now_ns_ = 50 * kNsPerS;
};

TEST_F(ServerWaitBookTest, AServerThatIsDoneLaterIsWaitedFor) {
  Ops(10, {60, 100, 60});
  const ServerWaitWindow& window = book_.last_window();
  EXPECT_EQ(window.number, 1u);
  EXPECT_EQ(window.ops, 10u);
  EXPECT_EQ(window.length_ns, kNsPerS);
  EXPECT_EQ(window.end_ns, now_ns_);
  // 40 ms of each op, less two chunks of 100 ms / 16.
  EXPECT_THAT(window.servers, ElementsAre(ServerWait{ServerId(2), 10 * 27'500'000, 10}));
}

TEST_F(ServerWaitBookTest, EqualServersAreNotWaitedFor) {
  for (int i = 0; i < 10; ++i) Op(i % 2 == 0 ? std::vector<uint64_t>{95, 100, 90} : std::vector<uint64_t>{100, 92, 95});
  EXPECT_EQ(book_.last_window().number, 1u);
  EXPECT_THAT(book_.last_window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, TheSlowerOfTwoServersIsWaitedFor) {
  SetServers({7, 8});
  Ops(10, {50, 100});
  EXPECT_THAT(book_.last_window().servers, ElementsAre(ServerWait{ServerId(8), 10 * (50 * kNsPerMs - 8'333'333), 10}));
}

TEST_F(ServerWaitBookTest, AServerIsDoneWithTheLastOfItsShards) {
  SetServers({7, 8, 7, 8});  // two I/O threads each
  Ops(10, {20, 100, 100, 20});
  EXPECT_EQ(book_.last_window().number, 1u);
  EXPECT_THAT(book_.last_window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, AWindowHasASecondAndFiveOps) {
  Ops(9, {100, 100, 100});
  EXPECT_EQ(book_.last_window().number, 0u) << "0.9 s";
  Ops(1, {100, 100, 100});
  EXPECT_EQ(book_.last_window().number, 1u);
  Ops(4, {1000, 1000, 1000});
  EXPECT_EQ(book_.last_window().number, 1u) << "four ops";
  Ops(1, {1000, 1000, 1000});
  EXPECT_EQ(book_.last_window().number, 2u);
}

TEST_F(ServerWaitBookTest, OneOpAloneMakesNoServerSlow) {
  Op({100, 5000, 100});
  Ops(9, {100, 100, 100});
  EXPECT_EQ(book_.last_window().number, 1u);
  EXPECT_THAT(book_.last_window().servers, IsEmpty());
}

TEST_F(ServerWaitBookTest, WaitsOfSeveralOpsAtOnceCountOnce) {
  for (int i = 0; i < 10; ++i) {
    const uint64_t began_ns = now_ns_;
    Op({60, 100, 60});
    now_ns_ = began_ns;  // as another group's op, at the same time
    Op({60, 100, 60});
  }
  EXPECT_THAT(book_.last_window().servers, ElementsAre(ServerWait{ServerId(2), 10 * 27'500'000, 10}));
}

TEST_F(ServerWaitBookTest, WhatCanNotBeComparedIsLeftOut) {
  for (int i = 0; i < 10; ++i) {
    Op({60, 100, 60}, ServerWaitBook::kFewestChunks * 3 - 1);
    book_.OnOpDone(map_, kChunks, {});  // another map has dealt it anew
    Op({0, 100, 0});                    // only one server has chunks of it
  }
  EXPECT_EQ(book_.last_window().number, 0u);
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
