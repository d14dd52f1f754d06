#include "perf/perf_options.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/bucket_plan.h"
#include "program/option_table.h"

namespace shoal {
namespace {

constexpr uint64_t kMaxSweepSizes = 10000;
constexpr char kTypes[] =
    "float32 (float), float64 (double), float16 (half), bfloat16, int8, int16, int32, int64, uint8, or all";
constexpr char kOps[] = "sum, avg, premul-sum (mulsum; by 0.5), min, max, prod, or all";

// What `named` knows as the text, or for "all" whatever has a number.
template <typename Value>
absl::Status SetOneOrAll(const std::string& text, std::optional<Value> (*named)(std::string_view),
                         std::optional<Value> (*numbered)(uint8_t), const char* known, std::vector<Value>* target) {
  target->clear();
  if (const std::optional<Value> one = named(text)) target->push_back(*one);
  for (uint8_t number = 0; text == "all" && number < 255; ++number) {
    if (const std::optional<Value> each = numbered(number)) target->push_back(*each);
  }
  return target->empty() ? absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is unknown; use ", known))
                         : absl::OkStatus();
}

void DeclareSweep(PerfOptions* options, OptionTable* table) {
  table->Bytes("minbytes,b", "", "Smallest tensor to reduce. 25M is 25 MiB.", &options->min_bytes, 1, kMaxPerfBytes);
  table->Bytes("maxbytes,e", "", "Largest tensor to reduce. 0: the same as --minbytes.", &options->max_bytes, 0,
               kMaxPerfBytes);
  table->Bytes("stepbytes,i", "", "How much larger the next size is, unless --stepfactor is above 1.",
               &options->step_bytes, 1, kMaxPerfBytes);
  table->Uint32("stepfactor,f", "", "FACTOR", "How many times as large the next size is. 1: use --stepbytes instead.",
                &options->step_factor, 1, 1u << 20);
  table->Uint32("iters,n", "", "OPS", "Timed all-reduces for each size.", &options->iterations, 1, 10000000);
  table->Uint32("warmup_iters,w", "", "OPS", "All-reduces for each size before the timed ones, one after another.",
                &options->warmup_iterations, 0, 10000000);
  table->Uint32(
      "check,c", "", "ROUNDS",
      "Checks for each size before the timing. Each is one all-reduce of small integers, whose result must be "
      "exact, and one of random numbers, compared with a reference in float64. 0: no checks.",
      &options->check_rounds, 0, 1000);
  table->Value("datatype,d", "", "TYPE", absl::StrCat(kTypes, "."), "float32", [options](const std::string& text) {
    const std::string name = text == "float"    ? "float32"
                             : text == "double" ? "float64"
                             : text == "half"   ? "float16"
                                                : text;
    return SetOneOrAll(name, DataTypeFromName, DataTypeFromWire, kTypes, &options->dtypes);
  });
  table->Value("op,o", "", "OP", absl::StrCat(kOps, "."), "sum", [options](const std::string& text) {
    return SetOneOrAll(text == "mulsum" ? "premul-sum" : text, ReduceOpFromName, ReduceOpFromWire, kOps, &options->ops);
  });
}

void DeclareHow(PerfOptions* options, OptionTable* table) {
  table->Uint32("in-flight", "", "OPS", "All-reduces in flight at a time, each on a tensor of its own.",
                &options->in_flight, 1, 1024);
  table->Uint32("pause", "", "US",
                "How long each rank sleeps before it starts an all-reduce, as if it computed. The times of single "
                "all-reduces do not include it, that of the whole loop does.",
                &options->pause_us, 0, 1'000'000);
  table->Bytes("chunk-bytes", "", "Largest chunk on the wire. 0: the cluster's default.", &options->chunk_bytes, 0,
               kMaxChunkBytes);
  table->Value("split", "", "mod:N|div:N",
               "Which ranks reduce together, in groups at the same time: those with equal rank % N, or with equal rank "
               "/ N. Empty: all of them.",
               "", [options](const std::string& text) {
                 const absl::StatusOr<RankSplit> split = RankSplit::Parse(text);
                 if (split.ok()) options->split = *split;
                 options->split_text = text;
                 return split.status();
               });
  table->OneOf("wire", "", WireFormatNames("|"),
               "How float32 tensors are sent; none: unchanged. Checks allow for the rounding.", WireFormatFromName,
               WireFormatName, &options->wire);
  table->String("json", "", "FILE", "File to which rank 0 also writes the results, with what was run and where.",
                &options->json_path);
  table->Flag("explain", "",
              "Measure nothing, but print how tensors of each size are cut, why, and how long that should take by the "
              "model.",
              &options->explain);
  table->Uint32("timeout", "", "SECONDS", "How long joining the job, and each all-reduce, may take.",
                &options->timeout_s, 1, 86400);
}

void DeclareWhere(PerfOptions* options, OptionTable* table) {
  table->String(
      "way", "", "IP:PORT[,...]",
      "Reduce nothing, but measure for half a second what the way from this node to one server carries, and "
      "print it. All the addresses of the server's I/O threads, as `shoalctl servers --wide` lists them. Goes with "
      "--scheduler.",
      &options->way);
  table->Uint32("spawn", "", "RANKS",
                "How many ranks to fork on this node. 0: this process is one rank, that of --rank.", &options->spawn, 0,
                kMaxPerfRanks);
  table->Uint32(
      "servers", "", "SERVERS",
      "With --spawn and without --scheduler: how many reduction servers to start, with a scheduler, as processes "
      "of their own. 0: one.",
      &options->servers, 0, 64);
  table->String("scheduler", "SHOAL_SCHEDULER", "HOST:PORT", "Address of the scheduler of a running cluster.",
                &options->scheduler);
  DeclareCredentialOptions(&options->credentials, table);
  table->String("job", "", "NAME",
                "Name of the job, the same on all ranks. If empty: shoal-perf, or with --spawn a new name.",
                &options->job);
  table->Uint32("world-size", "WORLD_SIZE", "RANKS",
                "How many ranks the job has, the same on all ranks. Required without --spawn.", &options->world_size, 0,
                kMaxPerfRanks);
  table->Uint32("rank", "RANK", "RANK", "Rank of this process, counted from 0.", &options->rank, 0, kMaxPerfRanks - 1);
  table->Uint32("min-servers", "", "SERVERS", "How many registered reduction servers to wait for.",
                &options->min_servers, 1, 4096);
  table->String("net-device", "", "DEVICE[,...][/...]",
                "Network device of the data plane, such as eth0 or lo. Empty: that of each route. With RDMA a node's "
                "ranks are dealt "
                "over several: mlx5_0:1/mlx5_1:1. Over TCP the routes choose among several: eth0,eth1.",
                &options->net_device);
  table->Uint32("local-rank", "LOCAL_RANK", "RANK",
                "Rank of this process among those of its node, for several devices. With --spawn it is known.",
                &options->local_rank, 0, kMaxPerfRanks - 1);
  table->Uint32("local-world-size", "LOCAL_WORLD_SIZE", "RANKS",
                "How many ranks its node has, for several devices and --colocate auto. 0: not known.",
                &options->local_world_size, 0, kMaxPerfRanks);
  table->String("transports", "", "LIST", "How bytes travel between nodes, as the servers have it.",
                &options->transports);
  table->Flag("network-only", "", "Use the network also to servers of this node, instead of shared memory.",
              &options->network_only);
  table->OneOf(
      "colocate", "SHOAL_COLOCATE", "auto|on|off",
      "Whether ranks run colocated servers for this job beside the dedicated ones, one on each node, with shares that "
      "fit the links. auto: where there are fewer dedicated servers than ranks (than nodes, if ranks reduce within "
      "theirs and --local-world-size is known), and none on the rank's node.",
      ColocationFromName, ColocationName, &options->colocation);
  table->OneOf(
      "node-reduce", "SHOAL_NODE_REDUCE", "auto|off|host|nccl",
      "Whether ranks on one node reduce among themselves. auto: as the scheduler finds best. host: wherever they can, "
      "through the node's memory. nccl: as host, since tensors here are in host memory. off: never. The same on all "
      "ranks.",
      NodeReduceChoiceFromName, NodeReduceChoiceName, &options->node_reduce);
  table->Flag("checksums", "SHOAL_CHECKSUMS",
              "Give chunks a checksum in both directions; a chunk that is changed on its way is sent again.",
              &options->checksums);
  table->String(
      "flight-recorder", "SHOAL_FLIGHT_RECORDER", "FOLDER",
      "Where ranks write the last events of their connections when an all-reduce fails; the scheduler is sent "
      "them as well. auto: to a folder shoal-flights-UID in the temporary directory, which is made then. off: "
      "nowhere, and they are not sent.",
      &options->flight_recorder);
}

void Declare(PerfOptions* options, OptionTable* table) {
  DeclareSweep(options, table);
  DeclareHow(options, table);
  DeclareWhere(options, table);
}

absl::Status CheckSweep(PerfOptions* options) {
  const bool can_reduce = std::ranges::any_of(options->dtypes, [options](DataType dtype) {
    return std::ranges::any_of(options->ops, [dtype](ReduceOp op) { return CanReduce(dtype, op); });
  });
  if (!can_reduce) {
    return absl::InvalidArgumentError(absl::StrCat("--op premul-sum is for floating types, and --datatype is ",
                                                   std::string(DataTypeName(options->dtypes.front()))));
  }
  if (options->max_bytes == 0) options->max_bytes = options->min_bytes;
  if (options->max_bytes < options->min_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("--maxbytes ", options->max_bytes, " is below --minbytes ",
                                                   options->min_bytes, "; give a larger -e or a smaller -b"));
  }
  if (options->step_factor == 1 && (options->max_bytes - options->min_bytes) / options->step_bytes >= kMaxSweepSizes) {
    return absl::InvalidArgumentError(absl::StrCat("the sweep has more than ", kMaxSweepSizes,
                                                   " sizes; use a larger --stepbytes, or --stepfactor 2"));
  }
  if (options->chunk_bytes != 0 && options->chunk_bytes < kMinChunkBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--chunk-bytes ", options->chunk_bytes,
                                                   " is less than the minimum of ", kMinChunkBytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlace(PerfOptions* options) {
  if (!options->way.empty()) {
    if (options->spawn == 0 && options->servers == 0) return absl::OkStatus();
    return absl::InvalidArgumentError("--way measures the way to a server that runs; leave --spawn and --servers out");
  }
  if (options->spawn == 0) {
    if (options->scheduler.empty()) {
      return absl::InvalidArgumentError(
          "there is nothing to run on: give --spawn N for N ranks on this node, or --scheduler HOST:PORT with "
          "--world-size and --rank for one rank on a cluster");
    }
    if (options->servers != 0) {
      return absl::InvalidArgumentError(
          "--servers only goes with --spawn and without --scheduler; the cluster has servers of its own");
    }
    if (options->world_size == 0) {
      return absl::InvalidArgumentError(
          "how many ranks the job has is not given: give --world-size N and --rank R for each rank of a job on the "
          "cluster, all of which you start, or --spawn N for N ranks on this node");
    }
    if (options->rank >= options->world_size) {
      return absl::InvalidArgumentError(absl::StrCat("--rank ", options->rank, " is not below --world-size ",
                                                     options->world_size, "; ranks count from 0"));
    }
    if (options->job.empty()) options->job = "shoal-perf";
    return absl::OkStatus();
  }
  if (options->world_size != 0 && options->world_size != options->spawn) {
    return absl::InvalidArgumentError(absl::StrCat("--spawn ", options->spawn, " forks all ranks, but --world-size is ",
                                                   options->world_size, "; leave --world-size out"));
  }
  options->world_size = options->spawn;
  if (!options->scheduler.empty() && options->servers != 0) {
    return absl::InvalidArgumentError(
        "--servers starts servers and --scheduler names a cluster that has servers: give only one of the two");
  }
  if (options->scheduler.empty()) {
    options->servers = std::max(options->servers, 1u);
    options->min_servers = options->servers;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PerfOptions> ParsePerfOptions(const std::vector<std::string>& arguments, const std::string& version) {
  PerfOptions options;
  OptionTable table("shoal-perf",
                    "Measures and checks all-reduce through reduction servers:\n"
                    "  shoal-perf --spawn N [options]\n"
                    "  shoal-perf --scheduler HOST:PORT --job NAME --world-size N --rank R [options]\n"
                    "  shoal-perf --way IP:PORT[,...] [options]\n"
                    "Flags and columns are those of nccl-tests. Rank 0 prints the results; times are the maximum over "
                    "all ranks. The exit code is 1 after an error or a wrong element.",
                    /*end=*/"", version);
  Declare(&options, &table);
  if (absl::Status status = table.Parse(arguments); !status.ok()) return status;
  options.answer = table.answer();
  if (!options.answer.empty()) return options;
  if (options.flight_recorder.empty()) options.flight_recorder = "off";  // to the library an empty text is the default
  // Tensors here are in host memory. With nccl those of the plugin go through the node's memory, too.
  if (options.node_reduce == NodeReduceChoice::kNccl) options.node_reduce = NodeReduceChoice::kHost;
  for (const auto check : {CheckSweep, CheckPlace}) {
    if (absl::Status status = check(&options); !status.ok()) return status;
  }
  return options;
}

std::vector<uint64_t> SweepSizes(const PerfOptions& options) {
  std::vector<uint64_t> sizes;
  uint64_t bytes = options.min_bytes;
  while (bytes <= options.max_bytes) {
    sizes.push_back(bytes);
    bytes = options.step_factor > 1 ? bytes * options.step_factor : bytes + options.step_bytes;
  }
  return sizes;
}

}  // namespace shoal
