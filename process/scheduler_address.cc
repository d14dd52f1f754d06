#include "process/scheduler_address.h"

#include <netdb.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "process/socket_address.h"

namespace shoal {
namespace {

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool IsHostAndPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string host = text.substr(0, colon);
  const std::string port_text = text.substr(colon + 1);
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto is_visible = [](unsigned char c) { return c > 0x20 && c < 0x7f; };
  const bool bracketed = host.front() == '[' && host.back() == ']';
  uint32_t port = 0;
  return std::all_of(host.begin(), host.end(), is_visible) && (bracketed || host.find(':') == std::string::npos) &&
         std::all_of(port_text.begin(), port_text.end(), is_digit) && absl::SimpleAtoi(port_text, &port) && port >= 1 &&
         port <= 65535;
}

bool IsIpv4(const std::string& address) {
  const std::vector<std::string> parts = absl::StrSplit(HostOf(address), '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
           uint32_t number = 0;
           return absl::SimpleAtoi(part, &number) && number <= 255;
         });
}

bool IsIpv6(const std::string& address) { return address.front() == '[' && HostOf(address).back() == ']'; }

// "IP:PORT" of each that the name has in this family.
std::vector<std::string> AddressesOf(const std::string& host, const std::string& port, int family) {
  const addrinfo wanted = {.ai_flags = AI_NUMERICSERV, .ai_family = family, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    addresses.push_back(FormatSocketAddress(address.storage));
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

}  // namespace

absl::StatusOr<std::string> SchedulerTarget(const std::string& address) {
  const std::vector<std::string> each = absl::StrSplit(address, ',');
  for (const std::string& one : each) {
    if (IsHostAndPort(one)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the scheduler's address is \"", address,
        "\"; give HOST:PORT with a port from 1 to 65535, for example 127.0.0.1:7070, or IP:PORT,IP:PORT,... for "
        "several schedulers"));
  }
  if (each.size() == 1) return address;
  if (std::all_of(each.begin(), each.end(), IsIpv4)) return absl::StrCat("ipv4:", address);
  if (std::all_of(each.begin(), each.end(), IsIpv6)) return absl::StrCat("ipv6:", address);
  return absl::InvalidArgumentError(
      absl::StrCat("the schedulers' addresses are \"", address,
                   "\"; a list must have IP addresses of one kind (or give one name that resolves to all of them)"));
}

absl::StatusOr<std::string> OneSchedulerAddress(const std::string& address, const std::string& option) {
  const std::string host = HostOf(address);
  const bool lacks_brackets =
      host.size() < address.size() && host.find(':') != std::string::npos && MakeSocketAddress(host, 0).ok();
  const std::string complete = lacks_brackets ? absl::StrCat("[", host, "]", address.substr(host.size())) : address;
  if (IsHostAndPort(complete) && complete.find(',') == std::string::npos) return complete;
  return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is no address of one scheduler; give ", option,
                                                 " HOST:PORT, for example 10.0.0.7:7070 or [fd00::7]:7070"));
}

std::vector<std::string> EachSchedulerAddress(const std::string& address) {
  std::vector<std::string> each = absl::StrSplit(address, ',');
  if (each.size() > 1 || IsIpv4(address) || IsIpv6(address)) return each;
  const std::string host = HostOf(address);
  const std::string port = address.substr(host.size() + 1);
  std::vector<std::string> found = AddressesOf(host, port, AF_INET);
  if (found.empty()) found = AddressesOf(host, port, AF_INET6);
  return found.empty() ? each : found;
}

}  // namespace shoal
