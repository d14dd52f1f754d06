// A TCP socket of the test's own process on the loopback device that nobody serves: one that takes connections and
// never answers, or one at which nothing listens.
#ifndef SHOAL_TESTS_UNIT_LOOPBACK_SOCKET_H_
#define SHOAL_TESTS_UNIT_LOOPBACK_SOCKET_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace shoal {

class LoopbackSocket {
 public:
  // `backlog` below 0: nothing listens.
  explicit LoopbackSocket(int backlog) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    if (backlog >= 0) {
      EXPECT_EQ(listen(fd_, backlog), 0);
    }
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  LoopbackSocket(const LoopbackSocket&) = delete;
  LoopbackSocket& operator=(const LoopbackSocket&) = delete;
  ~LoopbackSocket() { close(fd_); }

  const std::string& address() const { return address_; }

 private:
  const int fd_;
  std::string address_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_LOOPBACK_SOCKET_H_
