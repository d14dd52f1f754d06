#include "net/tcp/tls_context.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace shoal {
namespace {

// What is shown: the version of this exchange, and the ticket.
constexpr unsigned char kExchangeVersion = 1;
constexpr size_t kBytesBeforeTicket = 1;

constexpr std::array<unsigned char, 2> kCipher = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

// Null: there is no memory for it.
SSL_SESSION* MakeSession(SSL* ssl, const ConnectionKey& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipher.data())) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

// Of one connection.
struct Proof {
  std::vector<unsigned char> identity;  // that is shown; of who dials
  ConnectionKey key{};                  // likewise
  bool seals = false;                   // of who listens once the ticket is known
};

int FreeIndex() {
  static const int index = SSL_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* proof, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<Proof*>(proof); });
  return index;
}

Proof* ProofOf(const SSL* ssl) { return static_cast<Proof*>(SSL_get_ex_data(ssl, FreeIndex())); }

// False: there is no memory for it.
bool Keep(std::unique_ptr<Proof> proof, SSL* ssl) {
  if (SSL_set_ex_data(ssl, FreeIndex(), proof.get()) != 1) return false;
  proof.release();
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Make(ConnectionKeys* keys, uint64_t records_of_one_key) {
  std::unique_ptr<TlsContext> made(new TlsContext(keys, records_of_one_key));
  made->context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = made->context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1 || SSL_CTX_set_num_tickets(context, 0) != 1) {
    return absl::InternalError(
        "OpenSSL has no TLS 1.3 with AES-128-GCM, which connections begin with: its configuration (openssl.cnf) "
        "forbids it, or it was built without");
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_app_data(context, made.get());
  SSL_CTX_set_psk_find_session_callback(context, &FindTicket);
  SSL_CTX_set_psk_use_session_callback(context, &ShowTicket);
  return made;
}

Ssl TlsContext::Listen() const {
  Ssl ssl(SSL_new(context_.get()));
  if (ssl == nullptr || !Keep(std::make_unique<Proof>(), ssl.get())) return nullptr;
  SSL_set_accept_state(ssl.get());
  return ssl;
}

Ssl TlsContext::Dial(const ConnectionTicket& ticket) const {
  Ssl ssl(SSL_new(context_.get()));
  auto proof = std::make_unique<Proof>();
  proof->identity = {kExchangeVersion};
  for (const std::byte byte : ticket.bytes) proof->identity.push_back(static_cast<unsigned char>(byte));
  proof->key = ticket.key;
  proof->seals = ticket.seals;
  if (ssl == nullptr || !Keep(std::move(proof), ssl.get())) return nullptr;
  // A server with a certificate of whomever is not one that knows the key.
  SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
  SSL_set_connect_state(ssl.get());
  return ssl;
}

bool TlsContext::Seals(const SSL* ssl) { return ProofOf(ssl)->seals; }

int TlsContext::FindTicket(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session) {
  const auto* self = static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  *session = nullptr;
  // 0 ends the handshake at once.
  if (bytes <= kBytesBeforeTicket || bytes > kBytesBeforeTicket + kMaxTicketBytes || identity[0] != kExchangeVersion) {
    return 0;
  }
  const std::optional<TicketKey> found =
      self->keys_->KeyOf(std::as_bytes(std::span(identity, bytes)).subspan(kBytesBeforeTicket));
  if (!found.has_value()) return 0;
  ProofOf(ssl)->seals = found->seals;
  *session = MakeSession(ssl, found->key);
  return *session == nullptr ? 0 : 1;
}

int TlsContext::ShowTicket(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* bytes,
                           SSL_SESSION** session) {
  const Proof& proof = *ProofOf(ssl);
  *identity = proof.identity.data();
  *bytes = proof.identity.size();
  *session = MakeSession(ssl, proof.key);
  return *session == nullptr ? 0 : 1;
}

}  // namespace shoal
