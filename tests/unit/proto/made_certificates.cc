#include "tests/unit/proto/made_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "gtest/gtest.h"

namespace shoal {
namespace {

void WriteKey(const std::string& path, EVP_PKEY* key) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
}

void WriteCertificate(const std::string& path, X509* certificate) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
}

void Add(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* New(EVP_PKEY* key, const std::string& name, int serial, MadeAuthority::Validity validity) {
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), validity.from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate), validity.until_s);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

}  // namespace

class MadeAuthority::Signer {
 public:
  explicit Signer(const std::string& name) : key_(EVP_EC_gen("P-256")), certificate_(New(key_, name, 1, {})) {
    X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
    Add(certificate_, certificate_, NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(certificate_, key_, EVP_sha256());
  }
  ~Signer() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  X509* certificate() const { return certificate_; }
  void Sign(X509* certificate) {
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate_));
    X509_sign(certificate, key_, EVP_sha256());
  }

 private:
  EVP_PKEY* const key_;
  X509* const certificate_;
};

MadeAuthority::MadeAuthority() {
  std::string pattern = ::testing::TempDir() + "/shoal-authority-XXXXXX";
  folder_ = mkdtemp(pattern.data());
  signer_ = std::make_unique<Signer>(folder_);
  WriteCertificate(file(), signer_->certificate());
}

MadeAuthority::~MadeAuthority() { std::filesystem::remove_all(folder_); }

CredentialFiles MadeAuthority::Issue(const std::string& names, Validity validity) {
  const std::string base = folder_ + "/" + std::to_string(++count_);
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = New(key, "made for a test", count_ + 1, validity);
  if (!names.empty()) Add(certificate, signer_->certificate(), NID_subject_alt_name, names);
  signer_->Sign(certificate);
  CredentialFiles files{.certificate = base + "-cert.pem", .key = base + "-key.pem", .authorities = file()};
  WriteCertificate(files.certificate, certificate);
  WriteKey(files.key, key);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace shoal
