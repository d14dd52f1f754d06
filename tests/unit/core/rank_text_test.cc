// How human-readable texts name ranks.
#include "core/rank_text.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(RankText, ARankIsNamedAsFarAsItIsKnown) {
  EXPECT_EQ(RankOnNode(Rank(1), {JobRank(0), JobRank(1)}, {"node-a", "node-b"}), "rank 1 on node-b");
  EXPECT_EQ(RankOnNode(Rank(1), {JobRank(0), JobRank(3)}, {"node-a"}), "rank 1 (rank 3 of the job)");
  EXPECT_EQ(RankOnNode(Rank(7), {}, {}), "rank 7");
}

TEST(RankText, MarkedRanksAreNamedAndNothingElseIs) {
  const auto name = [](Rank rank) { return absl::StrCat("<", rank.value(), ">"); };
  EXPECT_EQ(NameMarkedRanks(absl::StrCat(MarkedRank(Rank(0)), " and ", MarkedRank(Rank(12)), "."), name),
            "<0> and <12>.");
  for (const char* other :
       {"", "rank 1", "{rank }", "{rank 1", "{rank x}", "{rank -1}", "{rank 99999999999}", "{rank"}) {
    EXPECT_EQ(NameMarkedRanks(other, name), other);
  }
  EXPECT_EQ(NameMarkedRanks("{rank {rank 3}", name), "{rank <3>");
}

TEST(RankText, AReaderWhoKnowsNoNamesGetsTheRailsNumbers) {
  EXPECT_EQ(WithoutMarks(absl::StrCat(MarkedRank(Rank(0)), " called sum, ", MarkedRank(Rank(1)), " called max")),
            "rank 0 of the rail called sum, rank 1 of the rail called max");
  EXPECT_EQ(WithoutMarks("rank 3 was lost"), "rank 3 was lost");
}

}  // namespace
}  // namespace shoal
