#include "server/server_config.h"

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

class ServerConfigTest : public ::testing::Test {
 protected:
  ServerConfigTest() { DeclareServerOptions(&config_, &options_); }

  // The status of parsing, or, when that is OK, of the check.
  absl::Status Read(const std::vector<std::string>& arguments) {
    const ScopedEnvironment variables(environment_);
    const absl::Status status = options_.Parse(arguments);
    return status.ok() ? CheckServerConfig(config_) : status;
  }

  void ExpectRefused(const std::vector<std::string>& arguments, const std::string& text) {
    const absl::Status status = Read(arguments);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  std::vector<std::string> With(std::vector<std::string> more) {
    more.insert(more.begin(), {"--scheduler", "10.0.0.7:7070", "--advertise", "10.0.0.8"});
    return more;
  }

  std::map<std::string, std::string> environment_;
  ServerConfig config_;
  OptionTable options_;
};

TEST_F(ServerConfigTest, SchedulerAndAddressAreEnough) {
  EXPECT_TRUE(Read(With({})).ok());
  EXPECT_EQ(config_.scheduler, "10.0.0.7:7070");
  EXPECT_EQ(config_.advertise, "10.0.0.8");
  EXPECT_EQ(config_.io_threads, 1u);
  EXPECT_EQ(config_.slot_memory_bytes, 256u << 20);
  EXPECT_EQ(config_.transports, "tcp");
}

TEST_F(ServerConfigTest, EveryOptionCanComeFromTheEnvironment) {
  environment_ = {{"SHOAL_SCHEDULER", "scheduler.shoal.svc:7070"},
                  {"SHOAL_SERVER_ADVERTISE", "10.0.0.9"},
                  {"SHOAL_SERVER_NAME", "shoal-3"},
                  {"SHOAL_SERVER_IO_THREADS", "4"},
                  {"SHOAL_SERVER_SLOT_MEMORY", "1G"},
                  {"SHOAL_SERVER_PORT_BASE", "20000"},
                  {"SHOAL_SERVER_NET_DEVICE", "eth0"},
                  {"SHOAL_SERVER_TRANSPORTS", "rc,ud"},
                  {"SHOAL_SERVER_WEIGHT", "3"},
                  {"SHOAL_SERVER_TIMEOUT", "1000"},
                  {"SHOAL_SERVER_DRAIN_TIMEOUT", "0"}};
  EXPECT_TRUE(Read({}).ok());
  EXPECT_EQ(config_.scheduler, "scheduler.shoal.svc:7070");
  EXPECT_EQ(config_.advertise, "10.0.0.9");
  EXPECT_EQ(config_.name, "shoal-3");
  EXPECT_EQ(config_.io_threads, 4u);
  EXPECT_EQ(config_.slot_memory_bytes, 1u << 30);
  EXPECT_EQ(config_.port_base, 20000u);
  EXPECT_EQ(config_.net_device, "eth0");
  EXPECT_EQ(config_.transports, "rc,ud");
  EXPECT_EQ(config_.weight, 3u);
  EXPECT_EQ(config_.timeout_ms, 1000u);
  EXPECT_EQ(config_.drain_timeout_ms, 0u);
}

TEST_F(ServerConfigTest, MissingOptionsAreNamed) {
  ExpectRefused({}, "--scheduler HOST:PORT");
  ExpectRefused({"--scheduler", "10.0.0.7:7070"}, "--advertise IP");
}

TEST_F(ServerConfigTest, SchedulerMustBeHostAndPort) {
  for (const char* wrong :
       {"10.0.0.7", ":7070", "10.0.0.7:", "10.0.0.7:0", "10.0.0.7:65536", "10.0.0.7:+5", "a b:1", "fd00::7:1"}) {
    SCOPED_TRACE(wrong);
    ExpectRefused({"--advertise", "10.0.0.8", "--scheduler", wrong}, "HOST:PORT");
  }
  EXPECT_TRUE(Read({"--advertise", "10.0.0.8", "--scheduler", "[fd00::7]:7070"}).ok());
}

TEST_F(ServerConfigTest, LastPortMustExist) {
  EXPECT_TRUE(Read(With({"--port-base", "65532", "--io-threads", "4"})).ok());
  ExpectRefused(With({"--port-base", "65533", "--io-threads", "4"}), "exceeds port 65535");
}

TEST_F(ServerConfigTest, EachIoThreadNeedsSlotMemory) {
  EXPECT_TRUE(Read(With({"--slot-memory", "128K", "--io-threads", "2"})).ok());
  ExpectRefused(With({"--slot-memory", "128K", "--io-threads", "3"}), "too little for --io-threads 3");
  ExpectRefused(With({"--slot-memory", "1K"}), "at least 64K");
}

TEST_F(ServerConfigTest, ValuesOutOfRangeAreRefused) {
  ExpectRefused(With({"--io-threads", "0"}), "from 1 to 64");
  ExpectRefused(With({"--weight", "65"}), "from 1 to 64");
  ExpectRefused(With({"--transports", ""}), "--transports is empty");
  ExpectRefused(With({"--sloth-memory", "1G"}), "did you mean --slot-memory?");
}

}  // namespace
}  // namespace shoal
