#include "net/ucx/reserved_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

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
      absl::StrCat("there is no route to ", FormatSocketAddress(to.storage), " from this node: ", strerror(error)));
}

}  // namespace

absl::StatusOr<ReservedPort> ReservedPort::Towards(const SocketAddress& to) {
  const absl::StatusOr<SocketAddress> from = AddressTowards(to);
  if (!from.ok()) return from.status();
  ReservedPort reserved;
  reserved.address_ = WithPort(*from, 0);
  SocketAddress& address = reserved.address_;
  reserved.fd_ = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (reserved.fd_ < 0 || bind(reserved.fd_, address.get(), address.length) != 0 ||
      getsockname(reserved.fd_, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no local port is free for connecting to ",
                                                     FormatSocketAddress(to.storage), ": ", strerror(errno)));
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
