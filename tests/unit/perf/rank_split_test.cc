#include "perf/rank_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RankSplit, WithoutOneAllRanksAreTogether) {
  const RankSplit split = RankSplit::Parse("").value();
  EXPECT_FALSE(split.splits());
  EXPECT_THAT(split.RanksWith(1, 3), ElementsAre(0, 1, 2));
}

TEST(RankSplit, RanksWithTheSameRemainderAreTogether) {
  const RankSplit split = RankSplit::Parse("mod:4").value();
  EXPECT_TRUE(split.splits());
  EXPECT_THAT(split.RanksWith(1, 8), ElementsAre(1, 5));
  EXPECT_THAT(split.RanksWith(5, 8), ElementsAre(1, 5));
  EXPECT_THAT(split.RanksWith(0, 9), ElementsAre(0, 4, 8));
  EXPECT_NE(split.GroupOf(1), split.GroupOf(2));
  EXPECT_THAT(RankSplit::Parse("mod:9").value().RanksWith(3, 8), ElementsAre(3)) << "alone";
}

TEST(RankSplit, NeighboursAreTogether) {
  const RankSplit split = RankSplit::Parse("div:4").value();
  EXPECT_THAT(split.RanksWith(1, 8), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(split.RanksWith(8, 9), ElementsAre(8));
}

TEST(RankSplit, OtherTextsAreRefused) {
  for (const std::string text : {"mod", "mod:", "mod:0", "mod:-1", "mod:x", "or:4", "4", "div:4294967296"}) {
    const absl::StatusOr<RankSplit> split = RankSplit::Parse(text);
    EXPECT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(split.status().message()), HasSubstr("write mod:N")) << text;
  }
}

}  // namespace
}  // namespace shoal
