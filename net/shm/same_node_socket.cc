#include "net/shm/same_node_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shoal {
namespace {

constexpr int kBacklog = 1024;
// No peer can keep this loop busy by waking it, nor a stranger by connecting again and again.
constexpr int kMaxBellsPerDrain = 64;
constexpr int kMaxTurnedAway = 64;

struct AbstractName {
  sockaddr_un address{};
  socklen_t length = 0;
};

AbstractName NameOf(const std::string& address) {
  AbstractName name;
  name.address.sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract. An "ip:port" is far shorter than the field.
  const std::string text = absl::StrCat("shoal-", address).substr(0, sizeof(name.address.sun_path) - 1);
  std::copy(text.begin(), text.end(), name.address.sun_path + 1);
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

bool IsShortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

absl::Status Shortage(absl::string_view what, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("can't ", what, ": ", std::strerror(error), " (raise the limit of open files, ulimit -n)"));
}

absl::StatusOr<FileDescriptor> MakeSocket() {
  FileDescriptor socket_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_fd.valid()) return Shortage("create a Unix socket", errno);
  return socket_fd;
}

// Where there are no descriptors, the kernel says so before it looks whether anybody waits.
bool SomebodyWaits(int listener) {
  pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, 0) > 0;
}

bool IsOfThisUser(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace

absl::StatusOr<FileDescriptor> ListenOnThisNode(const std::string& address) {
  absl::StatusOr<FileDescriptor> listener = MakeSocket();
  if (!listener.ok()) return listener.status();
  const AbstractName name = NameOf(address);
  if (bind(listener->get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) != 0 ||
      listen(listener->get(), kBacklog) != 0) {
    const int error = errno;
    const std::string text = absl::StrCat("can't listen at the Unix socket of ", address, ": ", std::strerror(error));
    if (error == EADDRINUSE) return absl::AlreadyExistsError(text);
    return IsShortage(error) ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
  }
  return listener;
}

absl::StatusOr<FileDescriptor> AcceptOnThisNode(int listener) {
  for (int i = 0; i < kMaxTurnedAway; ++i) {
    FileDescriptor accepted(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int error = errno;
    if (!accepted.valid() && IsShortage(error) && SomebodyWaits(listener)) {
      return Shortage("accept a connection of this node", error);
    }
    if (!accepted.valid() || IsOfThisUser(accepted.get())) return accepted;
  }
  return FileDescriptor();
}

absl::StatusOr<FileDescriptor> ConnectOnThisNode(const std::string& address) {
  absl::StatusOr<FileDescriptor> connected = MakeSocket();
  if (!connected.ok()) return connected.status();
  const AbstractName name = NameOf(address);
  if (connect(connected->get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) != 0) {
    return WhyNotConnected(address, errno);
  }
  if (!IsOfThisUser(connected->get())) {
    return absl::NotFoundError(
        absl::StrCat("the process that listens at ", address, " on this node belongs to another user"));
  }
  return connected;
}

absl::Status WhyNotConnected(const std::string& address, int error) {
  if (error == ECONNREFUSED) return absl::NotFoundError(absl::StrCat("no process of this node listens at ", address));
  if (IsShortage(error)) return Shortage("connect to a Unix socket", error);
  const std::string text = absl::StrCat("can't connect to the Unix socket of ", address, ": ", std::strerror(error));
  if (error == EAGAIN) return absl::UnavailableError(absl::StrCat(text, " (too many wait there)"));
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(absl::StrCat(text, " (SELinux, AppArmor or seccomp forbids it)"));
  }
  return absl::InternalError(text);
}

absl::StatusOr<FileDescriptor> OtherProcess(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0) return FileDescriptor();
  // glibc 2.36 declares pidfd_open so that C++ can't link it. The descriptor closes itself on exec.
  FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  if (!process.valid() && IsShortage(errno)) return Shortage("watch another process of this node", errno);
  return process;
}

absl::Status SendOnThisNode(int socket, std::span<const std::byte> message, std::span<const int> descriptors) {
  iovec data{.iov_base = const_cast<std::byte*>(message.data()), .iov_len = message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  if (sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    return absl::UnavailableError(absl::StrCat("a message could not be sent: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ReceivedMessage>> ReceiveOnThisNode(int socket, std::span<std::byte> message) {
  iovec data{.iov_base = message.data(), .iov_len = message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t bytes = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  // The other side has closed with something unread. What it said before that is still there.
  if (bytes < 0 && errno == ECONNRESET) bytes = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (bytes <= 0) return absl::UnavailableError("the other side closed the connection");
  ReceivedMessage received{.bytes = static_cast<size_t>(bytes),
                           .is_cut = (header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0};
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      received.descriptors.emplace_back(fd);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0 && received.descriptors.size() < kMaxDescriptors) {
    return Shortage("take over memory of another process of this node", EMFILE);
  }
  return received;
}

absl::Status SendGreeting(int socket, const SameNodeGreeting& greeting, std::span<const int> memory) {
  return SendOnThisNode(socket, std::as_bytes(std::span(&greeting, 1)), memory);
}

absl::StatusOr<std::optional<ReceivedGreeting>> ReceiveGreeting(int socket) {
  ReceivedGreeting received;
  absl::StatusOr<std::optional<ReceivedMessage>> next =
      ReceiveOnThisNode(socket, std::as_writable_bytes(std::span(&received.greeting, 1)));
  if (absl::IsResourceExhausted(next.status())) return next.status();
  if (!next.ok()) return absl::UnavailableError("the other side closed the connection before its greeting");
  std::optional<ReceivedMessage>& message = *next;
  if (!message.has_value()) return std::nullopt;
  received.memory = std::move(message->descriptors);
  const SameNodeGreeting& greeting = received.greeting;
  if (message->bytes < 2 * sizeof(uint64_t) || greeting.magic != kSameNodeMagic) {
    return absl::InvalidArgumentError("the other side is not a Shoal process");
  }
  if (greeting.layout_version != kSameNodeLayoutVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the other side speaks version ", greeting.layout_version,
                                                      " of the shared-memory protocol, this side version ",
                                                      kSameNodeLayoutVersion, "; run the same release on both"));
  }
  const size_t expected = greeting.region_bytes == 0 ? 2 : 3;
  if (message->bytes != sizeof(greeting) || received.memory.size() != expected || message->is_cut) {
    return absl::InvalidArgumentError("the greeting is incomplete, or its memory is missing");
  }
  return received;
}

void RingBell(int socket) {
  const char bell = 1;
  [[maybe_unused]] const ssize_t sent = send(socket, &bell, sizeof(bell), MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool DrainBells(int socket) {
  std::array<char, 64> bytes{};
  for (int i = 0; i < kMaxBellsPerDrain; ++i) {
    const ssize_t got = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
  return true;
}

}  // namespace shoal
