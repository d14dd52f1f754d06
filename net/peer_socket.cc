#include "net/peer_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "process/node_address.h"

namespace shoal {
namespace {

absl::Status CannotListenOn(const SocketAddress& address, int error) {
  const std::string where = FormatSocketAddress(address.storage);
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(
        absl::StrCat("can't listen on ", where, ": another process has this port; choose another, or 0 for any"));
  }
  if (error == EADDRNOTAVAIL) {
    if (const std::string device = DeviceOfAddress(address); !device.empty()) {
      return absl::UnavailableError(absl::StrCat("can't listen on ", where, " yet: while network device ", device,
                                                 " has no link, and for a second after that, the kernel does not "
                                                 "know whether another node has the address"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("can't listen on ", where,
                                                 ": check that it is an address of this node and that the port is "
                                                 "permitted (",
                                                 strerror(error), ")"));
}

bool SomebodyWaits(int listener) {
  pollfd waits{.fd = listener, .events = POLLIN, .revents = 0};
  return poll(&waits, 1, 0) > 0;
}

}  // namespace

absl::Status NoDescriptorLeft(const std::string& what) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": ", strerror(errno), " (raise the limit of open files, ulimit -n)"));
}

absl::Status NoLink(const std::string& device) {
  return absl::UnavailableError(
      absl::StrCat("network device ", device, " has no link; see to its cable and switch, or set it up"));
}

absl::StatusOr<FileDescriptor> ListenOn(const SocketAddress& address) {
  FileDescriptor listener(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.valid()) {
    return NoDescriptorLeft(absl::StrCat("can't listen on ", FormatSocketAddress(address.storage)));
  }
  // A server that restarts at once must get its port although connections of its last incarnation are still closing.
  const int yes = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(listener.get(), address.get(), address.length) != 0 || listen(listener.get(), SOMAXCONN) != 0) {
    return CannotListenOn(address, errno);
  }
  return listener;
}

std::string BoundAddress(int fd) {
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length);
  return FormatSocketAddress(bound);
}

void PreparePeerSocket(int fd, bool dialed) {
  const int interval_s = static_cast<int>((dialed ? kRankProbePeriodNs : kServerProbePeriodNs) / kNsPerS);
  const struct {
    int level;
    int option;
    int value;
  } settings[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                  {IPPROTO_TCP, TCP_KEEPIDLE, interval_s},
                  {IPPROTO_TCP, TCP_KEEPINTVL, interval_s},
                  {IPPROTO_TCP, TCP_KEEPCNT, static_cast<int>(kUnansweredProbes)},
                  {IPPROTO_TCP, TCP_NODELAY, 1}};
  for (const auto& setting : settings) {
    setsockopt(fd, setting.level, setting.option, &setting.value, sizeof(setting.value));
  }
  if (!dialed) return;
  const int repeats = static_cast<int>(kConnectRepeats);
  setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &repeats, sizeof(repeats));
}

Accepted AcceptNext(int listener) {
  Accepted accepted;
  accepted.from.length = sizeof(accepted.from.storage);
  accepted.socket = FileDescriptor(accept4(listener, reinterpret_cast<sockaddr*>(&accepted.from.storage),
                                           &accepted.from.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted.socket.valid()) {
    accepted.what = Accepted::What::kSocket;
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    // The kernel also says so when no connection is waiting.
    accepted.what = SomebodyWaits(listener) ? Accepted::What::kNoDescriptors : Accepted::What::kNobody;
  } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
    accepted.what = Accepted::What::kGone;
  }
  return accepted;
}

void HangUpAfterTheLastWord(int fd) {
  shutdown(fd, SHUT_WR);
  std::array<std::byte, 4096> buffer;
  for (int i = 0; i < 16 && recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT) > 0; ++i) {
  }
}

}  // namespace shoal
