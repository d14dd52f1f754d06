// For which share of the time each rank of a job had no op under way, from the counters in its heartbeats. Pure; one
// thread.
//
// A counter moves when an op begins after a time without any, so that it covers whole cycles of computing and
// reducing; a share of the time between two heartbeats would say which of the two happened to end there.
#ifndef SHOAL_SCHEDULER_MACHINE_AWAY_SHARES_H_
#define SHOAL_SCHEDULER_MACHINE_AWAY_SHARES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "core/ids.h"
#include "core/now.h"

namespace shoal::scheduler {

class AwayShares {
 public:
  // Of a rank's heartbeat: so long was it away since its first op, of so much time. Numbers that can't be are not
  // taken.
  void OnHeartbeat(JobRank rank, uint64_t away_ns, uint64_t counted_ns, Now now) {
    std::deque<Count>& counts = counts_[rank];
    if (!counts.empty() && (counted_ns < counts.back().counted_ns || away_ns < counts.back().away_ns)) counts.clear();
    if (away_ns > counted_ns || (!counts.empty() && counted_ns == counts.back().counted_ns)) return;
    counts.push_back({away_ns, counted_ns, now.monotonic_ns});
    if (counts.size() > kMostCounts) counts.pop_front();
  }
  void Forget(JobRank rank) { counts_.erase(rank); }

  // Over the newest counts that make up `span_ns`, or all if they are fewer. nullopt: there are no two, or the newest
  // is older than the span and kPatienceNs.
  std::optional<double> Of(JobRank rank, uint64_t span_ns, Now now) const {
    const auto found = counts_.find(rank);
    if (found == counts_.end() || found->second.size() < 2) return std::nullopt;
    const std::deque<Count>& counts = found->second;
    const Count& newest = counts.back();
    if (now.monotonic_ns > newest.at_ns + span_ns + kPatienceNs) return std::nullopt;
    auto oldest = counts.rbegin() + 1;
    while (oldest + 1 != counts.rend() && newest.counted_ns - oldest->counted_ns < span_ns) ++oldest;
    return static_cast<double>(newest.away_ns - oldest->away_ns) /
           static_cast<double>(newest.counted_ns - oldest->counted_ns);
  }

 private:
  static constexpr size_t kMostCounts = 64;
  static constexpr uint64_t kPatienceNs = 10 * kNsPerS;

  struct Count {
    uint64_t away_ns;
    uint64_t counted_ns;
    uint64_t at_ns;
  };

  std::map<JobRank, std::deque<Count>> counts_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_AWAY_SHARES_H_
