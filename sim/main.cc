// shoal-sim: runs seeds of the deterministic simulation and reports what failed.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "program/option_table.h"
#include "sim/profile.h"
#include "sim/shrink.h"
#include "sim/simulation.h"
#include "sim/tally.h"

namespace {

using shoal::sim::Profile;
using shoal::sim::Report;

constexpr char kSummary[] =
    "Deterministic simulation of scheduler, servers and workers under faults. With --seed it runs one seed; if a check "
    "fails, it prints a smaller profile that also fails, and its trace. Without it runs a range of seeds, and prints a "
    "line for each that failed, and a summary.";
constexpr char kExitCodes[] =
    "Exit codes:\n"
    "  0  all checks held\n"
    "  1  a check failed\n"
    "  2  wrong usage\n"
    "  3  a seed crashed or did not end (it is named)";

constexpr unsigned kSecondsPerSeed = 120;

struct Options {
  uint64_t seed = 0;
  uint64_t first = 1;
  uint64_t count = shoal::sim::kFixedSeeds;
  uint64_t stop_after = 0;
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
    if (tally.violations.size() == options.stop_after) break;
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

void Declare(Options* options, shoal::OptionTable* table) {
  table->Uint64("seed", "", "N", "The one seed to run. 0: a range of them.", &options->seed, 1);
  table->Uint64("first", "", "N", "The first seed of a range.", &options->first, 1);
  table->Uint64("count", "", "K", "How many seeds. The default is as `make test` runs them.", &options->count);
  table->Uint64("stop-after", "", "F", "Stop after F seeds have failed. 0: never.", &options->stop_after);
  table->String("report", "", "FILE", "Write the results of a range as JSON.", &options->report);
  table->Uint64("shrink-runs", "", "R", "How many simulations to spend on making a failing profile smaller.",
                &options->shrink_runs);
  table->Uint64("trace", "", "LINES",
                "How many of the last lines of the trace to print. 0: none, or 200 if a check failed.",
                &options->trace_lines);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  shoal::OptionTable table("shoal-sim", kSummary, kExitCodes);
  Declare(&options, &table);
  if (const absl::Status status = table.Parse({argv + 1, argv + argc}); !status.ok()) {
    std::fprintf(stderr, "shoal-sim: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  if (!table.answer().empty()) {
    std::fputs(table.answer().c_str(), stdout);
    return 0;
  }
  for (const int each : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGALRM}) signal(each, NameSeed);
  return options.seed != 0 ? RunOneSeed(options) : RunRange(options);
}
