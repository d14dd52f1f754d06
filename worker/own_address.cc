#include "worker/own_address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

bool IsLinkLocal(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr) != 0;
}

std::string NumericAddress(const sockaddr* address) {
  const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text.data();
}

// Empty: none. IPv4 comes before IPv6.
std::string AddressOfDevice(const std::string& device) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || device != entry->ifa_name) continue;
    const int family = entry->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || IsLinkLocal(entry->ifa_addr)) continue;
    if (found.empty() || family == AF_INET) found = NumericAddress(entry->ifa_addr);
    if (family == AF_INET) break;
  }
  freeifaddrs(all);
  return found;
}

// Connecting a datagram socket sends nothing; it only chooses the address to send from. Empty: no way there.
std::string AddressTowards(const addrinfo& peer) {
  const int fd = socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  const bool routed = connect(fd, peer.ai_addr, peer.ai_addrlen) == 0 &&
                      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  close(fd);
  return routed ? NumericAddress(reinterpret_cast<const sockaddr*>(&own)) : "";
}

}  // namespace

absl::StatusOr<std::string> OwnAddress(const std::string& net_device, const std::string& peers_list) {
  const std::string device = net_device.substr(0, net_device.find_first_of(":,"));
  if (!device.empty()) {
    if (std::string address = AddressOfDevice(device); !address.empty()) return address;
  }
  const std::string peer = peers_list.substr(0, peers_list.find(','));
  const size_t colon = peer.rfind(':');
  std::string host = peer.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* peers = nullptr;
  const int error = getaddrinfo(host.c_str(), peer.substr(colon + 1).c_str(), &hints, &peers);
  if (error != 0) return absl::UnavailableError(absl::StrCat("no host ", host, ": ", gai_strerror(error)));
  std::string address;
  for (const addrinfo* each = peers; each != nullptr && address.empty(); each = each->ai_next) {
    address = AddressTowards(*each);
  }
  freeaddrinfo(peers);
  if (!address.empty()) return address;
  return absl::UnavailableError(absl::StrCat("this machine has no way to ", peer));
}

}  // namespace shoal
