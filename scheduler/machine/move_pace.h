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

  // Within I10's bound: a move that waits goes out within half a lease, or a second.
  static uint64_t LongestPauseNs(uint64_t lease_ttl_ns) { return std::max<uint64_t>(1'000'000'000, lease_ttl_ns / 2); }

  // When the next move may be made.
  uint64_t NextNs(uint64_t lease_ttl_ns) const {
    if (moves_ < kAtOnce) return 0;
    return last_ns_ + std::min(kFirstPauseNs << std::min(moves_ - kAtOnce, 16u), LongestPauseNs(lease_ttl_ns));
  }
  // It has stayed where it is for so long that what happens now has nothing to do with the moves before.
  bool IsQuiet(uint64_t lease_ttl_ns, Now now) const {
    return moves_ == 0 || now.monotonic_ns >= last_ns_ + 2 * LongestPauseNs(lease_ttl_ns);
  }
  // It is moved now.
  void Note(uint64_t lease_ttl_ns, Now now) {
    if (IsQuiet(lease_ttl_ns, now)) moves_ = 0;
    ++moves_;
    last_ns_ = now.monotonic_ns;
  }

 private:
  uint32_t moves_ = 0;  // since it was quiet
  uint64_t last_ns_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_MOVE_PACE_H_
