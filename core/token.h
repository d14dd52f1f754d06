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
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/frame.h"
#include "core/roster.h"

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

// The scheduler's word for who is in an epoch of a group, as its ranks pass it on to servers. Empty: all of them.
std::vector<std::byte> SealRoster(const TokenKey& key, GroupId group, Epoch epoch, const Roster& roster);
// Unauthenticated: wrong signature. Otherwise as DecodeRoster.
absl::StatusOr<Roster> CheckRoster(const TokenKey& key, GroupId group, Epoch epoch, uint32_t group_size,
                                   std::span<const std::byte> sealed);
// InvalidArgument: it is none of a group of that size.
absl::StatusOr<Roster> DecodeRoster(uint32_t group_size, std::span<const std::byte> sealed);

}  // namespace shoal

#endif  // SHOAL_CORE_TOKEN_H_
