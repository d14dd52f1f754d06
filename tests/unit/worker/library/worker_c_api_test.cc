// All-reduces of four ranks through two servers, all in this process, through the C ABI: what must work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <future>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/worker/library/worker_cluster.h"

namespace shoal {
namespace {

constexpr uint32_t kRanks = 4;
constexpr uint64_t kTimeoutMs = 20'000;

using WorkerCApiTest = ClusterTest<2>;

// A value that every rank can compute for every other: small integers, so that sums are exact.
int64_t Value(uint32_t rank, uint32_t call, size_t index) {
  return static_cast<int64_t>((index * 7 + call * 3 + rank * 5) % 11) - 5;
}

int64_t Expected(shoal_reduce_op op, uint32_t call, size_t index) {
  int64_t result = Value(0, call, index);
  for (uint32_t rank = 1; rank < kRanks; ++rank) {
    const int64_t value = Value(rank, call, index);
    if (op == SHOAL_MIN) result = std::min(result, value);
    if (op == SHOAL_MAX) result = std::max(result, value);
    if (op == SHOAL_SUM || op == SHOAL_PREMUL_SUM) result += value;
    if (op == SHOAL_PROD) result *= value;
  }
  return op == SHOAL_PREMUL_SUM ? 2 * result : result;
}

// bfloat16 is the upper half of a float32.
struct Bfloat16 {
  uint16_t bits;
};
void Store(int64_t value, Bfloat16* target) {
  const float wide = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &wide, sizeof(bits));
  target->bits = static_cast<uint16_t>(bits >> 16);
}
int64_t Load(Bfloat16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float wide = 0;
  std::memcpy(&wide, &bits, sizeof(wide));
  return static_cast<int64_t>(wide);
}
template <typename Number>
void Store(int64_t value, Number* target) {
  *target = static_cast<Number>(value);
}
template <typename Number>
int64_t Load(Number value) {
  return static_cast<int64_t>(value);
}

// Starts an op that nobody waits for.
void StartNotifying(TestRank& rank, std::vector<float>* data, uint64_t user_data) {
  shoal_op* const op = rank.Start(data, kTimeoutMs);
  EXPECT_EQ(shoal_op_notify(op, user_data, nullptr), SHOAL_OK);
  shoal_op_release(op);
}

// A call that was started and will be checked.
class StartedCall {
 public:
  virtual ~StartedCall() = default;
  virtual void Start(TestRank& rank) = 0;
  virtual void FinishAndCheck() = 0;
};

template <typename Number>
class TypedCall : public StartedCall {
 public:
  TypedCall(shoal_dtype dtype, shoal_reduce_op op, uint32_t number, size_t count)
      : dtype_(dtype), reduce_op_(op), number_(number), data_(count) {}

  void Start(TestRank& rank) override {
    for (size_t i = 0; i < data_.size(); ++i) Store(Value(rank.rank(), number_, i), &data_[i]);
    shoal_all_reduce_options options = {
        .dtype = dtype_, .op = reduce_op_, .premul_factor = 2.0, .timeout_ms = kTimeoutMs};
    shoal_error error = {};
    ASSERT_EQ(shoal_all_reduce(rank.group(), data_.data(), data_.size(), &options, &op_, &error), SHOAL_OK)
        << error.message;
  }

  void FinishAndCheck() override {
    ASSERT_NE(op_, nullptr);
    const Outcome outcome = TestRank::Finish(op_);
    ASSERT_EQ(outcome.code, SHOAL_OK) << outcome.message;
    size_t wrong = 0;
    for (size_t i = 0; i < data_.size(); ++i) wrong += Load(data_[i]) != Expected(reduce_op_, number_, i) ? 1 : 0;
    EXPECT_EQ(wrong, 0u) << "call " << number_ << ", dtype " << dtype_ << ", op " << reduce_op_ << ", " << data_.size()
                         << " elements";
  }

