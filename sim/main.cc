// shoal-sim: runs seeds of the deterministic simulation and reports what failed.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

#include "sim/profile.h"
#include "sim/shrink.h"
#include "sim/simulation.h"
#include "sim/tally.h"

namespace {

using shoal::sim::Profile;
using shoal::sim::Report;

constexpr char kUsage[] =
    "shoal-sim: deterministic simulation of scheduler, servers and workers under faults.\n"
    "\n"
    "  shoal-sim --seed N [--trace LINES]   runs one seed; if a check fails, prints a smaller profile that also "
    "fails,\n"
    "                                       and its trace\n"
    "  shoal-sim --first N --count K        runs K seeds from N on; prints a line for each that failed, and a summary\n"
    "\n"
    "options (default)\n"
    "  --seed N           the seed to run (none)\n"
    "  --first N          the first seed of a range (1)\n"
    "  --count K          how many seeds (1200, as `make test` runs them)\n"
    "  --stop-after F     stop after F seeds have failed (none)\n"
    "  --report FILE      write the results of a range as JSON (none)\n"
    "  --shrink-runs R    how many simulations to spend on making a failing profile smaller (400)\n"
    "  --trace LINES      how many of the last lines of the trace to print (0; 200 if a check failed)\n"
    "  --help             this text\n"
    "\n"
    "exit status: 0 all checks held, 1 a check failed, 2 wrong usage, 3 a seed crashed or did not end (it is named)\n";

constexpr unsigned kSecondsPerSeed = 120;

struct Options {
  uint64_t seed = 0;
  bool one_seed = false;
  uint64_t first = 1;
  uint64_t count = shoal::sim::kFixedSeeds;
  uint64_t stop_after = UINT64_MAX;
  uint64_t shrink_runs = 400;
  uint64_t trace_lines = 0;
  std::string report;
};

char seed_under_way[32];

// A seed that crashes or hangs ends the others as well, so it is named. Calls only what a signal handler may call.
void NameSeed(int signal_number) {
  const char* const what = signal_number == SIGALRM ? " FAILED: it did not end\n" : " FAILED: it crashed\n";
  (void)!write(STDOUT_FILENO, seed_under_way, std::strlen(seed_under_way));
  (void)!write(STDOUT_FILENO, what, std::strlen(what));
  _exit(3);
}

Report RunSeed(const Profile& profile, size_t trace_lines) {
  std::snprintf(seed_under_way, sizeof(seed_under_way), "seed %llu", static_cast<unsigned long long>(profile.seed));
  alarm(kSecondsPerSeed);
  return shoal::sim::Simulate(profile, trace_lines);
}

bool ParseNumber(const char* text, uint64_t* number) {
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, *number);
  return error == std::errc() && at == end;
}

void Print(const Profile& profile, const Report& report) {
  std::printf(
      "seed %llu: %s\n  %s\n  digest %016llx, %llu events, %.3f s virtual, ops ok %llu, failed %llu, refusals %llu, "
      "loans %llu, hand-overs %llu, preemptions %llu\n",
      static_cast<unsigned long long>(report.seed), report.failures.empty() ? "ok" : "FAILED",
      profile.Describe().c_str(), static_cast<unsigned long long>(report.digest),
      static_cast<unsigned long long>(report.events), static_cast<double>(report.virtual_ns) / 1e9,
      static_cast<unsigned long long>(report.ops_ok), static_cast<unsigned long long>(report.ops_failed),
      static_cast<unsigned long long>(report.refusals), static_cast<unsigned long long>(report.loans),
      static_cast<unsigned long long>(report.hand_overs), static_cast<unsigned long long>(report.preemptions));
  for (const std::string& failure : report.failures) std::printf("  - %s\n", failure.c_str());
  for (const std::string& line : report.trace) std::printf("    %s\n", line.c_str());
}

int RunOneSeed(const Options& options) {
  const Profile profile = shoal::sim::DrawProfile(options.seed);
  const Report report = RunSeed(profile, options.trace_lines);
  Print(profile, report);
  if (report.failures.empty()) return 0;
  alarm(0);
  const shoal::sim::Shrunk shrunk = shoal::sim::Shrink(profile, static_cast<uint32_t>(options.shrink_runs));
  std::printf("\nthe smallest profile that fails as well (after %u simulations), and its trace:\n", shrunk.runs);
  Print(shrunk.profile, RunSeed(shrunk.profile, options.trace_lines == 0 ? 200 : options.trace_lines));
  return 1;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int RunRange(const Options& options) {
  shoal::sim::Tally tally;
  for (uint64_t seed = options.first; seed < options.first + options.count; ++seed) {
    const Report report = RunSeed(shoal::sim::DrawProfile(seed), 0);
    tally.Add(report);
    if (report.failures.empty()) continue;
    std::printf("seed %llu FAILED: %s (replay: shoal-sim --seed %llu)\n", static_cast<unsigned long long>(seed),
                report.failures.front().c_str(), static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    if (tally.violations.size() >= options.stop_after) break;
  }
  const double cpu_seconds = CpuSeconds();
  std::printf(
      "%llu seeds, %llu failed; ops ok %llu, ended with an error as they should %llu; results handed over %llu, "
      "pushes preempted %llu; ops in which a rank of a node died in the reduce-scatter %llu, the other nodes' turn "
      "%llu, "
      "the all-gather %llu; %.2f ms of CPU a seed\n",
      static_cast<unsigned long long>(tally.seeds), static_cast<unsigned long long>(tally.violations.size()),
      static_cast<unsigned long long>(tally.ops_ok), static_cast<unsigned long long>(tally.ops_failed),
      static_cast<unsigned long long>(tally.hand_overs), static_cast<unsigned long long>(tally.preemptions),
      static_cast<unsigned long long>(tally.node_deaths[0]), static_cast<unsigned long long>(tally.node_deaths[1]),
      static_cast<unsigned long long>(tally.node_deaths[2]),
      1e3 * cpu_seconds / static_cast<double>(tally.seeds == 0 ? 1 : tally.seeds));
  if (!options.report.empty()) {
    std::ofstream file(options.report);
    file << tally.ToJson(options.first, cpu_seconds);
    if (!file.flush()) {
      std::fprintf(stderr, "shoal-sim: can't write %s\n", options.report.c_str());
      return 2;
    }
  }
  return tally.violations.empty() ? 0 : 1;
}

// False: wrong usage, which was reported on stderr.
bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    uint64_t* number = flag == "--seed"          ? &options->seed
                       : flag == "--first"       ? &options->first
                       : flag == "--count"       ? &options->count
                       : flag == "--stop-after"  ? &options->stop_after
                       : flag == "--shrink-runs" ? &options->shrink_runs
                       : flag == "--trace"       ? &options->trace_lines
                                                 : nullptr;
    options->one_seed = options->one_seed || flag == "--seed";
    if (flag == "--report" && value != nullptr) {
      options->report = value;
    } else if (number == nullptr || value == nullptr || !ParseNumber(value, number)) {
      std::fprintf(stderr,
                   "shoal-sim: '%s' is not an option, or its value is missing or not a number; see shoal-sim --help\n",
                   flag.c_str());
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  Options options;
  if (!Parse(argc, argv, &options)) return 2;
  for (const int each : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGALRM}) signal(each, NameSeed);
  return options.one_seed ? RunOneSeed(options) : RunRange(options);
}
