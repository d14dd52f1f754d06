// The beginning of a connection over TCP, at its worst: cut at every byte, played again, out of its order, and between
// two who know the same key and yet do not understand each other.
#include "net/tcp/tcp_handshake.h"

#include <fcntl.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/transport/tcp_under_test.h"
#include "tests/unit/net/raw_socket.h"
#include "tests/unit/net/relay.h"

namespace shoal {
namespace {

// The first message of TLS in what a client has said, with its head.
std::span<const std::byte> FirstMessage(const Bytes& of_client) {
  constexpr size_t kHeadBytes = 5;
  const size_t bytes = std::to_integer<size_t>(of_client.at(3)) << 8 | std::to_integer<size_t>(of_client.at(4));
  return std::span(of_client).first(kHeadBytes + bytes);
}

Bytes Joined(std::span<const std::byte> first, std::span<const std::byte> second) {
  Bytes joined(first.begin(), first.end());
  joined.insert(joined.end(), second.begin(), second.end());
  return joined;
}

Bytes RecordOf(RecordKind kind, std::span<const std::byte> header, uint64_t payload_bytes = 0) {
  const auto head = EncodeRecordHead(
      {.kind = kind, .header_bytes = static_cast<uint16_t>(header.size()), .payload_bytes = payload_bytes});
  return Joined(head, header);
}

Bytes TlsRecord(int type, std::span<const std::byte> content) {
  const Bytes head = {static_cast<std::byte>(type), std::byte{3}, std::byte{3},
                      static_cast<std::byte>(content.size() >> 8), static_cast<std::byte>(content.size() & 0xff)};
  return Joined(head, content);
}

// Somebody who knows the key, and says what the test wants.
class Member {
 public:
  Member(RawSocket socket, bool seals, bool listens)
      : keys_("the cluster's", seals ? SharedSecret::kSealed : SharedSecret::kBare), socket_(std::move(socket)) {
    EXPECT_EQ(fcntl(socket_.fd(), F_SETFL, O_NONBLOCK), 0);
    tls_ = *TlsContext::Make(&keys_);
    channel_ = listens ? *SecureChannel::Listen(*tls_, socket_.fd())
                       : *SecureChannel::Dial(*tls_, socket_.fd(), *keys_.TicketFor(""));
  }

  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // To be called until true.
  bool HasProved() {
    const absl::StatusOr<bool> proved = channel_->Handshake();
    EXPECT_TRUE(proved.ok()) << proved.status();
    return proved.ok() && *proved;
  }
  void Say(std::span<const std::byte> words) {
    const iovec piece{.iov_base = const_cast<std::byte*>(words.data()), .iov_len = words.size()};
    EXPECT_EQ(channel_->Write(std::span(&piece, 1)).bytes, words.size());
  }
  // Takes what has come into heard(). True if the other side has hung up.
  bool HasEnded() {
    std::array<std::byte, 4096> buffer;
    for (;;) {
      const iovec piece{.iov_base = buffer.data(), .iov_len = buffer.size()};
      const SecureChannel::Transfer transfer = channel_->Read(std::span(&piece, 1));
      heard_.insert(heard_.end(), buffer.begin(), buffer.begin() + transfer.bytes);
      if (transfer.ended) return true;
      if (transfer.bytes == 0) return false;
    }
  }
  const Bytes& heard() const { return heard_; }

 private:
  SharedSecret keys_;
  std::unique_ptr<TlsContext> tls_;
  RawSocket socket_;
  std::unique_ptr<SecureChannel> channel_;
  Bytes heard_;
};

class TcpHandshakeTest : public TransportSuite {
 protected:
  bool seals() const { return GetParam().name == "Sealed"; }
  uint64_t Strangers(Node& server) { return server.transport().Report({}).strangers; }
  size_t Ups(Node& server) { return server.Count(TransportEventKind::kPeerUp); }

