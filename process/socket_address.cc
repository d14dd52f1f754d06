#include "process/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

absl::Status NotAnAddress(const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not an address: expected IP:PORT, for example 10.0.0.7:7070 or [fd00::7]:7070"));
}

}  // namespace

absl::StatusOr<SocketAddress> MakeSocketAddress(const std::string& ip, uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof(sockaddr_in);
    return address;
  }
  if (inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.length = sizeof(sockaddr_in6);
    return address;
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", ip, "\" is not an IP address"));
}

absl::StatusOr<SocketAddress> ParseSocketAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return NotAnAddress(address);
  std::string ip = address.substr(0, colon);
  const bool bracketed = ip.size() > 2 && ip.front() == '[' && ip.back() == ']';
  if (bracketed) ip = ip.substr(1, ip.size() - 2);
  // Without brackets the last colon of an IPv6 address would pass for the one before the port.
  if (bracketed != (ip.find(':') != std::string::npos)) return NotAnAddress(address);
  uint16_t port = 0;
  const char* end = address.data() + address.size();
  const auto parsed = std::from_chars(address.data() + colon + 1, end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end || port == 0) return NotAnAddress(address);
  absl::StatusOr<SocketAddress> result = MakeSocketAddress(ip, port);
  if (!result.ok()) return NotAnAddress(address);
  return result;
}

SocketAddress WithPort(const SocketAddress& address, uint16_t port) {
  SocketAddress result = address;
  // The port stands at the same place in both families.
  reinterpret_cast<sockaddr_in*>(&result.storage)->sin_port = htons(port);
  return result;
}

uint16_t PortOf(const SocketAddress& address) {
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

std::string FormatSocketAddress(const sockaddr_storage& address) {
  char ip[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, ip, sizeof(ip));
    return absl::StrCat(ip, ":", ntohs(v4.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, ip, sizeof(ip));
    return absl::StrCat("[", ip, "]:", ntohs(v6.sin6_port));
  }
  return "?";
}

}  // namespace shoal
