// The process of one rank: it joins the job, measures and, as rank 0, reports.
#ifndef SHOAL_PERF_RANK_PROCESS_H_
#define SHOAL_PERF_RANK_PROCESS_H_

#include <string>
#include <vector>

#include "perf/perf_options.h"

namespace shoal {

// Exit codes of shoal-perf.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // an error, or wrong elements
inline constexpr int kExitUsage = 2;

// Runs the rank of `options` to its end and returns the exit code. Results go to stdout, errors to stderr. `arguments`
// are written to the report.
int RunRank(const PerfOptions& options, const std::vector<std::string>& arguments);

}  // namespace shoal

#endif  // SHOAL_PERF_RANK_PROCESS_H_
