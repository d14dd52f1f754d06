#include "program/option_table.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

struct Config {
  std::string listen = "0.0.0.0:7070";
  std::string path;
  uint64_t lease_ms = 5000;
  uint32_t threads = 1;
  uint64_t memory = 64 << 20;
  double factor = 2;
  bool reflection = false;
};

class OptionTableTest : public ::testing::Test {
 protected:
  OptionTableTest() {
    table_.String("listen", "T_LISTEN", "IP:PORT", "Where to listen.", &config_.listen);
    table_.String("state-file", "", "PATH", "Where to keep state.", &config_.path);
    table_.Uint64("lease-ttl", "T_LEASE_TTL", "MS", "How long a lease is.", &config_.lease_ms, 100, 60000);
    table_.Uint32("io-threads,t", "", "N", "Threads.", &config_.threads, 1);
    table_.Bytes("slot-memory", "T_SLOT_MEMORY", "Memory.", &config_.memory, 1024);
    table_.Double("f", "", "FACTOR", "Step factor.", &config_.factor);
    table_.Flag("reflection", "T_REFLECTION", "Reflection.", &config_.reflection);
  }

  absl::Status Parse(const std::vector<std::string>& arguments, std::vector<std::string>* positional = nullptr) {
    return table_.Parse(
        arguments,
        [this](const std::string& name) -> std::optional<std::string> {
          const auto found = environment_.find(name);
          return found == environment_.end() ? std::nullopt : std::optional(found->second);
        },
        positional);
  }

  Config config_;
  OptionTable table_;
  std::map<std::string, std::string> environment_;
};

TEST_F(OptionTableTest, DefaultsStayWithoutArguments) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(config_.listen, "0.0.0.0:7070");
  EXPECT_EQ(config_.lease_ms, 5000u);
}

TEST_F(OptionTableTest, AllForms) {
  ASSERT_TRUE(
      Parse({"--listen", "h:1", "--lease-ttl=250", "-t", "3", "--slot-memory", "256KiB", "-f=1.5", "--reflection"})
          .ok());
  EXPECT_EQ(config_.listen, "h:1");
  EXPECT_EQ(config_.lease_ms, 250u);
  EXPECT_EQ(config_.threads, 3u);
  EXPECT_EQ(config_.memory, 256u << 10);
  EXPECT_EQ(config_.factor, 1.5);
  EXPECT_TRUE(config_.reflection);
}

TEST_F(OptionTableTest, CommandLineWinsOverEnvironment) {
  environment_ = {{"T_LISTEN", "env:1"}, {"T_LEASE_TTL", "700"}, {"T_REFLECTION", "true"}, {"T_SLOT_MEMORY", ""}};
  ASSERT_TRUE(Parse({"--listen", "line:2", "--reflection=false"}).ok());
  EXPECT_EQ(config_.listen, "line:2");
  EXPECT_EQ(config_.lease_ms, 700u);
  EXPECT_FALSE(config_.reflection);
  EXPECT_EQ(config_.memory, 64u << 20) << "an empty variable counts as not set";
  EXPECT_THAT(table_.Effective(), HasSubstr("--listen=line:2 IP:PORT (command line)"));
  EXPECT_THAT(table_.Effective(), HasSubstr("--lease-ttl=700 MS (environment variable T_LEASE_TTL)"));
  EXPECT_THAT(table_.Effective(), HasSubstr("--state-file=(none) PATH (default)"));
}

