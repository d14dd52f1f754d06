#include "net/ucx/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

bool SameIp(const sockaddr* one, const sockaddr* other) {
  if (one == nullptr || one->sa_family != other->sa_family) return false;
  if (one->sa_family == AF_INET) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(one)->sin_addr,
                       &reinterpret_cast<const sockaddr_in*>(other)->sin_addr, sizeof(in_addr)) == 0;
  }
  return one->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(one)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(other)->sin6_addr, sizeof(in6_addr)) == 0;
}

// The loopback device answers for its whole network (127.0.0.0/8), not only for the address that it was given.
bool IsOnLoopback(const ifaddrs& entry, const sockaddr* address) {
  if ((entry.ifa_flags & IFF_LOOPBACK) == 0 || entry.ifa_addr == nullptr || entry.ifa_netmask == nullptr) return false;
  if (entry.ifa_addr->sa_family != AF_INET || address->sa_family != AF_INET) return false;
  const auto number = [](const sockaddr* of) { return reinterpret_cast<const sockaddr_in*>(of)->sin_addr.s_addr; };
  return ((number(entry.ifa_addr) ^ number(address)) & number(entry.ifa_netmask)) == 0;
}

// Connecting a datagram socket sends nothing; it only chooses the address to send from.
absl::StatusOr<SocketAddress> AddressTowards(const SocketAddress& to) {
  const int fd = socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("no socket: ", strerror(errno)));
  SocketAddress from;
  from.length = sizeof(from.storage);
  const bool routed = connect(fd, to.get(), to.length) == 0 &&
                      getsockname(fd, reinterpret_cast<sockaddr*>(&from.storage), &from.length) == 0;
  const int error = errno;
  close(fd);
  if (routed) return from;
  return absl::UnavailableError(
      absl::StrCat("there is no way to ", FormatSocketAddress(to.storage), " from here: ", strerror(error)));
}

}  // namespace

std::string DeviceOfAddress(const SocketAddress& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string device;
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (!SameIp(entry->ifa_addr, address.get()) && !IsOnLoopback(*entry, address.get())) continue;
    // An additional address may carry a label, as in "eth0:1".
    device = entry->ifa_name;
    device = device.substr(0, device.find(':'));
    break;
  }
  freeifaddrs(all);
  return device;
}

absl::StatusOr<ReservedPort> ReservedPort::Towards(const SocketAddress& to) {
  const absl::StatusOr<SocketAddress> from = AddressTowards(to);
  if (!from.ok()) return from.status();
  ReservedPort reserved;
  reserved.address_ = WithPort(*from, 0);
  SocketAddress& address = reserved.address_;
  reserved.fd_ = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (reserved.fd_ < 0 || bind(reserved.fd_, address.get(), address.length) != 0 ||
      getsockname(reserved.fd_, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no port to connect to ", FormatSocketAddress(to.storage), " from: ", strerror(errno)));
  }
  return reserved;
}

ReservedPort& ReservedPort::operator=(ReservedPort&& other) noexcept {
  Release();
  fd_ = std::exchange(other.fd_, -1);
  address_ = other.address_;
  return *this;
}

void ReservedPort::Release() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace shoal
