#include "proto/cluster_keys.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/caller.h"
#include "proto/openssl_objects.h"

namespace shoal {
namespace {

// The cluster is protected by who has the keys, and ends before they do. Nodes' clocks may be years apart.
constexpr int kValidDays = 10 * 365;
constexpr absl::string_view kDomain = "job.shoal";

absl::Status Refused(absl::string_view what) {
  const unsigned long code = ERR_get_error();  // NOLINT(runtime/int): OpenSSL's
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("can't draw keys for the job's own scheduler: OpenSSL refused to ", what,
                                          " (", ERR_reason_error_string(code), ")"));
}

bool AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool SetSerialNumber(X509* certificate) {
  uint64_t serial = 0;
  return RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) == 1 &&
         ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1;
}

bool SetName(X509* certificate, const std::string& name) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(name.data()), static_cast<int>(name.size()),
                                    -1, 0) == 1;
}

// Not signed yet.
Certificate NewCertificate(const std::string& name, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  const bool is_made = certificate != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                       SetSerialNumber(certificate.get()) && SetName(certificate.get(), name) &&
                       X509_time_adj_ex(X509_getm_notBefore(certificate.get()), -kValidDays, 0, nullptr) != nullptr &&
                       X509_time_adj_ex(X509_getm_notAfter(certificate.get()), kValidDays, 0, nullptr) != nullptr &&
                       X509_set_pubkey(certificate.get(), key) == 1;
  return is_made ? std::move(certificate) : nullptr;
}

struct Authority {
  Key key;
  Certificate certificate;
};

absl::StatusOr<Authority> NewAuthority() {
  Authority authority = {.key = Key(EVP_EC_gen("P-256")), .certificate = nullptr};
  if (authority.key == nullptr) return Refused("draw a key");
  authority.certificate = NewCertificate("Shoal job", authority.key.get());
  X509* const own = authority.certificate.get();
  const bool is_signed = own != nullptr && X509_set_issuer_name(own, X509_get_subject_name(own)) == 1 &&
                         AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                         AddExtension(own, own, NID_key_usage, "critical,keyCertSign") &&
                         AddExtension(own, own, NID_subject_key_identifier, "hash") &&
                         X509_sign(own, authority.key.get(), EVP_sha256()) > 0;
  if (!is_signed) return Refused("make an authority");
  return authority;
}

std::string TextOf(const Bio& bio) {
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

absl::StatusOr<std::string> PemOf(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) return Refused("write a certificate");
  return TextOf(bio);
}

absl::StatusOr<std::string> PemOf(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_secmem()));  // which forgets the key when it is freed
  if (bio == nullptr || PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Refused("write a key");
  }
  return TextOf(bio);
}

absl::Status DrawMember(const Authority& authority, Role role, KeyPair* pair) {
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Refused("draw a key");
  const std::string name(RoleName(role));
  const Certificate member = NewCertificate(absl::StrCat("Shoal ", name), key.get());
  X509* const own = member.get();
  X509* const issuer = authority.certificate.get();
  const std::string identity =
      absl::StrCat("URI:spiffe://", kDomain, "/shoal/", name, role == Role::kWorker ? "/job" : "");
  const bool is_signed = own != nullptr && X509_set_issuer_name(own, X509_get_subject_name(issuer)) == 1 &&
                         AddExtension(own, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
                         AddExtension(own, issuer, NID_key_usage, "critical,digitalSignature") &&
                         AddExtension(own, issuer, NID_ext_key_usage, "serverAuth,clientAuth") &&
                         AddExtension(own, issuer, NID_subject_alt_name, identity) &&
                         X509_sign(own, authority.key.get(), EVP_sha256()) > 0;
  if (!is_signed) return Refused("sign a certificate");
  absl::StatusOr<std::string> certificate = PemOf(own);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key_text = PemOf(key.get());
  if (!key_text.ok()) return key_text.status();
  *pair = {.certificate = *std::move(certificate), .key = *std::move(key_text)};
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClusterKeys> DrawClusterKeys() {
  const absl::StatusOr<Authority> authority = NewAuthority();
  if (!authority.ok()) return authority.status();
  absl::StatusOr<std::string> authorities = PemOf(authority->certificate.get());
  if (!authorities.ok()) return authorities.status();
  ClusterKeys keys;
  keys.authorities = *std::move(authorities);
  const std::pair<Role, KeyPair*> members[] = {{Role::kScheduler, &keys.scheduler},
                                               {Role::kServer, &keys.server},
                                               {Role::kWorker, &keys.worker},
                                               {Role::kOperator, &keys.operators}};
  for (const auto& [role, pair] : members) {
    if (absl::Status status = DrawMember(*authority, role, pair); !status.ok()) return status;
  }
  return keys;
}

}  // namespace shoal
