// How connections of a transport prove their keys: TLS 1.3 under a key that both ends have already.
//
// An external PSK with a fresh Diffie-Hellman exchange, AES-128-GCM, no certificates and no tickets of TLS's own. What
// is shown is the ticket, with whether its side seals data: the key that is proved differs with that, so nobody between
// the ends can choose for them.
//
// Thread: that of the transport.
#ifndef SHOAL_NET_TCP_TLS_CONTEXT_H_
#define SHOAL_NET_TCP_TLS_CONTEXT_H_

#include <openssl/ssl.h>

#include <memory>

#include "absl/status/statusor.h"
#include "net/tcp/connection_keys.h"

namespace shoal {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Ssl = std::unique_ptr<SSL, FreeSsl>;

class TlsContext {
 public:
  // `keys` outlives this. Internal: OpenSSL lacks what is needed.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Make(ConnectionKeys* keys, bool seals);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Whether data is encrypted after the handshake.
  bool seals() const { return seals_; }

  // One end of a connection that is to be proved. Null: there is no memory for it.
  Ssl Listen() const;
  Ssl Dial(const ConnectionTicket& ticket) const;

 private:
  TlsContext(ConnectionKeys* keys, bool seals) : keys_(keys), seals_(seals) {}
  // Called by OpenSSL.
  static int FindTicket(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session);
  static int ShowTicket(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, size_t* bytes,
                        SSL_SESSION** session);

  ConnectionKeys* const keys_;
  const bool seals_;
  std::unique_ptr<SSL_CTX, FreeSsl> context_;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_TLS_CONTEXT_H_
