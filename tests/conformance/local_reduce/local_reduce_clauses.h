// Clauses of worker/local_reduce/local_reduce.h: meeting, bits, and ops that all ranks agree on or not.
#ifndef SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_CLAUSES_H_
#define SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_CLAUSES_H_

#include "core/node_parts.h"
#include "tests/conformance/local_reduce/local_reduce_harness.h"

namespace shoal {

struct LocalReduceKind {
  std::string name;
  std::function<std::unique_ptr<LocalReduceNode>()> make;
};

class LocalReduceSuite : public testing::TestWithParam<LocalReduceKind> {
 protected:
  static constexpr GroupHandle kGroup{1};
  static constexpr GroupHandle kOtherGroup{2};

  RanksUnderTest MakeRanks(uint32_t count, uint64_t seed = 1) { return RanksUnderTest(node_.get(), count, seed); }

  static LocalOp Op(uint64_t ticket, uint64_t element_count, DataType dtype = DataType::kFloat32,
                    ReduceOp reduce_op = ReduceOp::kSum) {
    return {.group = kGroup,
            .ticket = ticket,
            .element_count = element_count,
            .codec = WireCodec(dtype),
            .reduce_op = reduce_op};
  }

  static void ReduceOne(RanksUnderTest* ranks, const LocalOp& op) {
    OpUnderTest under_test(ranks, op);
    under_test.StartAll();
    ASSERT_TRUE(under_test.HasEnded());
    under_test.ExpectResults();
  }

  const std::unique_ptr<LocalReduceNode> node_ = GetParam().make();
};

constexpr std::array kAllTypes = {DataType::kFloat32,  DataType::kFloat64, DataType::kFloat16,
                                  DataType::kBfloat16, DataType::kInt8,    DataType::kInt16,
                                  DataType::kInt32,    DataType::kInt64,   DataType::kUint8};
constexpr std::array kAllOps = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum,
                                ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd};

// ---- meeting ----

TEST_P(LocalReduceSuite, AllHearWhatRank0SaysOfDevicesIfAllCanReduceThere) {
  DeviceMeeting said{};
  said.front() = std::byte{7};
  said.back() = std::byte{9};
  for (const bool can_last : {true, false}) {
    RanksUnderTest ranks = MakeRanks(3);
    const std::string name = RanksUnderTest::MeetingName(0);
    ranks.Open(kGroup, name, 0, said);
    ranks.Open(kGroup, name, 1, DeviceMeeting{});
    ranks.Open(kGroup, name, 2, can_last ? std::optional(DeviceMeeting{}) : std::nullopt);
    ASSERT_TRUE(
        ranks.PollUntil([&] { return ranks[0].HasMet(kGroup) && ranks[1].HasMet(kGroup) && ranks[2].HasMet(kGroup); }));
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      EXPECT_EQ(ranks[rank].devices(kGroup), can_last ? std::optional(said) : std::nullopt);
    }
    const std::shared_ptr<const NodeFailures> failures = ranks[1].failures(kGroup);
    if (!can_last || failures == nullptr) continue;  // only where memory is shared for it
    EXPECT_FALSE(failures->AnyRankHasFailed());
    ranks[2].port().Fail(kGroup, absl::InternalError("its device has failed"));
    EXPECT_TRUE(failures->AnyRankHasFailed()) << "before anything else comes of it";
    ranks[2].port().Close(kGroup);
    EXPECT_TRUE(failures->AnyRankHasFailed());
  }
}

TEST_P(LocalReduceSuite, RanksMeetInWhicheverOrderTheyComeAndWhoeverIsSlow) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RanksUnderTest ranks = MakeRanks(2 + static_cast<uint32_t>(seed % 7), seed);
    const std::string name = RanksUnderTest::MeetingName(0);
    std::vector<uint32_t> order(ranks.size());
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) order[rank] = rank;
    std::ranges::shuffle(order, ranks.random());
    for (const uint32_t rank : order) {
      ranks.Open(kGroup, name, rank);
      for (uint64_t polls = ranks.random()() % 4; polls > 0; --polls) {
        for (const uint32_t other : order) {
          ranks[other].Poll();
          EXPECT_TRUE(rank == order.back() || !ranks[other].HasMet(kGroup));
          if (other == rank) break;
        }
      }
    }
    ASSERT_TRUE(ranks.PollUntilAll([](RankUnderTest& rank) { return rank.HasMet(kGroup); })) << "seed " << seed;
  }
}

