// Clauses of worker/local_reduce/local_reduce.h: ops of groups with ranks on other nodes (LocalPartReduced,
// PublishPart).
#ifndef SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_PARTS_H_
#define SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_PARTS_H_

#include "tests/conformance/local_reduce/local_reduce_clauses.h"

namespace shoal {

// Other nodes whose sum is there some time after ours: it replaces the part, piece by piece.
class LocalParts : public LocalReduceSuite {
 protected:
  struct Published {
    uint64_t told_end = 0;       // of LocalPartReduced
    uint64_t published_end = 0;  // of PublishPart
    bool has_begun = false;
  };

  void Reduce(uint32_t size, const std::vector<LocalOp>& ops, uint64_t seed) {
    RanksUnderTest ranks = MakeRanks(size, seed);
    ranks.OpenAll(kGroup);
    std::deque<OpUnderTest> under_test;
    std::vector<Bytes> node_sums;
    for (const LocalOp& op : ops) {
      OpUnderTest& added = under_test.emplace_back(&ranks, op);
      node_sums.push_back(added.expected());
      if (op.other_nodes) added.Expect(ResultOfAllNodes(op, &ranks.random()));
      added.StartAll();
    }
    std::vector<std::vector<Published>> states(size, std::vector<Published>(ops.size()));
    for (uint32_t rank = 0; rank < size; ++rank) {
      ranks[rank].on_part_reduced = [&, rank](const LocalPartReduced& event) {
        const LocalOp& op = ops[event.ticket];
        const ElementRange part = NodePart(op.element_count, size, rank);
        Published& state = states[rank][event.ticket];
        if (!state.has_begun) state = {.told_end = part.first, .published_end = part.first, .has_begun = true};
        EXPECT_TRUE(op.other_nodes);
        EXPECT_EQ(event.first_element, state.told_end) << "ranges come in order and without a gap";
        if (!op.codec.is_identity()) {
          EXPECT_EQ((event.first_element - part.first) % op.codec.alignment_elements(), 0u)
              << "blocks are summed whole";
        }
        state.told_end = event.first_element + event.element_count;
        EXPECT_LE(state.told_end, part.first + part.count);
        const size_t element_bytes = op.codec.TensorBytes(1);
        EXPECT_EQ(std::memcmp(under_test[event.ticket].tensor(rank).data() + event.first_element * element_bytes,
                              node_sums[event.ticket].data() + event.first_element * element_bytes,
                              event.element_count * element_bytes),
                  0)
            << "the node's sum of rank " << rank << " differs";
      };
    }
    const auto publish_some = [&](uint32_t rank, uint64_t ticket) {
      Published& state = states[rank][ticket];
      if (state.told_end == state.published_end || ranks.random()() % 3 != 0) return;
      const uint64_t count = 1 + ranks.random()() % (state.told_end - state.published_end);
      const size_t element_bytes = ops[ticket].codec.TensorBytes(1);
      OpUnderTest& op = under_test[ticket];
      std::memcpy(op.tensor(rank).data() + state.published_end * element_bytes,
                  op.expected().data() + state.published_end * element_bytes, count * element_bytes);
      ranks[rank].port().PublishPart(kGroup, ticket, {.first = state.published_end, .count = count}, 0);
      state.published_end += count;
    };
    ASSERT_TRUE(ranks.PollUntil([&] {
      bool all = true;
      for (uint32_t rank = 0; rank < size; ++rank) {
        for (uint64_t ticket = 0; ticket < ops.size(); ++ticket) publish_some(rank, ticket);
        all = all && ranks[rank].ended_count(kGroup) == ops.size();
      }
      return all;
    })) << "seed "
        << seed;
    for (OpUnderTest& op : under_test) op.ExpectResults();
  }

  // Numbers that pass the op's wire unchanged, as a result of the servers does.
  static Bytes ResultOfAllNodes(const LocalOp& op, std::mt19937_64* random) {
    const Bytes sum = RandomBytes(op.codec.TensorBytes(op.element_count), random);
    Bytes came(op.codec.WireBytes(op.element_count));
    Encode(op.codec, sum.data(), came.data(), op.element_count);
    Bytes result(op.codec.TensorBytes(op.element_count));
    Decode(op.codec, came.data(), result.data(), op.element_count);
    return result;
  }

