#include "process/node_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal {
namespace {

bool HasLink(unsigned flags) { return (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0; }

struct Interface {
  std::string device;
  const sockaddr* address;  // IPv4 or IPv6
  const sockaddr* netmask;  // may be null
  bool is_loopback;
  bool has_link;
};

// The addresses of this node's devices, in the kernel's order. Valid as long as the object.
class Interfaces {
 public:
  Interfaces() {
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return;
    owner_.reset(all);
    for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr) continue;
      const int family = entry->ifa_addr->sa_family;
      if (family != AF_INET && family != AF_INET6) continue;
      const unsigned flags = entry->ifa_flags;
      const bool is_loopback = (flags & IFF_LOOPBACK) != 0;
      list_.push_back({entry->ifa_name, entry->ifa_addr, entry->ifa_netmask, is_loopback, HasLink(flags)});
    }
  }

  const std::vector<Interface>& list() const { return list_; }

 private:
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner_{nullptr, freeifaddrs};
  std::vector<Interface> list_;
};

// An additional address may carry a label, as in "eth0:1".
std::string WithoutLabel(const std::string& device) { return device.substr(0, device.find(':')); }

bool IsLinkLocal(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr) != 0;
}

bool IsWildcard(const SocketAddress& address) {
  if (address.get()->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr);
}

bool SameIp(const sockaddr* one, const sockaddr* other) {
  if (one->sa_family != other->sa_family) return false;
  if (one->sa_family == AF_INET) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(one)->sin_addr,
                       &reinterpret_cast<const sockaddr_in*>(other)->sin_addr, sizeof(in_addr)) == 0;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(one)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(other)->sin6_addr, sizeof(in6_addr)) == 0;
}

// The loopback device answers for its whole network (127.0.0.0/8), not only for the address that it was given.
bool IsOnLoopback(const Interface& entry, const sockaddr* address) {
  if (!entry.is_loopback || entry.netmask == nullptr) return false;
  if (entry.address->sa_family != AF_INET || address->sa_family != AF_INET) return false;
  const auto number = [](const sockaddr* of) { return reinterpret_cast<const sockaddr_in*>(of)->sin_addr.s_addr; };
  return ((number(entry.address) ^ number(address)) & number(entry.netmask)) == 0;
}

// Empty: the kernel cannot write it. An address that only holds on its own link has a "%" in it.
std::string NumericAddress(const sockaddr* address) {
  const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text.data();
}

std::string ListAddresses() {
  const Interfaces interfaces;
  std::vector<std::string> addresses;
  for (const Interface& entry : interfaces.list()) {
    const std::string text = NumericAddress(entry.address);
    if (!text.empty() && text.find('%') == std::string::npos) {
      addresses.push_back(absl::StrCat(text, " on ", entry.device));
    }
  }
  return addresses.empty() ? "no address that can be listed" : absl::StrJoin(addresses, ", ");
}

// Empty: none. IPv4 comes before IPv6.
std::string AddressOfDevice(const std::string& device) {
  const Interfaces interfaces;
  std::string found;
  for (const Interface& entry : interfaces.list()) {
    if (device != entry.device || IsLinkLocal(entry.address)) continue;
    const bool is_ipv4 = entry.address->sa_family == AF_INET;
    if (found.empty() || is_ipv4) found = NumericAddress(entry.address);
    if (is_ipv4) break;
  }
  return found;
}

// Connecting a datagram socket sends nothing; it only chooses the address to send from. Empty: there is no route, or
// one on which the address means something on its own link alone.
std::string AddressTowards(const sockaddr* peer, socklen_t peer_length) {
  const int fd = socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  const bool routed =
      connect(fd, peer, peer_length) == 0 && getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  close(fd);
  const auto* address = reinterpret_cast<const sockaddr*>(&own);
  return routed && !IsLinkLocal(address) ? NumericAddress(address) : "";
}

// The host of the first of "host:port,host:port", without brackets.
std::string FirstHost(const std::string& peers_list) {
  const std::string peer = peers_list.substr(0, peers_list.find(','));
  std::string host = peer.substr(0, peer.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

// Empty: the peer is on this node, which is what its name stands for here.
absl::StatusOr<std::string> AddressTowards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), "9", &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot resolve the name ", host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::string loopback;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    std::string address = AddressTowards(each->ai_addr, each->ai_addrlen);
    if (address.empty()) continue;
    if (!IsLoopback(address)) return address;
    loopback = std::move(address);
  }
  if (loopback.empty()) return absl::UnavailableError(absl::StrCat("this node has no route to ", host));
  return host == "localhost" || IsLoopback(host) ? loopback : "";
}

// Empty: there is no route to the rest of the world.
std::string AddressTowardsTheWorld() {
  for (const char* const documentation : {"192.0.2.1", "2001:db8::1"}) {  // addresses that nobody has
    const absl::StatusOr<SocketAddress> peer = MakeSocketAddress(documentation, 9);
    std::string address = AddressTowards(peer->get(), peer->length);
    if (!address.empty() && !IsLoopback(address)) return address;
  }
  return "";
}

