// HMAC-SHA256 (RFC 2104). Pure; any thread.
#ifndef SHOAL_CORE_HMAC_SHA256_H_
#define SHOAL_CORE_HMAC_SHA256_H_

#include <array>
#include <cstddef>
#include <span>

namespace shoal {

std::array<std::byte, 32> HmacSha256(std::span<const std::byte> key, std::span<const std::byte> text);

}  // namespace shoal

#endif  // SHOAL_CORE_HMAC_SHA256_H_
