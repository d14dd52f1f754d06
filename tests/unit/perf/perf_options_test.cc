#include "perf/perf_options.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/program/scoped_environment.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<PerfOptions> Parse(const std::vector<std::string>& arguments,
                                  const std::map<std::string, std::string>& environment = {}) {
  const ScopedEnvironment variables(environment);
  return ParsePerfOptions(arguments);
}

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const absl::StatusOr<PerfOptions> options = Parse(arguments);
  if (options.ok()) return "no error";
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(options.status().message());
}

TEST(PerfOptions, FlagsOfNcclTests) {
  const absl::StatusOr<PerfOptions> options = Parse({"--spawn", "4", "-b", "8", "-e", "128M", "-f", "2",   "-i", "4K",
                                                     "-n",      "7", "-w", "3", "-d", "half", "-o", "max", "-c", "0"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->min_bytes, 8u);
  EXPECT_EQ(options->max_bytes, 128u << 20);
  EXPECT_EQ(options->step_factor, 2u);
  EXPECT_EQ(options->step_bytes, 4096u);
  EXPECT_EQ(options->iterations, 7u);
  EXPECT_EQ(options->warmup_iterations, 3u);
  EXPECT_THAT(options->dtypes, ElementsAre(DataType::kFloat16));
  EXPECT_THAT(options->ops, ElementsAre(ReduceOp::kMax));
  EXPECT_EQ(options->check_rounds, 0u);
  EXPECT_EQ(options->world_size, 4u);
}

TEST(PerfOptions, SizesArePowersOf1024) {
  const absl::StatusOr<PerfOptions> options = Parse({"--spawn", "2", "-b", "25M"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->min_bytes, 25u * 1024 * 1024);
  EXPECT_EQ(options->max_bytes, options->min_bytes);
  EXPECT_THAT(SweepSizes(*options), ElementsAre(25u * 1024 * 1024));
}

TEST(PerfOptions, LongNamesOfNcclTests) {
  const absl::StatusOr<PerfOptions> options =
      Parse({"--spawn=2", "--minbytes=1K", "--maxbytes=3K", "--stepbytes=1K", "--iters=2", "--warmup_iters=1",
             "--check=2", "--datatype=double", "--op=mulsum"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(SweepSizes(*options), ElementsAre(1024, 2048, 3072));
  EXPECT_THAT(options->ops, ElementsAre(ReduceOp::kPremulSum));
  EXPECT_THAT(options->dtypes, ElementsAre(DataType::kFloat64));
  EXPECT_EQ(options->check_rounds, 2u);
}

TEST(PerfOptions, TheWireIsNamed) {
  EXPECT_EQ(Parse({"--spawn", "2"})->wire, WireFormat::kAsIs);
  EXPECT_EQ(Parse({"--spawn", "2", "--wire", "bf16"})->wire, WireFormat::kBfloat16);
  EXPECT_EQ(Parse({"--spawn", "2", "--wire=fp16"})->wire, WireFormat::kFloat16);
  EXPECT_EQ(Parse({"--spawn", "2", "--wire=int8"})->wire, WireFormat::kInt8);
  EXPECT_EQ(Parse({"--spawn", "2", "--wire=fp8"})->wire, WireFormat::kFloat8);
  EXPECT_THAT(std::string(Parse({"--spawn", "2", "--wire", "int4"}).status().message()),
              HasSubstr("--wire: \"int4\" is none of none|fp16|bf16|int8|fp8"));
}

TEST(PerfOptions, WhetherRanksReduceOnTheirNodeIsNamed) {
  EXPECT_EQ(Parse({"--spawn", "2"})->node_reduce, NodeReduceChoice::kAuto);
  EXPECT_EQ(Parse({"--spawn", "2", "--node-reduce", "host"})->node_reduce, NodeReduceChoice::kHost);
  EXPECT_EQ(Parse({"--spawn", "2"}, {{"SHOAL_NODE_REDUCE", "off"}})->node_reduce, NodeReduceChoice::kOff);
  EXPECT_THAT(ErrorOf({"--spawn", "2", "--node-reduce", "yes"}),
              HasSubstr("--node-reduce: \"yes\" is none of auto|off|host|nccl"));
}

TEST(PerfOptions, InAPodThatIsSetToNcclTensorsInHostMemoryGoThroughTheNodesMemory) {
  const absl::StatusOr<PerfOptions> options = Parse({"--spawn", "2"}, {{"SHOAL_NODE_REDUCE", "nccl"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->node_reduce, NodeReduceChoice::kHost) << "the report says what was measured";
}

TEST(PerfOptions, WhetherRanksRunServersIsNamed) {
  EXPECT_EQ(Parse({"--spawn", "2"})->colocation, Colocation::kAuto);
  EXPECT_EQ(Parse({"--spawn", "2", "--colocate", "on"})->colocation, Colocation::kOn);
  EXPECT_EQ(Parse({"--spawn", "2"}, {{"SHOAL_COLOCATE", "off"}})->colocation, Colocation::kOff);
  EXPECT_THAT(ErrorOf({"--spawn", "2", "--colocate", "yes"}), HasSubstr("--colocate: \"yes\" is none of auto|on|off"));
}

TEST(PerfOptions, FactorReplacesStepAndStopsAtTheEnd) {
  const absl::StatusOr<PerfOptions> options = Parse({"--spawn", "2", "-b", "1K", "-e", "10K", "-f", "2"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(SweepSizes(*options), ElementsAre(1024, 2048, 4096, 8192));
}

TEST(PerfOptions, AllTypesAndOps) {
  const absl::StatusOr<PerfOptions> options = Parse({"--spawn", "2", "-d", "all", "-o", "all"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->dtypes.size(), 9u);
  EXPECT_EQ(options->ops.size(), 6u);
}

TEST(PerfOptions, OneRankOfACluster) {
  const absl::StatusOr<PerfOptions> options = Parse({"--scheduler", "10.0.0.1:7000", "--job", "night", "--world-size",
                                                     "8", "--rank", "7", "--in-flight", "4", "--pause", "250"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->scheduler, "10.0.0.1:7000");
  EXPECT_EQ(options->job, "night");
  EXPECT_EQ(options->world_size, 8u);
  EXPECT_EQ(options->rank, 7u);
  EXPECT_EQ(options->in_flight, 4u);
  EXPECT_EQ(options->pause_us, 250u);
  EXPECT_EQ(options->spawn, 0u);
}

// To the library an empty text is its default, which is a folder.
TEST(PerfOptions, AnEmptyFolderForFlightRecordsIsNone) {
  const auto folder = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--spawn", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Parse(arguments).value().flight_recorder;
  };
  EXPECT_EQ(folder({}), "auto");
  EXPECT_EQ(folder({"--flight-recorder="}), "off");
  EXPECT_EQ(folder({"--flight-recorder", "/records"}), "/records");
}

TEST(PerfOptions, EnvironmentGivesSchedulerAndRank) {
  const absl::StatusOr<PerfOptions> options =
      Parse({}, {{"SHOAL_SCHEDULER", "h:1"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->scheduler, "h:1");
  EXPECT_EQ(options->rank, 1u);
  EXPECT_EQ(options->world_size, 2u);
}

TEST(PerfOptions, SpawnWithoutClusterStartsOne) {
  const absl::StatusOr<PerfOptions> one = Parse({"--spawn", "2"});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->servers, 1u);
  const absl::StatusOr<PerfOptions> three = Parse({"--spawn", "2", "--servers", "3"});
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_EQ(three->servers, 3u);
  EXPECT_EQ(three->min_servers, 3u);
  const absl::StatusOr<PerfOptions> outside = Parse({"--spawn", "2", "--scheduler", "h:1"});
  ASSERT_TRUE(outside.ok()) << outside.status();
  EXPECT_EQ(outside->servers, 0u);
}

TEST(PerfOptions, WrongCommandLinesSayWhatToWrite) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("give --spawn N"));
  EXPECT_THAT(ErrorOf({"--spawn", "0"}), HasSubstr("give --spawn N"));
  EXPECT_THAT(ErrorOf({"--spawn", "two"}), HasSubstr("--spawn"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "-b", "25Q"}), HasSubstr("-b"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "-b", "0"}), HasSubstr("-b"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "-b", "2M", "-e", "1M"}), HasSubstr("--maxbytes"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "-d", "complex"}), HasSubstr("bfloat16"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "-o", "band"}), HasSubstr("premul-sum"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "-o", "premul-sum", "-d", "int8"}), HasSubstr("--datatype is int8"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "-n", "0"}), HasSubstr("-n"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "--in-flight", "0"}), HasSubstr("--in-flight"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "--chunk-bytes", "100"}), HasSubstr("--chunk-bytes"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "--chunk-bytes", "1G"}), HasSubstr("--chunk-bytes"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "-b", "4", "-e", "1T", "-i", "4"}), HasSubstr("--stepfactor"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "--servers", "2", "--scheduler", "h:1"}), HasSubstr("give only one of the two"));
  EXPECT_THAT(ErrorOf({"--spawn", "2", "--world-size", "3"}), HasSubstr("--world-size"));
  EXPECT_THAT(ErrorOf({"--scheduler", "h:1", "--world-size", "4", "--rank", "4"}), HasSubstr("count from 0"));
  EXPECT_THAT(ErrorOf({"--scheduler", "h:1"}),
              HasSubstr("how many ranks the job has is not given: give --world-size N and --rank R for each rank"));
  EXPECT_THAT(ErrorOf({"--scheduler", "h:1", "--world-size", "1", "--servers", "1"}), HasSubstr("--spawn"));
  EXPECT_THAT(ErrorOf({"--sprawn", "2"}), HasSubstr("--spawn"));
}

TEST(PerfOptions, HelpListsEveryOptionWithDefaultAndUnit) {
  const absl::StatusOr<PerfOptions> asked = Parse({"--help"});
  ASSERT_TRUE(asked.ok()) << asked.status();
  const std::string& help = asked->answer;
  for (const char* option :
       {"-b, --minbytes",     "-e, --maxbytes", "-i, --stepbytes", "-f, --stepfactor", "-n, --iters",
        "-w, --warmup_iters", "-c, --check",    "-d, --datatype",  "-o, --op",         "--in-flight",
        "--chunk-bytes",      "--json",         "--timeout",       "--spawn",          "--servers",
        "--scheduler",        "--job",          "--world-size",    "--rank",           "--min-servers",
        "--net-device",       "--transports",   "--pause"}) {
    EXPECT_THAT(help, HasSubstr(option));
  }
  EXPECT_THAT(help, HasSubstr("Default: 25M [BYTES]"));
  EXPECT_THAT(help, HasSubstr("Default: 60 [SECONDS]"));
}

}  // namespace
}  // namespace shoal
