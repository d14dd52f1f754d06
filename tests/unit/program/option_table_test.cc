#include "program/option_table.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/program/scoped_environment.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Config {
  std::string listen = "0.0.0.0:7070";
  std::string path;
  uint64_t lease_ms = 5000;
  uint32_t threads = 1;
  uint64_t memory = 64 << 20;
  double factor = 2;
  double share = 0.5;
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
    table_.Double("share", "", "SHARE", "Of it.", &config_.share, 0, 1);
    table_.Flag("reflection", "T_REFLECTION", "Reflection.", &config_.reflection);
  }

  absl::Status Parse(const std::vector<std::string>& arguments) {
    const ScopedEnvironment variables(environment_);
    return table_.Parse(arguments);
  }

  Config config_;
  OptionTable table_{"t", "Tests."};
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
      {{"--lease-ttl", "5s"}, "--lease-ttl: \"5s\" is no whole number from 100 to 60000"},
      {{"--lease-ttl", "99"}, "from 100 to 60000"},
      {{"--lease-ttl", "-5"}, "from 100 to 60000"},
      {{"--lease-ttl", "99999999999999999999999"}, "from 100 to 60000"},
      {{"-t", "0"}, "-t,--io-threads: \"0\" is no whole number of at least 1"},
      {{"-t", "4294967296"}, "is no whole number"},
      {{"--slot-memory", "64Q"}, "\"64Q\" is not a size"},
      {{"--slot-memory", "1000"}, "at least 1K"},
      {{"-f", "x"}, "-f: \"x\" is no number"},
      {{"-f", "nan"}, "-f: \"nan\" is no number"},
      {{"--share", "1.5"}, "--share: \"1.5\" is no number from 0 to 1"},
      {{"--share", "nan"}, "from 0 to 1"},
      {{"--reflection=maybe"}, "\"maybe\" is neither true nor false"},
      {{"status"}, "unexpected argument \"status\""},
  };
  for (const Case& c : cases) {
    const absl::Status status = Parse(c.arguments);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST_F(OptionTableTest, ErrorsNameTheVariable) {
  environment_ = {{"T_LEASE_TTL", "soon"}};
  EXPECT_THAT(std::string(Parse({}).message()),
              HasSubstr("environment variable T_LEASE_TTL: \"soon\" is no whole number from 100 to 60000"));
}

TEST_F(OptionTableTest, AValueIsWhateverFollows) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--state-file=", "--reflection"}, ""},
      {{"--state-file", "", "--reflection"}, ""},
      {{"--state-file", "--listen=x", "--reflection"}, "--listen=x"},
      {{"--state-file=[a,b]", "--reflection"}, "[a,b]"},
      {{"--state-file", "-1", "--state-file", "last", "--reflection=true"}, "last"},
  };
  for (const auto& [arguments, path] : cases) {
    config_ = {.path = "before"};
    EXPECT_TRUE(Parse(arguments).ok()) << path;
    EXPECT_EQ(config_.path, path);
    EXPECT_TRUE(config_.reflection) << path;
    EXPECT_EQ(config_.listen, "0.0.0.0:7070") << path;
  }
}

TEST_F(OptionTableTest, HelpListsEveryOptionWithDefaultUnitAndVariable) {
  bool is_long = false;
  table_.Flag("long", "", "It is " + std::string(80, 'x') + " words long, which is more than a line has room for.",
              &is_long);
  ASSERT_TRUE(Parse({"--listen", "other:1", "-h"}).ok());
  const std::string& help = table_.answer();
  EXPECT_THAT(help, StartsWith("Tests.\n\nUsage: t [options]\n\nOptions:\n  -h, --help\n      Show this and exit.\n"));
  EXPECT_THAT(help, HasSubstr("--listen IP:PORT"));
  EXPECT_THAT(help, HasSubstr("Default: 0.0.0.0:7070 [IP:PORT]. Environment: T_LISTEN"));
  EXPECT_THAT(help, HasSubstr("  -t, --io-threads N\n      Threads.\n      Default: 1 [N]\n"));
  EXPECT_THAT(help, HasSubstr("Default: 64M [BYTES]"));
  EXPECT_THAT(help, HasSubstr("-f FACTOR"));
  EXPECT_THAT(help, HasSubstr("Default: false. Environment: T_REFLECTION"));
  EXPECT_THAT(help, HasSubstr("  --long\n      It is " + std::string(80, 'x') +
                              " words\n      long, which is more than a line has room for.\n      Default: false\n"));
  ASSERT_TRUE(Parse({"--version"}).ok());
  EXPECT_EQ(table_.answer(), absl::StrCat("t ", kSoftwareVersion, "\n"));
}