  // What is said from the first byte until both sides are up.
  struct Conversation {
    Bytes of_client;
    Bytes of_server;
  };
  Conversation RecordGreetings(Node& client, Node& server) {
    Relay relay(server.transport().listen_address());
    const size_t ups_before = Ups(server);
    const PeerId peer = *client.transport().Connect(relay.address());
    PollUntil("both sides up", [&] {
      relay.PassOn();
      return client.IsUp(peer) && Ups(server) > ups_before;
    });
    Conversation recorded{.of_client = relay.heard_of_client(), .of_server = relay.heard_of_server()};
    relay.HangUp();
    PollUntil("the end",
              [&] { return client.IsDown(peer) && server.Count(TransportEventKind::kPeerDown) == Ups(server); });
    return recorded;
  }

  void ExpectNoConnection(Node& client, Relay& relay) {
    const PeerId peer = *client.transport().Connect(relay.address());
    ASSERT_TRUE(PollUntil("the end", [&] {
      relay.PassOn();
      return client.IsDown(peer);
    }));
    EXPECT_TRUE(absl::IsUnavailable(client.WhyDown(peer))) << client.WhyDown(peer);
    EXPECT_FALSE(client.IsUp(peer));
  }

  // Nothing comes of it but that it is counted.
  void ExpectSentAway(Node& server, const std::function<bool()>& has_ended) {
    const uint64_t strangers_before = Strangers(server);
    const size_t seen_before = server.seen().size();
    ASSERT_TRUE(PollUntil("it is sent away", has_ended));
    EXPECT_EQ(Strangers(server), strangers_before + 1) << server.transport().Report({}).last_stranger;
    EXPECT_EQ(server.seen().size(), seen_before);
  }

