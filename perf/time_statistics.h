// Statistics of many times of the same thing. Pure functions; any thread.
#ifndef SHOAL_PERF_TIME_STATISTICS_H_
#define SHOAL_PERF_TIME_STATISTICS_H_

#include <vector>

namespace shoal {

struct TimeStatistics {
  double min = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;

  friend bool operator==(const TimeStatistics&, const TimeStatistics&) = default;
};

// Percentiles by nearest rank: the smallest time that at least so many percent of all do not exceed, so that each is a
// time that was measured. All zero for no times.
TimeStatistics Summarize(std::vector<double> times);

// nccl-tests' factor from algorithm to bus bandwidth of an all-reduce: 2 (n - 1) / n.
double BusBandwidthFactor(unsigned rank_count);

}  // namespace shoal

#endif  // SHOAL_PERF_TIME_STATISTICS_H_
