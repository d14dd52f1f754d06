#include "core/flow_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/bucket_plan.h"

namespace shoal {
namespace {

constexpr uint64_t kPortBufferBytes = 256 << 10;
constexpr uint64_t kMegabit = 125'000;

uint64_t WindowBytes(const FlowPlan& plan) { return uint64_t{plan.chunk_bytes} * plan.credit_chunks; }

TEST(FlowPlan, OnSlowLinksAllRanksTogetherFitThePortBuffer) {
  for (const uint64_t megabits : {1, 100, 200, 400, 800, 1000}) {
    for (const uint32_t ranks : {2u, 3u, 4u, 8u, 16u}) {
      const FlowPlan plan =
          PlanFlow(EvenPortLoad(ranks, 1), {.bytes_per_s = megabits * kMegabit, .round_trip_ns = 100'000}, 0);
      EXPECT_LE(ranks * WindowBytes(plan), kPortBufferBytes) << megabits << " Mbit/s, " << ranks << " ranks";
      EXPECT_GE(ranks * WindowBytes(plan), kPortBufferBytes / 2) << "half the buffer is left unused";
      EXPECT_GE(plan.credit_chunks, 2u) << "or the sum of one chunk can't go back while the next one comes";
    }
  }
}

// What was measured in bench/results: these gave 0.97 to 0.99 of the link, larger ones 0.5 to 0.8.
TEST(FlowPlan, TheBenchsLinksGetWhatWasMeasuredToBeBest) {
  EXPECT_EQ(PlanFlow(EvenPortLoad(4, 4), {.bytes_per_s = 400 * kMegabit, .round_trip_ns = 200'000}, 0),
            (FlowPlan{32 << 10, 2}));
  EXPECT_EQ(PlanFlow(EvenPortLoad(8, 8), {.bytes_per_s = 200 * kMegabit, .round_trip_ns = 200'000}, 0),
            (FlowPlan{16 << 10, 2}));
}

// With their headers: a segment of 1448 bytes has 66 of Ethernet, IP and TCP with its time stamps, a chunk 96 of ours.
TEST(FlowPlan, WhatAnOperatorSaysOfThePortsIsKept) {
  for (const uint64_t port_bytes : {uint64_t{80} << 10, uint64_t{128} << 10, uint64_t{256} << 10, uint64_t{1} << 20}) {
    for (const uint32_t ranks : {2u, 3u, 4u, 8u}) {
      const LinkFacts link{.bytes_per_s = 200 * kMegabit, .round_trip_ns = 100'000, .message_ns = 20'000};
      const FlowPlan plan = PlanFlow(EvenPortLoad(ranks, ranks), link, 0, port_bytes);
      const uint64_t window = WindowBytes(plan);
      EXPECT_LE(ranks * (window + (window / 1448 + 2) * 66 + 2 * 96), port_bytes) << ranks << " ranks, " << port_bytes;
      EXPECT_EQ(plan.credit_chunks, 2u);
      if (port_bytes >= 128 << 10 && plan.chunk_bytes < 60 << 10) {
        EXPECT_GE(ranks * window, port_bytes / 4 * 3) << ranks << " ranks, " << port_bytes;
      }
    }
  }
  EXPECT_EQ(PlanFlow(EvenPortLoad(8, 8), {.bytes_per_s = 200 * kMegabit}, 0, 128 << 10), (FlowPlan{7 << 10, 2}));
}

// However much ports hold: see kOnePacketBytes.
TEST(FlowPlan, AChunkFitsAPacketAndTwoOfThemAreEnoughWherePortsHoldMore) {
  const FlowPlan packets{60 << 10, 2};
  for (const uint64_t port_bytes : {uint64_t{2} << 20, uint64_t{4} << 20, uint64_t{1} << 30}) {
    EXPECT_EQ(PlanFlow(EvenPortLoad(8, 8), {.bytes_per_s = 100 * kMegabit}, 0, port_bytes), packets) << port_bytes;
  }
  // What the way itself holds comes on top: 2.5 MB here, of which a quarter goes to each of four shards.
  const LinkFacts long_way{.bytes_per_s = 25'000 * kMegabit, .round_trip_ns = 800'000, .message_ns = 2'000};
  EXPECT_EQ(PlanFlow(EvenPortLoad(4, 4), long_way, 0, 4 << 20), (FlowPlan{60 << 10, 12}));
  // Where a message costs more of the link's time than that, a chunk is larger.
  const LinkFacts fast{.bytes_per_s = 100'000 * kMegabit, .round_trip_ns = 1, .message_ns = 2'000};
  EXPECT_EQ(PlanFlow(EvenPortLoad(4, 4), fast, 0, 4 << 20), (FlowPlan{97 << 10, 2}));
  const PortLoad uneven{.largest_share = 0.5, .shard_count = 3, .even = false};
  EXPECT_EQ(PlanFlow(uneven, {.bytes_per_s = 100 * kMegabit}, 0, 4 << 20), (FlowPlan{60 << 10, 3, 4}));
}

TEST(FlowPlan, UnevenSharesFitThePortsAnOperatorTellsOfToo) {
  for (const double largest_share : {0.65, 0.55, 0.45, 0.2, 0.14}) {
    const PortLoad load{.busiest_port = 1.3, .largest_share = largest_share, .shard_count = 12, .even = false};
    const FlowPlan plan = PlanFlow(load, {.bytes_per_s = 25 * kMegabit}, 0, 128 << 10);
    EXPECT_LE(plan.look_ahead_chunks * plan.chunk_bytes * load.busiest_port, 112 << 10) << largest_share;
    EXPECT_GE(plan.look_ahead_chunks * largest_share, 2) << largest_share;
  }
}

TEST(FlowPlan, WithinOneNodeThereIsNoPort) {
  EXPECT_EQ(PlanFlow(EvenPortLoad(4, 2), WithinOneNode(), 0, 64 << 10),
            PlanFlow(EvenPortLoad(4, 2), WithinOneNode(), 0));
}

TEST(FlowPlan, AWorkersPortHoldsTheResultsOfAllShards) {
  const LinkFacts link{.bytes_per_s = 200 * kMegabit, .round_trip_ns = 200'000};
  EXPECT_EQ(PlanFlow(EvenPortLoad(4, 8), link, 0), PlanFlow(EvenPortLoad(8, 8), link, 0));
  EXPECT_EQ(PlanFlow(EvenPortLoad(8, 1), link, 0), PlanFlow(EvenPortLoad(8, 8), link, 0));
}

TEST(FlowPlan, NothingMeasuredIsTakenForASlowLink) {
  EXPECT_EQ(PlanFlow(EvenPortLoad(8, 8), {}, 0), PlanFlow(EvenPortLoad(8, 8), {.bytes_per_s = 100 * kMegabit}, 0));
}

TEST(FlowPlan, FasterLinksGetLargerChunksAndWindows) {
  for (const uint32_t ranks : {2u, 8u, 64u}) {
    FlowPlan last;
    for (uint64_t bytes_per_s = 1'000'000; bytes_per_s < 100'000'000'000; bytes_per_s *= 3) {
      const FlowPlan plan = PlanFlow(EvenPortLoad(ranks, 1), {.bytes_per_s = bytes_per_s, .round_trip_ns = 20'000}, 0);
      EXPECT_GE(plan.chunk_bytes, last.chunk_bytes);
      // At least what is on the way while nothing waits anywhere.
      EXPECT_GE(ranks * WindowBytes(plan), std::min<uint64_t>(bytes_per_s / 50'000, 2 << 20));
      last = plan;
    }
  }
}

TEST(FlowPlan, ADearMessageMakesChunksLargerWithinBounds) {
  const auto chunk = [](uint64_t message_ns) {
    return PlanFlow(EvenPortLoad(64, 64), {.bytes_per_s = 10'000'000'000, .message_ns = message_ns}, 0).chunk_bytes;
  };
  EXPECT_LT(chunk(500), chunk(8'000));
  EXPECT_EQ(chunk(0), chunk(2'000)) << "where it was not measured";
  EXPECT_LE(chunk(UINT64_MAX), 512u << 10);
  // At 200 Mbit/s bytes cost more than any message.
  const LinkFacts slow{.bytes_per_s = 200 * kMegabit, .message_ns = 10'000};
  EXPECT_EQ(PlanFlow(EvenPortLoad(8, 8), slow, 0).chunk_bytes, 16u << 10);
}

TEST(FlowPlan, AMessageIsAtMostAQuarterOfItsChunksTime) {
  for (const uint64_t message_ns : {500, 2'000, 5'000}) {
    for (const uint32_t ranks : {64u, 1024u}) {
      const LinkFacts link{.bytes_per_s = 12'500'000'000, .message_ns = message_ns};
      const FlowPlan plan = PlanFlow(EvenPortLoad(ranks, ranks), link, 0);
      const double chunk_ns = plan.chunk_bytes / 12.5;
      EXPECT_LE(static_cast<double>(message_ns), chunk_ns / 4);
      EXPECT_EQ(plan.credit_chunks, 3u);
    }
  }
}

TEST(FlowPlan, AnAskedChunkSizeIsKept) {
  for (const uint32_t chunk : {kMinChunkBytes, 5000u, 65536u, kMaxChunkBytes}) {
    EXPECT_EQ(PlanFlow(EvenPortLoad(4, 4), {.bytes_per_s = 1'000'000'000}, chunk).chunk_bytes, chunk);
  }
  EXPECT_EQ(PlanFlow(EvenPortLoad(2, 2), {}, 64 << 10).credit_chunks, 2u);
  EXPECT_EQ(PlanFlow(EvenPortLoad(2, 2), {}, 32 << 10).credit_chunks, 4u);
}

TEST(FlowPlan, UnevenSharesArePacedByALookAheadThatFitsThePorts) {
  const LinkFacts link{.bytes_per_s = 200 * kMegabit, .round_trip_ns = 200'000};
  for (const double largest_share : {0.2, 0.16, 0.14}) {
    const PortLoad load{.busiest_port = 1.3, .largest_share = largest_share, .shard_count = 12, .even = false};
    const FlowPlan plan = PlanFlow(load, link, 0);
    EXPECT_LE(plan.look_ahead_chunks * plan.chunk_bytes * load.busiest_port,
              kPortBufferBytes + link.bytes_per_s / 5000);
    EXPECT_GE(plan.look_ahead_chunks * largest_share, 2) << "or the largest share waits for the sum of each chunk";
    EXPECT_GE(plan.credit_chunks, plan.look_ahead_chunks * largest_share) << "or credit bounds before the look-ahead";
  }
  EXPECT_EQ(PlanFlow(EvenPortLoad(8, 8), link, 0).look_ahead_chunks, 0u);
}

TEST(FlowPlan, WithinOneNodeChunksStayInTheCache) {
  EXPECT_EQ(PlanFlow(EvenPortLoad(4, 2), WithinOneNode(), 0), (FlowPlan{256 << 10, 2}));
  for (const uint32_t ranks : {1u, 2u, 4u, 8u, 16u}) {
    for (const uint32_t shards : {1u, 2u, 4u, 8u}) {
      const FlowPlan plan = PlanFlow(EvenPortLoad(ranks, shards), WithinOneNode(), 0);
      EXPECT_LE(WindowBytes(plan) * ranks, 4u << 20) << ranks << " ranks, " << shards << " shards";
      EXPECT_GE(plan.chunk_bytes, 64u << 10) << ranks << " ranks, " << shards << " shards";
    }
  }
}

TEST(FlowPlan, WildMeasurementsStayWithinBounds) {
  for (const uint64_t wild : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    for (const uint32_t ranks : {1u, 4096u}) {
      for (const uint32_t chunk : {0u, 1u, UINT32_MAX}) {
        for (const uint64_t port_bytes : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
          const LinkFacts link{.bytes_per_s = wild, .round_trip_ns = UINT64_MAX - wild};
          const FlowPlan plan = PlanFlow(EvenPortLoad(ranks, 1), link, chunk, port_bytes);
          EXPECT_GE(plan.chunk_bytes, kMinChunkBytes);
          EXPECT_LE(plan.chunk_bytes, kMaxChunkBytes);
          EXPECT_GE(plan.credit_chunks, 2u);
          EXPECT_LE(plan.credit_chunks, kMaxCreditChunks);
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoal
