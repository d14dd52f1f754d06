// Whether "ip:port" leads every node to itself. Pure; any thread.
#ifndef SHOAL_CORE_LOOPBACK_ADDRESS_H_
#define SHOAL_CORE_LOOPBACK_ADDRESS_H_

#include <string_view>

namespace shoal {

// Debian's installer gives a node's own name 127.0.1.1, so all of 127.0.0.0/8 counts.
constexpr bool IsLoopbackAddress(std::string_view ip_port) {
  return ip_port.starts_with("127.") || ip_port.starts_with("[::1]:");
}

}  // namespace shoal

#endif  // SHOAL_CORE_LOOPBACK_ADDRESS_H_
