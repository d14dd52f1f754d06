// How connections of a transport prove their keys: TLS 1.3 under a key that both ends have already.
//
// An external PSK with a fresh Diffie-Hellman exchange, AES-128-GCM, no certificates and no tickets of TLS's own. What
// is shown is the ticket, which also says whether what travels afterwards is sealed.
//
// Thread: that of the transport.
#ifndef SHOAL_NET_TCP_TLS_CONTEXT_H_
#define SHOAL_NET_TCP_TLS_CONTEXT_H_

#include <openssl/ssl.h>

#include <memory>

#include "absl/status/statusor.h"
#include "net/connection_keys.h"

namespace shoal {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Ssl = std::unique_ptr<SSL, FreeSsl>;

class TlsContext {
 public:
  // `keys` outlives this. Internal: OpenSSL lacks what is needed.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Make(ConnectionKeys* keys);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // One end of a connection that is to be proved. Null: there is no memory for it.
  Ssl Listen() const;
  Ssl Dial(const ConnectionTicket& ticket) const;
  // After its handshake: whether data is encrypted from then on.
  static bool Seals(const SSL* ssl);

 private:
  explicit TlsContext(ConnectionKeys* keys) : keys_(keys) {}
  // Called by OpenSSL.
  static int FindTicket(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session);
  static int ShowTicket(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, size_t* bytes,
                        SSL_SESSION** session);

  ConnectionKeys* const keys_;
  std::unique_ptr<SSL_CTX, FreeSsl> context_;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_TLS_CONTEXT_H_