TEST_P(LocalReduceSuite, OpsMayBeStartedBeforeAllHaveMetAndWaitForTheLateRank) {
  RanksUnderTest ranks = MakeRanks(4);
  const std::string name = RanksUnderTest::MeetingName(0);
  std::deque<OpUnderTest> ops;
  for (uint64_t ticket = 0; ticket < 3; ++ticket) ops.emplace_back(&ranks, Op(ticket, 1 + 30'000 * ticket));
  for (const uint32_t rank : {3u, 0u, 1u}) {
    ranks.Open(kGroup, name, rank);
    for (OpUnderTest& op : ops) op.StartAt(rank);
  }
  ranks.PollForAWhile();
  for (const uint32_t rank : {0u, 1u, 3u}) {
    EXPECT_FALSE(ranks[rank].HasMet(kGroup));
    EXPECT_THAT(ranks[rank].port().Missing(kGroup), testing::ElementsAre(LocalRank(2)));
  }
  ranks.Open(kGroup, name, 2);
  for (OpUnderTest& op : ops) op.StartAt(2);
  for (OpUnderTest& op : ops) {
    ASSERT_TRUE(op.HasEnded());
    op.ExpectResults();
  }
}

// ---- L3: bits ----

TEST_P(LocalReduceSuite, L3AllTypesAndOpsGiveTheBitsOfReduce) {
  for (const uint32_t size : {2u, 5u}) {
    RanksUnderTest ranks = MakeRanks(size, size);
    ranks.OpenAll(kGroup);
    uint64_t ticket = 0;
    for (const DataType dtype : kAllTypes) {
      for (const ReduceOp reduce_op : kAllOps) {
        if (!CanReduce(dtype, reduce_op)) continue;
        for (const uint64_t elements : {257u, 50'000u}) {
          SCOPED_TRACE(testing::Message() << size << " ranks, type " << static_cast<int>(dtype) << ", op "
                                          << static_cast<int>(reduce_op) << ", " << elements << " elements");
          LocalOp op = Op(++ticket, elements, dtype, reduce_op);
          op.premul_factor = 0.37;
          ReduceOne(&ranks, op);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(LocalReduceSuite, L3TensorsOfAnyLengthAmongAnyNumberOfRanks) {
  for (uint32_t size = 1; size <= 8; ++size) {
    RanksUnderTest ranks = MakeRanks(size, size);
    ranks.OpenAll(kGroup);
    uint64_t ticket = 0;
    // Below, at and above what is reduced at once, and what fills the memory that ranks share several times.
    for (const uint64_t elements : {1u, 2u, 63u, 64u, 65u, 129u, 16'383u, 16'384u, 16'385u, 300'001u, 1'500'000u}) {
      SCOPED_TRACE(testing::Message() << size << " ranks, " << elements << " elements");
      ReduceOne(&ranks, Op(++ticket, elements));
      if (HasFailure()) return;
    }
  }
}

TEST_P(LocalReduceSuite, L3ANarrowWireRoundsEachContributionAndTheResultOnce) {
  for (const uint32_t size : {1u, 3u, 4u}) {
    RanksUnderTest ranks = MakeRanks(size, size);
    ranks.OpenAll(kGroup);
    uint64_t ticket = 0;
    for (const WireFormat wire : kNarrowWires) {
      for (const ReduceOp reduce_op : kAllOps) {
        for (const uint64_t elements : {1u, 1'000u, 200'003u}) {
          LocalOp op = Op(++ticket, elements, DataType::kFloat32, reduce_op);
          op.codec = WireCodec(DataType::kFloat32, wire);
          op.premul_factor = 1.0 / 3;
          ReduceOne(&ranks, op);
          if (HasFailure()) return;
        }
      }
    }
    // Other types are not changed.
    LocalOp op = Op(++ticket, 5'000, DataType::kFloat64);
    op.codec = WireCodec(DataType::kFloat64, WireFormat::kBfloat16);
    ReduceOne(&ranks, op);
  }
}

// ---- L1: ends ----

TEST_P(LocalReduceSuite, L1ManyOpsEndInOrderAndTheirMemoryIsTheCallersAtOnce) {
  RanksUnderTest ranks = MakeRanks(3, 7);
  ranks.OpenAll(kGroup);
  constexpr uint64_t kOps = 200;
  std::deque<OpUnderTest> ops;
  for (uint64_t ticket = 0; ticket < kOps; ++ticket) {
    ops.emplace_back(&ranks, Op(ticket, 1 + ranks.random()() % (ticket % 9 == 0 ? 300'000 : 3'000)));
  }
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].on_op_ended = [&, rank](const LocalOpEnded& event) {
      OpUnderTest& op = ops[event.ticket];
      EXPECT_TRUE(op.tensor(rank).content() == op.expected()) << "op " << event.ticket << " at rank " << rank;
      // Used for something else: nobody may write to it, or read it for a sum, from here on.
      std::memset(op.tensor(rank).data(), 0x3c, op.expected().size());
    };
  }
  std::array<uint64_t, 3> started{};
  const auto start_some = [&](uint32_t rank) {
    while (started[rank] < kOps && ranks.random()() % 5 != 0) ops[started[rank]++].StartAt(rank);
  };
  ASSERT_TRUE(ranks.PollUntil([&] {
    bool all = true;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      start_some(rank);
      all = all && ranks[rank].ended_count(kGroup) == kOps;
    }
    return all;
  }));
  ranks.PollForAWhile();
  for (OpUnderTest& op : ops) {
    op.Expect(Bytes(op.expected().size(), std::byte{0x3c}));
    op.ExpectResults();
  }
}

// ---- L2: ranks that disagree ----

TEST_P(LocalReduceSuite, L2RanksThatDisagreeFailTheGroupEverywhereAndAreNamedWithWhatTheySaid) {
  const auto disagree = [&](const std::function<void(LocalOp*)>& change, const std::vector<std::string>& named) {
    RanksUnderTest ranks = MakeRanks(4);
    ranks.OpenAll(kGroup);
    LocalOp op = Op(1, 40'000, DataType::kFloat32, ReduceOp::kPremulSum);
    op.premul_factor = 0.0;
    OpUnderTest agreed(&ranks, Op(0, 100));
    OpUnderTest under_test(&ranks, op);
    agreed.StartAll();
    ASSERT_TRUE(agreed.HasEnded());
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      LocalOp started = under_test.ForRank(rank);
      if (rank == 2) change(&started);
      ranks[rank].Start(started);
    }
    ASSERT_TRUE(ranks.PollUntilAll([](RankUnderTest& rank) { return rank.failure(kGroup).has_value(); }));
    ASSERT_TRUE(under_test.HasEnded());
    agreed.ExpectResults();
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const LocalGroupFailed& failure = *ranks[rank].failure(kGroup);
      EXPECT_TRUE(absl::IsInvalidArgument(failure.status)) << failure.status;
      EXPECT_FALSE(failure.culprit.has_value());
      for (const std::string& text : named) {
        EXPECT_THAT(std::string(failure.status.message()), testing::HasSubstr(text));
      }
      EXPECT_EQ(ranks[rank].EndOf(kGroup, 0)->code(), absl::StatusCode::kOk);
    }
  };
  const std::vector<std::string> ranks = {"local rank 0 of 4", "local rank 2 of 4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), ranks.begin(), ranks.end());
    return more;
  };
  disagree([](LocalOp* op) { op->number = OpNumber(2); }, with({"call 2"}));
  disagree([](LocalOp* op) { op->element_count = 39'999; }, with({"40000", "39999"}));
  disagree([](LocalOp* op) { op->element_count = 10; }, with({"40000 elements", "10 elements"}));
  disagree([](LocalOp* op) { op->codec = WireCodec(DataType::kInt32); }, with({"float32", "int32"}));
  disagree([](LocalOp* op) { op->reduce_op = ReduceOp::kMax; }, with({"premul", "max"}));
  disagree([](LocalOp* op) { op->premul_factor = -0.0; }, with({"bits 8000000000000000"}));
  disagree([](LocalOp* op) { op->codec = WireCodec(DataType::kFloat32, WireFormat::kBfloat16); }, with({"bf16"}));
  disagree([](LocalOp* op) { op->other_nodes = true; }, with({"other nodes", "this node alone"}));
}

TEST_P(LocalReduceSuite, L2AFactorThatTheOpDoesNotUseIsNotCompared) {
  RanksUnderTest ranks = MakeRanks(2);
  ranks.OpenAll(kGroup);
  OpUnderTest op(&ranks, Op(1, 100));
  op.StartAt(0);
  LocalOp other = op.ForRank(1);
  other.premul_factor = 17;
  ranks[1].Start(other);
  ASSERT_TRUE(op.HasEnded());
  op.ExpectResults();
}

// ---- L5: groups ----

TEST_P(LocalReduceSuite, L5AGroupDoesNotWaitForAnother) {
  RanksUnderTest ranks = MakeRanks(3);
  ranks.OpenAll(kGroup);
  ranks.OpenAll(kOtherGroup);
  OpUnderTest stuck(&ranks, Op(1, 2'000'000));
  stuck.StartAt(0);
  stuck.StartAt(1);
  for (uint64_t ticket = 1; ticket <= 20; ++ticket) {
    LocalOp op = Op(ticket, ticket * 5'000);
    op.group = kOtherGroup;
    ReduceOne(&ranks, op);
  }
  EXPECT_THAT(ranks[0].port().Missing(kGroup), testing::ElementsAre(LocalRank(2)));
  EXPECT_EQ(ranks[0].EndOf(kGroup, 1), nullptr);
  stuck.StartAt(2);
  ASSERT_TRUE(stuck.HasEnded());
  stuck.ExpectResults();
  EXPECT_TRUE(ranks[0].port().Missing(kGroup).empty());
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_CLAUSES_H_
