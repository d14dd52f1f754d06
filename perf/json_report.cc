#include "absl/strings/str_format.h"
#include "perf/report.h"
#include "perf/time_statistics.h"
#include "program/json_text.h"

namespace shoal {
namespace {

Json MachineJson(const NodeFacts& machine) {
  return {{"node_name", machine.node_name},
          {"cpu_model", machine.cpu_model},
          {"cpu_count", machine.cpu_count},
          {"kernel", machine.kernel},
          {"architecture", machine.architecture},
          {"memory_bytes", machine.memory_bytes},
          {"load_average_1min", machine.load_average_1min}};
}

Json ServersJson(const ClusterFacts& cluster) {
  Json shards = Json::array();
  for (const ServerTraffic& shard : cluster.shards) {
    shards.push_back({{"name", shard.name},
                      {"address", shard.address},
                      {"bytes_pushed", shard.bytes_pushed},
                      {"bytes_pulled", shard.bytes_pulled},
                      {"transport", shard.transport}});
  }
  return shards;
}

Json MeasurementJson(const Measurement& measurement) {
  return {{"bytes", measurement.bytes},
          {"count", measurement.element_count},
          {"dtype", std::string(DataTypeName(measurement.dtype))},
          {"op", std::string(ReduceOpName(measurement.op))},
          {"in_flight", measurement.in_flight},
          {"time_us", measurement.time_us},
          {"time_us_min", measurement.op_time_us.min},
          {"time_us_p50", measurement.op_time_us.p50},
          {"time_us_p99", measurement.op_time_us.p99},
          {"time_us_max", measurement.op_time_us.max},
          {"op_times_us", measurement.op_times_us},
          {"cpu_time_us", measurement.cpu_time_us},
          {"algbw_bytes_per_s", measurement.AlgorithmBandwidth()},
          {"busbw_bytes_per_s", measurement.BusBandwidth()},
          {"checked", measurement.checked},
          {"wrong", measurement.wrong},
          {"digest", measurement.checked ? absl::StrFormat("%016x", measurement.digest) : ""}};
}

}  // namespace

std::string JsonReport(const PerfOptions& options, const RunFacts& facts,
                       const std::vector<Measurement>& measurements) {
  Json results = Json::array();
  uint64_t wrong = 0;
  for (const Measurement& measurement : measurements) {
    results.push_back(MeasurementJson(measurement));
    wrong += measurement.wrong;
  }
  return JsonText({{"program", "shoal-perf"},
                   {"software_version", facts.software_version},
                   {"arguments", facts.arguments},
                   {"started_at", facts.started_at},
                   {"machine", MachineJson(facts.machine)},
                   {"job", options.job},
                   {"scheduler", options.scheduler},
                   {"world_size", options.world_size},
                   {"ranks_on_this_node", options.spawn == 0 ? 1 : options.spawn},
                   {"server_count", facts.cluster.server_count},
                   {"map_epoch", facts.cluster.map_epoch},
                   {"servers", ServersJson(facts.cluster)},
                   {"transports", options.transports},
                   {"split", options.split_text},
                   {"wire", WireFormatName(options.wire)},
                   {"network_only", options.network_only},
                   {"checksums", options.checksums},
                   {"node_reduce", NodeReduceChoiceName(options.node_reduce)},
                   {"net_device", options.net_device},
                   {"max_chunk_bytes", options.chunk_bytes},
                   {"in_flight", options.in_flight},
                   {"pause_us", options.pause_us},
                   {"iterations", options.iterations},
                   {"warmup_iterations", options.warmup_iterations},
                   {"check_rounds", options.check_rounds},
                   {"wrong", wrong},
                   {"results", results}}) +
         "\n";
}

}  // namespace shoal
