// The gate before UCX's listener, with and without the privilege to filter by address.
#include "net/ucx/listener_gate.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace shoal {
namespace {

// This thread without CAP_NET_ADMIN. Only what it may do counts, so it can have it back.
class WithoutNetAdmin {
 public:
  WithoutNetAdmin() {
    EXPECT_EQ(syscall(SYS_capget, &header_, before_.data()), 0);
    auto less = before_;
    less[CAP_TO_INDEX(CAP_NET_ADMIN)].effective &= ~static_cast<uint32_t>(CAP_TO_MASK(CAP_NET_ADMIN));
    EXPECT_EQ(syscall(SYS_capset, &header_, less.data()), 0);
  }
  ~WithoutNetAdmin() { syscall(SYS_capset, &header_, before_.data()); }

 private:
  __user_cap_header_struct header_ = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> before_{};
};

class Socket {
 public:
  explicit Socket(const std::string& ip) {
    const SocketAddress any = *MakeSocketAddress(ip, 0);
    fd_ = socket(any.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bound_ = bind(fd_, any.get(), any.length) == 0;
    address_.length = sizeof(address_.storage);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address_.storage), &address_.length);
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool bound() const { return bound_; }
  const SocketAddress& address() const { return address_; }
  void Listen() { EXPECT_EQ(listen(fd_, 16), 0); }
  // Whether the kernel lets this thread give the socket a filter; this one lets everything pass.
  bool TakesFilter() {
    sock_filter pass = BPF_STMT(BPF_RET | BPF_K, 0xffff);
    const sock_fprog program = {.len = 1, .filter = &pass};
    return setsockopt(fd_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
  }

  // False: nothing came of it in `patience_ms`; it goes on trying.
  bool ConnectTo(const Socket& listener, int patience_ms) {
    if (connect(fd_, listener.address_.get(), listener.address_.length) == 0) return true;
    pollfd writable{.fd = fd_, .events = POLLOUT, .revents = 0};
    return poll(&writable, 1, patience_ms) == 1 && (writable.revents & POLLERR) == 0;
  }

 private:
  int fd_ = -1;
  bool bound_ = false;
  SocketAddress address_;
};

constexpr int kNotLongMs = 100;
constexpr int kLongMs = 10'000;  // the kernel tries again after 1 s

class ListenerGateTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(BothFamilies, ListenerGateTest, testing::Values("127.0.0.1", "::1"),
                         [](const auto& test) { return std::string(test.param) == "::1" ? "Ipv6" : "Ipv4"; });

void ExpectGuestsOnly(const std::string& ip) {
  Socket listener(ip);
  if (!listener.bound()) GTEST_SKIP() << "this machine has no " << ip;
  listener.Listen();
  absl::StatusOr<std::unique_ptr<ListenerGate>> gate = ListenerGate::Close(listener.address());
  ASSERT_TRUE(gate.ok()) << gate.status();
  Socket stranger(ip);
  EXPECT_FALSE(stranger.ConnectTo(listener, kNotLongMs));

  Socket guest(ip);
  ASSERT_TRUE((*gate)->LetIn(guest.address()).ok());
  EXPECT_TRUE(guest.ConnectTo(listener, kLongMs));
  if (Socket(ip).TakesFilter()) {
    Socket other(ip);
    EXPECT_FALSE(other.ConnectTo(listener, kNotLongMs)) << "the gate is the coarser kind, which it need not be";
  }
  (*gate)->KeepOut(guest.address());
  Socket late(ip);
  EXPECT_FALSE(late.ConnectTo(listener, kNotLongMs));
}

TEST_P(ListenerGateTest, OnlyGuestsComeIn) { ExpectGuestsOnly(GetParam()); }

TEST_P(ListenerGateTest, NobodyComesInUnexpectedWithoutThePrivilege) {
  const WithoutNetAdmin thread;
  ExpectGuestsOnly(GetParam());
}

TEST(ListenerGateErrorTest, NoListenerIsAnError) {
  Socket unused("127.0.0.1");
  EXPECT_TRUE(absl::IsInternal(ListenerGate::Close(unused.address()).status()));
}

}  // namespace
}  // namespace shoal
