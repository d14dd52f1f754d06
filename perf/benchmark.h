// One rank's part of the benchmark: for each type, operation and size a check, then the timing.
//
// Thread: one. All ranks must run it with the same options; they agree on times and errors by small all-reduces of the
// library that is measured.
#ifndef SHOAL_PERF_BENCHMARK_H_
#define SHOAL_PERF_BENCHMARK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/dtype.h"
#include "perf/perf_options.h"
#include "perf/session.h"
#include "perf/time_statistics.h"

namespace shoal {

struct Measurement {
  uint64_t bytes = 0;  // of one tensor
  uint64_t element_count = 0;
  DataType dtype = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint32_t in_flight = 1;
  uint32_t rank_count = 1;
  // Of one all-reduce from its start until this rank saw its end. Each is the time of the slowest rank.
  TimeStatistics op_time_us;
  std::vector<double> op_times_us;  // what op_time_us summarises, in the order of the all-reduces
  // nccl-tests' time: the whole timed loop divided by the number of all-reduces, on the slowest rank.
  double time_us = 0;
  // User and system time that the ranks' processes, all of them together, took for one all-reduce of the timed loop.
  double cpu_time_us = 0;
  bool checked = false;
  uint64_t wrong = 0;   // elements, over all ranks and checks
  uint64_t digest = 0;  // of the bits of the checked results of random numbers, equal on all ranks

  double AlgorithmBandwidth() const { return time_us > 0 ? static_cast<double>(bytes) / (time_us * 1e-6) : 0.0; }
  double BusBandwidth() const { return AlgorithmBandwidth() * BusBandwidthFactor(rank_count); }
};

// Calls `report` for each measurement, on every rank. Wrong elements are not an error here; `complain` gets a sentence
// about the first one of each check. Errors: those of the library, with what was being done; DataLoss if ranks got
// different bits; ResourceExhausted if there is no memory for the tensors.
absl::Status RunBenchmark(const PerfOptions& options, Session* session,
                          const std::function<void(const Measurement&)>& report,
                          const std::function<void(const std::string&)>& complain);

}  // namespace shoal

#endif  // SHOAL_PERF_BENCHMARK_H_