  static LocalOp PartOp(uint64_t ticket, uint64_t elements, DataType dtype = DataType::kFloat32,
                        ReduceOp reduce_op = ReduceOp::kSum) {
    LocalOp op = Op(ticket, elements, dtype, reduce_op);
    op.other_nodes = true;
    op.premul_factor = 0.75;
    return op;
  }
};

TEST_P(LocalParts, TheNodesSumComesPieceByPieceAndWhatIsPublishedReachesAll) {
  for (uint32_t size = 1; size <= 8; ++size) {
    for (const uint64_t elements : {1u, 64u, 65u, 500u, 30'000u, 700'001u}) {
      ASSERT_NO_FATAL_FAILURE(Reduce(size, {PartOp(0, elements)}, size));
      if (HasFailure()) return;
    }
  }
}

TEST_P(LocalParts, L3TheNodesSumHasTheBitsOfReduceAndNeverDividesByTheRanksOfTheNode) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt32}) {
    for (const ReduceOp reduce_op : kAllOps) {
      if (!CanReduce(dtype, reduce_op)) continue;
      ASSERT_NO_FATAL_FAILURE(Reduce(3, {PartOp(0, 9'999, dtype, reduce_op)}, 3));
    }
  }
}

TEST_P(LocalParts, L3ANarrowWireIsUsedOnTheWayInAndOut) {
  for (const WireFormat wire : kNarrowWires) {
    for (const uint64_t elements : {10u, 250'000u}) {
      LocalOp op = PartOp(0, elements);
      op.codec = WireCodec(DataType::kFloat32, wire);
      ASSERT_NO_FATAL_FAILURE(Reduce(4, {op}, 4));
    }
  }
}

TEST_P(LocalParts, L1OpsWithAndWithoutOtherNodesFollowEachOther) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<LocalOp> ops;
    for (uint64_t ticket = 0; ticket < 12; ++ticket) {
      ops.push_back(PartOp(ticket, 1 + random() % (ticket % 3 == 0 ? 250'000 : 900)));
      ops.back().other_nodes = random() % 2 == 0;
    }
    ASSERT_NO_FATAL_FAILURE(Reduce(2 + static_cast<uint32_t>(seed % 4), ops, seed));
    if (HasFailure()) return;
  }
}

// Every rank hears of every part what its rank has published, of ops with one round and with many.
TEST_P(LocalParts, InAGroupThatCountsNodesAllRanksHearHowManyContributedToWhat) {
  for (const uint32_t size : {1u, 2u, 3u, 8u}) {
    RanksUnderTest ranks = MakeRanks(size, size);
    ranks.OpenAll(kGroup, /*counts_nodes=*/true);
    uint64_t ticket = 0;
    for (const uint64_t elements : {1u, 130u, 30'000u, 400'001u}) {
      std::vector<std::vector<ContributedRange>> heard(size);
      std::vector<ContributedRange> expected;
      OpUnderTest op(&ranks, PartOp(++ticket, elements));
      op.StartAll();
      std::vector<uint64_t> reduced(size);
      for (uint32_t rank = 0; rank < size; ++rank) {
        ranks[rank].on_part_reduced = [&, rank](const LocalPartReduced& event) {
          reduced[rank] += event.element_count;
        };
        ranks[rank].on_op_ended = [&, rank](const LocalOpEnded& event) { heard[rank] = event.contributed; };
      }
      ASSERT_TRUE(ranks.PollUntil([&] {
        for (uint32_t rank = 0; rank < size; ++rank) {
          if (reduced[rank] != NodePart(elements, size, rank).count) return false;
        }
        return true;
      }));
      for (uint32_t rank = 0; rank < size; ++rank) {
        const ElementRange part = NodePart(elements, size, rank);
        for (uint64_t done = 0; done < part.count;) {
          const uint64_t count = std::min<uint64_t>(1 + ranks.random()() % 20'000, part.count - done);
          const auto contributors = static_cast<uint32_t>(1 + ranks.random()() % 3);
          ranks[rank].port().PublishPart(kGroup, ticket, {.first = part.first + done, .count = count}, contributors);
          AddContributed({.first = part.first + done, .count = count, .contributors = contributors}, &expected);
          done += count;
        }
      }
      ASSERT_TRUE(ranks.PollUntil([&] { return op.HasEnded(); }));
      for (uint32_t rank = 0; rank < size; ++rank) EXPECT_EQ(heard[rank], expected) << rank << " of " << size;
      for (uint32_t rank = 0; rank < size; ++rank) {
        ranks[rank].on_part_reduced = [](const LocalPartReduced&) {};
        ranks[rank].on_op_ended = [](const LocalOpEnded&) {};
      }
    }
  }
}

TEST_P(LocalParts, TheNextOpIsReducedWhileTheFirstWaitsForOtherNodes) {
  RanksUnderTest ranks = MakeRanks(2);
  ranks.OpenAll(kGroup);
  std::deque<OpUnderTest> ops;
  std::array<std::array<uint64_t, 3>, 2> reduced{};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks[rank].on_part_reduced = [&, rank](const LocalPartReduced& event) {
      reduced[rank][event.ticket] += event.element_count;
    };
  }
  for (uint64_t ticket = 0; ticket < 3; ++ticket) ops.emplace_back(&ranks, PartOp(ticket, 500'032)).StartAll();
  ASSERT_TRUE(ranks.PollUntil([&] { return reduced[0][2] == 250'048 && reduced[1][2] == 249'984; }));
  EXPECT_EQ(ranks[0].ended_count(kGroup), 0u);
  for (uint64_t ticket = 0; ticket < 3; ++ticket) {
    ranks[0].port().PublishPart(kGroup, ticket, {.first = 0, .count = 250'048}, 0);
    ranks[1].port().PublishPart(kGroup, ticket, {.first = 250'048, .count = 249'984}, 0);
    ASSERT_TRUE(ops[ticket].HasEnded());
    ops[ticket].ExpectResults();
  }
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_LOCAL_REDUCE_LOCAL_REDUCE_PARTS_H_
