// How a server that is to end names the groups that it still serves.
#include "server/machine/open_groups.h"

#include "gtest/gtest.h"
#include "tests/unit/server/machine/server_driver.h"

namespace shoal {
namespace {

TEST(OpenGroups, AreNamedWithTheirRanksAsFarAsThatHelps) {
  EXPECT_EQ(DescribeOpenGroups({}), "");
  OpenGroups groups = {{GroupId(5), {.job = JobId(2), .ranks = {Rank(0), Rank(3)}}}};
  EXPECT_EQ(DescribeOpenGroups(groups), "group 5 of job 2 (ranks 0, 3)");
  groups[GroupId(7)] = {.job = JobId(4), .ranks = {Rank(1)}};
  EXPECT_EQ(DescribeOpenGroups(groups), "group 5 of job 2 (ranks 0, 3), group 7 of job 4 (rank 1)");
  for (uint32_t i = 0; i < 20; ++i) {
    groups[GroupId(1)].ranks.insert(Rank(i));
    groups[GroupId(10 + i)] = {.job = JobId(4), .ranks = {Rank(1)}};
  }
  EXPECT_EQ(DescribeOpenGroups(groups),
            "group 1 of job 0 (ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more), group 5 of job 2 (ranks 0, 3), group 7 of "
            "job 4 (rank 1), group 10 of job 4 (rank 1) and 19 more groups");
}

TEST(OpenGroups, OfSeveralIoThreadsAreAddedUp) {
  OpenGroups sum = {{GroupId(5), {.job = JobId(2), .ranks = {Rank(0), Rank(3)}}}};
  AddOpenGroups({{GroupId(5), {.job = JobId(2), .ranks = {Rank(1), Rank(3)}}},
                 {GroupId(6), {.job = JobId(2), .ranks = {Rank(0)}}}},
                &sum);
  EXPECT_EQ(DescribeOpenGroups(sum), "group 5 of job 2 (ranks 0, 1, 3), group 6 of job 2 (rank 0)");
}

TEST(OpenGroups, WhoHasLeftIsNotAmongThem) {
  ServerDriver server(3);
  server.GiveNote(server.peers[1], MakeNote(ServerDriver::Header(FrameType::kLeaveGroup, 1)));
  EXPECT_EQ(DescribeOpenGroups(server.machine().open_groups()), "group 1 of job 9 (ranks 0, 2)");
  server.Down(server.peers[0]);
  EXPECT_EQ(DescribeOpenGroups(server.machine().open_groups()), "group 1 of job 9 (ranks 0, 2)") << "it may come back";
}

}  // namespace
}  // namespace shoal