TEST_F(OptionTableTest, ErrorsNameTheOptionAndWhatItTakes) {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const Case cases[] = {
      {{"--lisen", "x"}, "unknown option --lisen (did you mean --listen?)"},
      {{"--lisen=x"}, "unknown option --lisen (did you mean --listen?)"},
      {{"--zzzzzzzzz"}, "unknown option --zzzzzzzzz; --help"},
      {{"-q"}, "unknown option -q"},
      {{"--listen"}, "--listen needs a value: --listen IP:PORT"},
      {{"--lease-ttl", "5s"}, "--lease-ttl takes a whole number from 100 to 60000"},
      {{"--lease-ttl", "99"}, "from 100 to 60000"},
      {{"--lease-ttl", "-5"}, "from 100 to 60000"},
      {{"--lease-ttl", "99999999999999999999999"}, "from 100 to 60000"},
      {{"-t", "0"}, "-t takes a whole number from 1 to 4294967295, not \"0\""},
      {{"-t", "4294967296"}, "takes a whole number"},
      {{"--slot-memory", "64Q"}, "\"64Q\" is not a size"},
      {{"--slot-memory", "1000"}, "at least 1K"},
      {{"-f", "x"}, "takes a number"},
      {{"--reflection=maybe"}, "takes true or false"},
      {{"status"}, "unexpected argument \"status\""},
  };
  for (const Case& c : cases) {
    const absl::Status status = Parse(c.arguments);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
  environment_ = {{"T_LEASE_TTL", "soon"}};
  EXPECT_THAT(std::string(Parse({}).message()), HasSubstr("environment variable T_LEASE_TTL=soon"));
}

TEST_F(OptionTableTest, PositionalWordsAndDoubleDash) {
  std::vector<std::string> words;
  ASSERT_TRUE(Parse({"status", "--listen", "h:1", "--", "--listen"}, &words).ok());
  EXPECT_THAT(words, ::testing::ElementsAre("status", "--listen"));
}

TEST_F(OptionTableTest, HelpListsEveryOptionWithDefaultUnitAndVariable) {
  ASSERT_TRUE(Parse({"--listen", "other:1"}).ok());
  const std::string help = table_.Help("t [options]", "Tests.");
  EXPECT_THAT(help, HasSubstr("Usage: t [options]"));
  EXPECT_THAT(help, HasSubstr("--listen IP:PORT"));
  EXPECT_THAT(help, HasSubstr("Default: 0.0.0.0:7070 [IP:PORT]. Environment: T_LISTEN"));
  EXPECT_THAT(help, HasSubstr("-t, --io-threads N"));
  EXPECT_THAT(help, HasSubstr("Default: 64M [BYTES]"));
  EXPECT_THAT(help, HasSubstr("-f FACTOR"));
  EXPECT_THAT(help, HasSubstr("Default: false. Environment: T_REFLECTION"));
}

TEST_F(OptionTableTest, HelpAndVersionHaveTheSameNamesEverywhere) {
  bool help = false;
  bool version = false;
  table_.HelpAndVersion(&help, &version);
  ASSERT_TRUE(Parse({"-h"}).ok());
  EXPECT_TRUE(help);
  EXPECT_FALSE(version);
  help = false;
  ASSERT_TRUE(Parse({"--help", "--version"}).ok());
  EXPECT_TRUE(help && version);
  EXPECT_THAT(table_.Help("t", "Tests."), HasSubstr("\n  -h, --help\n"));
}

TEST_F(OptionTableTest, SomeOptionsCanBeShownByThemselves) {
  ASSERT_TRUE(Parse({"-t", "2"}).ok());
  EXPECT_EQ(table_.Entries({"io-threads", "reflection"}),
            "  -t, --io-threads N\n      Threads.\n      Default: 1 [N]\n"
            "  --reflection\n      Reflection.\n      Default: false. Environment: T_REFLECTION\n");
  EXPECT_EQ(table_.Entries({}), "");
  bool is_long = false;
  table_.Flag("long", "", "It is " + std::string(80, 'x') + " words long, which is more than a line has room for.",
              &is_long);
  EXPECT_EQ(table_.Entries({"long"}), "  --long\n      It is " + std::string(80, 'x') +
                                          " words\n      long, which is more than a line has room for.\n"
                                          "      Default: false\n");
  EXPECT_EQ(table_.Synopsis({"io-threads", "listen", "reflection"}), "--listen IP:PORT, --io-threads N, --reflection");
}

TEST_F(OptionTableTest, WhatTheCommandLineHasIsKnown) {
  environment_ = {{"T_LISTEN", "env:1"}};
  ASSERT_TRUE(Parse({"-t", "1"}).ok());
  EXPECT_TRUE(table_.IsOnCommandLine("io-threads")) << "also with the default's value";
  EXPECT_FALSE(table_.IsOnCommandLine("listen"));
  EXPECT_FALSE(table_.IsOnCommandLine("lease-ttl"));
}

TEST(ParseBytesTest, Sizes) {
  const std::pair<std::string, uint64_t> good[] = {{"0", 0},           {"65536", 65536},   {"64K", 65536},
                                                   {"64KiB", 65536},   {"64kB", 65536},    {"25M", 25u << 20},
                                                   {"1G", 1ull << 30}, {"2T", 2ull << 40}, {"7B", 7}};
  for (const auto& [text, value] : good) EXPECT_EQ(ParseBytes(text).value_or(1), value) << text;
  for (const std::string text : {"", "K", "-1", "1.5M", "1 M", "64KK", "99999999999G", "18446744073709551616", "M5"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

}  // namespace
}  // namespace shoal
