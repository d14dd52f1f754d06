#include "net/tcp/secure_channel.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr size_t kTlsRecordBytes = 16384;
// So much is sealed before it is sent, so that a call of the kernel is worth it.
constexpr size_t kSealedAtOnceBytes = 4 * kTlsRecordBytes;
// Above what is sealed at once with what TLS adds: only answers to what a peer asks of TLS could reach it.
constexpr size_t kMaxOwedBytes = 2 * kSealedAtOnceBytes;
constexpr size_t kReadAheadBytes = 64 << 10;
// Of one Read: more than is read ahead. What TLS adds to data is far less, but a peer may send what is no data at all,
// and must not keep the others waiting.
constexpr size_t kMaxOverheadBytes = kReadAheadBytes + kTlsRecordBytes;

// What OpenSSL says of the first thing that went wrong.
std::string OpenSslReason() {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  return reason == nullptr ? "no reason given" : reason;
}

size_t BytesOf(std::span<const iovec> pieces) {
  size_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SecureChannel>> SecureChannel::Make(const TlsContext& tls, int socket, Ssl ssl) {
  std::unique_ptr<SecureChannel> channel(new SecureChannel(tls, socket));
  BIO* bio = ssl == nullptr ? nullptr : BIO_new(SocketMethod());
  if (bio == nullptr) return absl::ResourceExhaustedError("there is no memory for one more connection");
  BIO_set_data(bio, channel.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  channel->ssl_ = std::move(ssl);
  return channel;
}

absl::StatusOr<std::unique_ptr<SecureChannel>> SecureChannel::Listen(const TlsContext& tls, int socket) {
  return Make(tls, socket, tls.Listen());
}

absl::StatusOr<std::unique_ptr<SecureChannel>> SecureChannel::Dial(const TlsContext& tls, int socket,
                                                                   const ConnectionTicket& ticket) {
  return Make(tls, socket, tls.Dial(ticket));
}

SecureChannel::~SecureChannel() = default;

BIO_METHOD* SecureChannel::SocketMethod() {
  // OpenSSL's own would raise SIGPIPE, and make a call of the kernel for each record.
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "shoal socket");
    BIO_meth_set_read(made, &ReadSocket);
    BIO_meth_set_write(made, &WriteSocket);
    BIO_meth_set_ctrl(made, &ControlSocket);
    return made;
  }();
  return method;
}

long SecureChannel::ControlSocket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

int SecureChannel::ReadSocket(BIO* bio, char* to, int bytes) {
  auto* self = static_cast<SecureChannel*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (!self->handshake_over_ && self->handshake_bytes_ > kMaxHandshakeBytes) {
    self->read_error_ = EMSGSIZE;
    return -1;
  }
  if (self->overhead_bytes_ >= kMaxOverheadBytes) {
    BIO_set_retry_read(bio);
    return -1;
  }
  ssize_t got = 0;
  do {
    got = recv(self->socket_, to, bytes, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    (self->handshake_over_ ? self->overhead_bytes_ : self->handshake_bytes_) += got;
    return static_cast<int>(got);
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    self->dry_ = true;
    BIO_set_retry_read(bio);
    return -1;
  }
  self->ended_ = true;
  self->read_error_ = got < 0 ? errno : 0;
  return got < 0 ? -1 : 0;
}

int SecureChannel::WriteSocket(BIO* bio, const char* from, int bytes) {
  auto* self = static_cast<SecureChannel*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self->sealed_.size() - self->sealed_sent_ + bytes > kMaxOwedBytes) {
    BIO_set_retry_write(bio);
    return -1;
  }
  if (self->sealed_sent_ >= kSealedAtOnceBytes) {
    // A peer that asks for answers, and reads so slowly that they are never all sent, must not make it grow.
    self->sealed_.erase(self->sealed_.begin(), self->sealed_.begin() + static_cast<ptrdiff_t>(self->sealed_sent_));
    self->sealed_sent_ = 0;
  }
  const auto* const at = reinterpret_cast<const std::byte*>(from);
  self->sealed_.insert(self->sealed_.end(), at, at + bytes);
  return bytes;
}

void SecureChannel::SendSealed() {
  while (OwesBytes() && write_error_ == 0) {
    const ssize_t sent =
        send(socket_, sealed_.data() + sealed_sent_, sealed_.size() - sealed_sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      sealed_sent_ += sent;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      write_error_ = errno;
    }
  }
  if (OwesBytes()) return;
  sealed_.clear();
  sealed_sent_ = 0;
}

absl::StatusOr<bool> SecureChannel::Handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  const absl::Status failed = result == 1 ? absl::OkStatus() : WhyHandshakeFailed(result);
  // Also the alert that says why it failed.
  SendSealed();
  if (!failed.ok()) return failed;
  if (result != 1 || OwesBytes()) return false;
  // Only who knows the key can resume what was never there.
  if (SSL_session_reused(ssl_.get()) != 1) return absl::UnauthenticatedError("it did not prove that it knows the key");
  FinishHandshake();
  return true;
}

