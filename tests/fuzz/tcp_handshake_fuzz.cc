// Whoever comes to the door of a TCP transport, and whoever answers where one of its servers was expected: nobody is
// let in who does not know the key, nobody costs more than is said, and it ends at the latest when they hang up.
//
// A stranger says what the input makes up, around and out of what a member of the cluster once said, which it has
// recorded. A member completes the proof, and then says what the input makes up. What TLS itself makes of its bytes is
// OpenSSL's: it is not compiled for the fuzzer.
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "net/tcp/tcp_handshake.h"
#include "tests/fuzz/fuzz_input.h"

namespace shoal {
namespace {

using Bytes = std::vector<std::byte>;

constexpr char kPeerName[] = "the other side";
constexpr size_t kMaxSaidBytes = 64 << 10;  // of one input: more only make it slower
// One record of TLS, with its head.
constexpr size_t kMaxTlsRecordBytes = 5 + 16'384 + 256;
// What a stranger gets to hear: a first answer of TLS, or an alert.
constexpr size_t kMaxAnswerBytes = 1024;

// All of its members know the same key.
class Cluster final : public ConnectionKeys {
 public:
  Cluster(std::byte key, bool seals) : seals_(seals) { key_.fill(key); }

  absl::StatusOr<ConnectionTicket> TicketFor(const std::string&) override {
    return ConnectionTicket{.bytes = Bytes(20, std::byte{7}), .key = key_, .seals = seals_};
  }
  std::optional<TicketKey> KeyOf(std::span<const std::byte>) override {
    return TicketKey{.key = key_, .seals = seals_};
  }

 private:
  const bool seals_;
  ConnectionKey key_{};
};

// One end of a connection, with the socket of whoever is at the other end.
struct Ends {
  TcpStream ours;
  FileDescriptor theirs;
};

Ends MakeEnds() {
  static const FileDescriptor epoll = *MakeEpoll();
  std::array<int, 2> sockets{};
  Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()) == 0, "a socket is made");
  Ends ends;
  ends.theirs = FileDescriptor(sockets[1]);
  ends.ours.peer_name = kPeerName;
  Require(ends.ours.socket.Watch(FileDescriptor(sockets[0]), epoll.get(), 1).ok(), "a socket is watched");
  return ends;
}

size_t UnreadBytes(int socket) {
  int bytes = 0;
  Require(ioctl(socket, FIONREAD, &bytes) == 0, "a socket says what it has");
  return bytes;
}

Bytes ReadAll(int socket) {
  Bytes all;
  std::array<std::byte, 4096> buffer;
  for (ssize_t got = 0; (got = recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0;) {
    all.insert(all.end(), buffer.begin(), buffer.begin() + got);
  }
  return all;
}

// How much of it the other side may hear: the rest is lost.
size_t Say(int socket, std::span<const std::byte> bytes) {
  return std::max<ssize_t>(send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL), 0);
}

struct Recording {
  // Of one handshake that ended well.
  Bytes of_client;
  Bytes of_server;
  Bytes to_try_again;  // a client's first message that the server wants in another form
};

Bytes MessageToTryAgain(const TlsContext& tls, const ConnectionTicket& ticket) {
  const Ssl ssl = tls.Dial(ticket);
  BIO* const said = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), said);
  // The first is a kind of key that no server takes.
  Require(SSL_set1_groups_list(ssl.get(), "X448:P-256") == 1, "OpenSSL has other groups");
  SSL_do_handshake(ssl.get());
  Bytes message(BIO_pending(said));
  Require(BIO_read(said, message.data(), static_cast<int>(message.size())) > 0, "a client says something");
  return message;
}

