// Signing and checking of group tokens: HMAC-SHA256 (RFC 2104) under a key that only the scheduler and the servers
// know.
//
// Pure functions of their arguments; any thread.
#ifndef SHOAL_CORE_TOKEN_H_
#define SHOAL_CORE_TOKEN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "core/frame.h"

namespace shoal {

inline constexpr size_t kTokenKeyBytes = 32;
// Ranks of one group, those of all its rails together: as many as one reduction takes inputs.
inline constexpr uint32_t kMaxGroupSize = 4096;
using TokenKey = std::array<std::byte, kTokenKeyBytes>;

// Fills token->signature.
void SignToken(const TokenKey& key, GroupToken* token);

// Unauthenticated: wrong signature. DeadlineExceeded: expired at `now_unix_s`. InvalidArgument: rank >= group size,
// no members, no ranks for a member or more than kMaxGroupSize ranks in all, or a chunk size out of range. The text
// says what to do.
absl::Status CheckToken(const TokenKey& key, const GroupToken& token, uint64_t now_unix_s);

}  // namespace shoal

#endif  // SHOAL_CORE_TOKEN_H_
