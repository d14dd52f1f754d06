// What the verdicts on slow ranks and on slow servers have in common (slow_ranks.h, slow_servers.h). Both rest on
// windows of time: servers and ranks tell with a heartbeat whom they waited for in their newest one. Pure; values.
#ifndef SHOAL_SCHEDULER_INSIGHT_TOLD_WINDOWS_H_
#define SHOAL_SCHEDULER_INSIGHT_TOLD_WINDOWS_H_

#include <algorithm>
#include <cstdint>

#include "core/now.h"

namespace shoal::scheduler {

// A longer window can't be.
inline constexpr uint64_t kLongestWindowNs = 3600 * kNsPerS;
// A rank or server that is late in so many windows in a row is slow.
inline constexpr uint32_t kWindowsInRow = 2;
// It is late in a window in which others wait for it in nearly all ops, or stretches of ops.
inline constexpr double kLeastLatePart = 0.8;
// Half of the thresholds are enough for one that was reported, so that it is not reported again and again.
inline constexpr double kOfThoseTold = 0.5;
// A window counts until its own length has passed once more, at most kLongestLengthNs, two heartbeats, and this time.
inline constexpr uint64_t kStaleNs = 5 * kNsPerS;
inline constexpr uint64_t kLongestLengthNs = 60 * kNsPerS;
// Another cause of one that was reported is reported after this time.
inline constexpr uint64_t kNextCauseNs = 10 * kNsPerS;

// Of a window's time, or of what happened in it: from 0 to 1.
inline double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
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

// How others waited for a rank or server, in its newest window, and in how many windows in a row it was late. Some of
// those may not have been told.
struct LateWindows {
  double waited_share = 0;  // of the time
  double late_part = 0;     // of the ops, or of the stretches
  uint32_t in_row = 0;
  uint64_t since_ns = 0;  // the first of them began

  // With a new window, which follows the one before, or not.
  LateWindows Next(const WindowTimes& window, double share, double part, double least_share, bool follows) const {
    LateWindows next = {.waited_share = share, .late_part = part};
    if (!next.IsLate(least_share, /*was_told=*/true)) return next;
    const bool is_first = in_row == 0 || !follows;
    next.in_row = is_first ? 1 : in_row + 1;
    next.since_ns = is_first ? window.StartNs() : since_ns;
    return next;
  }
  // Others wait for it for that share of the time at least.
  bool IsSlow(double least_share, bool was_told) const {
    return in_row >= kWindowsInRow && IsLate(least_share, was_told);
  }

 private:
  bool IsLate(double least_share, bool was_told) const {
    const double of_thresholds = was_told ? kOfThoseTold : 1;
    return waited_share >= of_thresholds * least_share && late_part >= of_thresholds * kLeastLatePart;
  }
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_TOLD_WINDOWS_H_
