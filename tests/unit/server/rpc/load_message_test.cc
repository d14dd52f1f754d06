#include "server/rpc/load_message.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(LoadMessageTest, AHeartbeatTellsWhatTheServersOwnMetricsShow) {
  ServerCounters counters{.bytes_in = 1, .bytes_out = 2, .contributions_landed = 3, .chunks_reduced = 4};
  counters.ops_begun = 5;
  counters.groups_failed = 6;
  counters.absent_ranks.resize(7);
  counters.slots = 8;
  counters.slots_in_use = 9;
  counters.pending_pushes = 10;
  counters.reduce_ns_total = 11;
  counters.refusals[1] = 12;
  v1::ServerLoad load;
  ToMessage(counters, &load);
  EXPECT_EQ(load.bytes_in(), 1u);
  EXPECT_EQ(load.bytes_out(), 2u);
  EXPECT_EQ(load.contributions(), 3u);
  EXPECT_EQ(load.chunks_reduced(), 4u);
  EXPECT_EQ(load.ops(), 5u);
  EXPECT_EQ(load.groups_failed(), 6u);
  EXPECT_EQ(load.absent_ranks(), 7u);
  EXPECT_EQ(load.slots(), 8u);
  EXPECT_EQ(load.slots_in_use(), 9u);
  EXPECT_EQ(load.pending_pushes(), 10u);
  EXPECT_EQ(load.reduce_ns_total(), 11u);
  EXPECT_EQ(load.refusals(), 12u);
  EXPECT_EQ(load.refusals_by_reason().size(), 1u) << "reasons that never were are left out";
}

TEST(LoadMessageTest, TheJobsWithMostMemoryAreToldFirstAndNoMoreThanABoundedNumber) {
  ServerCounters counters;
  for (uint64_t job = 1; job <= kMostJobsOfLoad + 5; ++job) counters.memory_by_job[JobId(job)] = 1000 + job;
  v1::ServerLoad load;
  ToMessage(counters, &load);
  ASSERT_EQ(static_cast<size_t>(load.memory_by_job_size()), kMostJobsOfLoad);
  EXPECT_EQ(load.memory_by_job(0).job_id(), kMostJobsOfLoad + 5);
  EXPECT_EQ(load.memory_by_job(0).bytes(), 1000 + kMostJobsOfLoad + 5);
  EXPECT_EQ(load.memory_by_job(kMostJobsOfLoad - 1).job_id(), 6u);
}

}  // namespace
}  // namespace shoal
