#include "scheduler/config/scheduler_config.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/option_table.h"
#include "tests/unit/program/scoped_environment.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class SchedulerConfigTest : public ::testing::Test {
 protected:
  SchedulerConfigTest() { DeclareSchedulerOptions(&config_, &options_); }

  absl::Status Read(const std::vector<std::string>& arguments) {
    const ScopedEnvironment variables(environment_);
    return options_.Parse(arguments);
  }

  void ExpectRefused(const std::vector<std::string>& arguments, const std::string& text) {
    const absl::Status status = Read(arguments);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  std::map<std::string, std::string> environment_;
  SchedulerConfig config_;
  OptionTable options_;
};

TEST_F(SchedulerConfigTest, WithoutOptionsItIsReachableFromThisNodeOnlyAndKeepsItsStateInMemory) {
  EXPECT_TRUE(Read({}).ok());
  EXPECT_EQ(config_.listen, "127.0.0.1:7070");
  EXPECT_EQ(config_.state_file, "");
  EXPECT_EQ(config_.store, "");
  EXPECT_EQ(config_.lease_ttl_ms, 5000u);
  EXPECT_FALSE(config_.reflection);
}

TEST_F(SchedulerConfigTest, EveryOptionCanComeFromTheEnvironment) {
  environment_ = {{"SHOAL_SCHEDULER_LISTEN", "10.0.0.1:7071"},
                  {"SHOAL_SCHEDULER_STATE_FILE", "/var/lib/shoal/state"},
                  {"SHOAL_SCHEDULER_STORE", "etcd://10.0.0.9:2379"},
                  {"SHOAL_SCHEDULER_ADVERTISE", "scheduler-0:7071"},
                  {"SHOAL_SCHEDULER_LEADER_LEASE", "3000"},
                  {"SHOAL_SCHEDULER_LEASE_TTL", "9000"},
                  {"SHOAL_SCHEDULER_REFLECTION", "true"},
                  {"SHOAL_SCHEDULER_LOG_EVENTS", "true"}};
  EXPECT_TRUE(Read({}).ok());
  EXPECT_EQ(config_.listen, "10.0.0.1:7071");
  EXPECT_EQ(config_.state_file, "/var/lib/shoal/state");
  EXPECT_EQ(config_.store, "etcd://10.0.0.9:2379");
  EXPECT_EQ(config_.advertise, "scheduler-0:7071");
  EXPECT_EQ(config_.leader_lease_ms, 3000u);
  EXPECT_EQ(config_.lease_ttl_ms, 9000u);
  EXPECT_TRUE(config_.reflection);
  EXPECT_TRUE(config_.log_events);
}

TEST_F(SchedulerConfigTest, ALeaseThatNothingCouldKeepIsRefused) {
  ExpectRefused({"--lease-ttl", "99"}, "lease-ttl");
  ExpectRefused({"--lease-ttl", "600001"}, "lease-ttl");
  ExpectRefused({"--leader-lease", "1999"}, "leader-lease");
  EXPECT_TRUE(Read({"--lease-ttl", "100", "--leader-lease", "2000"}).ok());
}

}  // namespace
}  // namespace shoal
