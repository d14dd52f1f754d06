// Groups with rails through real loops: the ranks of each node reduce through shared memory, the nodes through servers.
// Which bits come back, and who is named when a rank or a server goes away in the middle.
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "reduce/convert.h"
#include "reduce/reduce.h"
#include "tests/scenario/cluster.h"
#include "tests/scenario/tensors.h"
#include "worker/local_reduce/host_local_reduce.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  ReduceSpec spec;
  size_t elements;
};

ClusterOptions Rails(uint32_t nodes, uint32_t workers_per_node) {
  ClusterOptions options;
  options.workers = nodes * workers_per_node;
  options.workers_per_node = workers_per_node;
  options.make_local_reduce = [] { return MakeHostLocalReduce().value(); };
  return options;
}

// The local ranks in order, then the nodes in order; an average is divided once, by all ranks.
Bytes ExpectedWithRails(const std::vector<Bytes>& tensors, const ReduceSpec& spec, const ClusterOptions& options) {
  const WireCodec codec(spec.codec.tensor_type(), options.wire);
  const size_t elements = tensors[0].size() / codec.TensorBytes(1);
  ReduceSpec on_node = {.codec = codec, .op = spec.op, .premul_factor = spec.premul_factor};
  if (spec.op == ReduceOp::kAvg) on_node.op = ReduceOp::kSum;
  ReduceSpec over_nodes = {.codec = codec, .op = spec.op, .ranks_per_input = options.workers_per_node};
  if (spec.op == ReduceOp::kPremulSum) over_nodes.op = ReduceOp::kSum;
  std::vector<Bytes> sums;
  for (size_t first = 0; first < tensors.size(); first += options.workers_per_node) {
    std::vector<Bytes> contributions(tensors.begin() + first, tensors.begin() + first + options.workers_per_node);
    for (Bytes& contribution : contributions) {
      Bytes encoded(codec.WireBytes(elements));
      Encode(codec, contribution.data(), encoded.data(), elements);
      contribution = std::move(encoded);
    }
    sums.push_back(Expected(contributions, on_node));
  }
  const Bytes sum = Expected(sums, over_nodes);
  Bytes result(codec.TensorBytes(elements));
  Decode(codec, sum.data(), result.data(), elements);
  return result;
}

// All ops at once.
std::vector<std::vector<Bytes>> Submit(Cluster* cluster, const std::vector<Case>& cases) {
  std::vector<std::vector<Bytes>> tensors;
  for (size_t i = 0; i < cases.size(); ++i) {
    const ReduceSpec& spec = cases[i].spec;
    // Every op has the numbers of its place, whatever the cluster looks like.
    tensors.push_back(Tensors(cluster->worker_count(), spec.codec.tensor_type(), cases[i].elements, i));
    for (uint32_t w = 0; w < cluster->worker_count(); ++w) {
      cluster->Submit(w, 0, i, tensors[i][w], spec.codec.tensor_type(), spec.op, spec.premul_factor);
    }
  }
  return tensors;
}

