#include "perf/report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/json_text.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PerfOptions SomeOptions() {
  PerfOptions options;
  options.world_size = 4;
  options.spawn = 4;
  options.max_bytes = options.min_bytes;
  options.job = "a \"quoted\" job\nwith a line";
  options.scheduler = "127.0.0.1:1234";
  return options;
}

RunFacts SomeFacts() {
  RunFacts facts;
  facts.arguments = {"--spawn", "4", "\\"};
  facts.software_version = "1.2.3";
  facts.started_at = "2026-01-31T12:00:00Z";
  facts.machine = {"node", "Some CPU", 2, "Linux 6.1", "x86_64", uint64_t{8} << 30, 0.5};
  facts.cluster = {2, 7, {{"shoal-0", "127.0.0.1:1", 100, 200}, {"shoal-1", "127.0.0.1:2", 101, 201}}};
  return facts;
}

Measurement SomeMeasurement() {
  Measurement measurement;
  measurement.bytes = 25u << 20;
  measurement.element_count = measurement.bytes / 4;
  measurement.rank_count = 4;
  measurement.time_us = 26214.4;
  measurement.op_time_us = {20000, 26000, 30000, 31000};
  measurement.op_times_us = {31000, 20000.5};
  measurement.cpu_time_us = 1234.5;
  measurement.checked = true;
  measurement.wrong = 3;
  measurement.digest = 0xabc;
  return measurement;
}

TEST(Report, BytesAsPeopleWriteThem) {
  EXPECT_EQ(FormatBytes(0), "0");
  EXPECT_EQ(FormatBytes(1000), "1000");
  EXPECT_EQ(FormatBytes(1024), "1K");
  EXPECT_EQ(FormatBytes(25u << 20), "25M");
  EXPECT_EQ(FormatBytes((25u << 20) + 1), "26214401");
  EXPECT_EQ(FormatBytes(uint64_t{3} << 30), "3G");
}

TEST(Report, BandwidthOfNcclTests) {
  const Measurement measurement = SomeMeasurement();
  EXPECT_DOUBLE_EQ(measurement.AlgorithmBandwidth(), 1e9);
  EXPECT_DOUBLE_EQ(measurement.BusBandwidth(), 1.5e9);
}

TEST(Report, TheHeadSaysWhatMovesTheBytes) {
  RunFacts facts = SomeFacts();
  facts.cluster.shards = {{.name = "alpha", .address = "10.0.0.1:7000", .transport = "tcp/eth0"}};
  EXPECT_THAT(TableHeader(SomeOptions(), facts), HasSubstr("Rank 0 reaches the servers over tcp/eth0\n"));
  EXPECT_THAT(TableHeader(SomeOptions(), facts), HasSubstr("4 ranks, 2 servers (1 I/O threads), chunks"));
  facts.cluster.shards.clear();
  EXPECT_THAT(TableHeader(SomeOptions(), facts), HasSubstr("The ranks reduce within their node, without servers\n"));
  EXPECT_THAT(TableHeader(SomeOptions(), facts), HasSubstr("# 4 ranks, wire none"));
  EXPECT_THAT(TableHeader(SomeOptions(), facts), Not(HasSubstr("2 servers"))) << "which are there, and not used";
}

TEST(Report, TableHasTheColumnsOfNcclTests) {
  const std::string header = TableHeader(SomeOptions(), SomeFacts());
  size_t at = 0;
  for (const char* column :
       {"size", "count", "type", "redop", "time", "algbw", "busbw", "#wrong", "min", "p50", "p99"}) {
    at = header.rfind(column);
    ASSERT_NE(at, std::string::npos) << column;
  }
  EXPECT_THAT(header, HasSubstr("4 ranks, 2 servers"));
  for (size_t line = 0; line < header.size(); line = header.find('\n', line) + 1) EXPECT_EQ(header[line], '#');

  std::vector<std::string> cells;
  std::string cell;
  for (const char letter : TableRow(SomeMeasurement())) {
    if (letter != ' ' && letter != '\n') {
      cell.push_back(letter);
    } else if (!cell.empty()) {
      cells.push_back(cell);
      cell.clear();
    }
  }
  EXPECT_THAT(cells, ::testing::ElementsAre("26214400", "6553600", "float32", "sum", "26214", "1.00", "1.50", "3",
                                            "20000", "26000", "30000"));
}

TEST(Report, FooterCountsWrongElements) {
  EXPECT_THAT(TableFooter({SomeMeasurement(), SomeMeasurement()}), HasSubstr("6 FAILED"));
  EXPECT_THAT(TableFooter({}), HasSubstr("0 OK"));
}

TEST(Report, JsonHasTheAgreedFields) {
  const Json report = Json::parse(JsonReport(SomeOptions(), SomeFacts(), {SomeMeasurement(), SomeMeasurement()}));
  for (const char* name : {"software_version", "arguments", "started_at", "machine", "job", "scheduler", "world_size",
                           "server_count", "servers", "results", "iterations", "transports"}) {
    EXPECT_TRUE(report.contains(name)) << name;
  }
  EXPECT_EQ(report.at("job"), "a \"quoted\" job\nwith a line");
  EXPECT_EQ(report.at("arguments").at(2), "\\");
  EXPECT_EQ(report.at("machine").at("cpu_model"), "Some CPU");
  EXPECT_EQ(report.at("servers").at(1).at("bytes_pushed"), 101);
  EXPECT_EQ(report.at("wrong"), 6);
  ASSERT_EQ(report.at("results").size(), 2u);
  const Json& result = report.at("results").at(0);
  EXPECT_EQ(result.at("bytes"), 26214400);
  EXPECT_EQ(result.at("dtype"), "float32");
  EXPECT_EQ(result.at("op"), "sum");
  EXPECT_EQ(result.at("in_flight"), 1);
  EXPECT_EQ(result.at("time_us_min"), 20000);
  EXPECT_EQ(result.at("time_us_p50"), 26000);
  EXPECT_EQ(result.at("time_us_p99"), 30000);
  ASSERT_EQ(result.at("op_times_us").size(), 2u);
  EXPECT_EQ(result.at("op_times_us").at(1), 20000.5);
  EXPECT_EQ(result.at("cpu_time_us"), 1234.5);
  EXPECT_EQ(result.at("algbw_bytes_per_s"), 1e9);
  EXPECT_EQ(result.at("busbw_bytes_per_s"), 1.5e9);
  EXPECT_EQ(result.at("wrong"), 3);
  EXPECT_EQ(result.at("digest"), "0000000000000abc");
}

TEST(Report, JsonOfNoResults) {
  const Json report = Json::parse(JsonReport(SomeOptions(), {}, {}));
  EXPECT_EQ(report.at("results").size(), 0u);
}

TEST(Report, NodeFactsAreFound) {
  const NodeFacts facts = GatherNodeFacts();
  EXPECT_FALSE(facts.node_name.empty());
  EXPECT_THAT(facts.kernel, HasSubstr("Linux"));
  EXPECT_GE(facts.cpu_count, 1u);
  EXPECT_GT(facts.memory_bytes, 1u << 20);
  EXPECT_EQ(TimeNowText().size(), std::string("2026-01-31T12:00:00Z").size());
}

}  // namespace
}  // namespace shoal
