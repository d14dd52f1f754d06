// shoal-perf: measures and checks all-reduce through reduction servers (perf/README.md).
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "perf/local_processes.h"
#include "perf/perf_options.h"
#include "perf/rank_process.h"
#include "perf/way.h"
#include "shoal/worker.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto lookup = [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  const absl::StatusOr<shoal::PerfOptions> options = shoal::ParsePerfOptions(arguments, lookup);
  if (!options.ok()) {
    std::fprintf(stderr, "shoal-perf: %s\n", std::string(options.status().message()).c_str());
    return shoal::kExitUsage;
  }
  if (options->help) {
    std::fputs(shoal::PerfHelp().c_str(), stdout);
    return shoal::kExitOk;
  }
  if (options->version) {
    std::printf("shoal-perf %s (%s)\n", shoal_version(), shoal_network_version());
    return shoal::kExitOk;
  }
  if (!options->way.empty()) return shoal::RunWay(*options);
  return options->spawn > 0 ? shoal::RunLocalRanks(*options, arguments) : shoal::RunRank(*options, arguments);
}
