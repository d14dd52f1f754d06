#include "net/ucx/ucx_transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include "process/socket_address.h"
#include "tests/conformance/transport/transport_suite.h"
#include "tests/conformance/transport/ucx_under_test.h"

namespace shoal {
namespace {

const auto kKinds =
    testing::Values(UcxKind("Mixed", 128 << 10), UcxKind("RendezvousOnly", 0), UcxKind("EagerOnly", SIZE_MAX));

INSTANTIATE_TEST_SUITE_P(Ucx, TransportSuite, kKinds, TransportKindName);
INSTANTIATE_TEST_SUITE_P(Ucx, TransportOfferSuite, kKinds, TransportKindName);
INSTANTIATE_TEST_SUITE_P(Ucx, TransportWakeSuite, kKinds, TransportKindName);

// What only this transport has.
class UcxTransportTest : public TransportSuite {};
INSTANTIATE_TEST_SUITE_P(Ucx, UcxTransportTest, kKinds, TransportKindName);

TEST_P(UcxTransportTest, GarbageOnTheListenerLeavesItServing) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const absl::StatusOr<SocketAddress> address = ParseSocketAddress(b.transport().listen_address());
  ASSERT_TRUE(address.ok());
  for (size_t size : {0, 1, 7, 64, 4096, 200'000}) {
    const int fd = socket(address->get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, address->get(), address->length), 0);
    const Bytes garbage = Pattern(size, size);
    [[maybe_unused]] const ssize_t written = send(fd, garbage.data(), garbage.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    PollFor(200);
    close(fd);
    PollFor(200);
  }
  const Link link = ConnectNodes(a, b);
  EXPECT_EQ(b.Count(TransportEventKind::kPeerUp), 1u);
  b.AcceptAll();
  const Bytes payload = Pattern(300'000, 1);
  ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, 1).ok());
  ASSERT_TRUE(PollUntil("the payload", [&] { return b.received().size() == 1; }));
  EXPECT_EQ(b.received()[0].payload, payload);
}

TEST_P(UcxTransportTest, DescriptionNamesWhatIsUsed) {
  Node& a = MakeNode();
  EXPECT_NE(a.transport().Report({}).description.find("(not connected)"), std::string::npos)
      << a.transport().Report({}).description;
  Node& b = MakeNode();
  ConnectNodes(a, b);
  EXPECT_NE(a.transport().Report({}).description.find("/rxe0:1"), std::string::npos)
      << a.transport().Report({}).description;
}

// ---- a peer that proved itself, and is set up otherwise ----

TEST_P(UcxTransportTest, APeerWithOtherTransportsIsRefusedByName) {
  UcxTransportOptions options = UcxUnderTest();
  options.transports = options.transports == "rc" ? "rc,ud" : "rc";
  Node& a = *nodes_.emplace_back(std::make_unique<Node>(*MakeUcxTransport(options)));
  Node& b = MakeNode();
  const absl::StatusOr<PeerId> peer = a.transport().Connect(b.transport().listen_address());
  ASSERT_TRUE(peer.ok()) << peer.status();
  ASSERT_TRUE(PollUntil("the refusal", [&] { return a.IsDown(*peer); }));
  EXPECT_EQ(b.Count(TransportEventKind::kPeerUp), 0u);
  EXPECT_EQ(b.Count(TransportEventKind::kPeerDown), 0u);
  const absl::Status why = a.WhyDown(*peer);
  EXPECT_NE(why.ToString().find("compare their transports"), std::string::npos) << why;
}

TEST_P(UcxTransportTest, APeerThatSpeaksSocketsAloneIsRefused) {
  TcpTransportOptions options;
  options.keys = UcxUnderTest().keys;
  options.carries = "ucx=1.18-or-older transports=" + UcxUnderTest().transports;  // as if it spoke UCX
  Node& a = *nodes_.emplace_back(std::make_unique<Node>(MakeTcpUnderTest(options)));
  Node& b = MakeNode();
  size_t ups = 0;
  for (const auto& speak : {std::function([&](PeerId to_b) { return a.transport().SendNote(to_b, Pattern(9, 1)); }),
                            std::function([&](PeerId to_b) {
                              static const Bytes payload = Pattern(100, 1);
                              return a.transport().Send(to_b, Pattern(3, 1), payload, 1);
                            })}) {
    const absl::StatusOr<PeerId> peer = a.transport().Connect(b.transport().listen_address());
    ASSERT_TRUE(peer.ok()) << peer.status();
    ASSERT_TRUE(PollUntil("the sockets", [&] { return a.Count(TransportEventKind::kPeerUp) > ups; }));
    ++ups;
    ASSERT_TRUE(speak(*peer).ok());
    PollFor(1000);
    a.transport().Close(*peer);
    ASSERT_TRUE(PollUntil("the end", [&] { return a.IsDown(*peer); }));
  }
  PollFor(1000);
  EXPECT_TRUE(b.seen().empty()) << "the user of a transport knows of no such peer";
}

}  // namespace
}  // namespace shoal
