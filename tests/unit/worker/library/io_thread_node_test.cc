// Ranks of one node over real shared memory, each with an I/O thread of its own, without scheduler or servers: small
// ops in rounds that their callers run, large ones while threads sleep, closing, and a rank that goes.
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "net/loopback/loopback_transport.h"
#include "process/clock.h"
#include "process/draw_incarnation.h"
#include "worker/library/io_thread.h"
#include "worker/local_reduce/host_local_reduce.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kTimeoutMs = 60'000;

// One rank, as the library's client would set it up; the scheduler's answer is given by hand.
class NodeRank {
 public:
  NodeRank(const std::string& meeting_name, uint32_t rank, uint32_t size) : rank_(rank) {
    info_ = std::make_shared<GroupInfo>();
    info_->id = GroupId(1);
    info_->name = "world";
    info_->rank = Rank(rank);
    for (uint32_t r = 0; r < size; ++r) {
      info_->job_ranks.emplace_back(r);
      info_->nodes.emplace_back("node-a");
    }
    info_->max_chunk_bytes = 64 << 10;
    info_->map = std::make_shared<ShardMap>();
    info_->node_reduce = NodeReduceMode::kNodeAlone;
    info_->meeting_name = meeting_name;
    io_ = IoThread::Start(network_.MakeTransport({}).value(), MakeHostLocalReduce().value(), nullptr, {}, &completions_,
                          &member_, notices_.get())
              .value();
  }

  absl::Status Open(uint64_t timeout_ms = kTimeoutMs) {
    absl::StatusOr<std::shared_ptr<CallerGroup>> group = io_->OpenGroup(info_, DeadlineIn(timeout_ms));
    if (!group.ok()) return group.status();
    group_ = *std::move(group);
    return absl::OkStatus();
  }
  // Of the same ranks.
  absl::Status OpenAnother() {
    auto info = std::make_shared<GroupInfo>(*info_);
    info->id = GroupId(info_->id.value() + 1 + others_.size());
    absl::StrAppend(&info->meeting_name, "-", info->id.value());
    absl::StatusOr<std::shared_ptr<CallerGroup>> group = io_->OpenGroup(info, DeadlineIn(kTimeoutMs));
    if (!group.ok()) return group.status();
    others_.push_back(*std::move(group));
    return absl::OkStatus();
  }
  std::shared_ptr<CallerOp> Start(std::vector<float>* data, uint64_t timeout_ms = kTimeoutMs) {
    const uint64_t deadline_ns = DeadlineIn(timeout_ms);
    const uint64_t bytes = data->size() * sizeof(float);
    auto op = std::make_shared<CallerOp>(group_, ++last_ticket_, bytes, deadline_ns);
    const SubmitCommand command = {.group = group_->handle(),
                                   .ticket = last_ticket_,
                                   .data = reinterpret_cast<std::byte*>(data->data()),
                                   .layout = OpLayout::Make(*info_, data->size(), DataType::kFloat32).value(),
                                   .submitted_ns = MonotonicNs(),
                                   .deadline_ns = deadline_ns};
    EXPECT_TRUE(io_->Submit(command, op).ok());
    return op;
  }
  absl::Status Finish(const std::shared_ptr<CallerOp>& op) {
    if (!io_->Wait(op.get(), op->deadline_ns() + 5 * kNsPerS)) return absl::UnknownError("the op never ended");
    return op->status();
  }
  absl::Status AllReduce(std::vector<float>* data, uint64_t timeout_ms = kTimeoutMs) {
    return Finish(Start(data, timeout_ms));
  }
  void Close() {
    ASSERT_TRUE(io_->queue().Post(CloseGroupCommand{.group = group_->handle()}).ok());
    ASSERT_TRUE(group_->WaitClosed(DeadlineIn(kTimeoutMs)));
  }

  uint32_t rank() const { return rank_; }
  IoThread& io() { return *io_; }
  // What the scheduler is to hear, since the last call.
  std::vector<MembershipCommand> TakeTold() { return member_.Take(); }

