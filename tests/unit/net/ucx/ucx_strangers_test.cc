// Invariant I7 at the UCX transport's ports: whoever comes and whatever they say, it goes on serving those who belong.
#include <set>
#include <string>
#include <string_view>

#include "net/ucx/handshake_message.h"
#include "net/ucx/handshake_sockets.h"
#include "net/ucx/listener_gate.h"
#include "net/ucx/ucx_settings.h"
#include "net/ucx/ucx_transport.h"
#include "tests/conformance/transport/transport_harness.h"
#include "tests/unit/net/raw_socket.h"

namespace shoal {
namespace {

TransportKind Kind() {
  return {.name = "UcxTcp", .make = [](const TransportSetup& setup) {
            UcxTransportOptions options;
            // No device is named: the address must lead to it.
            if (setup.listen) options.listen_ip = "127.0.0.1";
            options.limits = setup.limits;
            absl::StatusOr<std::unique_ptr<Transport>> transport = MakeUcxTransport(options);
            EXPECT_TRUE(transport.ok()) << transport.status();
            return transport.ok() ? *std::move(transport) : nullptr;
          }};
}

class UcxStrangersTest : public TransportSuite {
 protected:
  std::string AddressOf(Node& node) { return node.transport().listen_address(); }

  RawSocket Stranger(Node& server, std::span<const std::byte> words) {
    RawSocket stranger = RawSocket::ConnectTo(AddressOf(server));
    stranger.Say(words);
    return stranger;
  }

