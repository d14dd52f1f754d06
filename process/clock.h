// The clocks of this process, for the threads that drive machines, and deadlines on them. Any thread.
#ifndef SHOAL_PROCESS_CLOCK_H_
#define SHOAL_PROCESS_CLOCK_H_

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/now.h"

namespace shoal {

inline uint64_t MonotonicNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

inline Now ReadNow() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return {.monotonic_ns = MonotonicNs(),
          .unix_ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count())};
}

// When the next millisecond of the wall clock begins, on both clocks. For records whose times count from a wall time:
// unix_ms alone would be up to a millisecond off.
inline Now ReadNowAtNextMillisecond() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const auto unix_ns = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count());
  return {.monotonic_ns = MonotonicNs() + kNsPerMs - unix_ns % kNsPerMs, .unix_ms = unix_ns / kNsPerMs + 1};
}

// For a loop that waits actively, once in each round: one reading of the processor's counter instead of two. The wall
// clock is that of the kernel's last tick, at most 10 ms ago.
inline Now ReadNowOfRound() {
  timespec tick{};
  clock_gettime(CLOCK_REALTIME_COARSE, &tick);
  return {.monotonic_ns = MonotonicNs(),
          .unix_ms = static_cast<uint64_t>(tick.tv_sec) * 1'000 + static_cast<uint64_t>(tick.tv_nsec) / kNsPerMs};
}

// A deadline on MonotonicNs(). Waits beyond a year end after a year, so that no sum of times overflows.
inline uint64_t DeadlineAfter(uint64_t begin_ns, uint64_t timeout_ms) {
  constexpr uint64_t kYearMs = uint64_t{366} * 24 * 3600 * 1000;
  return begin_ns + std::min(timeout_ms, kYearMs) * kNsPerMs;
}

inline uint64_t DeadlineIn(uint64_t timeout_ms) { return DeadlineAfter(MonotonicNs(), timeout_ms); }

inline uint64_t NsUntil(uint64_t deadline_ns) {
  const uint64_t now_ns = MonotonicNs();
  return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

// For waiting on condition variables.
inline std::chrono::steady_clock::time_point AsTimePoint(uint64_t deadline_ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline_ns));
}

}  // namespace shoal

#endif  // SHOAL_PROCESS_CLOCK_H_
