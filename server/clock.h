// The clocks of this process, for the threads that drive machines. Any thread.
#ifndef SHOAL_SERVER_CLOCK_H_
#define SHOAL_SERVER_CLOCK_H_

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

}  // namespace shoal

#endif  // SHOAL_SERVER_CLOCK_H_
