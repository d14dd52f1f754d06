#include "proto/certificate_files.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "process/read_small_file.h"
#include "proto/openssl_objects.h"

namespace shoal {
namespace {

Bio AsBio(absl::string_view text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

Certificate FirstCertificate(absl::string_view text) {
  const Bio bio = AsBio(text);
  Certificate certificate(bio == nullptr ? nullptr : PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

// Asks nobody for a passphrase.
int NoPassphrase(char*, int, int, void*) { return -1; }

Key FirstKey(absl::string_view text) {
  const Bio bio = AsBio(text);
  Key key(bio == nullptr ? nullptr : PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return key;
}

int64_t UnixSeconds(const ASN1_TIME* time) {
  std::tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

// What a field of CredentialFiles holds. `where` is for errors: a key's text is in none.
absl::StatusOr<std::string> ReadPem(const CredentialFiles& files, const std::string& option, const std::string& field,
                                    std::string* where) {
  *where = files.are_texts ? "as a text" : field;
  return files.are_texts ? field : ReadSmallFile(option, field);
}

absl::Status ReadIdentity(const CredentialFiles& files, absl::string_view prefix, CertificateTexts* texts) {
  const std::string cert = absl::StrCat(prefix, "cert");
  const std::string key_option = absl::StrCat(prefix, "key");
  std::string cert_file;
  std::string key_file;
  absl::StatusOr<std::string> chain = ReadPem(files, cert, files.certificate, &cert_file);
  if (!chain.ok()) return chain.status();
  absl::StatusOr<std::string> key_text = ReadPem(files, key_option, files.key, &key_file);
  if (!key_text.ok()) return key_text.status();
  const Certificate certificate = FirstCertificate(*chain);
  if (certificate == nullptr) return WrongFile(cert, cert_file, "has no certificate in PEM form");
  const Key key = FirstKey(*key_text);
  if (key == nullptr) {
    OPENSSL_cleanse(key_text->data(), key_text->size());
    return WrongFile(key_option, key_file, "has no private key in PEM form, or one with a passphrase");
  }
  const bool is_pair = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  texts->expires_unix_s = UnixSeconds(X509_get0_notAfter(certificate.get()));
  if (!is_pair) {
    OPENSSL_cleanse(key_text->data(), key_text->size());
    return WrongFile(key_option, key_file, absl::StrCat("is not the key of the certificate in ", cert_file));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) <= 0) {
    return WrongFile(cert, cert_file, "has a certificate that has expired; get a new one");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate.get())) > 0) {
    return WrongFile(cert, cert_file, "has a certificate that is not valid yet; see the clock of this node");
  }
  texts->identity = absl::StrCat(*key_text, "\n", *chain);
  OPENSSL_cleanse(key_text->data(), key_text->size());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CertificateTexts> ReadCertificateFiles(const CredentialFiles& files, absl::string_view prefix) {
  CertificateTexts texts;
  const std::string ca = absl::StrCat(prefix, "ca");
  std::string ca_file;
  absl::StatusOr<std::string> authorities = ReadPem(files, ca, files.authorities, &ca_file);
  if (!authorities.ok()) return authorities.status();
  if (FirstCertificate(*authorities) == nullptr) {
    return WrongFile(ca, ca_file, "has no certificate in PEM form");
  }
  texts.authorities = *std::move(authorities);
  if (files.certificate.empty()) return texts;
  if (absl::Status status = ReadIdentity(files, prefix, &texts); !status.ok()) return status;
  return texts;
}

bool CertificateIsFor(absl::string_view certificate, absl::string_view host) {
  const Certificate parsed = FirstCertificate(certificate);
  if (parsed == nullptr) return false;
  const std::string name(absl::StripSuffix(absl::StripPrefix(host.substr(0, host.rfind(':')), "["), "]"));
  const bool is = X509_check_ip_asc(parsed.get(), name.c_str(), 0) == 1 ||
                  X509_check_host(parsed.get(), name.data(), name.size(), 0, nullptr) == 1;
  ERR_clear_error();
  return is;
}

}  // namespace shoal
