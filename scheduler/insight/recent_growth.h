// How much totals that come with heartbeats have grown lately. Pure; one thread.
#ifndef SHOAL_SCHEDULER_INSIGHT_RECENT_GROWTH_H_
#define SHOAL_SCHEDULER_INSIGHT_RECENT_GROWTH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/now.h"

namespace shoal::scheduler {

// Between the newest totals and some that are kGrowthStepNs to twice that older, or the first ones: long enough that
// the time that heartbeats are under way does not show, short enough to be about now.
inline constexpr uint64_t kGrowthStepNs = 5 * kNsPerS;

template <size_t kCount>
class RecentGrowth {
 public:
  using Totals = std::array<uint64_t, kCount>;
  struct Growth {
    double seconds = 0;  // above 0
    Totals grown{};

    double PerSecond(size_t place) const { return static_cast<double>(grown[place]) / seconds; }
  };

  // A heartbeat brought these totals. If one is below what it was, all are taken as counted anew.
  void Note(const Totals& totals, Now now) {
    const Sample sample{totals, now.monotonic_ns};
    if (!newest_.has_value() || Falls(newest_->totals, totals)) {
      oldest_ = middle_ = newest_ = sample;
      return;
    }
    if (newest_->at_ns - middle_->at_ns >= kGrowthStepNs) {
      oldest_ = middle_;
      middle_ = newest_;
    }
    newest_ = sample;
  }
  // What comes next begins anew.
  void Forget() { oldest_ = middle_ = newest_ = std::nullopt; }

  // nullopt: fewer than two heartbeats, or at one moment.
  std::optional<Growth> Get() const {
    if (!newest_.has_value() || newest_->at_ns <= oldest_->at_ns) return std::nullopt;
    Growth growth{.seconds = static_cast<double>(newest_->at_ns - oldest_->at_ns) / kNsPerS};
    for (size_t i = 0; i < kCount; ++i) growth.grown[i] = newest_->totals[i] - oldest_->totals[i];
    return growth;
  }

 private:
  struct Sample {
    Totals totals{};
    uint64_t at_ns = 0;  // on the monotonic clock
  };

  static bool Falls(const Totals& before, const Totals& after) {
    for (size_t i = 0; i < kCount; ++i) {
      if (after[i] < before[i]) return true;
    }
    return false;
  }

  // All or none are set; in the order of time.
  std::optional<Sample> oldest_;
  std::optional<Sample> middle_;
  std::optional<Sample> newest_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_RECENT_GROWTH_H_
