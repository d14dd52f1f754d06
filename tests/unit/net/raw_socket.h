// Plain TCP sockets that say what a test has them say: strangers before a transport's door, or a server that is none.
#ifndef SHOAL_TESTS_UNIT_NET_RAW_SOCKET_H_
#define SHOAL_TESTS_UNIT_NET_RAW_SOCKET_H_

#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "process/socket_address.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {

class RawSocket {
 public:
  explicit RawSocket(int fd) : fd_(fd) {}
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket() {
    if (fd_ >= 0) close(fd_);
  }

  // The kernel of this machine answers at once, so nobody needs to poll for it.
  static RawSocket ConnectTo(const std::string& address) {
    const absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(address);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    RawSocket made(socket(parsed->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(made.fd_, parsed->get(), parsed->length), 0) << address << ": " << strerror(errno);
    return made;
  }

  static RawSocket ListenOnLoopback() {
    RawSocket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const absl::StatusOr<SocketAddress> any = MakeSocketAddress("127.0.0.1", 0);
    EXPECT_EQ(bind(made.fd_, any->get(), any->length), 0);
    EXPECT_EQ(listen(made.fd_, 16), 0);
    return made;
  }

  std::string address() const {
    SocketAddress bound;
    bound.length = sizeof(bound.storage);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length);
    return FormatSocketAddress(bound.storage);
  }

  // Null: nobody has come yet.
  std::unique_ptr<RawSocket> Accept() const {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    return fd < 0 ? nullptr : std::make_unique<RawSocket>(fd);
  }

  // What the other side no longer wants to hear is lost.
  void Say(std::span<const std::byte> bytes) const {
    [[maybe_unused]] const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  // Takes what has come into heard(). True if the other side has hung up.
  bool HasEnded() {
    std::array<std::byte, 4096> buffer;
    for (;;) {
      const ssize_t got = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) return false;
      if (got <= 0) return true;
      heard_.insert(heard_.end(), buffer.begin(), buffer.begin() + got);
    }
  }
  const Bytes& heard() const { return heard_; }
  void HangUp() const { shutdown(fd_, SHUT_RDWR); }
  int fd() const { return fd_; }

 private:
  int fd_;
  Bytes heard_;
};

inline size_t OpenDescriptors() {
  size_t count = 0;
  DIR* descriptors = opendir("/proc/self/fd");
  while (readdir(descriptors) != nullptr) ++count;
  closedir(descriptors);
  return count;
}

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_NET_RAW_SOCKET_H_
