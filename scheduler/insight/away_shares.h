// For which share of the time each rank of a job had no op under way, from the counters in its heartbeats. Pure; one
// thread.
//
// A counter moves when an op begins after a time without any, so that it covers whole cycles of computing and
// reducing; a share of the time between two heartbeats would say which of the two happened to end there.
#ifndef SHOAL_SCHEDULER_INSIGHT_AWAY_SHARES_H_
#define SHOAL_SCHEDULER_INSIGHT_AWAY_SHARES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "core/ids.h"
#include "core/now.h"
#include "scheduler/insight/told_windows.h"

namespace shoal::scheduler {

// Some whole cycles of a rank, one after the other.
struct AwaySpan {
  uint64_t away_ns = 0;
  uint64_t counted_ns = 0;
  uint64_t ops = 0;       // that ended in them; those of a cycle that goes on may count already
  uint64_t began_ns = 0;  // on the scheduler's clock, as heartbeats told

  double Share() const { return static_cast<double>(away_ns) / static_cast<double>(counted_ns); }
};

class AwayShares {
 public:
  // Of a rank's heartbeat: so long was it away since its first op, of so much time, and so many ops have ended. Numbers
  // that can't be are not taken.
  void OnHeartbeat(JobRank rank, uint64_t away_ns, uint64_t counted_ns, uint64_t ops, Now now) {
    std::deque<Count>& counts = counts_[rank];
    if (!counts.empty() &&
        (counted_ns < counts.back().counted_ns || away_ns < counts.back().away_ns || ops < counts.back().ops)) {
      counts.clear();
    }
    if (away_ns > counted_ns) return;
    if (!counts.empty() && counted_ns < counts.back().counted_ns + kLeastBetweenCountsNs) return;
    counts.push_back({away_ns, counted_ns, ops, now.monotonic_ns});
    if (counts.size() > kMostCounts) counts.pop_front();
  }
  void Forget(JobRank rank) { counts_.erase(rank); }

  // Over the newest counts that make up `span_ns`, or all if they are fewer. nullopt: there are no two, or the newest
  // is older than the span and kPatienceNs.
  std::optional<double> Of(JobRank rank, uint64_t span_ns, Now now) const {
    const auto found = counts_.find(rank);
    if (found == counts_.end() || found->second.size() < 2) return std::nullopt;
    const std::deque<Count>& counts = found->second;
    if (now.monotonic_ns > counts.back().at_ns + span_ns + kPatienceNs) return std::nullopt;
    const size_t newest = counts.size() - 1;
    return Between(counts, BeginOfSpan(counts, newest, span_ns), newest).Share();
  }

  // The newest counts that make up `span_ns`, and those before them that do: the newest first. nullopt: there are not
  // so many, or the newest has been so for longer than the longer of them (a minute at most), two heartbeats and
  // kPatienceNs: a cycle may take that long, and its heartbeats say nothing new until it is over.
  std::optional<std::array<AwaySpan, 2>> NewestTwo(JobRank rank, uint64_t span_ns, uint64_t heartbeat_ns,
                                                   Now now) const {
    const auto found = counts_.find(rank);
    if (found == counts_.end() || found->second.size() < 3) return std::nullopt;
    const std::deque<Count>& counts = found->second;
    const size_t newest = counts.size() - 1;
    const size_t middle = BeginOfSpan(counts, newest, span_ns);
    if (middle == 0) return std::nullopt;
    const std::array spans{Between(counts, middle, newest),
                           Between(counts, BeginOfSpan(counts, middle, span_ns), middle)};
    if (spans[1].counted_ns < span_ns) return std::nullopt;
    const uint64_t longer_ns = std::min(std::max(spans[0].counted_ns, spans[1].counted_ns), kLongestLengthNs);
    const uint64_t stale_ns = counts[newest].at_ns + longer_ns + 2 * heartbeat_ns + kPatienceNs;
    return now.monotonic_ns > stale_ns ? std::nullopt : std::optional(spans);
  }

 private:
  static constexpr size_t kMostCounts = 64;
  // So the counts that are kept make up some seconds, however often heartbeats come.
  static constexpr uint64_t kLeastBetweenCountsNs = 100 * kNsPerMs;
  static constexpr uint64_t kPatienceNs = 10 * kNsPerS;

  struct Count {
    uint64_t away_ns;
    uint64_t counted_ns;
    uint64_t ops;
    uint64_t at_ns;
  };

  // Of the shortest span that ends with that count, which is not the first, and is long enough, or else begins with the
  // first one.
  static size_t BeginOfSpan(const std::deque<Count>& counts, size_t end, uint64_t span_ns) {
    size_t begin = end - 1;
    while (begin > 0 && counts[end].counted_ns - counts[begin].counted_ns < span_ns) --begin;
    return begin;
  }
  static AwaySpan Between(const std::deque<Count>& counts, size_t begin, size_t end) {
    const Count& from = counts[begin];
    const Count& to = counts[end];
    return {.away_ns = to.away_ns - from.away_ns,
            .counted_ns = to.counted_ns - from.counted_ns,
            .ops = to.ops - from.ops,
            .began_ns = from.at_ns};
  }

  std::map<JobRank, std::deque<Count>> counts_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_AWAY_SHARES_H_