class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() {
    OptionTable* const drain = table_.AddCommand("drain", "Takes it out.");
    drain->Word("SERVER", "The server.", /*is_required=*/true, &server_);
    drain->Flag("wait,w", "", "Wait.", &wait_);
    drain->Uint64("deadline", "", "S", "For so long.", &deadline_);
    drain->Needs("--deadline", "--wait");
    drain->String("scheduler", "T_SCHEDULER", "HOST:PORT", "Where.", &scheduler_);
    OptionTable* const plan = table_.AddCommand("plan", "Computes.");
    plan->Word("FOLDER", "The folder.", /*is_required=*/false, &folder_);
    plan->String("scheduler", "T_SCHEDULER", "HOST:PORT", "Where.", &scheduler_);
    plan->Hide("--scheduler");
    plan->Uint64("nodes", "", "N", "Nodes.", &nodes_);
    plan->Excludes("--nodes", "FOLDER");
  }

  std::string ErrorOf(const std::vector<std::string>& arguments) {
    return std::string(table_.Parse(arguments).message());
  }

  OptionTable table_{"t", "Tests.", "The end."};
  std::string server_;
  std::string folder_;
  std::string scheduler_;
  bool wait_ = false;
  uint64_t deadline_ = 0;
  uint64_t nodes_ = 0;
};

TEST_F(CommandsTest, OptionsMayStandAroundTheCommand) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"drain", "plan", "--wait", "--deadline", "5", "--scheduler=h:1"},
           {"--deadline", "5", "-w", "--scheduler", "h:1", "drain", "plan"},
           {"--scheduler", "drain", "drain", "--scheduler", "h:1", "--deadline=5", "--wait", "--", "plan"}}) {
    server_ = scheduler_ = "";
    EXPECT_EQ(ErrorOf(arguments), "");
    EXPECT_EQ(table_.command(), "drain");
    EXPECT_EQ(server_, "plan") << "a server may have a command's name";
    EXPECT_EQ(scheduler_, "h:1");
    EXPECT_TRUE(wait_);
    EXPECT_EQ(deadline_, 5u);
  }
  const ScopedEnvironment variables(std::map<std::string, std::string>{{"T_SCHEDULER", "h:3"}});
  for (const std::string command : {"plan", "drain"}) {
    EXPECT_EQ(ErrorOf({"--scheduler", "h:2", command, "a"}), "");
    EXPECT_EQ(scheduler_, "h:2") << "not the other command's";
    EXPECT_EQ(ErrorOf({command, "a"}), "");
    EXPECT_EQ(scheduler_, "h:3");
  }
  EXPECT_EQ(ErrorOf({"drain", "--", "--wait"}), "");
  EXPECT_EQ(server_, "--wait");
}

TEST_F(CommandsTest, ErrorsNameWhatIsMissingOrTooMuch) {
  EXPECT_EQ(ErrorOf({}), "no command is given; use drain, plan");
  EXPECT_EQ(ErrorOf({"drains"}), "unknown command \"drains\" (did you mean drain?); use drain, plan");
  EXPECT_EQ(ErrorOf({"--schedule", "h:1", "plan"}),
            "unknown option --schedule (did you mean --scheduler?); --help lists the options");
  EXPECT_EQ(ErrorOf({"drain"}), "drain takes SERVER: The server.");
  EXPECT_EQ(ErrorOf({"drain", "a", "b"}), "unexpected argument \"b\"");
  EXPECT_EQ(ErrorOf({"plan", "--wait"}), "--wait only goes with drain");
  EXPECT_EQ(ErrorOf({"plan", "--wait", "-h"}), "--wait only goes with drain");
  EXPECT_EQ(ErrorOf({"drain", "--version", "a", "b"}), "unexpected argument \"b\"");
  EXPECT_EQ(ErrorOf({"plan", "--node=3"}), "unknown option --node (did you mean --nodes?); --help lists the options");
  EXPECT_EQ(ErrorOf({"drain", "a", "--deadline", "3"}), "--deadline requires --wait");
  EXPECT_EQ(ErrorOf({"plan", "a", "--nodes", "3"}), "FOLDER excludes --nodes; give only one of the two");
}

TEST_F(CommandsTest, HelpOfACommandHasItsOwnOptions) {
  EXPECT_EQ(ErrorOf({"-h"}), "");
  EXPECT_THAT(table_.answer(), AllOf(HasSubstr("Usage: t [options] COMMAND\n"), EndsWith("\nThe end.\n"),
                                     HasSubstr("\nCommands:\n  drain SERVER        Takes it out.\n"
                                               "  plan [FOLDER]       Computes.\n")));
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"plan", "--help"}, std::vector<std::string>{"--help", "plan"}}) {
    EXPECT_EQ(ErrorOf(arguments), "");
    EXPECT_EQ(table_.answer(),
              "Computes.\n\nUsage: t plan [options] [FOLDER]\n\nPositionals:\n  FOLDER\n      The folder.\n\n"
              "Options:\n  -h, --help\n      Show this and exit.\n      Default: false\n"
              "  --nodes N\n      Nodes.\n      Default: 0 [N]\n");
  }
  EXPECT_EQ(ErrorOf({"drain", "--version"}), "");
  EXPECT_THAT(table_.answer(), StartsWith("t "));
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
