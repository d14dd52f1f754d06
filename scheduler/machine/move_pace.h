// How often a group may be moved: kAtOnce times at once, then after pauses that grow twice as long each time, until it
// has stayed where it is for a while. Pure; one thread.
#ifndef SHOAL_SCHEDULER_MACHINE_MOVE_PACE_H_
#define SHOAL_SCHEDULER_MACHINE_MOVE_PACE_H_

#include <algorithm>
#include <cstdint>

#include "core/now.h"

namespace shoal::scheduler {

class MovePace {
 public:
  static constexpr uint32_t kAtOnce = 4;
  static constexpr uint64_t kFirstPauseNs = 250'000'000;
  static constexpr uint64_t kLongestPauseNs = 1'000'000'000;  // within the bound of I10
  static constexpr uint64_t kQuietNs = 5'000'000'000;

  // When the next move may be made.
  uint64_t next_ns() const {
    if (moves_ < kAtOnce) return 0;
    return last_ns_ + std::min(kFirstPauseNs << std::min(moves_ - kAtOnce, 8u), kLongestPauseNs);
  }
  // The last move was not a moment ago: what is reported now is new trouble.
  bool IsSettled(Now now) const { return HasStayed(kLongestPauseNs, now); }
  // It is moved now.
  void Note(Now now) {
    if (HasStayed(kQuietNs, now)) moves_ = 0;
    ++moves_;
    last_ns_ = now.monotonic_ns;
  }

 private:
  bool HasStayed(uint64_t ns, Now now) const { return moves_ == 0 || now.monotonic_ns >= last_ns_ + ns; }

  uint32_t moves_ = 0;  // since it was quiet
  uint64_t last_ns_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_MOVE_PACE_H_