void ExpectExactResults(const ClusterOptions& options, const std::vector<Case>& cases) {
  const std::string where = absl::StrCat(options.workers, " workers, ", options.workers_per_node, " on each node, ",
                                         options.servers, " servers, chunks of ", options.max_chunk_bytes, " bytes");
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  std::vector<Bytes> expected;
  for (size_t i = 0; i < cases.size(); ++i) {
    expected.push_back(ExpectedWithRails(
        Tensors(options.workers, cases[i].spec.codec.tensor_type(), cases[i].elements, i), cases[i].spec, options));
  }
  const std::vector<std::vector<Bytes>> tensors = Submit(&cluster, cases);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(0, cases.size() - 1); })) << where;
  for (size_t i = 0; i < cases.size(); ++i) {
    for (uint32_t w = 0; w < options.workers; ++w) {
      ASSERT_TRUE(cluster.Done(w, i)->status.ok()) << where << ": " << cluster.Done(w, i)->status;
      ASSERT_EQ(tensors[i][w], expected[i]) << where << ", op " << i << ", worker " << w;
    }
  }
  for (uint32_t k = 0; k < options.servers; ++k) EXPECT_EQ(cluster.server_counters(k).RefusalTotal(), 0u) << where;
  for (uint32_t w = 0; w < options.workers; ++w) cluster.Command(w, CloseGroupCommand{GroupHandle(0)});
  cluster.RunUntilQuiet();
  cluster.AdvanceBy(kNsPerS);
  for (uint32_t w = 0; w < options.workers; ++w) EXPECT_TRUE(cluster.Closed(w, 0)) << where;
  for (uint32_t k = 0; k < options.servers; ++k) {
    EXPECT_EQ(cluster.server_counters(k).slot_memory_used_bytes, 0u) << where;
  }
}

TEST(Rails, EveryTypeWithEveryOperation) {
  std::vector<Case> cases;
  for (int type = 1; type <= 9; ++type) {
    for (int op = 1; op <= 6; ++op) {
      const ReduceSpec spec{WireCodec(static_cast<DataType>(type)), static_cast<ReduceOp>(op), op == 3 ? 2.0 : 1.0};
      if (CanReduce(spec.codec.tensor_type(), spec.op)) cases.push_back({spec, 1500});
    }
  }
  for (const uint32_t workers_per_node : {2u, 4u}) {
    ClusterOptions options = Rails(2, workers_per_node);
    options.servers = 2;
    ExpectExactResults(options, cases);
  }
}

