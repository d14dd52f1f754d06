#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "perf/report.h"

namespace shoal {
namespace {

// nccl-tests' way to keep five or six digits in view.
std::string FormatTime(double microseconds) {
  const int decimals = microseconds >= 10000.0 ? 0 : microseconds >= 100.0 ? 1 : 2;
  return absl::StrFormat("%.*f", decimals, microseconds);
}

std::string FormatBandwidth(double bytes_per_s) {
  const double gigabytes = bytes_per_s / 1e9;
  return absl::StrFormat("%.*f", gigabytes >= 0.1 ? 2 : 4, gigabytes);
}

// Servers may be registered that these ranks, being on one node, do not use.
std::string ServersAndChunks(const PerfOptions& options, const ClusterFacts& cluster) {
  if (cluster.shards.empty()) return "";
  return absl::StrCat(cluster.server_count, " servers (", cluster.shards.size(), " I/O threads), chunks ",
                      options.chunk_bytes == 0 ? std::string("by the cluster") : FormatBytes(options.chunk_bytes),
                      ", ");
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  constexpr struct {
    int shift;
    const char* suffix;
  } kSuffixes[] = {{40, "T"}, {30, "G"}, {20, "M"}, {10, "K"}};
  for (const auto& [shift, suffix] : kSuffixes) {
    const uint64_t unit = uint64_t{1} << shift;
    if (bytes != 0 && bytes % unit == 0) return absl::StrCat(bytes / unit, suffix);
  }
  return absl::StrCat(bytes);
}

std::string TableHeader(const PerfOptions& options, const RunFacts& facts) {
  std::string text = absl::StrCat("# shoal-perf ", facts.software_version, " on ", facts.machine.node_name, ", ",
                                  facts.machine.cpu_model, ", ", facts.machine.cpu_count, " cpus\n");
  absl::StrAppend(&text, "# minBytes ", FormatBytes(options.min_bytes), " maxBytes ", FormatBytes(options.max_bytes),
                  options.step_factor > 1 ? absl::StrCat(" factor ", options.step_factor)
                                          : absl::StrCat(" step ", FormatBytes(options.step_bytes)),
                  ", iters ", options.iterations, " after ", options.warmup_iterations, " of warm-up, check ",
                  options.check_rounds, "\n");
  absl::StrAppend(&text, "# ", options.world_size, " ranks",
                  options.split.splits() ? absl::StrCat(", in groups by ", options.split_text) : std::string(), ", ",
                  ServersAndChunks(options, facts.cluster), "wire ", std::string(WireFormatName(options.wire)),
                  ", in flight ", options.in_flight, "\n");
  std::set<std::string> transports;
  for (const ServerTraffic& shard : facts.cluster.shards) transports.insert(shard.transport);
  if (transports.empty()) {
    absl::StrAppend(&text, "# The ranks reduce within their node, without servers\n");
  } else {
    absl::StrAppend(&text, "# Rank 0 reaches the servers over ", absl::StrJoin(transports, ", "), "\n");
  }
  absl::StrAppend(
      &text,
      "# In place. time: whole loop / iters; min, p50, p99: single all-reduces. Each is the slowest rank's.\n"
      "#\n");
  absl::StrAppendFormat(&text, "#%12s%14s%10s%12s%10s%9s%9s%8s%10s%10s%10s\n", "size", "count", "type", "redop", "time",
                        "algbw", "busbw", "#wrong", "min", "p50", "p99");
  absl::StrAppendFormat(&text, "#%12s%14s%10s%12s%10s%9s%9s%8s%10s%10s%10s\n", "(B)", "(elements)", "", "", "(us)",
                        "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)");
  return text;
}

std::string TableRow(const Measurement& measurement) {
  return absl::StrFormat(" %12d%14d%10s%12s%10s%9s%9s%8s%10s%10s%10s\n", measurement.bytes, measurement.element_count,
                         std::string(DataTypeName(measurement.dtype)), std::string(ReduceOpName(measurement.op)),
                         FormatTime(measurement.time_us), FormatBandwidth(measurement.AlgorithmBandwidth()),
                         FormatBandwidth(measurement.BusBandwidth()),
                         measurement.checked ? absl::StrCat(measurement.wrong) : std::string("N/A"),
                         FormatTime(measurement.op_time_us.min), FormatTime(measurement.op_time_us.p50),
                         FormatTime(measurement.op_time_us.p99));
}

std::string TableFooter(const std::vector<Measurement>& measurements) {
  uint64_t wrong = 0;
  double bus_bandwidth = 0;
  for (const Measurement& measurement : measurements) {
    wrong += measurement.wrong;
    bus_bandwidth += measurement.BusBandwidth();
  }
  if (!measurements.empty()) bus_bandwidth /= static_cast<double>(measurements.size());
  return absl::StrCat("# Out of bounds values : ", wrong, wrong == 0 ? " OK" : " FAILED",
                      "\n# Avg bus bandwidth    : ", FormatBandwidth(bus_bandwidth), "\n");
}

}  // namespace shoal