// The cluster, another one, and what this one's members said, where data is sealed or is not.
struct World {
  explicit World(bool seals)
      : cluster(std::byte{1}, seals),
        other_cluster(std::byte{2}, seals),
        tls(*TlsContext::Make(&cluster)),
        others_tls(*TlsContext::Make(&other_cluster)) {
    Ends at_server = MakeEnds();
    Ends at_client = MakeEnds();
    TcpHandshake server(tls.get(), std::move(at_server.ours));
    TcpHandshake client(tls.get(), std::move(at_client.ours), *cluster.TicketFor(""));
    for (bool client_agrees = false, server_agrees = false; !client_agrees || !server_agrees;) {
      if (!client_agrees) client_agrees = *client.Proceed(false);
      const Bytes of_client = ReadAll(at_client.theirs.get());
      recording.of_client.insert(recording.of_client.end(), of_client.begin(), of_client.end());
      Say(at_server.theirs.get(), of_client);
      if (!server_agrees && *server.Proceed(false)) {
        server_agrees = true;
        server.Welcome();
        TcpStream stream = server.Take();
        std::vector<uint64_t> none;
        Require(stream.Flush(&none) == 0, "a welcome is sent");
      }
      const Bytes of_server = ReadAll(at_server.theirs.get());
      recording.of_server.insert(recording.of_server.end(), of_server.begin(), of_server.end());
      Say(at_client.theirs.get(), of_server);
    }
    recording.to_try_again = MessageToTryAgain(*tls, *cluster.TicketFor(""));
  }

  Cluster cluster;
  Cluster other_cluster;
  std::unique_ptr<TlsContext> tls;
  std::unique_ptr<TlsContext> others_tls;
  Recording recording;
};

World& WorldThat(bool seals) {
  static World bare(false);
  static World sealed(true);
  return seals ? sealed : bare;
}

void RequireIsRefusal(const absl::Status& status) {
  Require(absl::IsUnavailable(status) || absl::IsUnauthenticated(status) || absl::IsFailedPrecondition(status) ||
              absl::IsInvalidArgument(status),
          "an error has one of its codes");
  Require(status.message().find(kPeerName) != std::string::npos, "an error names the peer");
}

TcpHandshake Begin(World& world, bool listens, TcpStream stream) {
  if (listens) return TcpHandshake(world.tls.get(), std::move(stream));
  return TcpHandshake(world.tls.get(), std::move(stream), *world.cluster.TicketFor(""));
}

class Stranger {
 public:
  Stranger(World& world, bool listens, Ends ends)
      : listens_(listens),
        recording_(world.recording),
        recorded_(listens ? recording_.of_client : recording_.of_server),
        theirs_(std::move(ends.theirs)),
        socket_(ends.ours.socket.get()),
        handshake_(Begin(world, listens, std::move(ends.ours))) {}

  void Run(FuzzInput input) {
    while (!input.empty() && said_bytes_ < kMaxSaidBytes && !over_) {
      const auto choice = input.TakeNumber<uint8_t>();
      said_bytes_ += Say(theirs_.get(), TakeWords(choice % 6, &input));
      if (choice >= 128) Proceed(false);
    }
    Proceed(false);
    shutdown(theirs_.get(), SHUT_WR);
    Proceed(true);
    Require(over_, "it is over when the other side has hung up");
  }

 private:
  Bytes TakeWords(int what, FuzzInput* input) {
    switch (what) {
      case 0: {
        const std::span<const std::byte> literal = input->Take(1 + input->TakeBelow(64));
        return {literal.begin(), literal.end()};
      }
      case 1:
        return Recorded(1 + 4 * input->TakeNumber<uint8_t>());
      case 2: {
        Bytes words = Recorded(1 + 4 * input->TakeNumber<uint8_t>());
        const auto at = input->TakeNumber<uint16_t>();
        const auto change = static_cast<std::byte>(input->TakeNumber<uint8_t>());
        if (!words.empty()) words[at % words.size()] ^= change;
        return words;
      }
      case 3:
        at_ = input->TakeNumber<uint16_t>() % recorded_.size();
        return {};
      case 4:
        return recording_.to_try_again;
      default: {
        const auto byte = static_cast<std::byte>(input->TakeNumber<uint8_t>());
        return Bytes(input->TakeNumber<uint16_t>() % (20 << 10), byte);
      }
    }
  }

  // The next part of it.
  Bytes Recorded(size_t bytes) {
    bytes = std::min(bytes, recorded_.size() - at_);
    const auto begin = recorded_.begin() + static_cast<ptrdiff_t>(at_);
    at_ += bytes;
    return {begin, begin + static_cast<ptrdiff_t>(bytes)};
  }

