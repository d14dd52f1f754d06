// Whole all-reduces through real loops: what comes back, and what comes back when something breaks.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "reduce/reduce.h"
#include "tests/scenario/cluster.h"
#include "tests/scenario/tensors.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Case {
  ReduceSpec spec;
  size_t elements;
};

// Several ops in flight at once; the results of every worker must have exactly the expected bits.
void ExpectExactResults(const ClusterOptions& options, const std::vector<Case>& cases) {
  const std::string where = absl::StrCat(options.workers, " workers, ", options.servers, " servers, chunks of ",
                                         options.max_chunk_bytes, " bytes, seed ", options.seed);
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  std::vector<std::vector<Bytes>> tensors;
  std::vector<Bytes> expected;
  for (size_t i = 0; i < cases.size(); ++i) {
    // The same data whatever the cluster looks like.
    tensors.push_back(Tensors(options.workers, cases[i].spec.codec.tensor_type(), cases[i].elements, i));
    expected.push_back(Expected(tensors[i], cases[i].spec));
    for (uint32_t w = 0; w < options.workers; ++w) {
      cluster.Submit(w, 0, i, tensors[i][w], cases[i].spec.codec.tensor_type(), cases[i].spec.op,
                     cases[i].spec.premul_factor);
    }
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(0, cases.size() - 1); })) << where;
  for (size_t i = 0; i < cases.size(); ++i) {
    for (uint32_t w = 0; w < options.workers; ++w) {
      ASSERT_TRUE(cluster.Done(w, i)->status.ok()) << where << ": " << cluster.Done(w, i)->status;
      ASSERT_EQ(tensors[i][w], expected[i]) << where << ", op " << i << ", worker " << w;
    }
  }
  for (uint32_t k = 0; k < options.servers; ++k) EXPECT_EQ(cluster.server_counters(k).RefusalTotal(), 0u) << where;
}

