// shoal-perf --explain: how a tensor of each size is cut, why, and how long that should take. Pure; any thread.
#ifndef SHOAL_PERF_EXPLAIN_H_
#define SHOAL_PERF_EXPLAIN_H_

#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "perf/perf_options.h"
#include "perf/session.h"

namespace shoal {

// The lines before the rows, with the figures that the group's decisions are based on. Each ends with a newline.
std::string ExplainHeader(const PerfOptions& options, uint32_t group_size, const ClusterFacts& cluster,
                          const shoal_plan& any);

std::string ExplainRow(uint64_t bytes, DataType dtype, const shoal_plan& plan);

}  // namespace shoal

#endif  // SHOAL_PERF_EXPLAIN_H_
