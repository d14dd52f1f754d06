// What shoal-perf was asked to do. Flags and their meanings are those of nccl-tests where it has them.
//
// Values; any thread.
#ifndef SHOAL_PERF_PERF_OPTIONS_H_
#define SHOAL_PERF_PERF_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/colocation.h"
#include "core/dtype.h"
#include "core/node_reduce.h"
#include "core/wire_format.h"
#include "perf/rank_split.h"
#include "process/credential_files.h"

namespace shoal {

inline constexpr uint32_t kMaxPerfRanks = 4096;
inline constexpr uint64_t kMaxPerfBytes = uint64_t{1} << 40;

struct PerfOptions {
  uint64_t min_bytes = 25u << 20;
  uint64_t max_bytes = 0;  // 0: as min_bytes; filled in by ParsePerfOptions
  uint64_t step_bytes = 1u << 20;
  uint32_t step_factor = 1;  // above 1 it replaces step_bytes
  uint32_t iterations = 20;
  uint32_t warmup_iterations = 5;
  uint32_t check_rounds = 1;
  std::vector<DataType> dtypes = {DataType::kFloat32};
  std::vector<ReduceOp> ops = {ReduceOp::kSum};

  uint32_t in_flight = 1;
  uint32_t pause_us = 0;
  uint64_t chunk_bytes = 0;  // 0: the cluster's default
  std::string split_text;
  RankSplit split;  // as the text says
  WireFormat wire = WireFormat::kAsIs;
  std::string json_path;
  bool explain = false;  // print the decisions instead of measuring

  std::string way;  // addresses of one server, to which the way is measured, and nothing else is done

  uint32_t spawn = 0;    // local ranks to fork; 0: this process is one rank
  uint32_t servers = 0;  // to start beside them, where no scheduler is given
  std::string scheduler;
  CredentialFiles credentials;  // for that
  std::string job;
  uint32_t world_size = 0;
  uint32_t rank = 0;
  uint32_t min_servers = 1;
  uint32_t timeout_s = 60;
  std::string net_device;
  std::string flight_recorder = "auto";
  uint32_t local_rank = 0;
  uint32_t local_world_size = 0;  // 0: not known
  std::string transports = "tcp";
  Colocation colocation = Colocation::kAuto;
  NodeReduceChoice node_reduce = NodeReduceChoice::kAuto;
  bool network_only = false;
  bool checksums = false;

  std::string answer;  // to --help or --version, to be printed instead
};

// InvalidArgument: the text says which option is wrong and what to write instead. With an `answer` nothing else is
// checked. `version`: what --version says.
absl::StatusOr<PerfOptions> ParsePerfOptions(const std::vector<std::string>& arguments,
                                             const std::string& version = "");

// The sizes of the sweep in bytes, smallest first.
std::vector<uint64_t> SweepSizes(const PerfOptions& options);

}  // namespace shoal

#endif  // SHOAL_PERF_PERF_OPTIONS_H_