TEST(Invariant, I1TheBitsDoNotDependOnServersChunkSizeOrArrivalOrder) {
  const std::vector<Case> cases = {
      {{WireCodec(DataType::kFloat32), ReduceOp::kSum}, 30'011},
      {{WireCodec(DataType::kFloat32), ReduceOp::kAvg}, 1},
      {{WireCodec(DataType::kFloat64), ReduceOp::kPremulSum, 0.3}, 3'001},
      {{WireCodec(DataType::kBfloat16), ReduceOp::kSum}, 20'003},
      {{WireCodec(DataType::kFloat16), ReduceOp::kAvg}, 10'007},
  };
  for (uint32_t workers = 1; workers <= 4; ++workers) {
    for (uint32_t servers = 1; servers <= 4; ++servers) {
      for (uint32_t chunk_bytes : {1024u, 16u << 10, 64u << 10, 1u << 20}) {
        ExpectExactResults({.workers = workers,
                            .servers = servers,
                            .max_chunk_bytes = chunk_bytes,
                            .seed = workers * 100 + servers * 10},
                           cases);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Invariant, I1TheBitsDoNotDependOnTheServersShares) {
  const std::vector<Case> cases = {{{WireCodec(DataType::kFloat32), ReduceOp::kSum}, 30'011},
                                   {{WireCodec(DataType::kFloat32), ReduceOp::kAvg}, 1},
                                   {{WireCodec(DataType::kBfloat16), ReduceOp::kSum}, 20'003}};
  for (const std::vector<uint32_t>& weights : {std::vector<uint32_t>{7, 7, 2, 2}, {1, 64, 1, 1}, {2, 1, 1, 1}}) {
    // From a look-ahead of one chunk, which pushes one at a time, to one that never binds.
    for (const uint32_t look_ahead : {1u, 5u, 28u, 1000u}) {
      for (const uint32_t credit : {1u, 6u}) {
        ExpectExactResults({.workers = 4,
                            .servers = 4,
                            .weights = weights,
                            .look_ahead_chunks = look_ahead,
                            .credit_chunks = credit,
                            .seed = look_ahead},
                           cases);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(AllReduce, EveryTypeWithEveryOperation) {
  std::vector<Case> cases;
  for (int type = 1; type <= 9; ++type) {
    for (int op = 1; op <= 6; ++op) {
      const ReduceSpec spec{WireCodec(static_cast<DataType>(type)), static_cast<ReduceOp>(op), op == 3 ? 2.0 : 1.0};
      if (CanReduce(spec.codec.tensor_type(), spec.op)) cases.push_back({spec, 1500});
    }
  }
  ExpectExactResults({.workers = 3, .servers = 2}, cases);
}

TEST(AllReduce, ManyOrdersOfArrival) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    ExpectExactResults({.workers = 4, .servers = 3, .seed = seed},
                       {{{WireCodec(DataType::kFloat32), ReduceOp::kSum}, 50'000},
                        {{WireCodec(DataType::kFloat32), ReduceOp::kSum}, 300}});
    if (HasFatalFailure()) return;
  }
}

// More ops than a server keeps uncommitted, some without elements, on shards that see few of them.
TEST(AllReduce, ThousandsOfSmallOpsInFlight) {
  Cluster cluster({.workers = 3, .servers = 4, .seed = 9});
  cluster.OpenGroup(1, 0);
  constexpr uint64_t kOps = 2700;  // the last one has elements
  std::vector<std::vector<Bytes>> tensors(kOps);
  for (uint64_t op = 0; op < kOps; ++op) {
    const size_t elements = op / 400 % 2 == 1 ? 0 : 1 + op % 7;
    tensors[op] = Tensors(3, DataType::kInt32, elements, op);
  }
  const std::vector<std::vector<Bytes>> inputs = tensors;
  for (uint32_t w = 0; w < 3; ++w) {
    for (uint64_t op = 0; op < kOps; ++op) cluster.Submit(w, 0, op, tensors[op][w], DataType::kInt32, ReduceOp::kSum);
    cluster.RunUntilQuiet();  // the first worker runs as far ahead as it may
  }
  for (int i = 0; i < 100 && !cluster.AllDone(kOps - 1, kOps - 1); ++i) cluster.AdvanceBy(10 * kNsPerMs);
  ASSERT_TRUE(cluster.AllDone(0, kOps - 1));
  for (uint64_t op = 0; op < kOps; ++op) {
    ASSERT_TRUE(cluster.Done(0, op)->status.ok()) << cluster.Done(0, op)->status;
    if (inputs[op][0].empty()) continue;
    ASSERT_EQ(tensors[op][1], Expected(inputs[op], {WireCodec(DataType::kInt32), ReduceOp::kSum})) << op;
  }
  for (uint32_t k = 0; k < 4; ++k) EXPECT_EQ(cluster.server_counters(k).RefusalTotal(), 0u);
}

TEST(AllReduce, TwoGroupsAtOnceOfDifferentRanks) {
  Cluster cluster({.workers = 4, .servers = 2, .seed = 4});
  cluster.OpenGroup(1, 0);
  cluster.OpenGroup(2, 1, {1, 3});
  std::vector<Bytes> all = Tensors(4, DataType::kFloat32, 9000, 1);
  std::vector<Bytes> pair = Tensors(2, DataType::kFloat32, 7000, 2);
  const Bytes expected_all = Expected(all, {WireCodec(DataType::kFloat32), ReduceOp::kSum});
  const Bytes expected_pair = Expected(pair, {WireCodec(DataType::kFloat32), ReduceOp::kMax});
  // Each worker calls them in its own order: groups do not wait for each other.
  cluster.Submit(1, 1, 20, pair[0], DataType::kFloat32, ReduceOp::kMax);
  for (uint32_t w = 0; w < 4; ++w) cluster.Submit(w, 0, 10, all[w], DataType::kFloat32, ReduceOp::kSum);
  cluster.Submit(3, 1, 20, pair[1], DataType::kFloat32, ReduceOp::kMax);
  ASSERT_TRUE(cluster.RunUntil(
      [&] { return cluster.AllDone(10, 10) && cluster.Done(1, 20) != nullptr && cluster.Done(3, 20) != nullptr; }));
  for (const Bytes& tensor : all) EXPECT_EQ(tensor, expected_all);
  for (const Bytes& tensor : pair) EXPECT_EQ(tensor, expected_pair);
}

TEST(AllReduce, AnOrderlyEndLeavesNothingOnTheServers) {
  Cluster cluster({.workers = 3, .servers = 2});
  cluster.OpenGroup(1, 0);
  std::vector<Bytes> tensors = Tensors(3, DataType::kFloat32, 5000, 1);
  for (uint32_t w = 0; w < 3; ++w) {
    cluster.Submit(w, 0, 1, tensors[w], DataType::kFloat32, ReduceOp::kSum);
    cluster.Command(w, CloseGroupCommand{GroupHandle(0)});
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Closed(0, 0) && cluster.Closed(1, 0) && cluster.Closed(2, 0); }));
  for (uint32_t w = 0; w < 3; ++w) {
    EXPECT_TRUE(cluster.Done(w, 1)->status.ok());
    cluster.Command(w, ShutdownCommand{100 * kNsPerS});
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.ShutDown(0) && cluster.ShutDown(1) && cluster.ShutDown(2); }));
  cluster.RunUntilQuiet();
  for (uint32_t k = 0; k < 2; ++k) {
    EXPECT_EQ(cluster.server_counters(k).slot_memory_used_bytes, 0u);
    EXPECT_EQ(cluster.server_counters(k).peers, 0u);
    EXPECT_EQ(cluster.server_counters(k).groups_failed, 0u);
  }
}

TEST(AllReduce, AnAbortInTheMiddleEndsTheOpOnAllRanksWithTheReason) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Cluster cluster({.workers = 3, .servers = 2, .seed = seed});
    cluster.OpenGroup(1, 0);
    std::vector<Bytes> tensors = Tensors(3, DataType::kFloat32, 100'000, 1);
    for (uint32_t w = 0; w < 3; ++w) cluster.Submit(w, 0, 1, tensors[w], DataType::kFloat32, ReduceOp::kSum);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.server_counters(0).chunks_reduced > 20 * seed / 4; }));
    cluster.Command(1, AbortGroupCommand{GroupHandle(0), "the watchdog barked"});
    cluster.RunUntilQuiet();
    ASSERT_TRUE(cluster.AllDone(1, 1)) << "seed " << seed;
    EXPECT_EQ(cluster.Done(1, 1)->status, absl::CancelledError("the group was aborted: the watchdog barked"));
    for (uint32_t w : {0u, 2u}) {
      EXPECT_TRUE(absl::IsAborted(cluster.Done(w, 1)->status)) << cluster.Done(w, 1)->status;
      EXPECT_THAT(std::string(cluster.Done(w, 1)->status.message()),
                  StartsWith("rank 1 on node-1: the group was aborted: the watchdog barked; all-reduce 1 of group"));
    }
    // A new group works at once, over the same connections.
    for (uint32_t w = 0; w < 3; ++w) cluster.Command(w, CloseGroupCommand{GroupHandle(0)});
    cluster.OpenGroup(2, 1);
    std::vector<Bytes> again = Tensors(3, DataType::kFloat32, 3000, 2);
    const Bytes expected = Expected(again, {WireCodec(DataType::kFloat32), ReduceOp::kSum});
    for (uint32_t w = 0; w < 3; ++w) cluster.Submit(w, 1, 2, again[w], DataType::kFloat32, ReduceOp::kSum);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(2, 2); })) << "seed " << seed;
    for (uint32_t w = 0; w < 3; ++w) ASSERT_EQ(again[w], expected) << cluster.Done(w, 2)->status;
  }
}

// F20: some ranks are refused by that server, others hear of it from the other servers, before their hello or after it.
TEST(AllReduce, AServerWithoutMemoryForAGroupIsNamedToEveryRankWithTheSameCode) {
  size_t told = 0;
  size_t refused_as_failed_before = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Cluster cluster({.workers = 4, .servers = 3, .slot_memory_of_last_server_bytes = 64, .seed = seed});
    cluster.OpenGroup(1, 0);
    cluster.RunUntilQuiet();
    for (uint32_t w = 0; w < 4; ++w) {
      ASSERT_NE(cluster.Opened(w, 0), nullptr) << "seed " << seed << " rank " << w;
      const absl::Status& status = cluster.Opened(w, 0)->status;
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << "seed " << seed << " rank " << w << ": " << status;
      const std::string text(status.message());
      EXPECT_THAT(text, HasSubstr("server server-2 has no memory for the slots of a group of 4 ranks"));
      if (text.starts_with("rank ")) ++told;
      if (text.find("(group-lacked-memory)") != std::string::npos) ++refused_as_failed_before;
    }
    for (uint32_t k = 0; k < 3; ++k) EXPECT_EQ(cluster.server_counters(k).slot_memory_used_bytes, 0u) << seed;
  }
  EXPECT_GT(told, 0u);
  EXPECT_GT(refused_as_failed_before, 0u);
}

// F2: with real numbers, whose sum in another order would have other bits, down to one server.
TEST(Invariant, I1TheBitsAreTheSameWhenServersDieInTheMiddle) {
  for (const WireFormat wire : {WireFormat::kAsIs, WireFormat::kBfloat16, WireFormat::kInt8, WireFormat::kFloat8}) {
    // So that it has as many chunks.
    const size_t elements = IsInBlocks(wire) ? 160'000 : 80'000;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const auto run = [&](bool servers_die) {
        Cluster cluster({.workers = 3, .servers = 3, .wire = wire, .seed = seed});
        cluster.OpenGroup(1, 0);
        std::vector<std::vector<Bytes>> tensors;
        for (uint64_t op = 0; op < 4; ++op) {
          tensors.push_back(Tensors(3, DataType::kFloat32, elements, op));
          for (uint32_t w = 0; w < 3; ++w) {
            cluster.Submit(w, 0, op, tensors[op][w], DataType::kFloat32, ReduceOp::kAvg);
          }
        }
        for (uint32_t victim = 0; servers_die && victim < 2; ++victim) {
          EXPECT_TRUE(cluster.RunUntil([&] { return cluster.server_counters(2).chunks_reduced > 20 * (victim + 1); }));
          cluster.KillServer(victim);
          EXPECT_FALSE(cluster.RunUntil([&] { return cluster.AllDone(0, 3); }));
          cluster.MoveGroup(1);
        }
        EXPECT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(0, 3); })) << "seed " << seed;
        for (uint64_t op = 0; op < 4; ++op) {
          for (uint32_t w = 0; w < 3; ++w) EXPECT_TRUE(cluster.Done(w, op)->status.ok()) << cluster.Done(w, op)->status;
        }
        return tensors;
      };
      ASSERT_EQ(run(true), run(false)) << "seed " << seed;
    }
  }
}

