// Options that all ranks of a group must have alike (docs/failover.md, F13).
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

TEST(MachineSharedOptions, RanksThatDifferOnOptionsThatAllMustShareAreNamed) {
  MachineHarness harness;
  harness.Ask<ServerRegistered>(Server("a", 1, 1001));
  JobId job;
  for (uint32_t rank = 0; rank < 3; ++rank) job = harness.Ask<JobJoined>(Join("gpt", 3, rank, 100 + rank)).job;
  const SharedOptions usual{.checksums = true};
  const std::vector<std::pair<SharedOptions, std::string>> others = {
      {{.checksums = false}, "checksums is on on rank 0 and off on rank 2"}};
  for (const auto& [different, text] : others) {
    std::vector<RequestHandle> handles;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      JoinGroup request = Group(job, rank, 100 + rank, {0, 1, 2});
      // Rank 1 is older than these options, and says nothing of them.
      if (rank != 1) request.options = rank == 2 ? different : usual;
      handles.push_back(harness.Send(request));
    }
    for (const RequestHandle handle : handles) {
      EXPECT_EQ(harness.StatusOf(handle).code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(harness.StatusOf(handle).message()), HasSubstr(text));
    }
  }
  RequestHandle last;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    JoinGroup request = Group(job, rank, 100 + rank, {0, 1, 2});
    request.options = usual;
    last = harness.Send(request);
  }
  EXPECT_EQ(harness.Get<GroupJoined>(last).nodes.size(), 3u);
}

}  // namespace
}  // namespace shoal::scheduler
