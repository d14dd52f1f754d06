#include "perf/time_statistics.h"

#include <algorithm>
#include <cstddef>

namespace shoal {
namespace {

double Percentile(const std::vector<double>& sorted, size_t percent) {
  const size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace

TimeStatistics Summarize(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  return {times.front(), Percentile(times, 50), Percentile(times, 99), times.back()};
}

double BusBandwidthFactor(unsigned rank_count) {
  return rank_count == 0 ? 0.0 : 2.0 * (static_cast<double>(rank_count) - 1.0) / static_cast<double>(rank_count);
}

}  // namespace shoal