 private:
  const shoal_dtype dtype_;
  const shoal_reduce_op reduce_op_;
  const uint32_t number_;
  std::vector<Number> data_;
  shoal_op* op_ = nullptr;
};

std::unique_ptr<StartedCall> MakeCall(uint32_t number, size_t count) {
  switch (number % 6) {
    case 0:
      return std::make_unique<TypedCall<float>>(SHOAL_FLOAT32, SHOAL_SUM, number, count);
    case 1:
      return std::make_unique<TypedCall<double>>(SHOAL_FLOAT64, SHOAL_PREMUL_SUM, number, count);
    case 2:
      return std::make_unique<TypedCall<Bfloat16>>(SHOAL_BFLOAT16, SHOAL_SUM, number, count);
    case 3:
      return std::make_unique<TypedCall<int64_t>>(SHOAL_INT64, SHOAL_PROD, number, count);
    case 4:
      return std::make_unique<TypedCall<int8_t>>(SHOAL_INT8, SHOAL_MIN, number, count);
    default:
      return std::make_unique<TypedCall<int32_t>>(SHOAL_INT32, SHOAL_MAX, number, count);
  }
}

TEST_F(WorkerCApiTest, ManyCallsOfAllSizesInFlightAreExact) {
  RunRanks(*cluster, "sizes", kRanks, [](TestRank& rank) {
    std::minstd_rand random(20240607);  // the same sizes on every rank
    std::vector<std::unique_ptr<StartedCall>> calls;
    for (uint32_t number = 0; number < 90; ++number) {
      const size_t bound = number % 10 == 0 ? 400'000 : 5'000;
      calls.push_back(MakeCall(number, random() % bound));
    }
    for (const auto& call : calls) call->Start(rank);
    for (const auto& call : calls) call->FinishAndCheck();
  });
}

TEST_F(WorkerCApiTest, GroupKnowsItsRanks) {
  RunRanks(*cluster, "ranks", kRanks, [](TestRank& rank) {
    EXPECT_EQ(shoal_group_rank(rank.group()), rank.rank());
    EXPECT_EQ(shoal_group_size(rank.group()), kRanks);
  });
}

TEST_F(WorkerCApiTest, APlanSaysHowATensorWouldGo) {
  RunRanks(*cluster, "plans", kRanks, [](TestRank& rank) {
    shoal_plan plan = {};
    shoal_error error = {};
    EXPECT_EQ(shoal_group_plan(rank.group(), 1, SHOAL_FLOAT32, nullptr, &error), SHOAL_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, testing::HasSubstr("plan is NULL"));
    ASSERT_EQ(shoal_group_plan(rank.group(), 1, SHOAL_FLOAT32, &plan, &error), SHOAL_OK) << error.message;
    EXPECT_EQ(plan.chunk_count, 1u);
    EXPECT_EQ(plan.shards_used, 1u);
    EXPECT_GE(plan.window_chunks, 2u);
    const uint64_t of_one = plan.predicted_ns;
    ASSERT_EQ(shoal_group_plan(rank.group(), 10'000'000, SHOAL_FLOAT64, &plan, &error), SHOAL_OK) << error.message;
    EXPECT_EQ(plan.shards_used, 2u);
    EXPECT_GE(uint64_t{plan.chunk_count} * plan.chunk_bytes, 80'000'000u);
    EXPECT_TRUE(plan.link_bytes_per_s == 0 || plan.predicted_ns > of_one);
    ASSERT_EQ(shoal_group_plan(rank.group(), 0, SHOAL_INT8, &plan, &error), SHOAL_OK) << error.message;
    EXPECT_EQ(plan.chunk_count, 0u);
  });
}

TEST_F(WorkerCApiTest, SubGroupsReduceInTheirOwnOrder) {
  RunRanks(*cluster, "sub-groups", kRanks, [](TestRank& rank) {
    // Ranks 3 and 1 in that order, ranks 2 and 0 in that order.
    const uint32_t members[2] = {rank.rank() % 2 == 0 ? 2u : 3u, rank.rank() % 2 == 0 ? 0u : 1u};
    shoal_group* const group = rank.MakeGroup(
        {.name = rank.rank() % 2 == 0 ? "even" : "odd", .ranks = members, .rank_count = 2, .max_chunk_bytes = 1024});
    EXPECT_EQ(shoal_group_rank(group), rank.rank() < 2 ? 1u : 0u);
    EXPECT_EQ(shoal_group_size(group), 2u);
    std::vector<float> data(5000, static_cast<float>(rank.rank()));
    EXPECT_EQ(TestRank::Finish(TestRank::StartIn(group, SHOAL_AVG, &data, kTimeoutMs)).code, SHOAL_OK);
    EXPECT_THAT(data, testing::Each(rank.rank() % 2 == 0 ? 1.0f : 2.0f));
    shoal_group_close(group);
  });
}

TEST_F(WorkerCApiTest, EmptyAllReduceIsCompleteWithoutTheOthers) {
  RunRanks(*cluster, "empty", 2, [](TestRank& rank) {
    std::vector<float> nothing;
    EXPECT_EQ(rank.AllReduce(&nothing, kTimeoutMs).code, SHOAL_OK);
    std::vector<float> something(10, 1.0f);
    EXPECT_EQ(rank.AllReduce(&something, kTimeoutMs).code, SHOAL_OK);
    EXPECT_THAT(something, testing::Each(2.0f));
  });
}

TEST_F(WorkerCApiTest, CompletionsCarryWhatTheCallerGave) {
  static constexpr uint64_t kCalls = 20;
  RunRanks(*cluster, "completions", 2, [](TestRank& rank) {
    std::vector<std::vector<float>> data(kCalls, std::vector<float>(3000, 1.0f));
    for (uint64_t i = 0; i < kCalls; ++i) StartNotifying(rank, &data[i], 1000 + i);
    std::set<uint64_t> fetched;
    for (uint64_t i = 0; i < kCalls; ++i) {
      shoal_completion completion = {};
      ASSERT_EQ(shoal_next_completion(rank.worker(), kTimeoutMs, &completion), SHOAL_OK);
      EXPECT_EQ(completion.result.code, SHOAL_OK) << completion.result.message;
      EXPECT_GT(completion.duration_ns, 0u);
      fetched.insert(completion.user_data);
    }
    EXPECT_EQ(fetched.size(), kCalls);
    EXPECT_EQ(*fetched.begin(), 1000u);
    shoal_completion none = {};
    EXPECT_EQ(shoal_next_completion(rank.worker(), 0, &none), SHOAL_DEADLINE_EXCEEDED);
  });
}

// Callers of small ops run the loop in turns, while the I/O thread comes and goes for large ones.
TEST_F(WorkerCApiTest, ManyThreadsWaitForSmallOpsBesideLargeOnes) {
  constexpr uint32_t kRounds = 30;
  constexpr size_t kSmallOps = 3;
  RunRanks(*cluster, "many-waiters", kRanks, [](TestRank& rank) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      std::vector<float> bulk(200'000, 1.0f);
      std::vector<std::vector<float>> data(kSmallOps, std::vector<float>(1 + 100 * round, 1.0f));
      std::vector<shoal_op*> ops;
      ops.push_back(rank.Start(&data[0], kTimeoutMs));
      const bool with_bulk = round % 3 == 0;
      if (with_bulk) StartNotifying(rank, &bulk, 0);
      for (size_t i = 1; i < kSmallOps; ++i) ops.push_back(rank.Start(&data[i], kTimeoutMs));
      std::vector<std::thread> waiters;
      for (shoal_op* op : ops) {
        waiters.emplace_back([op] {
          const Outcome outcome = TestRank::Finish(op);
          EXPECT_EQ(outcome.code, SHOAL_OK) << outcome.message;
        });
      }
      for (std::thread& waiter : waiters) waiter.join();
      for (const std::vector<float>& tensor : data) EXPECT_THAT(tensor, testing::Each(kRanks));
      if (with_bulk) {
        shoal_completion completion = {};
        ASSERT_EQ(shoal_next_completion(rank.worker(), kTimeoutMs, &completion), SHOAL_OK);
        EXPECT_EQ(completion.result.code, SHOAL_OK) << completion.result.message;
        EXPECT_THAT(bulk, testing::Each(kRanks));
      }
    }
  });
}