// The only one beside those of loopback. "127.0.0.1": there is none. Where one device has several, IPv4 comes before
// IPv6, and the first one counts. Unavailable: several devices have one.
absl::StatusOr<std::string> OnlyAddress() {
  const Interfaces interfaces;
  std::map<std::string, const sockaddr*> addresses;  // by device
  for (const Interface& entry : interfaces.list()) {
    if (entry.is_loopback || !entry.has_link || IsLinkLocal(entry.address)) continue;
    const sockaddr*& address = addresses[WithoutLabel(entry.device)];
    const bool is_better = address == nullptr || entry.address->sa_family < address->sa_family;
    if (is_better) address = entry.address;
  }
  if (addresses.empty()) return "127.0.0.1";
  if (addresses.size() == 1) return NumericAddress(addresses.begin()->second);
  return absl::UnavailableError(absl::StrCat(
      "this node has several addresses (", ListAddresses(),
      ") and no route to the rest of the world, so nothing says at which one other nodes reach it; name the network "
      "device"));
}

absl::Status NotAdvertisable(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--advertise ", text, " ", why,
                   "; give an address of this node, a network such as 10.20.0.0/16 in which it has one, or a device; "
                   "this node has ",
                   ListAddresses()));
}

std::span<const std::byte> IpBytes(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 1));
  }
  return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 1));
}

bool BeginsWith(std::span<const std::byte> ip, std::span<const std::byte> network, uint32_t bits) {
  for (uint32_t bit = 0; bit < bits; ++bit) {
    const std::byte mask = std::byte{0x80} >> (bit % 8);
    if ((ip[bit / 8] & mask) != (network[bit / 8] & mask)) return false;
  }
  return true;
}

absl::StatusOr<std::string> AddressInNetwork(const std::string& text) {
  const size_t slash = text.find('/');
  const absl::StatusOr<SocketAddress> network = MakeSocketAddress(text.substr(0, slash), 0);
  uint32_t bits = 0;
  if (!network.ok() || !absl::SimpleAtoi(text.substr(slash + 1), &bits) || bits > 8 * IpBytes(network->get()).size()) {
    return NotAdvertisable(text, "is no network");
  }
  std::vector<std::string> found;
  const Interfaces interfaces;
  for (const Interface& entry : interfaces.list()) {
    if (entry.address->sa_family != network->get()->sa_family || IsLinkLocal(entry.address)) continue;
    if (!BeginsWith(IpBytes(entry.address), IpBytes(network->get()), bits)) continue;
    found.push_back(NumericAddress(entry.address));
  }
  if (found.empty()) return NotAdvertisable(text, "is a network in which this node has no address");
  if (found.size() > 1) return NotAdvertisable(text, "is a network in which this node has several addresses");
  return found.front();
}

absl::Status CheckOwnAddress(const std::string& text, const SocketAddress& address) {
  if (IsWildcard(address)) {
    return NotAdvertisable(text, "stands for every address, but workers need one particular address to connect to");
  }
  // The kernel knows more addresses than the interfaces list: all of 127.0.0.0/8, for example.
  const int fd = socket(address.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return absl::InternalError(absl::StrCat("cannot open a socket to check --advertise: ", std::strerror(errno)));
  }
  const int result = bind(fd, address.get(), address.length);
  const int error = errno;
  close(fd);
  if (result == 0 || (error == EADDRNOTAVAIL && !DeviceOfAddress(address).empty())) return absl::OkStatus();
  return NotAdvertisable(text, absl::StrCat("is not an address of this node (", std::strerror(error), ")"));
}

}  // namespace

absl::StatusOr<std::string> OwnAddress(const std::string& net_device, const std::string& peers_list) {
  const std::string device = net_device.substr(0, net_device.find_first_of(":,/"));
  if (!device.empty()) {
    if (std::string address = AddressOfDevice(device); !address.empty()) return address;
  }
  if (!peers_list.empty()) {
    absl::StatusOr<std::string> towards_peer = AddressTowards(FirstHost(peers_list));
    if (!towards_peer.ok() || !towards_peer->empty()) return towards_peer;
  }
  if (std::string address = AddressTowardsTheWorld(); !address.empty()) return address;
  return OnlyAddress();
}

bool IsLoopback(const std::string& ip) {
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(ip, 0);
  if (!address.ok()) return false;
  if (address->get()->sa_family == AF_INET) {
    const uint32_t number = ntohl(reinterpret_cast<const sockaddr_in*>(address->get())->sin_addr.s_addr);
    return number >> 24 == IN_LOOPBACKNET;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address->get())->sin6_addr) != 0;
}

absl::StatusOr<std::string> FindAdvertisedAddress(const std::string& text) {
  if (text.find('/') != std::string::npos) return AddressInNetwork(text);
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(text, 0);
  if (address.ok()) {
    if (absl::Status status = CheckOwnAddress(text, *address); !status.ok()) return status;
    return text;
  }
  if (std::string of_device = AddressOfDevice(text); !of_device.empty()) return of_device;
  return NotAdvertisable(text, "is neither an IP address nor a device that has one");
}

std::string DeviceOfAddress(const SocketAddress& address) {
  const Interfaces interfaces;
  for (const Interface& entry : interfaces.list()) {
    if (SameIp(entry.address, address.get()) || IsOnLoopback(entry, address.get())) return WithoutLabel(entry.device);
  }
  return "";
}

bool LacksLink(const std::string& device) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  const bool known = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  if (fd >= 0) close(fd);
  return known && !HasLink(static_cast<unsigned short>(request.ifr_flags));
}

}  // namespace shoal
