// shoal-perf: measures and checks all-reduce through reduction servers (perf/README.md).
#include <cstdio>
#include <string>
#include <vector>

#include "perf/local_processes.h"
#include "perf/perf_options.h"
#include "perf/rank_process.h"
#include "perf/way.h"
#include "process/open_files.h"
#include "shoal/worker.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const absl::StatusOr<shoal::PerfOptions> options = shoal::ParsePerfOptions(arguments, shoal_version());
  if (!options.ok()) {
    std::fprintf(stderr, "shoal-perf: %s\n", std::string(options.status().message()).c_str());
    return shoal::kExitUsage;
  }
  if (!options->answer.empty()) {
    std::fputs(options->answer.c_str(), stdout);
    return shoal::kExitOk;
  }
  shoal::RaiseOpenFileLimit();
  if (!options->way.empty()) return shoal::RunWay(*options);
  return options->spawn > 0 ? shoal::RunLocalRanks(*options, arguments) : shoal::RunRank(*options, arguments);
}
