// What a rank tells the scheduler of the servers that its ops wait for, and how much of it with one heartbeat. Pure.
#ifndef SHOAL_CORE_SERVER_WAIT_H_
#define SHOAL_CORE_SERVER_WAIT_H_

#include <cstddef>
#include <cstdint>

#include "core/ids.h"

namespace shoal {

inline constexpr size_t kMostServerWaits = 8;         // of a window of bursts of ops
inline constexpr size_t kMostServerWaitWindows = 16;  // of a heartbeat

struct ServerWait {
  ServerId server;
  uint64_t waited_ns = 0;
  uint32_t late_bursts = 0;  // stretches of bursts in which it was waited for

  friend bool operator==(const ServerWait&, const ServerWait&) = default;
};

}  // namespace shoal

#endif  // SHOAL_CORE_SERVER_WAIT_H_
