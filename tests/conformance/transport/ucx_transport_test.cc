#include "net/ucx/ucx_transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process/socket_address.h"
#include "tests/conformance/transport/transport_suite.h"
#include "tests/conformance/transport/ucx_under_test.h"

namespace shoal {
namespace {

UcxTransportOptions OnLoopbackDevice() {
  UcxTransportOptions options;
  options.listen_ip = "127.0.0.1";
  options.net_device = "lo";
  return options;
}

const auto kKinds =
    testing::Values(UcxKind("Mixed", 128 << 10), UcxKind("RendezvousOnly", 0), UcxKind("EagerOnly", SIZE_MAX));

INSTANTIATE_TEST_SUITE_P(UcxTcp, TransportSuite, kKinds, TransportKindName);
INSTANTIATE_TEST_SUITE_P(UcxTcp, TransportOfferSuite, kKinds, TransportKindName);
INSTANTIATE_TEST_SUITE_P(UcxTcp, TransportWakeSuite, kKinds, TransportKindName);

// What only this transport has.
class UcxTransportTest : public TransportSuite {};
INSTANTIATE_TEST_SUITE_P(UcxTcp, UcxTransportTest, kKinds, TransportKindName);

TEST_P(UcxTransportTest, GarbageOnTheListenerLeavesItServing) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const absl::StatusOr<SocketAddress> address = ParseSocketAddress(b.transport().listen_address());
  ASSERT_TRUE(address.ok());
  for (size_t size : {0, 1, 7, 64, 4096, 200'000}) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, address->get(), address->length), 0);
    const Bytes garbage = Pattern(size, size);
    [[maybe_unused]] const ssize_t written = send(fd, garbage.data(), garbage.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    PollFor(200);
    close(fd);
    PollFor(200);
  }
  const int half_open = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(half_open, address->get(), address->length), 0);
  const Link link = ConnectNodes(a, b);
  EXPECT_EQ(b.Count(TransportEventKind::kPeerUp), 1u);
  b.AcceptAll();
  const Bytes payload = Pattern(300'000, 1);
  ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, 1).ok());
  ASSERT_TRUE(PollUntil("the payload", [&] { return b.received().size() == 1; }));
  EXPECT_EQ(b.received()[0].payload, payload);
  close(half_open);
}

TEST_P(UcxTransportTest, DescriptionNamesWhatIsUsed) {
  Node& a = MakeNode();
  EXPECT_NE(a.transport().Report({}).description.find("tcp (not connected)"), std::string::npos)
      << a.transport().Report({}).description;
  Node& b = MakeNode();
  ConnectNodes(a, b);
  EXPECT_NE(a.transport().Report({}).description.find(": tcp/lo"), std::string::npos)
      << a.transport().Report({}).description;
}

TEST_P(UcxTransportTest, TheRouteChoosesTheDeviceWhenNoneIsNamed) {
  UcxTransportOptions options;
  options.listen_ip = "127.0.0.1";
  Node& a = *nodes_.emplace_back(std::make_unique<Node>(*MakeUcxTransport(options)));
  Node& b = *nodes_.emplace_back(std::make_unique<Node>(*MakeUcxTransport(options)));
  const Link link = ConnectNodes(a, b);
  b.AcceptAll();
  const Bytes payload = Pattern(300'000, 1);
  ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, 1).ok());
  ASSERT_TRUE(PollUntil("the payload", [&] { return b.received().size() == 1; }));
  EXPECT_NE(a.transport().Report({}).description.find(": tcp/lo"), std::string::npos)
      << a.transport().Report({}).description;
}

TEST_P(UcxTransportTest, TheDeviceMayBeNamedOnOneSideOnly) {
  UcxTransportOptions named;
  named.listen_ip = "127.0.0.1";
  named.net_device = "lo";
  UcxTransportOptions unnamed;
  unnamed.listen_ip = "127.0.0.1";
  UcxTransportOptions connecting_only;
  for (const auto& [from, to] : {std::pair(connecting_only, named), std::pair(named, unnamed)}) {
    Node& a = *nodes_.emplace_back(std::make_unique<Node>(*MakeUcxTransport(from)));
    Node& b = *nodes_.emplace_back(std::make_unique<Node>(*MakeUcxTransport(to)));
    const Link link = ConnectNodes(a, b);
    b.AcceptAll();
    const Bytes payload = Pattern(300'000, 1);
    ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, 1).ok());
    ASSERT_TRUE(PollUntil("the payload", [&] { return b.received().size() == 1; }));
  }
}

TEST(UcxTransportOptionsTest, BadOptionsAreRefusedWithTheirName) {
  const absl::StatusOr<std::unique_ptr<Transport>> first = MakeUcxTransport(OnLoopbackDevice());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto refusal = [](auto change) {
    UcxTransportOptions options = OnLoopbackDevice();
    change(options);
    return MakeUcxTransport(options).status();
  };
  const std::string address = (*first)->listen_address();
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const absl::Status taken = refusal([&](UcxTransportOptions& o) { o.port = port; });
  EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
  EXPECT_NE(taken.ToString().find(address), std::string::npos) << taken;

  const absl::Status device = refusal([](UcxTransportOptions& o) { o.net_device = "nosuchdevice0"; });
  EXPECT_TRUE(absl::IsInvalidArgument(device)) << device;
  EXPECT_NE(device.ToString().find("nosuchdevice0"), std::string::npos) << device;

  const absl::Status transports = refusal([](UcxTransportOptions& o) { o.transports = "carrierpigeon"; });
  EXPECT_TRUE(absl::IsInvalidArgument(transports)) << transports;
  EXPECT_NE(transports.ToString().find("carrierpigeon"), std::string::npos) << transports;

  const absl::Status name = refusal([](UcxTransportOptions& o) { o.listen_ip = "localhost"; });
  EXPECT_TRUE(absl::IsInvalidArgument(name)) << name;
  // A documentation address (RFC 5737): no machine has it.
  const absl::Status foreign = refusal([](UcxTransportOptions& o) { o.listen_ip = "192.0.2.1"; });
  EXPECT_TRUE(absl::IsInvalidArgument(foreign)) << foreign;
  EXPECT_NE(foreign.ToString().find("192.0.2.1"), std::string::npos) << foreign;
}

}  // namespace
}  // namespace shoal