  Member MakeMember(Node& server) {
    return Member(RawSocket::ConnectTo(server.transport().listen_address()), seals(), /*listens=*/false);
  }
};
INSTANTIATE_TEST_SUITE_P(Tcp, TcpHandshakeTest, testing::Values(TcpKind("Bare", false), TcpKind("Sealed", true)),
                         TransportKindName);

TEST_P(TcpHandshakeTest, I7CutAtAnyByteItLetsNobodyInAndLeavesNothingBehind) {
  Node& server = MakeNode();
  Node& client = MakeNode({.listen = false});
  const Conversation whole = RecordGreetings(client, server);
  const size_t ups_before = Ups(server);
  const size_t descriptors_before = OpenDescriptors();
  for (size_t cut = 0; cut < whole.of_client.size(); ++cut) {
    SCOPED_TRACE(absl::StrCat("what the client says is cut after ", cut, " bytes"));
    Relay relay(server.transport().listen_address());
    relay.most_of_client = cut;
    ExpectNoConnection(client, relay);
    ASSERT_EQ(Ups(server), ups_before);
  }
  for (size_t cut = 0; cut < whole.of_server.size(); ++cut) {
    SCOPED_TRACE(absl::StrCat("what the server says is cut after ", cut, " bytes"));
    Relay relay(server.transport().listen_address());
    relay.most_of_server = cut;
    ExpectNoConnection(client, relay);
  }
  ASSERT_TRUE(PollUntil("nothing left", [&] { return OpenDescriptors() == descriptors_before; }));
  EXPECT_EQ(Ups(server), server.Count(TransportEventKind::kPeerDown));
  // None of them was a stranger.
  EXPECT_EQ(Strangers(server), 0u) << server.transport().Report({}).last_stranger;
  ConnectNodes(client, server);
}

TEST_P(TcpHandshakeTest, ByteByByteAMemberStillGetsIn) {
  Node& server = MakeNode();
  Node& client = MakeNode({.listen = false});
  Relay relay(server.transport().listen_address());
  relay.most_at_once = 1;
  const PeerId peer = *client.transport().Connect(relay.address());
  ASSERT_TRUE(PollUntil("both sides up", [&] {
    relay.PassOn();
    return client.IsUp(peer) && Ups(server) == 1;
  }));
  EXPECT_EQ(Strangers(server), 0u);
}

TEST_P(TcpHandshakeTest, I7ARecordedClientLeadsNowhere) {
  Node& server = MakeNode();
  Node& client = MakeNode({.listen = false});
  const Bytes recorded = RecordGreetings(client, server).of_client;
  RawSocket at_once = RawSocket::ConnectTo(server.transport().listen_address());
  at_once.Say(recorded);
  ExpectSentAway(server, [&] { return at_once.HasEnded(); });

  // As it was said: the rest after the server's answer.
  const std::span<const std::byte> hello = FirstMessage(recorded);
  RawSocket in_turn = RawSocket::ConnectTo(server.transport().listen_address());
  in_turn.Say(hello);
  ASSERT_TRUE(PollUntil("an answer", [&] { return in_turn.HasEnded() || !in_turn.heard().empty(); }));
  EXPECT_FALSE(in_turn.HasEnded());
  in_turn.Say(std::span(recorded).subspan(hello.size()));
  ExpectSentAway(server, [&] { return in_turn.HasEnded(); });
  ConnectNodes(client, server);
}

TEST_P(TcpHandshakeTest, I7NothingIsHeardOfWhoHasNotProvedItself) {
  Node& server = MakeNode();
  Node& client = MakeNode({.listen = false});
  const Bytes recorded = RecordGreetings(client, server).of_client;
  const std::span<const std::byte> hello = FirstMessage(recorded);
  const Bytes greeting_and_note =
      Joined(RecordOf(RecordKind::kGreeting, GreetingBody({})), RecordOf(RecordKind::kNote, AsBytes("let me in")));
  Bytes many_changes_of_cipher;
  while (many_changes_of_cipher.size() < 5 * SecureChannel::kMaxHandshakeBytes) {
    const Bytes one = {std::byte{1}};
    many_changes_of_cipher = Joined(many_changes_of_cipher, TlsRecord(0x14, one));
  }
  const std::map<std::string, Bytes> words = {
      {"bare data", greeting_and_note},
      {"data of TLS that is not sealed", TlsRecord(0x17, greeting_and_note)},
      {"data of TLS under no key", TlsRecord(0x17, Pattern(200, 1))},
      {"the first message again", Bytes(hello.begin(), hello.end())},
      {"more than a handshake needs", many_changes_of_cipher},
  };
  for (const auto& [what, said] : words) {
    SCOPED_TRACE(what);
    RawSocket guest = RawSocket::ConnectTo(server.transport().listen_address());
    guest.Say(Joined(hello, said));
    ExpectSentAway(server, [&] { return guest.HasEnded(); });
  }
  ConnectNodes(client, server);
}

TEST_P(TcpHandshakeTest, I7AMessageThatDoesNotEndIsNotWaitedFor) {
  Node& server = MakeNode();
  RawSocket guest = RawSocket::ConnectTo(server.transport().listen_address());
  ASSERT_EQ(fcntl(guest.fd(), F_SETFL, O_NONBLOCK), 0);
  SharedSecret keys("the cluster's");
  const std::unique_ptr<TlsContext> tls = *TlsContext::Make(&keys);
  const Ssl ssl = tls->Dial(*keys.TicketFor(""));
  // The server wants another first message, with a key of a kind that it knows. That one may be of any length for TLS.
  ASSERT_EQ(SSL_set1_groups_list(ssl.get(), "X448:P-256"), 1);
  ASSERT_EQ(SSL_set_fd(ssl.get(), guest.fd()), 1);
  EXPECT_EQ(SSL_do_handshake(ssl.get()), -1);
  ASSERT_TRUE(PollUntil("its answer", [&] { return guest.HasEnded() || !guest.heard().empty(); }));
  ASSERT_FALSE(guest.HasEnded());
  Bytes content(16384);
  content[0] = std::byte{1};  // a first message
  content[1] = std::byte{1};  // of 64 KiB
  const Bytes record = TlsRecord(0x16, content);
  guest.Say(record);
  guest.Say(record);
  ExpectSentAway(server, [&] { return guest.HasEnded(); });
  const std::string why = server.transport().Report({}).last_stranger;
  EXPECT_NE(why.find("more than a handshake needs"), std::string::npos) << why;
}

TEST_P(TcpHandshakeTest, AMemberThatDoesNotGreetIsSentAway) {
  Node& server = MakeNode();
  const std::map<std::string, Bytes> words = {
      {"a note", RecordOf(RecordKind::kNote, GreetingBody({}))},
      {"a payload", RecordOf(RecordKind::kPayload, AsBytes("header"), 1000)},
      {"a welcome", RecordOf(RecordKind::kWelcome, WelcomeBody(kNewestTcpVersion))},
      {"no record", Bytes(kRecordHeadBytes)},
  };
  for (const auto& [what, said] : words) {
    SCOPED_TRACE(what);
    Member member = MakeMember(server);
    ASSERT_TRUE(PollUntil("the proof", [&] { return member.HasProved(); }));
    member.Say(said);
    ExpectSentAway(server, [&] { return member.HasEnded(); });
    EXPECT_TRUE(member.heard().empty());
  }
}

TEST_P(TcpHandshakeTest, AnotherVersionIsRefusedByName) {
  Node& server = MakeNode();
  Member member = MakeMember(server);
  ASSERT_TRUE(PollUntil("the proof", [&] { return member.HasProved(); }));
  member.Say(RecordOf(RecordKind::kGreeting, GreetingBody({.oldest = 900, .newest = 999})));
  ExpectSentAway(server, [&] { return member.HasEnded(); });
  ASSERT_GT(member.heard().size(), kRecordHeadBytes);
  const std::span<const std::byte> heard(member.heard());
  const absl::StatusOr<RecordHead> head = DecodeRecordHead(heard.first<kRecordHeadBytes>());
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->kind, RecordKind::kRefusal);
  const absl::Status reason = ReasonOfRefusal(heard.subspan(kRecordHeadBytes));
  EXPECT_TRUE(absl::IsFailedPrecondition(reason)) << reason;
  EXPECT_NE(reason.ToString().find("900 to 999"), std::string::npos) << reason;
}

TEST_P(TcpHandshakeTest, WhatAServerAnswersReachesTheUser) {
  struct Answer {
    Bytes words;
    absl::StatusCode code;
    std::string text;
  };
  const std::map<std::string, Answer> answers = {
      {"another version",
       {RecordOf(RecordKind::kRefusal, RefusalBody(absl::FailedPreconditionError("speaks version 7"))),
        absl::StatusCode::kFailedPrecondition, "speaks version 7"}},
      {"no room",
       {RecordOf(RecordKind::kRefusal, RefusalBody(absl::UnavailableError("no room"))), absl::StatusCode::kUnavailable,
        "no room"}},
      {"a welcome to what was not offered",
       {RecordOf(RecordKind::kWelcome, WelcomeBody(999)), absl::StatusCode::kFailedPrecondition, "version 999"}},
      {"a note",
       {RecordOf(RecordKind::kNote, WelcomeBody(kNewestTcpVersion)), absl::StatusCode::kFailedPrecondition,
        "a greeting"}},
  };
  for (const auto& [what, answer] : answers) {
    SCOPED_TRACE(what);
    Node& client = MakeNode({.listen = false});
    const RawSocket listener = RawSocket::ListenOnLoopback();
    const PeerId peer = *client.transport().Connect(listener.address());
    std::unique_ptr<RawSocket> accepted;
    ASSERT_TRUE(PollUntil("it comes", [&] { return (accepted = listener.Accept()) != nullptr; }));
    Member server(std::move(*accepted), seals(), /*listens=*/true);
    ASSERT_TRUE(PollUntil("the proof", [&] { return server.HasProved(); }));
    server.Say(answer.words);
    ASSERT_TRUE(PollUntil("the end", [&] { return client.IsDown(peer); }));
    const absl::Status why = client.WhyDown(peer);
    EXPECT_EQ(why.code(), answer.code) << why;
    EXPECT_NE(why.ToString().find(answer.text), std::string::npos) << why;
    EXPECT_NE(why.ToString().find(listener.address()), std::string::npos) << why;
    EXPECT_FALSE(client.IsUp(peer));
  }
}

}  // namespace
}  // namespace shoal
