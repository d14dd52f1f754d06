// The two forms of the results: the human-readable table of nccl-tests, and JSON.
//
// Pure functions; any thread.
#ifndef SHOAL_PERF_REPORT_H_
#define SHOAL_PERF_REPORT_H_

#include <string>
#include <vector>

#include "perf/benchmark.h"
#include "perf/node_facts.h"
#include "perf/perf_options.h"
#include "perf/session.h"

namespace shoal {

// What was run and where, beside the options.
struct RunFacts {
  std::vector<std::string> arguments;
  std::string software_version;
  std::string started_at;  // UTC, ISO 8601
  NodeFacts machine;       // of rank 0
  ClusterFacts cluster;    // traffic: of rank 0
};

// "4K", "25M", "1000": bytes in the usual short form, exact.
std::string FormatBytes(uint64_t bytes);

// The lines before the table's rows; each ends with a newline.
std::string TableHeader(const PerfOptions& options, const RunFacts& facts);
std::string TableRow(const Measurement& measurement);
std::string TableFooter(const std::vector<Measurement>& measurements);

// One JSON object (RFC 8259, UTF-8) that ends with a newline. perf/README.md explains it.
std::string JsonReport(const PerfOptions& options, const RunFacts& facts, const std::vector<Measurement>& measurements);

}  // namespace shoal

#endif  // SHOAL_PERF_REPORT_H_
