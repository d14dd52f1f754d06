// How long all-reduces took, counted in fixed buckets: what a worker counts, a scheduler sums over ranks, and people
// read percentiles from. Pure values; counting allocates nothing.
//
// The bounds are 1, 2, 5, 10, ... from 20 us, which an op through another process takes at least, to 50 s, which is
// beyond the 30 s that an op of the C ABI has by default. A step of 2 or 2.5 tells what matters to a job from what does
// not, at 21 counts for each rank in a heartbeat and for each job in Prometheus; and bounds in round numbers are read
// in a dashboard as they are, which those of powers of two are not. They travel between releases by their number alone:
// other bounds would need another number of buckets, or another field in scheduler.proto.
#ifndef SHOAL_CORE_OP_TIME_HISTOGRAM_H_
#define SHOAL_CORE_OP_TIME_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "core/now.h"

namespace shoal {

inline constexpr std::array<uint64_t, 20> kOpTimeBoundsNs = {
    20 * kNsPerUs, 50 * kNsPerUs, 100 * kNsPerUs, 200 * kNsPerUs, 500 * kNsPerUs, 1 * kNsPerMs,   2 * kNsPerMs,
    5 * kNsPerMs,  10 * kNsPerMs, 20 * kNsPerMs,  50 * kNsPerMs,  100 * kNsPerMs, 200 * kNsPerMs, 500 * kNsPerMs,
    1 * kNsPerS,   2 * kNsPerS,   5 * kNsPerS,    10 * kNsPerS,   20 * kNsPerS,   50 * kNsPerS};
inline constexpr size_t kOpTimeBuckets = kOpTimeBoundsNs.size() + 1;

struct OpTimeHistogram {
  // counts[i]: ops that took at most kOpTimeBoundsNs[i] and longer than the bound before; the last: longer than all.
  std::array<uint64_t, kOpTimeBuckets> counts{};

  void Count(uint64_t duration_ns) {
    const auto bound = std::lower_bound(kOpTimeBoundsNs.begin(), kOpTimeBoundsNs.end(), duration_ns);
    ++counts[static_cast<size_t>(bound - kOpTimeBoundsNs.begin())];
  }

  uint64_t Total() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }

  // The time that this share (0 to 1) of the ops did not exceed, as if the ops of a bucket were spread evenly over it,
  // which is also how Prometheus reads a histogram. Of the last bucket, which has no end, it is the highest bound. 0:
  // no op was counted.
  uint64_t QuantileNs(double share) const {
    const double wanted = share * static_cast<double>(Total());
    double below = 0;  // ops in the buckets before
    for (size_t i = 0; i < kOpTimeBoundsNs.size(); ++i) {
      const auto inside = static_cast<double>(counts[i]);
      if (inside > 0 && below + inside >= wanted) {
        const auto begin_ns = static_cast<double>(i == 0 ? 0 : kOpTimeBoundsNs[i - 1]);
        const double length_ns = static_cast<double>(kOpTimeBoundsNs[i]) - begin_ns;
        return static_cast<uint64_t>(begin_ns + length_ns * (wanted - below) / inside);
      }
      below += inside;
    }
    return counts.back() > 0 ? kOpTimeBoundsNs.back() : 0;
  }

  friend bool operator==(const OpTimeHistogram&, const OpTimeHistogram&) = default;
};

// The counts as a message has them; any other number of counts, as of a peer that counts nothing or otherwise: none.
template <typename Counts>
OpTimeHistogram OpTimeHistogramOf(const Counts& counts) {
  OpTimeHistogram histogram;
  if (static_cast<size_t>(counts.size()) != kOpTimeBuckets) return histogram;
  std::copy(counts.begin(), counts.end(), histogram.counts.begin());
  return histogram;
}

}  // namespace shoal

#endif  // SHOAL_CORE_OP_TIME_HISTOGRAM_H_