// Nobody waits: whoever stands back must come back by itself.
TEST_F(WorkerCApiTest, SmallOpsEndAlsoWhenNobodyWaits) {
  RunRanks(*cluster, "nobody-waits", 2, [](TestRank& rank) {
    for (int round = 0; round < 10; ++round) {
      std::vector<float> waited_for(10, 1.0f);
      EXPECT_EQ(rank.AllReduce(&waited_for, kTimeoutMs).code, SHOAL_OK);
      std::vector<float> looked_at(10, 1.0f);
      shoal_op* op = rank.Start(&looked_at, kTimeoutMs);
      while (shoal_op_done(op) == 0) std::this_thread::yield();
      EXPECT_EQ(TestRank::Finish(op).code, SHOAL_OK);
      EXPECT_THAT(looked_at, testing::Each(2.0f));
    }
  });
}

// Until the thread waits for something: its state in /proc is S then.
void WaitUntilItSleeps(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  std::string id, name, state;
  while (state != "S") std::ifstream(path) >> id >> name >> state;
}

TEST_F(WorkerCApiTest, CloseEndsTheWaitForCompletions) {
  TestRank rank(*cluster, "end-of-completions", 0, 1);
  std::atomic<pid_t> fetcher_id = 0;
  const auto started_at = std::chrono::steady_clock::now();
  shoal_worker* const worker = rank.worker();
  std::future<shoal_code> fetched = std::async(std::launch::async, [&] {
    shoal_completion completion = {};
    fetcher_id = gettid();
    return shoal_next_completion(worker, kTimeoutMs, &completion);
  });
  while (fetcher_id == 0) std::this_thread::yield();
  WaitUntilItSleeps(fetcher_id);
  rank.Close();
  EXPECT_EQ(fetched.get(), SHOAL_CANCELLED);
  EXPECT_LT(std::chrono::steady_clock::now() - started_at, std::chrono::milliseconds(kTimeoutMs));
  shoal_completion completion = {};
  EXPECT_EQ(shoal_next_completion(worker, kTimeoutMs, &completion), SHOAL_CANCELLED) << "also one that comes late";
}