TEST(Invariant, I1TheBitsDoNotDependOnServersChunkSizeOrArrivalOrderWithRails) {
  // From a part that only one rank has, to several rounds through the memory of the node.
  const std::vector<Case> cases = {{{WireCodec(DataType::kFloat32), ReduceOp::kSum}, 300'011},
                                   {{WireCodec(DataType::kFloat32), ReduceOp::kAvg}, 1},
                                   {{WireCodec(DataType::kFloat64), ReduceOp::kPremulSum, 0.3}, 3'001},
                                   {{WireCodec(DataType::kBfloat16), ReduceOp::kSum}, 20'003},
                                   {{WireCodec(DataType::kFloat16), ReduceOp::kAvg}, 10'007},
                                   {{WireCodec(DataType::kInt32), ReduceOp::kSum}, 65}};
  for (const uint32_t nodes : {2u, 3u}) {
    for (uint32_t servers = 1; servers <= 3; ++servers) {
      for (const uint32_t chunk_bytes : {1024u, 5u << 10, 64u << 10, 1u << 20}) {
        ClusterOptions options = Rails(nodes, nodes == 2 ? 4 : 2);
        options.servers = servers;
        options.max_chunk_bytes = chunk_bytes;
        options.seed = servers * 10 + nodes;
        ExpectExactResults(options, cases);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Rails, ANarrowWireRoundsContributionsAndTheNodesSumOnce) {
  const std::vector<Case> cases = {{{WireCodec(DataType::kFloat32), ReduceOp::kSum}, 30'011},
                                   {{WireCodec(DataType::kFloat32), ReduceOp::kAvg}, 10'007},
                                   {{WireCodec(DataType::kFloat32), ReduceOp::kPremulSum, 0.3}, 129},
                                   {{WireCodec(DataType::kFloat64), ReduceOp::kSum}, 500}};
  for (const WireFormat wire : kNarrowWires) {
    ClusterOptions options = Rails(2, 2);
    options.servers = 2;
    options.wire = wire;
    ExpectExactResults(options, cases);
  }
}

TEST(Rails, AnAverageIsThatOfAllRanks) {
  ClusterOptions options = Rails(2, 4);
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  std::vector<Bytes> tensors(8, Bytes(4 * 1000));
  for (uint32_t w = 0; w < 8; ++w) {
    for (size_t i = 0; i < 1000; ++i) {
      const auto value = static_cast<float>(w * 8 + i);
      std::memcpy(&tensors[w][4 * i], &value, 4);
    }
    cluster.Submit(w, 0, 0, tensors[w], DataType::kFloat32, ReduceOp::kAvg);
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(0, 0); }));
  for (uint32_t w = 0; w < 8; ++w) {
    for (size_t i = 0; i < 1000; ++i) {
      float value;
      std::memcpy(&value, &tensors[w][4 * i], 4);
      ASSERT_EQ(value, static_cast<float>(28 + i));  // the mean of 0 to 56 in steps of 8
    }
  }
}

TEST(Rails, ARankPushesItsPartAlone) {
  ClusterOptions options = Rails(2, 4);
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  const std::vector<std::vector<Bytes>> tensors =
      Submit(&cluster, {{{WireCodec(DataType::kFloat32), ReduceOp::kSum}, 4 * 6400}});
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(0, 0); }));
  for (uint32_t w = 0; w < 8; ++w) {
    EXPECT_EQ(cluster.worker_counters(w).bytes_pushed, 4u * 6400);
    EXPECT_EQ(cluster.worker_counters(w).bytes_pulled, 4u * 6400);
  }
}

TEST(Invariant, I1TheBitsAreTheSameWhenServersDieInTheMiddleOfRails) {
  const std::vector<Case> cases(3, {{WireCodec(DataType::kFloat32), ReduceOp::kAvg}, 160'000});
  for (const WireFormat wire : {WireFormat::kAsIs, WireFormat::kBfloat16, WireFormat::kInt8, WireFormat::kFloat8}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      ClusterOptions options = Rails(2, 2);
      options.servers = 3;
      options.wire = wire;
      options.seed = seed;
      Cluster cluster(options);
      cluster.OpenGroup(1, 0);
      std::vector<Bytes> expected;
      for (size_t i = 0; i < cases.size(); ++i) {
        expected.push_back(ExpectedWithRails(Tensors(4, DataType::kFloat32, 160'000, i), cases[i].spec, options));
      }
      const std::vector<std::vector<Bytes>> tensors = Submit(&cluster, cases);
      for (uint32_t victim = 0; victim < 2; ++victim) {
        ASSERT_TRUE(cluster.RunUntil([&] { return cluster.server_counters(2).chunks_reduced > 20 * (victim + 1); }));
        cluster.KillServer(victim);
        ASSERT_FALSE(cluster.RunUntil([&] { return cluster.AllDone(0, 2); }));
        cluster.MoveGroup(1);
      }
      ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(0, 2); })) << "seed " << seed;
      for (size_t i = 0; i < cases.size(); ++i) {
        for (uint32_t w = 0; w < 4; ++w) {
          ASSERT_TRUE(cluster.Done(w, i)->status.ok()) << cluster.Done(w, i)->status;
          ASSERT_EQ(tensors[i][w], expected[i]) << "seed " << seed << ", op " << i << ", worker " << w;
        }
      }
    }
  }
}

// F1 with rails: the ranks of its node see it die, those of its rail hear it from the servers, the rest from either.
TEST(Invariant, I8ARankThatDiesInTheMiddleIsNamedToAllRanksOfAllRails) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    ClusterOptions options = Rails(2, 4);
    options.servers = 2;
    options.seed = seed;
    Cluster cluster(options);
    cluster.OpenGroup(1, 0);
    const std::vector<std::vector<Bytes>> tensors =
        Submit(&cluster, std::vector<Case>(3, {{WireCodec(DataType::kFloat32), ReduceOp::kSum}, 300'000}));
    const auto victim = static_cast<uint32_t>(seed % 8);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.worker_counters(victim).bytes_pulled > 0; }));
    cluster.KillWorker(victim);
    cluster.AdvanceBy(kNsPerS);
    for (uint32_t w = 0; w < 8; ++w) {
      if (w == victim) continue;
      for (uint64_t op = 0; op < 3; ++op) {
        const OpDone* const done = cluster.Done(w, op);
        ASSERT_NE(done, nullptr) << "seed " << seed << ", worker " << w << ", op " << op;
        if (done->status.ok()) continue;  // it was done before
        EXPECT_TRUE(absl::IsAborted(done->status)) << done->status;
        EXPECT_THAT(std::string(done->status.message()),
                    HasSubstr(absl::StrCat("rank ", victim, " of the job on node-", victim / 4, " was lost")));
      }
      EXPECT_FALSE(cluster.Done(w, 2)->status.ok()) << "seed " << seed << ", worker " << w;
      cluster.Command(w, CloseGroupCommand{GroupHandle(0)});
    }
    cluster.AdvanceBy(2 * kNsPerS);
    for (uint32_t w = 0; w < 8; ++w) EXPECT_TRUE(w == victim || cluster.Closed(w, 0)) << "seed " << seed;
    for (uint32_t k = 0; k < 2; ++k) EXPECT_EQ(cluster.server_counters(k).slot_memory_used_bytes, 0u);
  }
}

// Each node agrees with itself, so only a server can see it.
TEST(Rails, NodesThatDisagreeOnTheFactorAreNotSummed) {
  ClusterOptions options = Rails(2, 2);
  std::vector<std::string> logged;
  options.server_log = [&](const LogEvent& event) { logged.push_back(event.text); };
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  std::vector<Bytes> tensors = Tensors(4, DataType::kFloat32, 5000, 1);
  for (uint32_t w = 0; w < 4; ++w) {
    cluster.Submit(w, 0, 1, tensors[w], DataType::kFloat32, ReduceOp::kPremulSum, w < 2 ? 0.5 : 0.25);
  }
  cluster.AdvanceBy(kNsPerS);
  for (uint32_t w = 0; w < 4; ++w) {
    const OpDone* const done = cluster.Done(w, 1);
    ASSERT_NE(done, nullptr) << "worker " << w;
    EXPECT_TRUE(absl::IsAborted(done->status)) << done->status;
    // Either rail's ranks may be the ones that are told first.
    EXPECT_THAT(std::string(done->status.message()),
                ContainsRegex("rank [01] of the job on node-0 called premul-sum of 2[0-9]+ float32 with factor 0.5"));
    EXPECT_THAT(std::string(done->status.message()), ContainsRegex("rank [23] of the job on node-1 called premul-sum"));
  }
  // A reader of a server's log knows no names.
  EXPECT_THAT(logged,
              Contains(ContainsRegex("disagree on op 1: rank [01] of the rail called .* rank [01] of the rail")));
  EXPECT_THAT(logged, Each(Not(HasSubstr("{rank"))));
}

TEST(Rails, F14ARankThatMakesNoCallIsNamedAtTheDeadlineAndToAllRanks) {
  ClusterOptions options = Rails(2, 2);
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  std::vector<Bytes> tensors = Tensors(4, DataType::kFloat32, 5000, 1);
  for (const uint32_t w : {0u, 1u}) cluster.Submit(w, 0, 1, tensors[w], DataType::kFloat32, ReduceOp::kSum);
  cluster.Submit(2, 0, 1, tensors[2], DataType::kFloat32, ReduceOp::kSum, 1.0, 5 * kNsPerS);
  cluster.AdvanceBy(6 * kNsPerS);
  for (const uint32_t w : {0u, 1u, 2u}) {
    const OpDone* const done = cluster.Done(w, 1);
    ASSERT_NE(done, nullptr) << "worker " << w;
    EXPECT_EQ(done->status.code(), w == 2 ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(done->status.message()), HasSubstr("it waits for rank 3 on node-1"));
  }
}

}  // namespace
}  // namespace shoal
