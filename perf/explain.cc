#include "perf/explain.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "perf/report.h"

namespace shoal {
namespace {

std::string Microseconds(uint64_t ns) {
  return ns == 0 ? "?" : absl::StrFormat("%.1f", static_cast<double>(ns) / 1000.0);
}

std::string Reason(const shoal_plan& plan) {
  if (plan.chunk_count == 0) return "all ranks are on one node and reduce through its memory";
  if (plan.chunk_count == 1) return "one chunk: more pieces would cost more messages than they save";
  if (plan.chunk_count == plan.shards_used) return "one chunk for each of these servers";
  return "cut, and dealt in proportion to the servers' weights";
}

}  // namespace

std::string ExplainHeader(const PerfOptions& options, uint32_t group_size, const ClusterFacts& cluster,
                          const shoal_plan& any) {
  const bool within_node = any.chunk_count == 0;
  const std::string where =
      within_node ? " on one node" : absl::StrCat(", ", cluster.shards.size(), " I/O threads of servers");
  std::string text =
      absl::StrCat("# ", group_size, " ranks", where, ", wire ", std::string(WireFormatName(options.wire)), "\n");
  if (options.split.splits()) {
    absl::StrAppend(&text, "# One of the groups by ", options.split_text,
                    ": its chunks are planned for all of them at the same time, the time is predicted for it alone\n");
  }
  if (within_node) {
    absl::StrAppend(&text, "# Measured: nothing (the ranks reduce through their node's memory, without servers)\n");
  } else if (any.link_bytes_per_s == 0) {
    absl::StrAppend(&text, "# Measured: nothing (there is no dedicated server to measure the link to)\n");
  } else {
    absl::StrAppendFormat(&text, "# Measured: link %.1f MB/s, round trip %s us, message %s us\n",
                          static_cast<double>(any.link_bytes_per_s) / 1e6, Microseconds(any.round_trip_ns),
                          Microseconds(any.message_ns));
  }
  if (any.rails > 1) {
    absl::StrAppend(&text, "# The ranks of a node reduce among themselves first; then each of the ", any.rails,
                    " sends one part: servers and chunks are those of a part\n"
                    "# Parts that leave a node by one network card share its port. The time within the node is not "
                    "predicted\n");
  }
  absl::StrAppend(
      &text, "# window: chunks in flight to one server thread",
      any.look_ahead_chunks == 0 ? std::string() : absl::StrCat(", at most ", any.look_ahead_chunks, " in all"),
      "; predicted: the longer of the times for links and for messages, by the model\n#\n");
  absl::StrAppendFormat(&text, "#%12s%10s%9s%8s%9s%8s%12s  %s\n", "size (B)", "type", "servers", "chunks", "chunk",
                        "window", "predicted", "why");
  absl::StrAppendFormat(&text, "#%12s%10s%9s%8s%9s%8s%12s\n", "", "", "", "", "(B)", "", "(us)");
  return text;
}

std::string ExplainRow(uint64_t bytes, DataType dtype, const shoal_plan& plan) {
  return absl::StrFormat(" %12d%10s%9d%8d%9d%8d%12s  %s\n", bytes, std::string(DataTypeName(dtype)), plan.shards_used,
                         plan.chunk_count, plan.chunk_bytes, plan.window_chunks, Microseconds(plan.predicted_ns),
                         Reason(plan));
}

}  // namespace shoal