  void Proceed(bool hung_up) {
    if (over_) return;
    const absl::StatusOr<bool> agreed = handshake_.Proceed(hung_up);
    heard_bytes_ += ReadAll(theirs_.get()).size();
    Require(heard_bytes_ <= kMaxAnswerBytes, "a stranger gets to hear next to nothing");
    if (!agreed.ok()) {
      RequireIsRefusal(agreed.status());
      over_ = true;
      return;
    }
    Require(!*agreed, "nobody is let in who does not know the key");
    const size_t taken = said_bytes_ - UnreadBytes(socket_);
    Require(taken <= SecureChannel::kMaxHandshakeBytes + kMaxTlsRecordBytes, "no more is taken than a handshake needs");
    if (listens_ && handshake_.IsSilent()) Require(taken == 0 && heard_bytes_ == 0, "who has said little gets nothing");
  }

  const bool listens_;
  const Recording& recording_;
  const Bytes& recorded_;
  size_t at_ = 0;
  const FileDescriptor theirs_;
  const int socket_;
  TcpHandshake handshake_;
  size_t said_bytes_ = 0;
  size_t heard_bytes_ = 0;
  bool over_ = false;
};

// What must come of a member's first words. nullopt: they are no whole record yet.
std::optional<bool> AreAgreeable(std::span<const std::byte> words, bool listens) {
  if (words.size() < kRecordHeadBytes) return std::nullopt;
  const absl::StatusOr<RecordHead> head = DecodeRecordHead(words.first<kRecordHeadBytes>());
  if (!head.ok()) return false;
  if (words.size() < kRecordHeadBytes + head->header_bytes) return std::nullopt;
  const std::span<const std::byte> body = words.subspan(kRecordHeadBytes, head->header_bytes);
  if (listens) return head->kind == RecordKind::kGreeting && AgreeOnVersion(body).ok();
  return head->kind == RecordKind::kWelcome && VersionOfWelcome(body).ok();
}

void TryMember(World& world, bool listens, FuzzInput input) {
  Ends ends = MakeEnds();
  const int theirs = ends.theirs.get();
  const bool knows_the_key = input.TakeBelow(8) != 0;
  const TlsContext& tls = knows_the_key ? *world.tls : *world.others_tls;
  Cluster& keys = knows_the_key ? world.cluster : world.other_cluster;
  const std::unique_ptr<SecureChannel> member =
      listens ? *SecureChannel::Dial(tls, theirs, *keys.TicketFor("")) : *SecureChannel::Listen(tls, theirs);
  TcpHandshake handshake = Begin(world, listens, std::move(ends.ours));
  absl::StatusOr<bool> agreed = false;
  absl::StatusOr<bool> proved = false;
  for (int i = 0; i < 4 && agreed.ok() && proved.ok() && !*proved; ++i) {
    proved = member->Handshake();
    agreed = handshake.Proceed(false);
  }
  if (!knows_the_key) {
    // One side says so first, and the other learns of it.
    if (agreed.ok()) agreed = handshake.Proceed(false);
    return Require(!agreed.ok(), "nobody is let in who does not know the key");
  }
  Require(proved.ok() && *proved && agreed.ok() && !*agreed, "a member proves itself");
  constexpr size_t kMaxWords = 4000;
  const std::span<const std::byte> words = input.Take(kMaxWords);
  const iovec piece{.iov_base = const_cast<std::byte*>(words.data()), .iov_len = words.size()};
  Require(words.empty() || member->Write(std::span(&piece, 1)).bytes == words.size(), "a member says something");
  agreed = handshake.Proceed(false);
  const std::optional<bool> expected = AreAgreeable(words, listens);
  if (!agreed.ok()) RequireIsRefusal(agreed.status());
  Require(agreed.ok() == expected.value_or(true), "a greeting is one, or it is refused");
  if (agreed.ok()) Require(*agreed == expected.has_value(), "who has greeted is let in");
  if (expected.has_value()) return;
  shutdown(theirs, SHUT_WR);
  Require(!handshake.Proceed(true).ok(), "it is over when the other side has hung up");
}

}  // namespace
}  // namespace shoal

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  shoal::FuzzInput input(data, size);
  const uint32_t choice = input.TakeBelow(8);
  shoal::World& world = shoal::WorldThat((choice & 1) != 0);
  const bool listens = (choice & 2) != 0;
  if ((choice & 4) != 0) {
    shoal::TryMember(world, listens, input);
  } else {
    shoal::Stranger(world, listens, shoal::MakeEnds()).Run(input);
  }
  return 0;
}
