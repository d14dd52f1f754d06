// fabric_model: the time of all-reduces of one layout on links of one kind, simulated. bench/fabric_model/run.py calls
// it. Prints one line of JSON.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/fabric_model/layouts.h"
#include "core/bucket_plan.h"
#include "core/flow_plan.h"
#include "core/frame.h"
#include "core/server_weights.h"
#include "core/shard_map.h"
#include "core/token.h"
#include "program/option_table.h"

namespace shoal::fabric_model {
namespace {

constexpr uint32_t kMostNodeRanks = 64;

struct Options {
  std::string layout = "servers";
  Training training{.nodes = 8, .link_bytes_per_s = 25e6, .bucket_bytes = 25 << 20};
  ServerLayout servers;
  FabricSettings fabric{.message_bytes = kFrameHeaderBytes};
  uint32_t segment_bytes = 256 << 10;
};

void Declare(Options* options, OptionTable* table) {
  Training& training = options->training;
  ServerLayout& servers = options->servers;
  table->String("layout", "", "LAYOUT", "servers, ring or tree.", &options->layout);
  table->Uint32("nodes", "", "NODES", "With workers. Each has one link.", &training.nodes, 2, kMaxGroupSize);
  table->Uint32("node-ranks", "", "RANKS", "Workers of a node.", &training.inside.ranks, 1, kMostNodeRanks);
  table->Uint32("groups", "", "GROUPS", "Of equal nodes, simulated as one each; divides NODES. 0: NODES.",
                &training.groups, 0, kMaxGroupSize);
  table->Double("link", "", "BYTES/S", "Of a node, each way.", &training.link_bytes_per_s);
  table->Double("inside-rate", "", "BYTES/S", "Of a rank, each way, to the others of its node.",
                &training.inside.bytes_per_s);
  table->Double("inside-latency", "", "SECONDS",
                "Of a hop from rank to rank (ring, tree); of a whole reduce-scatter or all-gather (servers).",
                &training.inside.latency_s);
  table->Bytes("bucket", "", "Size of a bucket.", &training.bucket_bytes, 1);
  table->Uint32("buckets", "", "BUCKETS", "One after the other.", &training.buckets, 1, 10000);
  table->Uint32("in-flight", "", "BUCKETS", "At a time.", &training.in_flight, 1, 10000);
  table->Double("latency", "", "SECONDS", "From the last byte's leaving to the receiver's program.",
                &options->fabric.latency_s);
  table->Double("message-cost", "", "SECONDS", "Processor time of a message, at each of its ends.",
                &options->fabric.message_cost_s);
  table->Uint32("dedicated", "", "SERVERS", "Servers with links of their own.", &servers.dedicated, 0, kMaxShards);
  table->Double("dedicated-share", "", "SHARE", "Of a bucket, on those; the rest is on servers inside the nodes.",
                &servers.dedicated_share);
  table->Double("server-link", "", "BYTES/S", "Of such a server. 0: as a node's.", &servers.server_bytes_per_s);
  table->Uint32("chunk-bytes", "", "BYTES", "0: as the scheduler would plan for this link.", &servers.chunk_bytes, 0,
                kMaxChunkBytes);
  table->Uint32("credit", "", "CHUNKS", "From a worker to a server. With --chunk-bytes 0 as planned.",
                &servers.credit_chunks, 1, kMaxCreditChunks);
  table->Uint32("window", "", "CHUNKS",
                "A worker pushes none so far past its oldest one that is not back. 0: any, or as planned.",
                &servers.window_chunks);
  table->Uint32("segment", "", "BYTES", "Of the tree.", &options->segment_bytes, 1024);
}

// As the scheduler has it of a group: all rails of a node meet at its port.
PortLoad PortsOf(const Training& training, const ServerLayout& layout) {
  std::vector<ServerOfGroup> servers(layout.dedicated);
  if (layout.dedicated_share < 1) {
    for (uint32_t node = 0; node < training.nodes; ++node) servers.push_back({.node = node});
  }
  const std::vector<uint32_t> ranks_of_node(training.nodes, training.inside.ranks);
  return LoadOfPorts(ranks_of_node, servers, PlanServerWeights(training.nodes, servers));
}

absl::Status Check(Options* options) {
  Training& training = options->training;
  ServerLayout& servers = options->servers;
  if (training.groups == 0) training.groups = training.nodes;
  if (training.link_bytes_per_s <= 0) return absl::InvalidArgumentError("--link must be above 0");
  if (training.inside.ranks > 1 && training.inside.bytes_per_s <= 0) {
    return absl::InvalidArgumentError("nodes of several ranks need an --inside-rate above 0");
  }
  if (training.bucket_bytes % training.inside.ranks != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--bucket ", training.bucket_bytes, " is no multiple of ",
                                                   training.inside.ranks, " ranks a node"));
  }
  if (options->layout == "ring" || options->layout == "tree") return absl::OkStatus();
  if (options->layout != "servers") {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no layout ", options->layout, "; take servers, ring or tree"));
  }
  if (training.nodes % training.groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--groups ", training.groups, " does not divide ", training.nodes, " nodes"));
  }
  if (servers.dedicated == 0) servers.dedicated_share = 0;
  if (servers.dedicated_share < 0 || servers.dedicated_share > 1) {
    return absl::InvalidArgumentError("--dedicated-share is not between 0 and 1");
  }
  if (servers.server_bytes_per_s <= 0) servers.server_bytes_per_s = training.link_bytes_per_s;
  if (servers.chunk_bytes == 0) {
    const LinkFacts link{.bytes_per_s = static_cast<uint64_t>(training.link_bytes_per_s),
                         .round_trip_ns = static_cast<uint64_t>(2e9 * options->fabric.latency_s),
                         .message_ns = static_cast<uint64_t>(1e9 * options->fabric.message_cost_s)};
    const FlowPlan plan = PlanFlow(PortsOf(training, servers), link, 0);
    servers.chunk_bytes = plan.chunk_bytes;
    servers.credit_chunks = plan.credit_chunks;
    if (servers.window_chunks == 0) servers.window_chunks = plan.look_ahead_chunks;
  }
  return MakeBucketPlan(training.bucket_bytes / training.inside.ranks, WireCodec(DataType::kUint8), servers.chunk_bytes)
      .status();
}

int Main(int argument_count, char** arguments) {
  Options options;
  OptionTable table("fabric_model", "Simulates all-reduces and prints their time.");
  Declare(&options, &table);
  absl::Status status = table.Parse({arguments + 1, arguments + argument_count});
  if (status.ok() && !table.answer().empty()) {
    std::fputs(table.answer().c_str(), stdout);
    return 0;
  }
  if (status.ok()) status = Check(&options);
  if (!status.ok()) {
    std::fprintf(stderr, "fabric_model: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  int simgrid_argument_count = 1;
  Fabric fabric(options.fabric, &simgrid_argument_count, arguments);
  const double seconds = options.layout == "ring"   ? RunRing(&fabric, options.training)
                         : options.layout == "tree" ? RunDoubleTree(&fabric, options.training, options.segment_bytes)
                                                    : RunServers(&fabric, options.training, options.servers);
  std::printf("{\"seconds\": %.9f, \"chunk_bytes\": %u, \"credit_chunks\": %u}\n", seconds, options.servers.chunk_bytes,
              options.servers.credit_chunks);
  return 0;
}

}  // namespace
}  // namespace shoal::fabric_model

int main(int argument_count, char** arguments) { return shoal::fabric_model::Main(argument_count, arguments); }
