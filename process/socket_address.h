// "ip:port" as text and as the kernel's socket address. Pure functions; no names are looked up.
#ifndef SHOAL_PROCESS_SOCKET_ADDRESS_H_
#define SHOAL_PROCESS_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace shoal {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// "10.0.0.7:7070" or "[fd00::7]:7070". InvalidArgument: anything else, node names and port 0 included; the text says
// what was expected.
absl::StatusOr<SocketAddress> ParseSocketAddress(const std::string& address);

// From an IP address without a port ("10.0.0.7", "fd00::7"). InvalidArgument: not an IP address.
absl::StatusOr<SocketAddress> MakeSocketAddress(const std::string& ip, uint16_t port);

// The same address with another port. Only for IPv4 and IPv6.
SocketAddress WithPort(const SocketAddress& address, uint16_t port);
uint16_t PortOf(const SocketAddress& address);

// "?" for a family other than IPv4 and IPv6.
std::string FormatSocketAddress(const sockaddr_storage& address);

}  // namespace shoal

#endif  // SHOAL_PROCESS_SOCKET_ADDRESS_H_