 private:
  const uint32_t rank_;
  LoopbackNetwork network_;  // with nobody else in it
  CompletionQueue completions_;
  MemberQueue member_;
  const std::unique_ptr<NoticeLog> notices_ = NoticeLog::Start("", /*quiet=*/true).value();
  std::shared_ptr<GroupInfo> info_;
  std::unique_ptr<IoThread> io_;
  std::shared_ptr<CallerGroup> group_;
  std::vector<std::shared_ptr<CallerGroup>> others_;
  uint64_t last_ticket_ = 0;
};

// Runs `body` for each rank of a new group of one node, on a thread of its own.
void RunRanks(uint32_t size, const std::function<void(NodeRank&)>& body) {
  const std::string meeting_name = absl::StrCat("io-thread-test-", DrawIncarnation().value().value());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      NodeRank node_rank(meeting_name, rank, size);
      body(node_rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> Contribution(uint32_t rank, size_t elements) {
  std::vector<float> data(elements);
  for (size_t i = 0; i < elements; ++i) data[i] = static_cast<float>((i % 1000) * (rank + 1));
  return data;
}

std::vector<float> Sum(uint32_t size, size_t elements) {
  std::vector<float> sum(elements);
  for (size_t i = 0; i < elements; ++i) sum[i] = static_cast<float>((i % 1000) * (size * (size + 1) / 2));
  return sum;
}

// The I/O thread is held, as by a machine that stands still, until the caller of OpenGroup has given up.
TEST(IoThreadNode, AGroupThatOpensWhenNobodyWaitsForItAnyMoreIsClosed) {
  RunRanks(1, [](NodeRank& rank) {
    std::latch is_held(1);
    std::latch go_on(1);
    const auto hold = std::make_shared<CountersRequest>([&](const WorkerCounters&) {
      is_held.count_down();
      go_on.wait();
    });
    ASSERT_EQ(rank.io().queue().Ask(hold), absl::OkStatus());
    is_held.wait();
    EXPECT_THAT(std::string(rank.Open(/*timeout_ms=*/1).message()), HasSubstr("does not answer"));
    go_on.count_down();
    const uint64_t until_ns = DeadlineIn(kTimeoutMs);
    std::vector<MembershipCommand> told;
    while (told.empty() && MonotonicNs() < until_ns) told = rank.TakeTold();
    ASSERT_EQ(told.size(), 1u) << "the scheduler hears that the group has ended";
    EXPECT_TRUE(std::holds_alternative<GroupEnded>(told.front()));
  });
}

TEST(IoThreadNode, OpsOfAllSizesAreReducedWithinTheNode) {
  constexpr uint32_t kSize = 3;
  RunRanks(kSize, [](NodeRank& rank) {
    ASSERT_EQ(rank.Open(), absl::OkStatus());
    uint64_t bytes = 0;
    for (const size_t elements : {size_t{1}, size_t{100}, size_t{16'384}, size_t{100'000}, size_t{3'000'000}}) {
      std::vector<float> data = Contribution(rank.rank(), elements);
      ASSERT_EQ(rank.AllReduce(&data), absl::OkStatus()) << elements << " elements";
      EXPECT_EQ(data, Sum(kSize, elements)) << elements << " elements";
      bytes += elements * sizeof(float);
    }
    rank.Close();
    const WorkerCounters counters = rank.io().Counters().value();
    EXPECT_EQ(counters.ops_completed, 5u);
    EXPECT_EQ(counters.bytes_on_node, bytes);
    EXPECT_EQ(counters.bytes_pushed, 0u);
  });
}

TEST(IoThreadNode, ManyOpsThatAreStartedTogetherEndWithTheirOwnSums) {
  constexpr uint32_t kSize = 2;
  constexpr size_t kOps = 200;
  RunRanks(kSize, [](NodeRank& rank) {
    ASSERT_EQ(rank.Open(), absl::OkStatus());
    std::vector<std::vector<float>> data;
    for (size_t i = 0; i < kOps; ++i) data.push_back(Contribution(rank.rank(), 1 + 517 * i));
    std::vector<std::shared_ptr<CallerOp>> ops;
    for (std::vector<float>& tensor : data) ops.push_back(rank.Start(&tensor));
    for (size_t i = 0; i < kOps; ++i) {
      ASSERT_EQ(rank.Finish(ops[i]), absl::OkStatus()) << "op " << i;
      ASSERT_EQ(data[i], Sum(kSize, 1 + 517 * i)) << "op " << i;
    }
    rank.Close();
  });
}

TEST(IoThreadNode, ARankThatIsDoneAndGoneLeavesTheOthersTheirResults) {
  constexpr uint32_t kSize = 3;
  for (int round = 0; round < 20; ++round) {
    RunRanks(kSize, [](NodeRank& rank) {
      ASSERT_EQ(rank.Open(), absl::OkStatus());
      std::vector<float> data = Contribution(rank.rank(), 50'000);
      ASSERT_EQ(rank.AllReduce(&data), absl::OkStatus());
      EXPECT_EQ(data, Sum(kSize, 50'000));
      if (rank.rank() == 0) rank.io().Stop(0);
    });
  }
}

TEST(IoThreadNode, I8ARankThatEndsBeforeAnOpIsNamedToTheOthers) {
  std::latch started(2);  // an op that starts after the failure is told its reason alone
  RunRanks(3, [&](NodeRank& rank) {
    ASSERT_EQ(rank.Open(), absl::OkStatus());
    std::vector<float> data = Contribution(rank.rank(), 1000);
    ASSERT_EQ(rank.AllReduce(&data), absl::OkStatus());
    if (rank.rank() == 1) return started.wait();
    const std::shared_ptr<CallerOp> op = rank.Start(&data);
    started.count_down();
    const absl::Status status = rank.Finish(op);
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 of the job on node-a was lost: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("all-reduce 2 of group \"world\" (1000 float32)"));
  });
}

// The others, which may have room, would wait for it.
TEST(IoThreadNode, F21AGroupBeyondTheLimitOfAWorkerIsGivenUp) {
  RunRanks(2, [](NodeRank& rank) {
    for (size_t i = 0; i < kMaxWorkerGroups; ++i) ASSERT_EQ(rank.OpenAnother(), absl::OkStatus());
    EXPECT_TRUE(rank.TakeTold().empty());
    const absl::Status status = rank.OpenAnother();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    const std::vector<MembershipCommand> told = rank.TakeTold();
    ASSERT_EQ(told.size(), 2u);
    const auto* const failure = std::get_if<GroupFailure>(&told[0]);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->reason, status.message());
    EXPECT_THAT(failure->reason, HasSubstr("256 groups open"));
    const auto* const ended = std::get_if<GroupEnded>(&told[1]);
    ASSERT_NE(ended, nullptr);
    EXPECT_EQ(ended->group, failure->group);
  });
}

TEST(IoThreadNode, ARankThatIsLateIsNamedAtTheDeadline) {
  std::atomic<bool> is_over = false;
  RunRanks(2, [&](NodeRank& rank) {
    ASSERT_EQ(rank.Open(), absl::OkStatus());
    std::vector<float> data = Contribution(rank.rank(), 1000);
    if (rank.rank() == 1) {
      is_over.wait(false);
      return;
    }
    const absl::Status status = rank.AllReduce(&data, 200);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("it waits for rank 1 on node-a, which made fewer calls"));
    is_over = true;
    is_over.notify_all();
  });
}

TEST(IoThreadNode, ARankThatNeverComesIsNamedAtTheOpeningsDeadline) {
  NodeRank alone(absl::StrCat("io-thread-test-", DrawIncarnation().value().value()), 0, 2);
  const absl::Status status = alone.Open(200);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 on node-a did not come"));
}

TEST(IoThreadNode, AGroupCanBeOpenedAgainAndAgain) {
  constexpr uint32_t kSize = 2;
  for (int round = 0; round < 20; ++round) {
    RunRanks(kSize, [](NodeRank& rank) {
      ASSERT_EQ(rank.Open(), absl::OkStatus());
      std::vector<float> data = Contribution(rank.rank(), 10);
      ASSERT_EQ(rank.AllReduce(&data), absl::OkStatus());
      EXPECT_EQ(data, Sum(kSize, 10));
      rank.Close();
    });
  }
}

}  // namespace
}  // namespace shoal
