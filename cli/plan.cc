#include "cli/plan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/tables.h"
#include "core/bucket_plan.h"
#include "core/flow_plan.h"
#include "core/node_parts.h"
#include "core/server_weights.h"
#include "core/shard_map.h"
#include "core/time_model.h"
#include "program/json_text.h"

namespace shoal::cli {
namespace {

constexpr uint32_t kMostNodes = 1024;
constexpr uint32_t kMostRanks = 64;  // of a node
constexpr double kMostGbit = 10'000;
constexpr double kMostMicroseconds = 1e6;
constexpr double kNearTheBest = 1.05;
constexpr double kBarColumns = 30;
// Beyond so many, numbers of servers are computed, and rows are shown, by steps.
constexpr uint32_t kMostComputed = 64;
constexpr size_t kMostRows = 17;

absl::Status CheckOptions(const PlanOptions& options) {
  if (options.nodes < 2 || options.nodes > kMostNodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan takes --nodes from 2 to ", kMostNodes, "; one node reduces through its memory"));
  }
  if (!(options.link_gbit > 0 && options.link_gbit <= kMostGbit)) {
    return absl::InvalidArgumentError(
        "plan takes --link, the rate of a node's link in Gbit/s, above 0 and up to 10000");
  }
  if (options.ranks < 1 || options.ranks > kMostRanks) {
    return absl::InvalidArgumentError(absl::StrCat("plan takes --ranks, those of a node, from 1 to ", kMostRanks));
  }
  if (!(options.node_link_gbit >= 0 && options.node_link_gbit <= kMostGbit)) {
    return absl::InvalidArgumentError(
        "plan takes --node-link, the rate in Gbit/s between the ranks of a node, from 0 (it takes no time) to 10000");
  }
  if (options.bytes < sizeof(float) || options.bytes > kMaxBucketBytes) {
    return absl::InvalidArgumentError("plan takes --bytes from 4 to 64G");
  }
  if (options.port_buffer_bytes > kMaxPortBufferBytes) {
    return absl::InvalidArgumentError("plan takes --port-buffer up to 1G; 0: not known");
  }
  const auto is_time = [](double us) { return us >= 0 && us <= kMostMicroseconds; };
  if (!is_time(options.round_trip_us) || !is_time(options.message_us)) {
    return absl::InvalidArgumentError("--round-trip and --message take 0 to 1000000 microseconds");
  }
  return absl::OkStatus();
}

uint64_t Nanoseconds(double us) { return static_cast<uint64_t>(us * 1000); }

// Servers that the plan of a group leaves out have no shard.
absl::StatusOr<uint64_t> Predict(const PlanOptions& options, const LinkFacts& link, uint32_t dedicated,
                                 uint32_t colocated) {
  std::vector<ServerOfGroup> servers(dedicated);
  for (uint32_t node = 0; node < colocated; ++node) servers.push_back({.node = node});
  const std::vector<uint32_t> weights = PlanServerWeights(options.nodes, servers);
  std::vector<Shard> shards;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (weights[i] == 0) continue;
    shards.push_back({.server = ServerId(i + 1),
                      .incarnation = Incarnation(1),
                      .address = absl::StrCat("server-", i, ":1"),
                      .weight = weights[i]});
  }
  const absl::StatusOr<ShardMap> map = ShardMap::Make(Epoch(1), std::move(shards));
  if (!map.ok()) return map.status();
  const std::vector<uint32_t> ranks_of_node(options.nodes, options.ranks);
  const PortLoad load = LoadOfPorts(ranks_of_node, servers, weights);
  const FlowPlan flow = PlanFlow(load, link, 0, options.port_buffer_bytes);
  // Of the first rank of a node, whose part is the largest.
  const uint64_t elements = NodePart(options.bytes / sizeof(float), options.ranks, 0).count;
  const absl::StatusOr<BucketPlan> cut = MakeBucketPlan(elements, WireCodec(DataType::kFloat32), flow.chunk_bytes);
  if (!cut.ok()) return cut.status();
  const uint64_t chunk_elements = std::min<uint64_t>(cut->elements_per_chunk, elements);
  return PredictOpNs({.bytes = elements * sizeof(float),
                      .chunk_bytes = static_cast<uint32_t>(chunk_elements * sizeof(float)),
                      .chunk_count = cut->chunk_count,
                      .largest_part_chunks = SummarizeDeal(*cut, *map, GroupId(1)).largest_part_chunks,
                      .group_size = options.nodes * options.ranks,
                      .busiest_link = load.busiest_link},
                     link);
}

std::string Milliseconds(uint64_t ns) { return absl::StrFormat("%.3f ms", static_cast<double>(ns) / 1e6); }

double Ratio(uint64_t ns, uint64_t of_ns) { return static_cast<double>(ns) / static_cast<double>(of_ns); }

}  // namespace

