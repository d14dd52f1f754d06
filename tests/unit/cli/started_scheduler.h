// A scheduler of the test's own process, on a port of the loopback device.
#ifndef SHOAL_TESTS_UNIT_CLI_STARTED_SCHEDULER_H_
#define SHOAL_TESTS_UNIT_CLI_STARTED_SCHEDULER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"

namespace shoal::cli {

inline std::unique_ptr<Scheduler> StartScheduler(uint64_t lease_ttl_ms = 60'000) {
  SchedulerConfig config;
  config.listen = "127.0.0.1:0";
  config.lease_ttl_ms = lease_ttl_ms;
  absl::StatusOr<std::unique_ptr<Scheduler>> started = Scheduler::Start(config);
  EXPECT_TRUE(started.ok()) << started.status();
  return *std::move(started);
}

}  // namespace shoal::cli

#endif  // SHOAL_TESTS_UNIT_CLI_STARTED_SCHEDULER_H_