  // Connects somebody who belongs, and sends a payload across.
  void ExpectServing(Node& server) {
    Node& client = MakeNode({.listen = false});
    const Link link = ConnectNodes(client, server);
    server.AcceptAll();
    const Bytes payload = Pattern(300'000, ++payloads_);
    const size_t before = server.received().size();
    ASSERT_TRUE(client.transport().Send(link.to_b, {}, payload, 1).ok());
    ASSERT_TRUE(PollUntil("the payload", [&] { return server.received().size() == before + 1; }));
    EXPECT_TRUE(server.received().back().payload == payload);
  }

  // A server that is none, and the client that has come to it.
  struct FakeServer {
    RawSocket listener = RawSocket::ListenOnLoopback();
    std::unique_ptr<RawSocket> client;
    PeerId peer;
  };
  FakeServer ConnectToFakeServer(Node& client) {
    FakeServer fake;
    fake.peer = *client.transport().Connect(fake.listener.address());
    PollUntil("the greeting", [&] {
      if (fake.client == nullptr) fake.client = fake.listener.Accept();
      if (fake.client == nullptr) return false;
      EXPECT_FALSE(fake.client->HasEnded());
      const auto decoded = DecodeHandshake(fake.client->heard());
      return decoded.ok() && decoded->has_value();
    });
    return fake;
  }

  uint64_t payloads_ = 0;
};

INSTANTIATE_TEST_SUITE_P(UcxTcp, UcxStrangersTest, testing::Values(Kind()), TransportKindName);

std::string SettingsOf(const std::string& transports) {
  UcxTransportOptions options;
  options.transports = transports;
  return UcxSettings(options).Agreement();
}

Bytes Greeting(uint16_t port) {
  HandshakeMessage greeting;
  greeting.port = port;
  greeting.settings = SettingsOf("tcp");
  return EncodeHandshake(greeting);
}

Bytes Joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// What a lost client says.
Bytes HttpRequest() {
  constexpr std::string_view kText = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const auto bytes = std::as_bytes(std::span(kText));
  return {bytes.begin(), bytes.end()};
}

// For our own port alone, where the handshake reads it: nothing of it reaches UCX.
std::map<std::string, Bytes> Garbage() {
  const Bytes greeting = Greeting(4711);
  const Bytes magic(greeting.begin(), greeting.begin() + 8);
  Bytes wrong_checksum = greeting;
  wrong_checksum.back() ^= std::byte{1};
  Bytes oversize = greeting;
  oversize[18] = std::byte{0xff};  // the length of the body
  Bytes welcome = greeting;
  welcome[12] = std::byte{2};
  return {
      {"HTTP", HttpRequest()},
      {"random", Pattern(100'000, 3)},
      {"one wrong byte", Bytes(1, std::byte{'s'})},
      {"magic and random", Joined(magic, Pattern(5000, 4))},
      {"magic twice", Joined(magic, magic)},
      {"checksum off by a bit", wrong_checksum},
      {"oversize", Joined(oversize, Pattern(70'000, 5))},
      {"longer than it says", Joined(greeting, Bytes(1))},
      {"two greetings", Joined(greeting, greeting)},
      {"a welcome", welcome},
      {"port 0", Greeting(0)},
  };
}

TEST_P(UcxStrangersTest, I7GarbageIsHungUpOn) {
  Node& server = MakeNode();
  for (const auto& [what, words] : Garbage()) {
    SCOPED_TRACE(what);
    RawSocket stranger = Stranger(server, words);
    EXPECT_TRUE(PollUntil("the end", [&] { return stranger.HasEnded(); }));
    const bool readable = what == "magic and random";  // it has a version, and not ours: the answer says so
    EXPECT_TRUE(readable || what == "magic twice" || stranger.heard().empty());
  }
  EXPECT_EQ(server.seen().size(), 0u);
  const TransportReport report = server.transport().Report({});
  EXPECT_EQ(report.strangers, Garbage().size());
  EXPECT_NE(report.last_stranger.find(":"), std::string::npos) << report.last_stranger;
  ExpectServing(server);
  EXPECT_EQ(server.transport().Report({}).strangers, Garbage().size()) << "one that is welcome is no stranger";
}

TEST_P(UcxStrangersTest, I7GarbageByteByByteIsHungUpOn) {
  Node& server = MakeNode();
  Bytes words = Greeting(4711);
  words[25] ^= std::byte{0x10};
  RawSocket stranger = RawSocket::ConnectTo(AddressOf(server));
  for (size_t i = 0; i < words.size(); ++i) {
    EXPECT_FALSE(stranger.HasEnded()) << "after " << i << " bytes";
    stranger.Say(std::span(words).subspan(i, 1));
    PollFor(3);
  }
  ASSERT_TRUE(PollUntil("the end", [&] { return stranger.HasEnded(); }));
  ExpectServing(server);
}

TEST_P(UcxStrangersTest, I7LostClientsOnEveryPortLeaveItServing) {
  Node& server = MakeNode();
  Node& client = MakeNode({.listen = false});
  const Link link = ConnectNodes(client, server);
  const std::vector<std::string> addresses = ListeningAddresses();
  EXPECT_GE(addresses.size(), 4u) << "ours, UCX's listener, and a data port each";
  std::vector<RawSocket> strangers;
  for (const std::string& address : addresses) {
    for (const Bytes& words : {HttpRequest(), Bytes()}) {
      strangers.push_back(RawSocket::StartConnectingTo(address));
      strangers.back().Say(words);
      PollFor(10);
    }
  }
  const Bytes payload = Pattern(300'000, 77);
  server.AcceptAll();
  ASSERT_TRUE(client.transport().Send(link.to_b, {}, payload, 1).ok());
  ASSERT_TRUE(PollUntil("the payload", [&] { return server.received().size() == 1; }));
  EXPECT_TRUE(server.received()[0].payload == payload);
  ExpectServing(server);
  EXPECT_FALSE(client.IsDown(link.to_b));
}

TEST_P(UcxStrangersTest, I7NobodyReachesUcxListenerUnasked) {
  MakeNode();
  // UCX's data ports and ours let anybody connect; its listener must not. Which is which, only the kernel's answer
  // tells.
  size_t connected = 0;
  const std::vector<std::string> addresses = ListeningAddresses();
  for (const std::string& address : addresses) connected += RawSocket::StartConnectingTo(address).IsConnected();
  EXPECT_EQ(addresses.size(), 3u);
  EXPECT_EQ(connected, 2u);
}

TEST_P(UcxStrangersTest, TheAddressChoosesTheDevice) {
  Node& server = MakeNode();
  ExpectServing(server);
  nodes_.resize(1);  // clients have no address to choose by
  for (const std::string& address : ListeningAddresses()) EXPECT_EQ(address.find("127.0.0.1:"), 0u) << address;
}

TEST_P(UcxStrangersTest, I7AGreetingThatIsNeverCompleteIsHungUpOn) {
  Node& server = MakeNode();
  const Bytes greeting = Greeting(4711);
  RawSocket half = Stranger(server, std::span(greeting).first(20));
  RawSocket silent = Stranger(server, {});
  ExpectServing(server);
  EXPECT_FALSE(half.HasEnded());
  EXPECT_FALSE(silent.HasEnded());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(PollUntil("the timeout", [&] { return half.HasEnded() && silent.HasEnded(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, HandshakeSockets::kGreetingTimeout + std::chrono::seconds(5));
  ExpectServing(server);
}

TEST_P(UcxStrangersTest, I7AFloodOfSilentConnectionsIsBounded) {
  Node& server = MakeNode();
  constexpr size_t kTooMany = 40;
  std::vector<RawSocket> flood;
  for (size_t i = 0; i < HandshakeSockets::kMaxUngreeted + kTooMany; ++i) {
    flood.push_back(Stranger(server, {}));
    if (i % 16 == 0) PollAll();
  }
  ASSERT_TRUE(PollUntil("the oldest to go", [&] { return flood[kTooMany - 1].HasEnded(); }));
  for (size_t i = 0; i < kTooMany; ++i) EXPECT_TRUE(flood[i].HasEnded()) << i;
  EXPECT_FALSE(flood.back().HasEnded());
  ExpectServing(server);
}

TEST_P(UcxStrangersTest, AnotherVersionIsRefusedByName) {
  Node& server = MakeNode();
  HandshakeMessage newer;
  newer.version = kTransportVersion + 98;
  newer.port = 4711;
  RawSocket stranger = Stranger(server, EncodeHandshake(newer));
  ASSERT_TRUE(PollUntil("the refusal", [&] { return stranger.HasEnded(); }));
  const auto refusal = DecodeHandshake(stranger.heard());
  ASSERT_TRUE(refusal.ok() && refusal->has_value()) << refusal.status();
  EXPECT_EQ((*refusal)->kind, HandshakeKind::kRefusal);
  EXPECT_NE((*refusal)->refusal.find("the sender of the handshake has 99, its receiver 1"), std::string::npos)
      << (*refusal)->refusal;
  ExpectServing(server);
}

TEST_P(UcxStrangersTest, TheRefusalOfAnotherVersionReachesTheUser) {
  Node& client = MakeNode({.listen = false});
  const FakeServer fake = ConnectToFakeServer(client);
  HandshakeMessage refusal;
  refusal.kind = HandshakeKind::kRefusal;
  refusal.version = 99;
  refusal.refusal = "versions 1 and 99 \x1b[31m";
  fake.client->Say(EncodeHandshake(refusal));
  ASSERT_TRUE(PollUntil("the end", [&] { return client.IsDown(fake.peer); }));
  const absl::Status why = client.WhyDown(fake.peer);
  EXPECT_TRUE(absl::IsFailedPrecondition(why)) << why;
  EXPECT_NE(why.ToString().find(fake.listener.address() + " refused the connection: versions 1 and 99 ?[31m"),
            std::string::npos)
      << why;
}

TEST_P(UcxStrangersTest, UcxSetUpInAnotherWayIsRefused) {
  // UCX does not compare how two sides are set up.
  Node& server = MakeNode();
  UcxTransportOptions other;
  other.transports = "tcp,self";
  Node& client = *nodes_.emplace_back(std::make_unique<Node>(*MakeUcxTransport(other)));
  const PeerId peer = *client.transport().Connect(AddressOf(server));
  ASSERT_TRUE(PollUntil("the refusal", [&] { return client.IsDown(peer); }));
  const std::string both = absl::StrCat("connects has \"", SettingsOf("tcp,self"), "\" and the one that listens \"",
                                        SettingsOf("tcp"), "\"");
  EXPECT_NE(client.WhyDown(peer).ToString().find(both), std::string::npos) << client.WhyDown(peer);
  ExpectServing(server);
}

TEST_P(UcxStrangersTest, AFullServerSaysSo) {
  TransportSetup one;
  one.limits.max_peers = 1;
  Node& server = MakeNode(one);
  ExpectServing(server);
  Node& client = MakeNode({.listen = false});
  const PeerId peer = *client.transport().Connect(AddressOf(server));
  ASSERT_TRUE(PollUntil("the refusal", [&] { return client.IsDown(peer); }));
  EXPECT_TRUE(absl::IsUnavailable(client.WhyDown(peer)));
  EXPECT_NE(client.WhyDown(peer).ToString().find("all 1 connections are in use"), std::string::npos)
      << client.WhyDown(peer);
}

TEST_P(UcxStrangersTest, AServerThatIsNoneIsReported) {
  const std::map<std::string, Bytes> answers = {
      {"HTTP", HttpRequest()}, {"text", Pattern(20, 1)}, {"our own greeting", Greeting(4711)}, {"nothing", {}}};
  for (const auto& [what, words] : answers) {
    SCOPED_TRACE(what);
    Node& client = MakeNode({.listen = false});
    FakeServer fake = ConnectToFakeServer(client);
    fake.client->Say(words);
    fake.client.reset();
    ASSERT_TRUE(PollUntil("the end", [&] { return client.IsDown(fake.peer); }));
    const absl::Status why = client.WhyDown(fake.peer);
    const bool garbage = what == "HTTP" || what == "text";
    EXPECT_TRUE(garbage ? absl::IsFailedPrecondition(why) : absl::IsUnavailable(why)) << why;
    EXPECT_NE(why.ToString().find(fake.listener.address()), std::string::npos) << why;
  }
}

TEST_P(UcxStrangersTest, I7ARecordedGreetingLeadsNowhere) {
  Node& server = MakeNode();
  Node& client = MakeNode({.listen = false});
  const FakeServer fake = ConnectToFakeServer(client);
  const Bytes recorded = fake.client->heard();
  RawSocket first = Stranger(server, recorded);
  RawSocket second = Stranger(server, recorded);
  // The first gets an answer, and nothing comes of it; the second claims what the first holds.
  ASSERT_TRUE(PollUntil("both answers", [&] {
    return second.HasEnded() && (first.HasEnded() || DecodeHandshake(first.heard())->has_value());
  }));
  EXPECT_FALSE(first.HasEnded());
  EXPECT_EQ((*DecodeHandshake(first.heard()))->kind, HandshakeKind::kWelcome);
  const HandshakeMessage refusal = **DecodeHandshake(second.heard());
  EXPECT_NE(refusal.refusal.find("is already expected on another connection"), std::string::npos) << refusal.refusal;
  // What comes after the greeting is no better.
  first.Say(Pattern(1000, 1));
  ASSERT_TRUE(PollUntil("the end", [&] { return first.HasEnded(); }));
  EXPECT_EQ(server.seen().size(), 0u);
  ExpectServing(server);
}

TEST_P(UcxStrangersTest, GuestsWaitTheirTurnAtTheGate) {
  Node& server = MakeNode();
  std::vector<RawSocket> guests;
  for (size_t i = 0; i < ListenerGate::kMaxGuests; ++i) guests.push_back(Stranger(server, Greeting(5000 + i)));
  ASSERT_TRUE(PollUntil("welcomes", [&] {
    return std::ranges::all_of(guests, [](RawSocket& guest) { return guest.HasEnded() || !guest.heard().empty(); });
  }));
  Node& client = MakeNode({.listen = false});
  const PeerId peer = *client.transport().Connect(AddressOf(server));
  PollFor(100);
  EXPECT_FALSE(client.IsUp(peer));
  EXPECT_FALSE(client.IsDown(peer));
  guests.pop_back();
  ASSERT_TRUE(PollUntil("its turn", [&] { return client.IsUp(peer); }));
  guests.clear();
  ExpectServing(server);
}

TEST_P(UcxStrangersTest, AGuestWhoLeavesMakesRoom) {
  TransportSetup one;
  one.limits.max_peers = 1;
  Node& server = MakeNode(one);
  {
    RawSocket guest = Stranger(server, Greeting(4711));
    ASSERT_TRUE(PollUntil("the welcome", [&] { return guest.HasEnded() || !guest.heard().empty(); }));
    RawSocket other = Stranger(server, Greeting(4712));
    ASSERT_TRUE(PollUntil("the refusal", [&] { return other.HasEnded(); }));
    EXPECT_FALSE(guest.HasEnded());
  }
  PollFor(50);
  ExpectServing(server);
}

}  // namespace
}  // namespace shoal
