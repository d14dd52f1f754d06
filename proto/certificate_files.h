// What the files of a program's credentials hold, once they have been looked at.
//
// Threads: any.
#ifndef SHOAL_PROTO_CERTIFICATE_FILES_H_
#define SHOAL_PROTO_CERTIFICATE_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "process/credential_files.h"

namespace shoal {

struct CertificateTexts {
  std::string identity;     // key and certificates, as PEM; empty: no file is named
  std::string authorities;  // as PEM
  int64_t expires_unix_s = 0;

  friend bool operator==(const CertificateTexts&, const CertificateTexts&) = default;
};

// `prefix`: of the options that name the files, for errors. FailedPrecondition names the file, and says what is wrong
// with it: it can't be read, it is no PEM of its kind, the certificate is not valid now, or certificate and key are not
// of one pair.
absl::StatusOr<CertificateTexts> ReadCertificateFiles(const CredentialFiles& files,
                                                      absl::string_view prefix = "--tls-");

// Whether the certificate, as PEM, is for this host: "name:port" or "address:port".
bool CertificateIsFor(absl::string_view certificate, absl::string_view host);

}  // namespace shoal

#endif  // SHOAL_PROTO_CERTIFICATE_FILES_H_
