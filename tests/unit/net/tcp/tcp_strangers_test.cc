// Invariant I7 at the TCP transport's port: whoever comes and whatever they say, it goes on serving those who belong.
#include <string>
#include <vector>

#include "net/tcp/tcp_door.h"
#include "process/open_files.h"
#include "tests/conformance/open_file_limit.h"
#include "tests/conformance/transport/tcp_under_test.h"
#include "tests/conformance/transport/transport_suite.h"
#include "tests/unit/net/raw_socket.h"

namespace shoal {
namespace {

class TcpStrangersTest : public TransportSuite {
 protected:
  bool seals() const { return GetParam().name == "Sealed"; }

  Node& MakeClient(ConnectionKeys* keys, bool seals) {
    TcpTransportOptions options = TcpUnderTest(seals);
    options.listen_ip.clear();
    options.keys = keys;
    return *nodes_.emplace_back(std::make_unique<Node>(MakeTcpUnderTest(options)));
  }

  uint64_t Strangers(Node& server) { return server.transport().Report({}).strangers; }

  // Connects somebody who belongs, and sends a payload across.
  void ExpectServing(Node& server) {
    Node& client = MakeNode({.listen = false});
    const Link link = ConnectNodes(client, server);
    server.AcceptAll();
    const Bytes& payload = Keep(Pattern(300'000, ++payloads_));
    const size_t before = server.received().size();
    ASSERT_TRUE(client.transport().Send(link.to_b, {}, payload, 1).ok());
    ASSERT_TRUE(PollUntil("the payload", [&] { return server.received().size() == before + 1; }));
    EXPECT_TRUE(server.received().back().payload == payload);
  }

  // The client is told that it does not belong, and the server has no peer.
  void ExpectUnauthenticated(Node& server, Node& client) {
    const PeerId peer = *client.transport().Connect(server.transport().listen_address());
    ASSERT_TRUE(PollUntil("the end", [&] { return client.IsDown(peer); }));
    EXPECT_TRUE(absl::IsUnauthenticated(client.WhyDown(peer))) << client.WhyDown(peer);
    EXPECT_NE(client.WhyDown(peer).ToString().find(server.transport().listen_address()), std::string::npos);
    ASSERT_TRUE(PollUntil("it counts", [&] { return Strangers(server) == 1; }));
    EXPECT_EQ(server.Count(TransportEventKind::kPeerUp), 0u);
  }

  uint64_t payloads_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Tcp, TcpStrangersTest, testing::Values(TcpKind("Bare", false), TcpKind("Sealed", true)),
                         TransportKindName);

TEST_P(TcpStrangersTest, AnotherClustersKeyOpensNothing) {
  Node& server = MakeNode();
  SharedSecret others("another cluster's");
  ExpectUnauthenticated(server, MakeClient(&others, seals()));
  ExpectServing(server);
}

TEST_P(TcpStrangersTest, ATicketWhoseTimeIsOverOpensNothing) {
  Node& server = MakeNode();
  SharedSecret old("the cluster's", "over");
  ExpectUnauthenticated(server, MakeClient(&old, seals()));
  ExpectServing(server);
}

// Whether data is sealed stands in the ticket, so a ticket that is changed to say otherwise is nobody's.
TEST_P(TcpStrangersTest, BothSidesSealOrNeitherDoes) {
  class Changed final : public ConnectionKeys {
   public:
    explicit Changed(bool seals) : seals_(seals) {}
    absl::StatusOr<ConnectionTicket> TicketFor(const std::string& address) override {
      ConnectionTicket ticket = *SharedSecret("the cluster's", Words(seals_)).TicketFor(address);
      const std::string words = Words(!seals_);
      const auto others = AsBytes(words);
      ticket.bytes.assign(others.begin(), others.end());
      return ticket;
    }
    std::optional<TicketKey> KeyOf(std::span<const std::byte>) override { return std::nullopt; }

   private:
    static std::string Words(bool seals) { return seals ? SharedSecret::kSealed : SharedSecret::kBare; }
    const bool seals_;
  };
  Node& server = MakeNode();
  Changed changed(seals());
  ExpectUnauthenticated(server, MakeClient(&changed, seals()));
  ExpectServing(server);
}

TEST_P(TcpStrangersTest, WordsThatAreNoGreetingEndTheConnectionAndAreCounted) {
  Node& server = MakeNode();
  std::vector<RawSocket> guests;
  const std::vector<Bytes> words = {Pattern(64, 1), Pattern(5000, 2), Bytes(64)};
  for (const Bytes& each : words) {
    guests.push_back(RawSocket::ConnectTo(server.transport().listen_address()));
    guests.back().Say(each);
  }
  for (RawSocket& guest : guests) {
    ASSERT_TRUE(PollUntil("it is sent away", [&] { return guest.HasEnded(); }));
  }
  EXPECT_EQ(Strangers(server), words.size());
  EXPECT_NE(server.transport().Report({}).last_stranger.find("127.0.0.1"), std::string::npos);
  EXPECT_EQ(server.Count(TransportEventKind::kPeerUp), 0u);
  ExpectServing(server);
}

TEST_P(TcpStrangersTest, I7AFloodOfSilentGuestsIsBoundedAndTakesNobodysPlace) {
  RaiseOpenFileLimit();
  constexpr size_t kFlood = 2000;
  Node& server = MakeNode();
  Node& member = MakeNode({.listen = false});
  const size_t before = OpenDescriptors();
  std::vector<RawSocket> flood;
  for (size_t i = 0; i < kFlood; ++i) {
    flood.push_back(RawSocket::ConnectTo(server.transport().listen_address()));
    if (i % 16 == 0) PollAll();
  }
  constexpr size_t kTooMany = kFlood - TcpDoor::kMaxGuests;
  ASSERT_TRUE(PollUntil("the oldest go", [&] { return flood[kTooMany - 1].HasEnded(); }));
  for (size_t i = 0; i < kTooMany; ++i) EXPECT_TRUE(flood[i].HasEnded()) << i;
  EXPECT_FALSE(flood.back().HasEnded());
  EXPECT_EQ(OpenDescriptors(), before + kFlood + TcpDoor::kMaxGuests);
  const Link link = ConnectNodes(member, server);
  flood.clear();
  // One of the member's, and one of the server's.
  ASSERT_TRUE(PollUntil("nothing left", [&] { return OpenDescriptors() == before + 2; }));
  EXPECT_TRUE(member.IsUp(link.to_b));
  ExpectServing(server);
}

TEST_P(TcpStrangersTest, WithoutDescriptorsWhoSaysNothingMakesRoomForAMember) {
  const OpenFileLimit limit;
  Node& server = MakeNode();
  Node& member = MakeNode({.listen = false});
  const size_t before = OpenDescriptors();
  RawSocket silent = RawSocket::ConnectTo(server.transport().listen_address());
  ASSERT_TRUE(PollUntil("it comes in", [&] { return OpenDescriptors() == before + 2; }));
  const PeerId peer = *member.transport().Connect(server.transport().listen_address());
  limit.Leave(0);
  ASSERT_TRUE(PollUntil("both sides up", [&] { return member.IsUp(peer); }));
  EXPECT_TRUE(silent.HasEnded());
}

TEST_P(TcpStrangersTest, WithoutDescriptorsItWaitsAndDoesNotSpin) {
  const OpenFileLimit limit;
  Node& server = MakeNode();
  Node& member = MakeNode({.listen = false});
  const PeerId peer = *member.transport().Connect(server.transport().listen_address());
  limit.Leave(0);
  int polls = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(300)) {
    server.Poll();
    ++polls;
    constexpr uint64_t kSleepNs = 50'000'000;
    if (server.transport().Arm()) WaitReadable({server.transport().wake_fd()}, kSleepNs);
  }
  EXPECT_LT(polls, 100) << "asks again and again for what there is not";
  EXPECT_EQ(server.Count(TransportEventKind::kPeerUp), 0u);
  limit.Restore();
  EXPECT_TRUE(PollUntil("both sides up", [&] { return member.IsUp(peer); }));
}

TEST_P(TcpStrangersTest, AGuestThatSaysNothingIsSentAwayInTime) {
  Node& server = MakeNode();
  RawSocket guest = RawSocket::ConnectTo(server.transport().listen_address());
  ASSERT_TRUE(PollUntil("its time is over", [&] { return guest.HasEnded(); }));
  EXPECT_EQ(Strangers(server), 1u);
}

TEST_P(TcpStrangersTest, AServerThatIsNoneIsNamed) {
  Node& client = MakeClient(TcpUnderTest(false).keys, seals());
  const RawSocket listener = RawSocket::ListenOnLoopback();
  const PeerId peer = *client.transport().Connect(listener.address());
  std::unique_ptr<RawSocket> accepted;
  ASSERT_TRUE(PollUntil("it comes", [&] { return (accepted = listener.Accept()) != nullptr; }));
  accepted->Say(Pattern(100, 1));
  ASSERT_TRUE(PollUntil("the end", [&] { return client.IsDown(peer); }));
  EXPECT_TRUE(absl::IsFailedPrecondition(client.WhyDown(peer))) << client.WhyDown(peer);
  EXPECT_NE(client.WhyDown(peer).ToString().find(listener.address()), std::string::npos);
}

}  // namespace
}  // namespace shoal
