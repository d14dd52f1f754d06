// Authorities and certificates for tests, made as they are asked for.
#ifndef SHOAL_TESTS_UNIT_PROTO_MADE_CERTIFICATES_H_
#define SHOAL_TESTS_UNIT_PROTO_MADE_CERTIFICATES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "process/credential_files.h"

namespace shoal {

class MadeAuthority {
 public:
  // Its files are in a folder of its own, which is gone with it.
  MadeAuthority();
  ~MadeAuthority();

  struct Validity {
    int64_t from_s = -60;  // from now
    int64_t until_s = 3600;
  };
  // Of a program with these names, as OpenSSL writes them: "URI:spiffe://a/shoal/server,DNS:host". Files of their own.
  CredentialFiles Issue(const std::string& names, Validity validity);
  CredentialFiles Issue(const std::string& names) { return Issue(names, Validity()); }

  std::string file() const { return folder_ + "/ca.pem"; }

 private:
  class Signer;

  std::string folder_;
  std::unique_ptr<Signer> signer_;
  int count_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_PROTO_MADE_CERTIFICATES_H_
