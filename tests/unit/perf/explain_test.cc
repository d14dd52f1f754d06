#include "perf/explain.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

PerfOptions Options() {
  PerfOptions options;
  options.world_size = 8;
  return options;
}

shoal_plan Plan(uint32_t chunk_count, uint32_t shards_used) {
  shoal_plan plan{};
  plan.chunk_count = chunk_count;
  plan.chunk_bytes = 16384;
  plan.shards_used = shards_used;
  plan.window_chunks = 3;
  plan.link_bytes_per_s = 25'000'000;
  plan.round_trip_ns = 120'000;
  plan.message_ns = 1'500;
  plan.predicted_ns = 1'234'500;
  return plan;
}

TEST(Explain, TheHeadSaysWhatWasMeasured) {
  EXPECT_THAT(ExplainHeader(Options(), 8, {}, Plan(1, 1)),
              HasSubstr("link 25.0 MB/s, round trip 120.0 us, message 1.5 us"));
  shoal_plan unmeasured{};
  unmeasured.chunk_count = 1;
  unmeasured.look_ahead_chunks = 28;
  EXPECT_THAT(ExplainHeader(Options(), 8, {}, unmeasured),
              AllOf(HasSubstr("Measured: nothing (there is no dedicated server"), HasSubstr("at most 28")));
  EXPECT_THAT(ExplainHeader(Options(), 8, {}, Plan(0, 0)),
              AllOf(HasSubstr("8 ranks on one node"), HasSubstr("without servers"), Not(HasSubstr("dedicated"))));
}

TEST(Explain, TheHeadSaysThatTheRanksOfANodeShareItsLink) {
  shoal_plan plan = Plan(72, 8);
  EXPECT_THAT(ExplainHeader(Options(), 8, {}, plan), Not(HasSubstr("reduce among themselves")));
  plan.rails = 4;
  EXPECT_THAT(ExplainHeader(Options(), 8, {}, plan),
              AllOf(HasSubstr("each of the 4 sends one part"), HasSubstr("share its port")));
}

TEST(Explain, TheHeadOfASplitIsOfOneGroup) {
  PerfOptions options = Options();
  options.split_text = "mod:4";
  options.split = RankSplit::Parse(options.split_text).value();
  EXPECT_THAT(ExplainHeader(options, 2, {}, Plan(72, 8)),
              AllOf(HasSubstr("# 2 ranks"), HasSubstr("groups by mod:4"), HasSubstr("for it alone")));
}

TEST(Explain, ARowHasPlanTimeAndReason) {
  EXPECT_THAT(ExplainRow(4096, DataType::kFloat32, Plan(1, 1)),
              AllOf(HasSubstr("4096"), HasSubstr("1234.5"), HasSubstr("one chunk")));
  EXPECT_THAT(ExplainRow(1 << 20, DataType::kFloat32, Plan(72, 8)), HasSubstr("cut, and dealt"));
  EXPECT_THAT(ExplainRow(1 << 17, DataType::kFloat32, Plan(8, 8)), HasSubstr("one chunk for each"));
}

TEST(Explain, ATensorThatStaysOnTheNodeHasNoServers) {
  EXPECT_THAT(ExplainRow(4096, DataType::kFloat32, Plan(0, 0)),
              HasSubstr("all ranks are on one node and reduce through its memory"));
}

}  // namespace
}  // namespace shoal
