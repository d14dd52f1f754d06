#include "server/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(ServerMetricsTest, TheTimeOfSummingIsInSeconds) {
  ServerCounters counters;
  counters.reduce_ns_total = 1'500'000'000;
  EXPECT_THAT(ServerMetricsText(&counters, 0, 0), HasSubstr("shoal_server_reduce_seconds_total 1.5\n"));
}

}  // namespace
}  // namespace shoal
