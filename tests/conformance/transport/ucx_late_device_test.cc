// Network devices that come up after the transport was made: UCX looks for devices once. In a network namespace of its
// own.
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "net/ucx/ucx_transport.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {
namespace {

constexpr char kFirstIp[] = "127.0.0.1";
constexpr char kLateIp[] = "10.61.0.1";

void Ip(const std::string& arguments) { EXPECT_EQ(std::system(("ip " + arguments).c_str()), 0) << arguments; }

// As UCX looks at it. The kernel notices an unplugged cable within a second.
bool HasLink(const std::string& device) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  const int result = ioctl(fd, SIOCGIFFLAGS, &request);
  close(fd);
  return result == 0 && (request.ifr_flags & IFF_RUNNING) != 0;
}

TransportKind Tcp() {
  return {.name = "Tcp", .make = [](const TransportSetup&) { return *MakeUcxTransport({}); }, .lends = true};
}

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

// The loopback device is up from the start. "late" has its address and no link.
class UcxLateDeviceTest : public TransportSuite {
 protected:
  static void SetUpTestSuite() {
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) GTEST_SKIP() << "namespaces need root: " << std::strerror(errno);
    // UCX lists the devices of /sys/class/net, which are those of the namespace that mounted it.
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0) << std::strerror(errno);
    ASSERT_EQ(mount("sysfs", "/sys", "sysfs", 0, nullptr), 0) << std::strerror(errno);
    Ip("link set lo up");
    Ip("link add late type veth peer name other");
    Ip(absl::StrCat("address add ", kLateIp, "/24 dev late"));
    Ip("link set late up");
  }

  void SetUp() override { Plug("down"); }
  // "up": in; "down": out.
  void Plug(const std::string& state) {
    Ip("link set other " + state);
    ASSERT_TRUE(PollUntil("the link to be " + state, [&] { return HasLink("late") == (state == "up"); }));
  }

  Node& Connector(const std::string& net_device = "") {
    UcxTransportOptions options;
    options.net_device = net_device;
    return Make(options);
  }
  Node& ListenerAt(const std::string& ip) {
    UcxTransportOptions options;
    options.listen_ip = ip;
    Node& node = Make(options);
    node.AcceptAll();
    return node;
  }

  // Small and large, so that both of UCX's ways are gone.
  void ExpectPayloadsPass(Node& from, PeerId peer, Node& to) {
    for (const size_t size : {size_t{100}, size_t{3} << 20}) {
      const size_t before = to.received().size();
      const Bytes& payload = Keep(Pattern(size, ++last_token_));
      ASSERT_TRUE(from.transport().Send(peer, {}, payload, last_token_).ok());
      ASSERT_TRUE(PollUntil("the payload", [&] { return to.received().size() > before; }));
      EXPECT_TRUE(to.received().back().status.ok()) << to.received().back().status;
      EXPECT_TRUE(to.received().back().payload == payload) << size << " bytes";
    }
  }

 private:
  Node& Make(const UcxTransportOptions& options) {
    absl::StatusOr<std::unique_ptr<Transport>> transport = MakeUcxTransport(options);
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *nodes_.emplace_back(std::make_unique<Node>(*std::move(transport)));
  }
};

INSTANTIATE_TEST_SUITE_P(Tcp, UcxLateDeviceTest, testing::Values(Tcp()), TransportKindName);

TEST_P(UcxLateDeviceTest, IsUsedByLaterConnectionsAndEarlierOnesGoOn) {
  Node& connector = Connector();
  Node& near = ListenerAt(kFirstIp);
  const Link first = ConnectNodes(connector, near);
  connector.AcceptAll();
  Plug("up");
  Node& far = ListenerAt(kLateIp);
  const Link late = ConnectNodes(connector, far);
  ASSERT_FALSE(HasFailure());
  ExpectPayloadsPass(connector, late.to_b, far);
  ExpectPayloadsPass(connector, first.to_b, near);
  ExpectPayloadsPass(near, first.to_a, connector);
}

TEST_P(UcxLateDeviceTest, WhatDoesNotKnowItGoesWithItsLastConnectionAndLoan) {
  Node& connector = Connector();
  Node& near = ListenerAt(kFirstIp);
  const Link first = ConnectNodes(connector, near);
  const std::vector<Loan> loans = SendAndBorrow(near, first.to_a, connector, 1);
  ASSERT_FALSE(loans.empty());
  Plug("up");
  Node& far = ListenerAt(kLateIp);
  const Link late = ConnectNodes(connector, far);
  connector.transport().Close(first.to_b);
  ASSERT_TRUE(PollUntil("the end", [&] { return connector.IsDown(first.to_b) && near.IsDown(first.to_a); }));
  PollFor(100);
  ExpectIntact(loans);
  const size_t both = OpenDescriptors();
  Return(connector, loans);
  PollFor(100);
  // A UCX worker has more than one: its event descriptor, its listening socket.
  EXPECT_LT(OpenDescriptors() + 1, both);
  ExpectPayloadsPass(connector, late.to_b, far);
  const Link again = ConnectNodes(connector, near);
  ExpectPayloadsPass(connector, again.to_b, near);
}

TEST_P(UcxLateDeviceTest, MayBeTheOneToConnectOver) {
  Node& connector = Connector("late");
  Node& near = ListenerAt(kFirstIp);
  const absl::StatusOr<PeerId> too_early = connector.transport().Connect(near.transport().listen_address());
  ASSERT_TRUE(too_early.ok()) << too_early.status();
  ASSERT_TRUE(PollUntil("the end", [&] { return connector.IsDown(*too_early); }));
  const absl::Status why = connector.WhyDown(*too_early);
  EXPECT_TRUE(absl::IsUnavailable(why)) << why;
  EXPECT_NE(why.message().find("network device late has no link"), std::string::npos) << why;
  Plug("up");
  Node& far = ListenerAt(kLateIp);
  const Link link = ConnectNodes(connector, far);
  ASSERT_FALSE(HasFailure());
  ExpectPayloadsPass(connector, link.to_b, far);
}

TEST_P(UcxLateDeviceTest, IsNotListenedOnBeforeItHasALink) {
  for (const std::string transports : {"tcp", "all"}) {
    UcxTransportOptions options;
    options.listen_ip = kLateIp;
    options.transports = transports;
    const absl::Status refused = MakeUcxTransport(options).status();
    EXPECT_TRUE(absl::IsUnavailable(refused)) << transports << ": " << refused;
    EXPECT_NE(refused.message().find("network device late"), std::string::npos) << refused;
  }
}

}  // namespace
}  // namespace shoal