absl::Status SecureChannel::WhyHandshakeFailed(int result) const {
  const int error = SSL_get_error(ssl_.get(), result);
  if (read_error_ == EMSGSIZE) return absl::FailedPreconditionError("it sent more than a handshake needs");
  if (ended_) {
    return absl::UnavailableError(read_error_ == 0 ? std::string("it closed the connection during the handshake")
                                                   : std::string(strerror(read_error_)));
  }
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return absl::OkStatus();
  const int reason = ERR_GET_REASON(ERR_peek_error());
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
      return absl::FailedPreconditionError(absl::StrCat("it does not speak TLS 1.3: ", OpenSslReason()));
    default:
      return absl::UnauthenticatedError(absl::StrCat("the handshake failed: ", OpenSslReason()));
  }
}

void SecureChannel::FinishHandshake() {
  handshake_over_ = true;
  if (!TlsContext::Seals(ssl_.get())) {
    // OpenSSL reads no byte beyond a record, unless it is told to read ahead: what follows is in the socket.
    ssl_.reset();
    return;
  }
  SSL_set_default_read_buffer_len(ssl_.get(), kReadAheadBytes);
  SSL_set_read_ahead(ssl_.get(), 1);
}

SecureChannel::Transfer SecureChannel::Read(std::span<const iovec> pieces) {
  if (ssl_ != nullptr) return ReadSealed(pieces);
  for (;;) {
    const ssize_t got = readv(socket_, pieces.data(), static_cast<int>(pieces.size()));
    // Less than was asked for: there was no more.
    if (got > 0) return {.bytes = static_cast<size_t>(got), .blocked = static_cast<size_t>(got) < BytesOf(pieces)};
    if (got == 0) return {.ended = true};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.blocked = true};
    if (errno != EINTR) return {.ended = true, .error = errno};
  }
}

SecureChannel::Transfer SecureChannel::ReadSealed(std::span<const iovec> pieces) {
  Transfer transfer;
  dry_ = false;
  overhead_bytes_ = 0;
  for (const iovec& piece : pieces) {
    for (size_t done = 0; done < piece.iov_len;) {
      size_t got = 0;
      ERR_clear_error();
      const int result = SSL_read_ex(ssl_.get(), static_cast<char*>(piece.iov_base) + done, piece.iov_len - done, &got);
      if (result == 1) {
        done += got;
        transfer.bytes += got;
        overhead_bytes_ -= std::min(overhead_bytes_, got);
        continue;
      }
      const int error = SSL_get_error(ssl_.get(), result);
      transfer.blocked = error == SSL_ERROR_WANT_READ;
      // What was read before the end is taken first: the next call says it again.
      if (transfer.bytes > 0 || transfer.blocked) return transfer;
      transfer.ended = true;
      const bool closed = ended_ || error == SSL_ERROR_ZERO_RETURN;
      transfer.error = closed ? read_error_ : EPROTO;
      return transfer;
    }
  }
  return transfer;
}

bool SecureChannel::HoldsBytes() const { return ssl_ != nullptr && !dry_ && SSL_has_pending(ssl_.get()) == 1; }

SecureChannel::Transfer SecureChannel::Write(std::span<const iovec> pieces) {
  if (OwesBytes()) SendSealed();
  if (write_error_ != 0) return {.error = write_error_};
  if (ssl_ != nullptr) return WriteSealed(pieces);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  for (;;) {
    const ssize_t sent = sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {.bytes = static_cast<size_t>(sent), .blocked = static_cast<size_t>(sent) < BytesOf(pieces)};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.blocked = true};
    if (errno != EINTR) return {.error = errno};
  }
}

bool SecureChannel::Seal(std::span<const std::byte> bytes) {
  size_t written = 0;
  ERR_clear_error();
  if (++records_under_key_ == records_of_one_key_) {
    records_under_key_ = 0;
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  }
  // There is room for it (kMaxOwedBytes), so it is taken wholly.
  if (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written) == 1 && written == bytes.size()) return true;
  write_error_ = EPROTO;
  return false;
}

SecureChannel::Transfer SecureChannel::WriteSealed(std::span<const iovec> pieces) {
  Transfer transfer;
  std::vector<std::byte> small;  // several pieces in one record of TLS
  size_t done = 0;               // of the first piece
  while (!pieces.empty() && !OwesBytes() && write_error_ == 0) {
    while (!pieces.empty() && sealed_.size() < kSealedAtOnceBytes && write_error_ == 0) {
      const std::span<const std::byte> rest(static_cast<const std::byte*>(pieces[0].iov_base) + done,
                                            pieces[0].iov_len - done);
      const std::span<const std::byte> part = rest.first(std::min(rest.size(), kTlsRecordBytes - small.size()));
      const bool is_whole_record = small.empty() && part.size() == kTlsRecordBytes;
      if (is_whole_record && !Seal(part)) break;
      if (!is_whole_record) small.insert(small.end(), part.begin(), part.end());
      transfer.bytes += part.size();
      done += part.size();
      if (done == pieces[0].iov_len) {
        pieces = pieces.subspan(1);
        done = 0;
      }
      if (small.size() == kTlsRecordBytes || (pieces.empty() && !small.empty())) {
        Seal(small);
        small.clear();
      }
    }
    SendSealed();
  }
  transfer.blocked = OwesBytes();
  transfer.error = write_error_;
  return transfer;
}

}  // namespace shoal