absl::StatusOr<ServerPlan> PlanServers(const PlanOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  const LinkFacts link{.bytes_per_s = static_cast<uint64_t>(options.link_gbit * 1e9 / 8),
                       .round_trip_ns = Nanoseconds(options.round_trip_us),
                       .message_ns = Nanoseconds(options.message_us)};
  const double bound_ns = static_cast<double>(options.bytes) * 1e9 / static_cast<double>(link.bytes_per_s);
  ServerPlan plan{.link_bound_ns = std::max<uint64_t>(1, static_cast<uint64_t>(bound_ns)), .rows = {}};
  const double ranks = options.ranks;
  const double all_ranks = ranks * options.nodes;
  plan.ring_ns = static_cast<uint64_t>(2 * bound_ns * (all_ranks - 1) / all_ranks);
  if (options.node_link_gbit > 0) {
    const double ns_per_byte = 8 / options.node_link_gbit;
    plan.within_node_ns =
        static_cast<uint64_t>(2 * (ranks - 1) / ranks * static_cast<double>(options.bytes) * ns_per_byte);
  }
  uint64_t best_ns = UINT64_MAX;
  const uint32_t step = (2 * options.nodes + kMostComputed - 1) / kMostComputed;
  for (uint32_t dedicated = 0; dedicated <= 2 * options.nodes; ++dedicated) {
    if (dedicated % step != 0 && dedicated != options.nodes) continue;
    const uint32_t colocated = dedicated < options.nodes ? options.nodes : 0;
    const absl::StatusOr<uint64_t> predicted_ns = Predict(options, link, dedicated, colocated);
    if (!predicted_ns.ok()) return predicted_ns.status();
    plan.rows.push_back({dedicated, colocated, *predicted_ns + plan.within_node_ns});
    best_ns = std::min(best_ns, plan.rows.back().predicted_ns);
  }
  const auto enough = std::ranges::find_if(
      plan.rows, [&](const PlanRow& row) { return Ratio(row.predicted_ns, best_ns) <= kNearTheBest; });
  plan.enough_servers = enough->dedicated_servers;
  return plan;
}

std::string PlanText(const PlanOptions& options, const ServerPlan& plan) {
  std::string text = absl::StrFormat(
      "All-reduce of %s on %d nodes of %s, links of %g Gbit/s, round trip %g us,\n%g us a message.\n"
      "At the link's rate: %s. The bytes of a ring at that rate: %s.\n",
      BytesText(options.bytes), options.nodes, Plural(options.ranks, "rank"), options.link_gbit, options.round_trip_us,
      options.message_us, Milliseconds(plan.link_bound_ns), Milliseconds(plan.ring_ns));
  if (options.port_buffer_bytes > 0) {
    absl::StrAppend(&text, "Planned for ports of ", BytesText(options.port_buffer_bytes), ".\n");
  }
  if (plan.within_node_ns > 0) {
    absl::StrAppendFormat(&text, "Within a node, at %g Gbit/s between its ranks: %s, which is in each row.\n",
                          options.node_link_gbit, Milliseconds(plan.within_node_ns));
  }
  text += '\n';
  uint64_t longest_ns = 1;
  for (const PlanRow& row : plan.rows) longest_ns = std::max(longest_ns, row.predicted_ns);
  std::vector<TableRow> table = {{"SERVERS", "COLOCATED", "ALL-REDUCE", "RING TAKES", ""}};
  const size_t step = (plan.rows.size() + kMostRows - 1) / kMostRows;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    const bool is_enough = row.dedicated_servers == plan.enough_servers;
    if (i % step != 0 && !is_enough && i + 1 != plan.rows.size()) continue;
    const auto bar = static_cast<size_t>(std::lround(kBarColumns * Ratio(row.predicted_ns, longest_ns)));
    table.push_back({absl::StrCat(row.dedicated_servers), absl::StrCat(row.colocated_servers),
                     Milliseconds(row.predicted_ns),
                     absl::StrFormat("%.2f times that", Ratio(plan.ring_ns, row.predicted_ns)),
                     absl::StrCat(std::string(bar, '#'), is_enough ? "  enough" : "")});
  }
  absl::StrAppend(&text, AlignTable(table), "\n", plan.enough_servers,
                  plan.enough_servers == 1 ? " dedicated server is" : " dedicated servers are",
                  " within 5 % of the best.\n"
                  "This is a model: all links carry their rate at once, and processors keep up",
                  plan.within_node_ns > 0 || options.ranks == 1
                      ? ""
                      : ". The reduction among\nthe ranks of a node takes no time (`--node-link` adds it)",
                  ". `shoal-perf` measures.\n");
  return text;
}

std::string PlanJson(const ServerPlan& plan) {
  Json rows = Json::array();
  for (const PlanRow& row : plan.rows) {
    rows.push_back({{"dedicated_servers", row.dedicated_servers},
                    {"colocated_servers", row.colocated_servers},
                    {"predicted_ns", absl::StrCat(row.predicted_ns)}});
  }
  return JsonText({{"link_bound_ns", absl::StrCat(plan.link_bound_ns)},
                   {"within_node_ns", absl::StrCat(plan.within_node_ns)},
                   {"ring_ns", absl::StrCat(plan.ring_ns)},
                   {"enough_servers", plan.enough_servers},
                   {"rows", rows}});
}

}  // namespace shoal::cli