TEST(AllReduce, F14ARankThatMakesNoCallIsNamedAtTheDeadline) {
  Cluster cluster({.workers = 3, .servers = 2});
  cluster.OpenGroup(1, 0);
  std::vector<Bytes> tensors = Tensors(3, DataType::kFloat32, 5000, 1);
  for (uint32_t w : {0u, 1u}) {
    cluster.Submit(w, 0, 1, tensors[w], DataType::kFloat32, ReduceOp::kSum, 1.0, 5 * kNsPerS);
  }
  cluster.AdvanceBy(4 * kNsPerS);
  EXPECT_EQ(cluster.Done(0, 1), nullptr);
  cluster.AdvanceBy(2 * kNsPerS);
  for (uint32_t w : {0u, 1u}) {
    ASSERT_NE(cluster.Done(w, 1), nullptr);
    EXPECT_THAT(std::string(cluster.Done(w, 1)->status.message()), HasSubstr("waits for rank 2 on node-2"));
  }
}

TEST(AllReduce, SizesThatDifferBetweenRanksFailOnBothWithBothNames) {
  Cluster cluster({.workers = 2, .servers = 2});
  cluster.OpenGroup(1, 0);
  std::vector<Bytes> tensors = Tensors(2, DataType::kFloat32, 5000, 1);
  tensors[1].resize(4 * 4999);
  for (uint32_t w = 0; w < 2; ++w) cluster.Submit(w, 0, 1, tensors[w], DataType::kFloat32, ReduceOp::kSum);
  cluster.RunUntilQuiet();
  ASSERT_TRUE(cluster.AllDone(1, 1));
  for (uint32_t w = 0; w < 2; ++w) {
    const std::string text(cluster.Done(w, 1)->status.message());
    EXPECT_THAT(text, HasSubstr("rank 0 called sum of 5000 float32"));
    EXPECT_THAT(text, HasSubstr("rank 1 called sum of 4999 float32"));
  }
}

}  // namespace
}  // namespace shoal
