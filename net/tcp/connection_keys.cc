#include "net/tcp/connection_keys.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace shoal {

ConnectionKey DeriveConnectionKey(std::span<const std::byte> secret, std::span<const std::byte> ticket) {
  ConnectionKey key{};
  unsigned int length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(ticket.data()), ticket.size(),
       reinterpret_cast<unsigned char*>(key.data()), &length);
  return key;
}

}  // namespace shoal
