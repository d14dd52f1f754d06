// shoal-sim: runs seeds of the deterministic simulation and says what broke.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "sim/profile.h"
#include "sim/simulation.h"

namespace {

constexpr char kUsage[] =
    "shoal-sim: deterministic simulation of scheduler, servers and workers under faults.\n"
    "\n"
    "  shoal-sim --seed N [--trace LINES]   one seed; its profile, its digest, and the trace's end where a check "
    "failed\n"
    "  shoal-sim --first N --count K        K seeds from N on; a line for each that failed, and a sum\n"
    "\n"
    "options (default)\n"
    "  --seed N        the seed to run (none)\n"
    "  --first N       first seed of a range (1)\n"
    "  --count K       how many seeds (200)\n"
    "  --trace LINES   how many last lines of the trace to print (0; 200 where a check failed)\n"
    "  --help          this text\n";

bool ParseNumber(const char* text, uint64_t* number) {
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, *number);
  return error == std::errc() && at == end;
}

void Print(const shoal::sim::Profile& profile, const shoal::sim::Report& report) {
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

int RunOneSeed(uint64_t seed, size_t trace_lines) {
  const shoal::sim::Profile profile = shoal::sim::DrawProfile(seed);
  shoal::sim::Report report = shoal::sim::Simulate(profile, trace_lines);
  if (!report.failures.empty() && trace_lines == 0) report = shoal::sim::Simulate(profile, 200);
  Print(profile, report);
  return report.failures.empty() ? 0 : 1;
}

int RunRange(uint64_t first, uint64_t count) {
  uint64_t failed = 0;
  uint64_t ops_ok = 0;
  uint64_t ops_failed = 0;
  uint64_t hand_overs = 0;
  uint64_t preemptions = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const shoal::sim::Report report = shoal::sim::Simulate(shoal::sim::DrawProfile(seed), 0);
    ops_ok += report.ops_ok;
    ops_failed += report.ops_failed;
    hand_overs += report.hand_overs;
    preemptions += report.preemptions;
    if (report.failures.empty()) continue;
    ++failed;
    std::printf("seed %llu FAILED: %s (replay: shoal-sim --seed %llu)\n", static_cast<unsigned long long>(seed),
                report.failures.front().c_str(), static_cast<unsigned long long>(seed));
    std::fflush(stdout);
  }
  std::printf(
      "%llu seeds, %llu failed; ops ok %llu, ended with an error as they should %llu; results handed over %llu, "
      "pushes preempted %llu\n",
      static_cast<unsigned long long>(count), static_cast<unsigned long long>(failed),
      static_cast<unsigned long long>(ops_ok), static_cast<unsigned long long>(ops_failed),
      static_cast<unsigned long long>(hand_overs), static_cast<unsigned long long>(preemptions));
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 0;
  uint64_t first = 1;
  uint64_t count = 200;
  uint64_t trace_lines = 0;
  bool one = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    uint64_t* number = flag == "--seed"    ? &seed
                       : flag == "--first" ? &first
                       : flag == "--count" ? &count
                       : flag == "--trace" ? &trace_lines
                                           : nullptr;
    if (number == nullptr || i + 1 >= argc || !ParseNumber(argv[++i], number)) {
      std::fprintf(stderr, "shoal-sim: '%s' is not an option with a number; see shoal-sim --help\n", flag.c_str());
      return 2;
    }
    one = one || flag == "--seed";
  }
  return one ? RunOneSeed(seed, trace_lines) : RunRange(first, count);
}
