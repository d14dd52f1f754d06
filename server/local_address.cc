#include "server/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "net/socket_address.h"

namespace shoal {
namespace {

bool IsWildcard(const SocketAddress& address) {
  if (address.get()->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr);
}

// Those of the interfaces that are up, without the ones that only hold on their own link.
std::string ListLocalAddresses() {
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return "unknown addresses";
  std::vector<std::string> addresses;
  for (const ifaddrs* entry = interfaces; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(entry->ifa_addr, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::strchr(text.data(), '%') != nullptr) continue;
    addresses.push_back(absl::StrCat(text.data(), " on ", entry->ifa_name));
  }
  freeifaddrs(interfaces);
  return absl::StrJoin(addresses, ", ");
}

}  // namespace

absl::Status CheckLocalAddress(const std::string& ip) {
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(ip, 0);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--advertise takes an IP address of this machine, not \"", ip,
                                                   "\"; it has ", ListLocalAddresses()));
  }
  if (IsWildcard(*address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--advertise ", ip,
                     " stands for every address, and workers need one to connect to; this "
                     "machine has ",
                     ListLocalAddresses()));
  }
  // The kernel knows more addresses than the interfaces list: all of 127.0.0.0/8, for example.
  const int fd = socket(address->get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::InternalError(absl::StrCat("no socket to check --advertise with: ", std::strerror(errno)));
  const int result = bind(fd, address->get(), address->length);
  const int error = errno;
  close(fd);
  if (result == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--advertise ", ip, " is not an address of this machine (",
                                                 std::strerror(error), "); it has ", ListLocalAddresses()));
}

}  // namespace shoal
