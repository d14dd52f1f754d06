#include "cli/ways.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "process/socket_address.h"

namespace shoal::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = Way::Outcome;

// As TCP's options take from each segment where both ends use timestamps.
constexpr uint32_t kTimestampBytes = 12;

std::string IpOf(const SocketAddress& address) { return FormatSocketAddress(WithPort(address, 1).storage); }

// The devices of this node by the addresses that they have.
std::map<std::string, std::string> DevicesByIp() {
  std::map<std::string, std::string> devices;
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return devices;
  for (const ifaddrs* each = interfaces; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const bool is_ipv4 = each->ifa_addr->sa_family == AF_INET;
    if (!is_ipv4 && each->ifa_addr->sa_family != AF_INET6) continue;
    SocketAddress address;
    address.length = is_ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, each->ifa_addr, address.length);
    const std::string name = each->ifa_name;
    devices.emplace(IpOf(address), name.substr(0, name.find(':')));  // "eth0:1" is a further address of eth0
  }
  freeifaddrs(interfaces);
  return devices;
}

// Devices that know no rate say -1, or can't be read.
uint64_t ReadNumber(const std::string& device, const char* what) {
  std::ifstream file(absl::StrCat("/sys/class/net/", device, "/", what));
  int64_t number = 0;
  return file >> number && number > 0 ? static_cast<uint64_t>(number) : 0;
}

Outcome OutcomeOf(int error) {
  switch (error) {
    case ECONNREFUSED:
      return Outcome::kRefused;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
      return Outcome::kNoAnswer;
    case ENETUNREACH:
    case EADDRNOTAVAIL:
      return Outcome::kNoRoute;
    case EINVAL:
      return Outcome::kBadAddress;
    default:
      return Outcome::kFailed;
  }
}

class Attempt {
 public:
  // `way` outlives it.
  Attempt(Way* way, const std::map<std::string, std::string>* devices) : way_(*way), devices_(*devices) { Begin(); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() { CloseSocket(); }

  bool ended() const { return fd_ < 0; }
  int fd() const { return fd_; }

  // The socket is writable, or has failed.
  void OnReady() {
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) return EndWith(error);
    Connected();
  }
  void GiveUp(uint64_t timeout_ms) { End(Outcome::kNoAnswer, absl::StrCat("no answer within ", timeout_ms, " ms")); }

 private:
  void Begin() {
    const absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(way_.address);
    if (!parsed.ok()) return End(Outcome::kBadAddress, std::string(parsed.status().message()));
    peer_ = *parsed;
    fd_ = socket(peer_.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return EndWith(errno);
    if (connect(fd_, peer_.get(), peer_.length) == 0) return Connected();
    if (errno != EINPROGRESS) EndWith(errno);
  }

  void CloseSocket() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void End(Outcome outcome, std::string why) {
    way_.outcome = outcome;
    way_.why = std::move(why);
    CloseSocket();
  }
  void EndWith(int error) { End(OutcomeOf(error), strerror(error)); }

  void Connected() {
    NoteTcp();
    NoteDevice();
    End(Outcome::kReached, "");
  }

  void NoteTcp() {
    tcp_info info{};
    socklen_t length = sizeof(info);
    if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
      way_.round_trip_us = info.tcpi_rtt;
      way_.segment_bytes = info.tcpi_snd_mss;
      way_.offered_bytes = info.tcpi_advmss - std::min(info.tcpi_advmss, kTimestampBytes);
    }
    char name[16] = {};
    length = sizeof(name) - 1;
    if (getsockopt(fd_, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0) way_.congestion_control = name;
  }

  // Not where the kernel does not say.
  bool IsOff(const std::string& device, uint32_t question) const {
    ethtool_value asked{.cmd = question};
    ifreq request{};
    device.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
    request.ifr_data = reinterpret_cast<char*>(&asked);
    return ioctl(fd_, SIOCETHTOOL, &request) == 0 && asked.data == 0;
  }

  void NoteDevice() {
    SocketAddress own;
    own.length = sizeof(own.storage);
    if (getsockname(fd_, reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0) return;
    way_.within_node = IpOf(own) == IpOf(peer_);
    const auto found = devices_.find(IpOf(own));
    // An address of "lo" that packets leave the node with says nothing of the device that they leave by.
    if (found == devices_.end() || (found->second == "lo" && !way_.within_node)) return;
    way_.device = found->second;
    way_.device_mtu = static_cast<uint32_t>(ReadNumber(way_.device, "mtu"));
    way_.device_mbit = ReadNumber(way_.device, "speed");
    if (IsOff(way_.device, ETHTOOL_GGSO)) way_.device_offloads_off.emplace_back("gso");
    if (IsOff(way_.device, ETHTOOL_GGRO)) way_.device_offloads_off.emplace_back("gro");
  }

  Way& way_;
  const std::map<std::string, std::string>& devices_;
  SocketAddress peer_;
  int fd_ = -1;
};

void TrySome(std::span<Way> ways, const std::map<std::string, std::string>& devices, uint64_t timeout_ms) {
  std::vector<std::unique_ptr<Attempt>> attempts;
  for (Way& way : ways) attempts.push_back(std::make_unique<Attempt>(&way, &devices));
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    std::vector<pollfd> waiting;
    std::vector<Attempt*> of_waiting;
    for (const auto& attempt : attempts) {
      if (attempt->ended()) continue;
      waiting.push_back({.fd = attempt->fd(), .events = POLLOUT, .revents = 0});
      of_waiting.push_back(attempt.get());
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (waiting.empty() || left <= 0) break;
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR) break;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) of_waiting[i]->OnReady();
    }
  }
  for (const auto& attempt : attempts) {
    if (!attempt->ended()) attempt->GiveUp(timeout_ms);
  }
}

}  // namespace

std::vector<Way> TryWays(const std::vector<std::string>& addresses, uint64_t timeout_ms) {
  std::vector<Way> ways;
  ways.reserve(addresses.size());
  for (const std::string& address : addresses) ways.push_back({.address = address});
  const std::map<std::string, std::string> devices = DevicesByIp();
  for (size_t first = 0; first < ways.size(); first += kMostAtATime) {
    const size_t count = std::min(kMostAtATime, ways.size() - first);
    TrySome(std::span(ways).subspan(first, count), devices, timeout_ms);
  }
  return ways;
}

}  // namespace shoal::cli
