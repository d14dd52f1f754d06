#include "net/tcp/tcp_transport.h"

#include "net/tcp/record_reader.h"
#include "process/socket_address.h"
#include "tests/conformance/transport/tcp_under_test.h"
#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

const auto kKinds = testing::Values(TcpKind("Bare", false), TcpKind("Sealed", true));

INSTANTIATE_TEST_SUITE_P(Tcp, TransportSuite, kKinds, TransportKindName);
INSTANTIATE_TEST_SUITE_P(Tcp, TransportOfferSuite, kKinds, TransportKindName);
INSTANTIATE_TEST_SUITE_P(Tcp, TransportWakeSuite, kKinds, TransportKindName);

// What only this transport has.
class TcpTransportTest : public TransportSuite {};
INSTANTIATE_TEST_SUITE_P(Tcp, TcpTransportTest, kKinds, TransportKindName);

TEST_P(TcpTransportTest, WhatIsTakenInTimeIsNotHeld) {
  TransportSetup none;
  none.limits.max_held_bytes_per_peer = 0;
  Node& server = MakeNode(none);
  Node& client = MakeNode();
  const Link link = ConnectNodes(client, server);
  server.AcceptAll();
  for (uint64_t i = 1; i <= 20; ++i) {
    const Bytes& payload = Keep(Pattern(RecordReader::kMaxStagingBytes + 100'000 * i, i));
    ASSERT_TRUE(client.transport().Send(link.to_b, {}, payload, i).ok());
  }
  ASSERT_TRUE(PollUntil("all", [&] { return server.received().size() == 20; }));
  for (const Node::Received& received : server.received()) EXPECT_TRUE(received.status.ok()) << received.status;
}

TEST_P(TcpTransportTest, DescriptionNamesWhatIsUsed) {
  Node& a = MakeNode();
  EXPECT_NE(a.transport().Report({}).description.find("tcp (not connected)"), std::string::npos)
      << a.transport().Report({}).description;
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const TransportReport report = a.transport().Report(std::vector{link.to_b, PeerId(4711)});
  EXPECT_NE(report.description.find(": tcp/lo"), std::string::npos) << report.description;
  EXPECT_EQ(report.peer_transports, (std::vector<std::string>{"tcp/lo", ""}));
}

TEST_P(TcpTransportTest, Ipv6) {
  TcpTransportOptions options = TcpUnderTest(GetParam().name == "Sealed");
  options.listen_ip = "::1";
  Node& a = *nodes_.emplace_back(std::make_unique<Node>(MakeTcpUnderTest(options)));
  EXPECT_EQ(a.transport().listen_address().substr(0, 6), "[::1]:");
  Node& b = MakeNode({.listen = false});
  const Link link = ConnectNodes(b, a);
  a.AcceptAll();
  const Bytes& payload = Keep(Pattern(300'000, 1));
  ASSERT_TRUE(b.transport().Send(link.to_b, {}, payload, 1).ok());
  ASSERT_TRUE(PollUntil("the payload", [&] { return a.received().size() == 1; }));
  EXPECT_TRUE(a.received()[0].payload == payload);
}

TEST_P(TcpTransportTest, APeerThatMovesPayloadsOtherwiseIsRefusedByName) {
  TcpTransportOptions options = TcpUnderTest(GetParam().name == "Sealed");
  options.carries = "pigeons";
  Node& a = *nodes_.emplace_back(std::make_unique<Node>(MakeTcpUnderTest(options)));
  Node& b = MakeNode();
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const absl::StatusOr<PeerId> peer = from->transport().Connect(to->transport().listen_address());
    ASSERT_TRUE(peer.ok()) << peer.status();
    ASSERT_TRUE(PollUntil("the refusal", [&] { return from->IsDown(*peer); }));
    EXPECT_TRUE(absl::IsFailedPrecondition(from->WhyDown(*peer))) << from->WhyDown(*peer);
    EXPECT_NE(from->WhyDown(*peer).ToString().find("compare their transports"), std::string::npos);
    EXPECT_EQ(to->Count(TransportEventKind::kPeerUp), 0u);
  }
}

TEST(TcpTransportOptionsTest, BadOptionsAreRefusedWithTheirName) {
  const std::unique_ptr<Transport> first = MakeTcpUnderTest(TcpUnderTest(false));
  const auto refusal = [](auto change) {
    TcpTransportOptions options = TcpUnderTest(false);
    change(options);
    return MakeTcpTransport(options).status();
  };
  const std::string address = first->listen_address();
  const uint16_t port = PortOf(*ParseSocketAddress(address));
  const absl::Status taken = refusal([&](TcpTransportOptions& o) { o.port = port; });
  EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
  EXPECT_NE(taken.ToString().find(address), std::string::npos) << taken;

  const absl::Status device = refusal([](TcpTransportOptions& o) { o.net_device = "nosuchdevice0,mlx5_9:1"; });
  EXPECT_TRUE(absl::IsInvalidArgument(device)) << device;
  EXPECT_NE(device.ToString().find("nosuchdevice0"), std::string::npos) << device;
  EXPECT_TRUE(refusal([](TcpTransportOptions& o) { o.net_device = "mlx5_9:1,lo"; }).ok());

  const absl::Status name = refusal([](TcpTransportOptions& o) { o.listen_ip = "localhost"; });
  EXPECT_TRUE(absl::IsInvalidArgument(name)) << name;
  // A documentation address (RFC 5737): no machine has it.
  const absl::Status foreign = refusal([](TcpTransportOptions& o) { o.listen_ip = "192.0.2.1"; });
  EXPECT_TRUE(absl::IsInvalidArgument(foreign)) << foreign;
  EXPECT_NE(foreign.ToString().find("192.0.2.1"), std::string::npos) << foreign;
}

}  // namespace
}  // namespace shoal
