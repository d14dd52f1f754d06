#include "net/tcp/tls_context.h"

#include <array>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace shoal {
namespace {

// What is shown: the version of this exchange, whether data is sealed, and the ticket.
constexpr unsigned char kExchangeVersion = 1;
constexpr size_t kBytesBeforeTicket = 2;

constexpr std::array<unsigned char, 2> kCipher = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

// So a key proved for bare sockets proves nothing for sealed ones, and the other way round.
ConnectionKey ProvedKey(const ConnectionKey& key, bool seals) {
  constexpr std::string_view kSealed = "shoal tcp 1 sealed";
  constexpr std::string_view kBare = "shoal tcp 1 bare";
  return DeriveConnectionKey(key, std::as_bytes(std::span(seals ? kSealed : kBare)));
}

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

// What a connection that dials shows and proves.
struct Shown {
  std::vector<unsigned char> identity;
  ConnectionKey key{};
};

int FreeIndex() {
  static const int index = SSL_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* shown, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<Shown*>(shown); });
  return index;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Make(ConnectionKeys* keys, bool seals) {
  std::unique_ptr<TlsContext> made(new TlsContext(keys, seals));
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
  if (ssl != nullptr) SSL_set_accept_state(ssl.get());
  return ssl;
}

Ssl TlsContext::Dial(const ConnectionTicket& ticket) const {
  Ssl ssl(SSL_new(context_.get()));
  if (ssl == nullptr) return ssl;
  auto shown = std::make_unique<Shown>();
  shown->identity = {kExchangeVersion, static_cast<unsigned char>(seals_ ? 1 : 0)};
  for (const std::byte byte : ticket.bytes) shown->identity.push_back(static_cast<unsigned char>(byte));
  shown->key = ProvedKey(ticket.key, seals_);
  if (SSL_set_ex_data(ssl.get(), FreeIndex(), shown.get()) != 1) return nullptr;
  shown.release();
  // A server with a certificate of whomever is not one that knows the key.
  SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
  SSL_set_connect_state(ssl.get());
  return ssl;
}

int TlsContext::FindTicket(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session) {
  const auto* self = static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  *session = nullptr;
  // 0 ends the handshake at once.
  if (bytes <= kBytesBeforeTicket || bytes > kBytesBeforeTicket + kMaxTicketBytes || identity[0] != kExchangeVersion ||
      identity[1] != (self->seals_ ? 1 : 0)) {
    return 0;
  }
  const std::optional<ConnectionKey> key =
      self->keys_->KeyOf(std::as_bytes(std::span(identity, bytes)).subspan(kBytesBeforeTicket));
  if (!key.has_value()) return 0;
  *session = MakeSession(ssl, ProvedKey(*key, self->seals_));
  return *session == nullptr ? 0 : 1;
}

int TlsContext::ShowTicket(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* bytes,
                           SSL_SESSION** session) {
  const auto* shown = static_cast<const Shown*>(SSL_get_ex_data(ssl, FreeIndex()));
  *session = nullptr;
  if (shown == nullptr) return 1;
  *identity = shown->identity.data();
  *bytes = shown->identity.size();
  *session = MakeSession(ssl, shown->key);
  return *session == nullptr ? 0 : 1;
}

}  // namespace shoal
