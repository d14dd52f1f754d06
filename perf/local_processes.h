// --spawn: all ranks as processes of this node and, where there is no cluster, a scheduler and servers as well.
//
// The calling process forks before it has made any call into the worker library, and makes none itself; it must have
// only one thread. Its children end with it.
#ifndef SHOAL_PERF_LOCAL_PROCESSES_H_
#define SHOAL_PERF_LOCAL_PROCESSES_H_

#include <string>
#include <vector>

#include "perf/perf_options.h"

namespace shoal {

// Runs all ranks of `options` (options.spawn of them) and returns the exit code of shoal-perf, which is kExitOk if all
// ranks succeeded. After the first failure the others get options.timeout_s to end, then they are killed.
int RunLocalRanks(const PerfOptions& options, const std::vector<std::string>& arguments);

}  // namespace shoal

#endif  // SHOAL_PERF_LOCAL_PROCESSES_H_
