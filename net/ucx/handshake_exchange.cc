// What goes over a handshake's socket, in both directions.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/peer_socket.h"
#include "net/ucx/handshake_sockets.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;

bool IsWhole(std::span<const std::byte> bytes) {
  const absl::StatusOr<std::optional<HandshakeMessage>> decoded = DecodeHandshake(bytes);
  return decoded.ok() && decoded->has_value();
}

}  // namespace

void HandshakeSockets::Send(Connection& connection, std::vector<std::byte> bytes) {
  connection.outgoing = std::move(bytes);
  SendMore(connection);
}

void HandshakeSockets::SendMore(Connection& connection) {
  std::vector<std::byte>& rest = connection.outgoing;
  while (!rest.empty()) {
    const ssize_t sent = send(connection.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) break;
    rest.erase(rest.begin(), rest.begin() + sent);
  }
  // An error that isn't "later" is reported by the next read as well.
  const uint32_t events = rest.empty() || errno != EAGAIN ? EPOLLIN : EPOLLIN | EPOLLOUT;
  connection.socket.WatchFor(events);
}

void HandshakeSockets::Welcome(ConnectionId id, const HandshakeMessage& welcome) {
  if (Connection* connection = Find(id); connection != nullptr) Send(*connection, EncodeHandshake(welcome));
}

void HandshakeSockets::Refuse(ConnectionId id, const std::string& why) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  HandshakeMessage refusal;
  refusal.kind = HandshakeKind::kRefusal;
  refusal.refusal = why;
  const std::vector<std::byte> bytes = EncodeHandshake(refusal);
  [[maybe_unused]] const ssize_t sent =
      send(connection->socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  HangUpAfterTheLastWord(connection->socket.get());
  Drop(*connection);
}

void HandshakeSockets::Receive(Connection& connection) {
  std::array<std::byte, 4096> buffer;
  for (;;) {
    const ssize_t got = recv(connection.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    // What was said before the end counts: it may be why we are refused.
    if (got <= 0 && connection.dialed && IsWhole(connection.incoming)) break;
    if (got <= 0) {
      const std::string reason = got < 0 ? absl::StrCat(": ", strerror(errno)) : "";
      const bool open = connection.state == Connection::State::kOpen;
      End(connection,
          absl::UnavailableError(
              open ? absl::StrCat("the connection to ", connection.name, " ended", reason,
                                  " (its process ended or closed it)")
                   : absl::StrCat(connection.name, " closed the connection during the handshake", reason,
                                  " (it is stopping, too many processes connect at once, or it moves data without "
                                  "UCX: compare its --transports with those of this process)")));
      return;
    }
    if (connection.state == Connection::State::kOpen) {
      End(connection, absl::UnavailableError(
                          absl::StrCat(connection.name, " sent ", got, " bytes that are not part of a handshake")));
      return;
    }
    connection.incoming.insert(connection.incoming.end(), buffer.begin(), buffer.begin() + got);
    // Garbage is not worth another read, and a whole message is shorter than this.
    if (connection.incoming.size() > kMaxHandshakeBytes || !DecodeHandshake(connection.incoming).ok()) break;
  }
  Decode(connection);
}

// Strangers get no answer; those of another version learn of that.
void HandshakeSockets::TurnAway(Connection& connection, const absl::Status& why) {
  const std::string text(why.message());
  ++strangers_;
  last_stranger_ = absl::StrCat(connection.name, ": ", text);
  absl::IsFailedPrecondition(why) ? Refuse(connection.id, text) : Drop(connection);
}

void HandshakeSockets::Decode(Connection& connection) {
  if (connection.state == Connection::State::kOpen) return;
  absl::StatusOr<std::optional<HandshakeMessage>> decoded = DecodeHandshake(connection.incoming);
  const std::string& name = connection.name;
  if (!decoded.ok()) {
    if (!connection.dialed) return TurnAway(connection, decoded.status());
    const std::string why(decoded.status().message());
    End(connection, absl::FailedPreconditionError(absl::StrCat(name, " is not a Shoal server: ", why)));
    return;
  }
  if (!decoded->has_value()) return;
  HandshakeMessage& message = **decoded;
  if (connection.dialed && message.kind == HandshakeKind::kRefusal) {
    const std::string text = absl::StrCat(name, " refused the connection: ", message.refusal);
    End(connection,
        message.version == kTransportVersion ? absl::UnavailableError(text) : absl::FailedPreconditionError(text));
    return;
  }
  if (connection.dialed && message.kind == HandshakeKind::kGreeting) {
    // TCP connects a socket to itself where no process listens and the port numbers happen to be the same.
    End(connection, absl::UnavailableError(absl::StrCat("no process listens at ", name)));
    return;
  }
  if (!connection.dialed && message.kind != HandshakeKind::kGreeting) {
    return TurnAway(connection, absl::InvalidArgumentError("not a greeting"));
  }
  connection.state = Connection::State::kOpen;
  connection.incoming = {};
  if (!connection.dialed) {
    std::erase(ungreeted_, connection.id);
    connection.deadline = Clock::now() + kSettleTimeout;
  }
  events_.push_back({.kind = connection.dialed ? HandshakeEvent::Kind::kWelcomed : HandshakeEvent::Kind::kGreeted,
                     .connection = connection.id,
                     .address = connection.address,
                     .message = std::move(message),
                     .why = absl::OkStatus()});
}

}  // namespace shoal
