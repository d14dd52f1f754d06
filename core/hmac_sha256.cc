#include "core/hmac_sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace shoal {

std::array<std::byte, 32> HmacSha256(std::span<const std::byte> key, std::span<const std::byte> text) {
  std::array<std::byte, 32> code{};
  unsigned int length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), reinterpret_cast<unsigned char*>(code.data()), &length);
  return code;
}

}  // namespace shoal
