// How connections of a transport prove their keys: TLS 1.3 under a key that both ends have already.
//
// An external PSK with a fresh Diffie-Hellman exchange, AES-128-GCM, no certificates and no tickets of TLS's own. What
// is shown is the ticket, which also says whether what travels afterwards is sealed.
//
// Thread: that of the transport.
#ifndef SHOAL_NET_TCP_TLS_CONTEXT_H_
#define SHOAL_NET_TCP_TLS_CONTEXT_H_

#include <openssl/ssl.h>

#include <cstdint>
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
  // Then a sender changes its key: one of AES-GCM is good for some 24 million records (RFC 8446, 5.5).
  static constexpr uint64_t kRecordsOfOneKey = uint64_t{1} << 22;

  // `keys` outlives this. Internal: OpenSSL lacks what is needed.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Make(ConnectionKeys* keys,
                                                          uint64_t records_of_one_key = kRecordsOfOneKey);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  uint64_t records_of_one_key() const { return records_of_one_key_; }

  // One end of a connection that is to be proved. Null: there is no memory for it.
  Ssl Listen() const;
  Ssl Dial(const ConnectionTicket& ticket) const;
  // After its handshake: whether data is encrypted from then on.
  static bool Seals(const SSL* ssl);

 private:
  TlsContext(ConnectionKeys* keys, uint64_t records_of_one_key)
      : keys_(keys), records_of_one_key_(records_of_one_key) {}
  // Called by OpenSSL.
  static int FindTicket(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session);
  static int ShowTicket(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, size_t* bytes,
                        SSL_SESSION** session);

  ConnectionKeys* const keys_;
  const uint64_t records_of_one_key_;
  std::unique_ptr<SSL_CTX, FreeSsl> context_;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_TLS_CONTEXT_H_
