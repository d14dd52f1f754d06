#include "cli/ways.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "process/socket_address.h"

namespace shoal::cli {
namespace {

using Clock = std::chrono::steady_clock;

class Attempt {
 public:
  explicit Attempt(const std::string& address) : way_{.address = address} { Begin(); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  Attempt(Attempt&& other) noexcept
      : way_(std::move(other.way_)), fd_(other.fd_), ended_(other.ended_), begin_(other.begin_) {
    other.fd_ = -1;
  }
  Attempt& operator=(Attempt&&) = delete;
  ~Attempt() {
    if (fd_ >= 0) close(fd_);
  }

  bool ended() const { return ended_; }
  int fd() const { return fd_; }
  Way TakeWay() { return std::move(way_); }

  // The socket is writable, or has failed.
  void OnReady() {
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) return EndWith(error);
    Connected();
  }
  void GiveUp(uint64_t timeout_ms) {
    End(absl::DeadlineExceededError(absl::StrCat("no answer within ", timeout_ms, " ms")));
  }

 private:
  void Begin() {
    const absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(way_.address);
    if (!parsed.ok()) return End(parsed.status());
    fd_ = socket(parsed->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return EndWith(errno);
    begin_ = Clock::now();
    if (connect(fd_, parsed->get(), parsed->length) == 0) return Connected();
    if (errno != EINPROGRESS) EndWith(errno);
  }

  void End(absl::Status status) {
    way_.reached = std::move(status);
    ended_ = true;
  }
  void EndWith(int error) { End(absl::UnavailableError(strerror(error))); }

  void Connected() {
    const auto took = Clock::now() - begin_;
    way_.connect_ns = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
    NoteDevice();
    End(absl::OkStatus());
  }

  void NoteDevice() {
    SocketAddress own;
    own.length = sizeof(own.storage);
    if (getsockname(fd_, reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0) return;
    int mtu = 0;
    socklen_t length = sizeof(mtu);
    const bool is_ipv4 = own.storage.ss_family == AF_INET;
    if (getsockopt(fd_, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_MTU : IPV6_MTU, &mtu, &length) == 0) {
      way_.path_mtu = static_cast<uint32_t>(mtu);
    }
    way_.device = DeviceWith(WithPort(own, 1));
    if (way_.device.empty()) return;
    way_.within_node = way_.device == "lo";
    way_.device_mtu = static_cast<uint32_t>(ReadNumber("mtu"));
    way_.device_mbit = ReadNumber("speed");
  }

  // The device of this node that has the address.
  static std::string DeviceWith(const SocketAddress& address) {
    ifaddrs* interfaces = nullptr;
    if (getifaddrs(&interfaces) != 0) return "";
    std::string found;
    for (const ifaddrs* each = interfaces; each != nullptr && found.empty(); each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != address.storage.ss_family) continue;
      SocketAddress other;
      other.length = address.length;
      std::memcpy(&other.storage, each->ifa_addr, address.length);
      if (FormatSocketAddress(WithPort(other, 1).storage) == FormatSocketAddress(address.storage)) {
        found = each->ifa_name;
      }
    }
    freeifaddrs(interfaces);
    return found;
  }

  // Devices that know no rate say -1, or can't be read.
  uint64_t ReadNumber(const char* what) const {
    std::ifstream file(absl::StrCat("/sys/class/net/", way_.device, "/", what));
    int64_t number = 0;
    return file >> number && number > 0 ? static_cast<uint64_t>(number) : 0;
  }

  Way way_;
  int fd_ = -1;
  bool ended_ = false;
  Clock::time_point begin_;
};

}  // namespace

std::vector<Way> TryWays(const std::vector<std::string>& addresses, uint64_t timeout_ms) {
  std::vector<Attempt> attempts;
  attempts.reserve(addresses.size());
  for (const std::string& address : addresses) attempts.emplace_back(address);
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    std::vector<pollfd> waiting;
    std::vector<Attempt*> of_waiting;
    for (Attempt& attempt : attempts) {
      if (attempt.ended()) continue;
      waiting.push_back({.fd = attempt.fd(), .events = POLLOUT, .revents = 0});
      of_waiting.push_back(&attempt);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (waiting.empty() || left <= 0) break;
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR) break;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) of_waiting[i]->OnReady();
    }
  }
  std::vector<Way> ways;
  for (Attempt& attempt : attempts) {
    if (!attempt.ended()) attempt.GiveUp(timeout_ms);
    ways.push_back(attempt.TakeWay());
  }
  return ways;
}

}  // namespace shoal::cli
