// The beginning of one connection: both ends prove their key to each other, then agree on a version.
//
// Who listens keeps nothing of a stranger but what the kernel has, until a whole first message of TLS, short enough, is
// there: only then OpenSSL looks at it.
//
// Not thread safe. No call blocks.
#ifndef SHOAL_NET_TCP_TCP_HANDSHAKE_H_
#define SHOAL_NET_TCP_TCP_HANDSHAKE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/tcp/tcp_stream.h"

namespace shoal {

class TcpHandshake {
 public:
  // `tls` outlives this. `stream` has a socket that is accepted; or one that has begun to connect, and a ticket.
  TcpHandshake(const TlsContext* tls, TcpStream stream) : tls_(tls), stream_(std::move(stream)) {}
  // `carries` as in GreetingBody (net/tcp/record.h).
  TcpHandshake(const TlsContext* tls, TcpStream stream, ConnectionTicket ticket, std::string carries = "")
      : tls_(tls),
        stream_(std::move(stream)),
        ticket_(std::move(ticket)),
        stage_(Stage::kConnecting),
        carries_(std::move(carries)) {}

  // Goes on, when the socket is ready; `hung_up`: the other side says no more. true: the connection is agreed on; who
  // listens still answers with Welcome or Refuse. An error: it has failed, and its text names the peer. Of who dials:
  //   Unavailable         nobody listens there, or it has closed the connection, or refused it for now
  //   Unauthenticated     the two do not know the same key
  //   FailedPrecondition  another version, or no Shoal server
  // Of who listens: Unavailable if the other side has closed the connection. Otherwise it was a stranger, or one of
  // another version, which learns of that.
  absl::StatusOr<bool> Proceed(bool hung_up);

  // Puts our answer before all that is sent.
  void Welcome();
  // Says why, and closes.
  void Refuse(const absl::Status& why);

  TcpStream Take() { return std::move(stream_); }
  const TcpStream& stream() const { return stream_; }
  // Of who listens, when the connection is agreed on: what the other side has said in its greeting.
  const std::string& carries() const { return carries_; }
  // The other side has said nothing yet.
  bool IsSilent() const { return stage_ == Stage::kAwaitingHello; }

 private:
  enum class Stage : uint8_t { kConnecting, kAwaitingHello, kProving, kAgreeing, kAgreed };

  bool dials() const { return ticket_.has_value(); }
  absl::StatusOr<bool> FinishConnecting();
  absl::StatusOr<bool> AwaitHello(bool hung_up);
  absl::StatusOr<bool> Prove();
  absl::StatusOr<bool> Agree();
  absl::Status Read(const RecordReader::Item& item);

  const TlsContext* const tls_;
  TcpStream stream_;
  const std::optional<ConnectionTicket> ticket_;
  Stage stage_ = Stage::kAwaitingHello;
  uint16_t version_ = 0;
  std::string carries_;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_TCP_HANDSHAKE_H_
