#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/json_text.h"
#include "perf/report.h"
#include "perf/time_statistics.h"

namespace shoal {
namespace {

// JSON knows no infinity and no NaN.
std::string Number(double value) { return std::isfinite(value) ? absl::StrFormat("%.10g", value) : "null"; }

// Values are JSON already.
std::string Object(const std::vector<std::pair<std::string, std::string>>& fields, const std::string& indent) {
  std::vector<std::string> lines;
  lines.reserve(fields.size());
  for (const auto& [name, value] : fields) lines.push_back(absl::StrCat(indent, "  ", QuoteJson(name), ": ", value));
  return absl::StrCat("{\n", absl::StrJoin(lines, ",\n"), "\n", indent, "}");
}

std::string NumberList(const std::vector<double>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ", ", [](std::string* out, double value) { *out += Number(value); }),
                      "]");
}

std::string List(const std::vector<std::string>& values) { return absl::StrCat("[", absl::StrJoin(values, ", "), "]"); }

std::string MachineJson(const NodeFacts& machine) {
  return Object({{"node_name", QuoteJson(machine.node_name)},
                 {"cpu_model", QuoteJson(machine.cpu_model)},
                 {"cpu_count", absl::StrCat(machine.cpu_count)},
                 {"kernel", QuoteJson(machine.kernel)},
                 {"architecture", QuoteJson(machine.architecture)},
                 {"memory_bytes", absl::StrCat(machine.memory_bytes)},
                 {"load_average_1min", Number(machine.load_average_1min)}},
                "  ");
}

std::string ServersJson(const ClusterFacts& cluster) {
  std::vector<std::string> shards;
  shards.reserve(cluster.shards.size());
  for (const ServerTraffic& shard : cluster.shards) {
    shards.push_back(Object({{"name", QuoteJson(shard.name)},
                             {"address", QuoteJson(shard.address)},
                             {"bytes_pushed", absl::StrCat(shard.bytes_pushed)},
                             {"bytes_pulled", absl::StrCat(shard.bytes_pulled)},
                             {"transport", QuoteJson(shard.transport)}},
                            "    "));
  }
  return List(shards);
}

std::string MeasurementJson(const Measurement& measurement) {
  return Object({{"bytes", absl::StrCat(measurement.bytes)},
                 {"count", absl::StrCat(measurement.element_count)},
                 {"dtype", QuoteJson(std::string(DataTypeName(measurement.dtype)))},
                 {"op", QuoteJson(std::string(ReduceOpName(measurement.op)))},
                 {"in_flight", absl::StrCat(measurement.in_flight)},
                 {"time_us", Number(measurement.time_us)},
                 {"time_us_min", Number(measurement.op_time_us.min)},
                 {"time_us_p50", Number(measurement.op_time_us.p50)},
                 {"time_us_p99", Number(measurement.op_time_us.p99)},
                 {"time_us_max", Number(measurement.op_time_us.max)},
                 {"op_times_us", NumberList(measurement.op_times_us)},
                 {"cpu_time_us", Number(measurement.cpu_time_us)},
                 {"algbw_bytes_per_s", Number(measurement.AlgorithmBandwidth())},
                 {"busbw_bytes_per_s", Number(measurement.BusBandwidth())},
                 {"checked", measurement.checked ? "true" : "false"},
                 {"wrong", absl::StrCat(measurement.wrong)},
                 {"digest", QuoteJson(measurement.checked ? absl::StrFormat("%016x", measurement.digest) : "")}},
                "    ");
}

}  // namespace

std::string JsonReport(const PerfOptions& options, const RunFacts& facts,
                       const std::vector<Measurement>& measurements) {
  std::vector<std::string> arguments;
  arguments.reserve(facts.arguments.size());
  for (const std::string& argument : facts.arguments) arguments.push_back(QuoteJson(argument));
  std::vector<std::string> results;
  results.reserve(measurements.size());
  uint64_t wrong = 0;
  for (const Measurement& measurement : measurements) {
    results.push_back(MeasurementJson(measurement));
    wrong += measurement.wrong;
  }
  return Object({{"program", QuoteJson("shoal-perf")},
                 {"software_version", QuoteJson(facts.software_version)},
                 {"arguments", List(arguments)},
                 {"started_at", QuoteJson(facts.started_at)},
                 {"machine", MachineJson(facts.machine)},
                 {"job", QuoteJson(options.job)},
                 {"scheduler", QuoteJson(options.scheduler)},
                 {"world_size", absl::StrCat(options.world_size)},
                 {"ranks_on_this_node", absl::StrCat(options.spawn == 0 ? 1 : options.spawn)},
                 {"server_count", absl::StrCat(facts.cluster.server_count)},
                 {"map_epoch", absl::StrCat(facts.cluster.map_epoch)},
                 {"servers", ServersJson(facts.cluster)},
                 {"transports", QuoteJson(options.transports)},
                 {"split", QuoteJson(options.split_text)},
                 {"wire", QuoteJson(options.wire_text)},
                 {"network_only", options.network_only ? "true" : "false"},
                 {"checksums", options.checksums ? "true" : "false"},
                 {"node_reduce", QuoteJson(options.node_reduce_text)},
                 {"net_device", QuoteJson(options.net_device)},
                 {"max_chunk_bytes", absl::StrCat(options.chunk_bytes)},
                 {"in_flight", absl::StrCat(options.in_flight)},
                 {"pause_us", absl::StrCat(options.pause_us)},
                 {"iterations", absl::StrCat(options.iterations)},
                 {"warmup_iterations", absl::StrCat(options.warmup_iterations)},
                 {"check_rounds", absl::StrCat(options.check_rounds)},
                 {"wrong", absl::StrCat(wrong)},
                 {"results", List(results)}},
                "") +
         "\n";
}

}  // namespace shoal
