// OpenSSL's objects, each with an owner that frees it. For sources of proto/ alone.
#ifndef SHOAL_PROTO_OPENSSL_OBJECTS_H_
#define SHOAL_PROTO_OPENSSL_OBJECTS_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>

namespace shoal {

template <auto kFree>
struct Freed {
  template <typename Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

}  // namespace shoal

#endif  // SHOAL_PROTO_OPENSSL_OBJECTS_H_
