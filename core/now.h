// The time, as the loops hand it to the machines: machines never read a clock.
#ifndef SHOAL_CORE_NOW_H_
#define SHOAL_CORE_NOW_H_

#include <cstdint>
#include <limits>

namespace shoal {

struct Now {
  uint64_t monotonic_ns = 0;  // of this process; deadlines are counted on it
  uint64_t unix_ms = 0;       // only for logs and status, and for the expiry of tokens
};

inline constexpr uint64_t kNoDeadline = std::numeric_limits<uint64_t>::max();
inline constexpr uint64_t kNsPerUs = 1000;
inline constexpr uint64_t kNsPerMs = 1'000'000;
inline constexpr uint64_t kNsPerS = 1'000'000'000;

}  // namespace shoal

#endif  // SHOAL_CORE_NOW_H_
