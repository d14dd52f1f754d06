// The bytes of one socket, after both ends have proved that they know the same key.
//
// Every connection begins with the handshake of net/tcp/tls_context.h. Where its ticket says so, data is sealed: TLS
// goes on. Where it is not, both ends leave TLS, and the bare socket goes on: nothing is encrypted then, and no byte of
// ours is copied, but nobody has a connection who did not know the key.
//
// Not thread safe. No call blocks.
#ifndef SHOAL_NET_TCP_SECURE_CHANNEL_H_
#define SHOAL_NET_TCP_SECURE_CHANNEL_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/tcp/tls_context.h"

namespace shoal {

class SecureChannel {
 public:
  // What the other side may send before it has proved its key, and one record of TLS more; above what that needs.
  static constexpr size_t kMaxHandshakeBytes = 4096;

  struct Transfer {
    size_t bytes = 0;
    // The socket had no more, or takes no more, or too much of what came was no data: go on when it is ready.
    bool blocked = false;
    bool ended = false;  // for reading: the other side has closed, or `error`
    int error = 0;       // an errno; EPROTO: what came was not sealed under the key
  };

  // `socket` is connected, and outlives this. Listening: without a ticket. ResourceExhausted: no memory.
  static absl::StatusOr<std::unique_ptr<SecureChannel>> Listen(const TlsContext& tls, int socket);
  static absl::StatusOr<std::unique_ptr<SecureChannel>> Dial(const TlsContext& tls, int socket,
                                                             const ConnectionTicket& ticket);
  ~SecureChannel();
  SecureChannel(const SecureChannel&) = delete;
  SecureChannel& operator=(const SecureChannel&) = delete;

  // Goes on with the handshake. true: it is over, and both ends have proved themselves. false: call it again when the
  // socket is ready. Unauthenticated: the other side does not know the key, or does not take ours. FailedPrecondition:
  // it does not speak TLS. Unavailable: it has closed the connection.
  absl::StatusOr<bool> Handshake();
  // After the handshake: whether what travels is encrypted.
  bool seals() const { return ssl_ != nullptr; }
  // The rest is for after the handshake, but for this: the socket must become writable before Handshake or Write.
  bool OwesBytes() const { return sealed_sent_ < sealed_.size(); }

  Transfer Read(std::span<const iovec> pieces);
  // What was taken need not stay as it is any more, and may still be owed.
  Transfer Write(std::span<const iovec> pieces);
  // Bytes that the socket had are here, and Read was not asked for them yet: it won't become readable for them.
  bool HoldsBytes() const;

 private:
  SecureChannel(const TlsContext& tls, int socket) : socket_(socket), records_of_one_key_(tls.records_of_one_key()) {}
  static absl::StatusOr<std::unique_ptr<SecureChannel>> Make(const TlsContext& tls, int socket, Ssl ssl);
  // Called by OpenSSL.
  static BIO_METHOD* SocketMethod();
  static int ReadSocket(BIO* bio, char* to, int bytes);
  static int WriteSocket(BIO* bio, const char* from, int bytes);
  static long ControlSocket(BIO* bio, int command, long number, void* argument);

  absl::Status WhyHandshakeFailed(int result) const;
  void FinishHandshake();
  Transfer ReadSealed(std::span<const iovec> pieces);
  Transfer WriteSealed(std::span<const iovec> pieces);
  bool Seal(std::span<const std::byte> bytes);
  void SendSealed();

  const int socket_;
  const uint64_t records_of_one_key_;
  Ssl ssl_;  // null after the handshake where nothing is sealed
  bool handshake_over_ = false;
  size_t handshake_bytes_ = 0;
  std::vector<std::byte> sealed_;  // what OpenSSL has written; the first sealed_sent_ are sent
  size_t sealed_sent_ = 0;
  uint64_t records_under_key_ = 0;
  bool dry_ = true;            // OpenSSL has asked the socket for more in vain
  size_t overhead_bytes_ = 0;  // that this Read took from the socket, above the data that it found in them
  bool ended_ = false;
  int read_error_ = 0;
  int write_error_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_SECURE_CHANNEL_H_
