// What the verdicts on slow ranks and on slow servers have in common (slow_ranks.h, slow_servers.h). Both rest on
// windows of time: servers and ranks tell with a heartbeat whom they waited for in their newest one. Pure; values.
#ifndef SHOAL_SCHEDULER_MACHINE_TOLD_WINDOWS_H_
#define SHOAL_SCHEDULER_MACHINE_TOLD_WINDOWS_H_

#include <algorithm>
#include <cstdint>

#include "core/now.h"

namespace shoal::scheduler {

// A longer window can't be.
inline constexpr uint64_t kLongestWindowNs = 3600 * kNsPerS;
// A rank or server that is late in so many windows in a row is slow.
inline constexpr uint32_t kWindowsInRow = 2;
// Half of the thresholds are enough for one that was reported, so that it is not reported again and again.
inline constexpr double kOfThoseTold = 0.5;
// A window counts until its own length has passed once more, at most kLongestLengthNs, two heartbeats, and this time.
inline constexpr uint64_t kStaleNs = 5 * kNsPerS;
inline constexpr uint64_t kLongestLengthNs = 60 * kNsPerS;
// Another cause of one that was reported is reported after this time.
inline constexpr uint64_t kNextCauseNs = 10 * kNsPerS;

// When it was, on this scheduler's clock, of a report that says `ago_ms`.
template <typename Report>
uint64_t TimeOf(const Report& report, Now now) {
  return now.monotonic_ns - std::min(report.ago_ms, now.monotonic_ns / kNsPerMs) * kNsPerMs;
}

// Of a time on this scheduler's clock that is past.
inline uint64_t UnixMsOf(uint64_t monotonic_ns, Now now) {
  const uint64_t ago_ms = (now.monotonic_ns - std::min(monotonic_ns, now.monotonic_ns)) / kNsPerMs;
  return now.unix_ms - std::min(ago_ms, now.unix_ms);
}

// When a window was, and how often its teller's heartbeats come. On this scheduler's clock.
struct WindowTimes {
  uint64_t end_ns = 0;
  uint64_t length_ns = 0;
  uint64_t heartbeat_ns = 0;

  uint64_t StartNs() const { return end_ns - std::min(end_ns, length_ns); }
  // When it says nothing new any more.
  uint64_t StaleNs() const { return end_ns + std::min(length_ns, kLongestLengthNs) + 2 * heartbeat_ns + kStaleNs; }
  // Whether it comes after the one that ended then, as far as such windows are told: a heartbeat tells the newest one
  // alone, and nothing of who is not late at all.
  bool Follows(uint64_t before_end_ns) const {
    return StartNs() <= before_end_ns + 2 * length_ns + 2 * heartbeat_ns + kNsPerS;
  }
};

// The windows in a row in which somebody was late, of which some may not have been told.
struct LateWindows {
  uint32_t in_row = 0;
  uint64_t since_ns = 0;  // the first of them began

  // With a new window, which follows the one before, or not.
  LateWindows Next(const WindowTimes& window, bool is_late, bool follows) const {
    if (!is_late) return {};
    if (in_row == 0 || !follows) return {.in_row = 1, .since_ns = window.StartNs()};
    return {.in_row = in_row + 1, .since_ns = since_ns};
  }
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_TOLD_WINDOWS_H_