TEST_F(WorkerCApiTest, AnOpCanBeLookedAtAndReleasedEarly) {
  std::vector<std::vector<float>> first(2, std::vector<float>(100'000, 1.0f));  // outlives the groups
  RunRanks(*cluster, "early-release", 2, [&](TestRank& rank) {
    shoal_op* op = rank.Start(&first[rank.rank()], kTimeoutMs);
    const shoal_code now = shoal_op_wait(op, 0, nullptr);
    EXPECT_TRUE(now == SHOAL_OK || now == SHOAL_DEADLINE_EXCEEDED);
    shoal_op_release(op);
    std::vector<float> second(10, 1.0f);
    shoal_op* last = rank.Start(&second, kTimeoutMs);
    shoal_error error = {};
    EXPECT_EQ(shoal_op_wait(last, kTimeoutMs, &error), SHOAL_OK) << error.message;
    EXPECT_GT(shoal_op_duration_ns(last), 0u);
    shoal_op_release(last);
  });
  // Closing a group waits for its ops.
  for (const std::vector<float>& data : first) EXPECT_THAT(data, testing::Each(2.0f));
}

TEST_F(WorkerCApiTest, ACallerThatWillNotWaitAsksForTheCompletionLater) {
  RunRanks(*cluster, "notify-later", 2, [](TestRank& rank) {
    std::vector<std::vector<float>> data(2, std::vector<float>(10, 1.0f));
    shoal_op* open = rank.Start(&data[0], kTimeoutMs);
    shoal_op* complete = rank.Start(&data[1], kTimeoutMs);
    EXPECT_EQ(shoal_op_notify(open, 1, nullptr), SHOAL_OK);
    EXPECT_EQ(shoal_op_wait(complete, kTimeoutMs, nullptr), SHOAL_OK);
    EXPECT_EQ(shoal_op_notify(complete, 2, nullptr), SHOAL_OK);
    shoal_error error = {};
    EXPECT_EQ(shoal_op_notify(complete, 3, &error), SHOAL_FAILED_PRECONDITION);
    std::vector<uint64_t> fetched;
    for (int i = 0; i < 2; ++i) {
      shoal_completion completion = {};
      ASSERT_EQ(shoal_next_completion(rank.worker(), kTimeoutMs, &completion), SHOAL_OK);
      EXPECT_EQ(completion.result.code, SHOAL_OK) << completion.result.message;
      fetched.push_back(completion.user_data);
    }
    EXPECT_THAT(fetched, testing::UnorderedElementsAre(1, 2));
    for (const std::vector<float>& tensor : data) EXPECT_THAT(tensor, testing::Each(2.0f));
    shoal_op_release(open);
    shoal_op_release(complete);
  });
}

TEST_F(WorkerCApiTest, StatisticsCountWhatWasDoneAndServersShareItEvenly) {
  constexpr size_t kElements = 1'000'000;
  RunRanks(*cluster, "statistics", kRanks, [](TestRank& rank) {
    std::vector<float> data(kElements, 1.0f);
    EXPECT_EQ(rank.AllReduce(&data, kTimeoutMs).code, SHOAL_OK);
    shoal_statistics statistics = {};
    ASSERT_EQ(shoal_worker_statistics(rank.worker(), &statistics), SHOAL_OK);
    EXPECT_EQ(statistics.ops_completed, 1u);
    EXPECT_EQ(statistics.ops_failed, 0u);
    EXPECT_EQ(statistics.bytes_pushed, kElements * sizeof(float));
    EXPECT_EQ(statistics.bytes_pulled, kElements * sizeof(float));
    EXPECT_GT(statistics.chunks_pushed, 0u);
    EXPECT_GT(statistics.op_time_ns_total, 0u);
    uint64_t ops = 0;
    for (size_t i = 0; i < SHOAL_OP_TIME_BUCKETS; ++i) {
      ops += statistics.op_time_counts[i];
      EXPECT_TRUE(i == 0 || statistics.op_time_bounds_ns[i] > statistics.op_time_bounds_ns[i - 1]);
      EXPECT_TRUE(statistics.op_time_counts[i] == 0 || statistics.op_time_ns_total <= statistics.op_time_bounds_ns[i]);
    }
    EXPECT_EQ(ops, statistics.ops_completed);
    EXPECT_EQ(statistics.op_time_bounds_ns[SHOAL_OP_TIME_BUCKETS - 1], UINT64_MAX);
    EXPECT_GT(statistics.map_epoch, 0u);
    EXPECT_EQ(statistics.shard_count, 2u);
    EXPECT_EQ(statistics.server_count, 2u);
    shoal_server_statistics servers[3] = {};
    ASSERT_EQ(shoal_worker_server_statistics(rank.worker(), servers, 3), 2u);
    EXPECT_EQ(servers[0].bytes_pushed + servers[1].bytes_pushed, kElements * sizeof(float));
    const double mean = kElements * sizeof(float) / 2.0;
    EXPECT_LE(static_cast<double>(std::max(servers[0].bytes_pushed, servers[1].bytes_pushed)) / mean, 1.01);
    EXPECT_STRNE(servers[0].name, servers[1].name);
    EXPECT_STREQ(servers[0].transport, servers[1].transport);
    EXPECT_STRNE(servers[0].transport, "");
    EXPECT_EQ(shoal_worker_server_statistics(rank.worker(), servers, 1), 2u);
  });
}

TEST_F(WorkerCApiTest, AJobNameCanBeUsedAgain) {
  for (int life = 0; life < 2; ++life) {
    RunRanks(*cluster, "again", 2, [](TestRank& rank) {
      std::vector<float> data(1000, 1.0f);
      EXPECT_EQ(rank.AllReduce(&data, kTimeoutMs).code, SHOAL_OK);
    });
  }
}

TEST_F(WorkerCApiTest, WrongAllReducesAreRefusedAtOnce) {
  RunRanks(*cluster, "wrong-calls", 1, [](TestRank& rank) {
    std::vector<float> data(10, 1.0f);
    shoal_all_reduce_options options = {.dtype = SHOAL_FLOAT32, .op = SHOAL_SUM};
    const auto error_of = [&](void* memory, uint64_t count, const shoal_all_reduce_options& call) -> std::string {
      shoal_op* op = nullptr;
      shoal_error error = {};
      EXPECT_EQ(shoal_all_reduce(rank.group(), memory, count, &call, &op, &error), SHOAL_INVALID_ARGUMENT);
      EXPECT_EQ(op, nullptr);
      return error.message;
    };
    using testing::HasSubstr;
    EXPECT_THAT(error_of(nullptr, 1, options), HasSubstr("data is NULL"));
    EXPECT_THAT(error_of(reinterpret_cast<char*>(data.data()) + 1, 1, options), HasSubstr("aligned"));
    EXPECT_THAT(error_of(data.data(), UINT64_MAX, options), HasSubstr("more than memory can hold"));
    EXPECT_THAT(error_of(data.data(), uint64_t{1} << 60, options), HasSubstr("more than 64 GiB"));
    for (const int number : {0, 10, 257, -1}) {
      shoal_all_reduce_options call = options;
      std::memcpy(&call.dtype, &number, sizeof(number));
      EXPECT_THAT(error_of(data.data(), 1, call), HasSubstr("dtype is " + std::to_string(number)));
    }
    for (const int number : {0, 7, 257}) {
      shoal_all_reduce_options call = options;
      std::memcpy(&call.op, &number, sizeof(number));
      EXPECT_THAT(error_of(data.data(), 1, call), HasSubstr("op is " + std::to_string(number)));
    }
    shoal_all_reduce_options call = options;
    call.op = SHOAL_PREMUL_SUM;
    call.premul_factor = std::numeric_limits<double>::infinity();
    EXPECT_THAT(error_of(data.data(), 1, call), HasSubstr("finite"));
    call.premul_factor = 2;
    call.dtype = SHOAL_INT32;
    EXPECT_THAT(error_of(data.data(), 1, call), HasSubstr("a tensor of int32 can't be multiplied by a factor"));
    shoal_error error = {};
    EXPECT_EQ(shoal_all_reduce(rank.group(), data.data(), 1, &options, nullptr, &error), SHOAL_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("op is NULL"));
  });
}

}  // namespace
}  // namespace shoal
