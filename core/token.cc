#include "core/token.h"

#include <openssl/crypto.h>

#include "absl/strings/str_cat.h"
#include "core/bucket_plan.h"
#include "core/hmac_sha256.h"

namespace shoal {
namespace {

std::array<std::byte, 32> Signature(const TokenKey& key, const GroupToken& token) {
  return HmacSha256(key, TokenBytesToSign(token));
}

}  // namespace

void SignToken(const TokenKey& key, GroupToken* token) { token->signature = Signature(key, *token); }

absl::Status CheckToken(const TokenKey& key, const GroupToken& token, uint64_t now_unix_s) {
  const auto expected = Signature(key, token);
  // Compared in constant time: the answer must not tell a forger how many bytes were right.
  if (CRYPTO_memcmp(expected.data(), token.signature.data(), expected.size()) != 0) {
    return absl::UnauthenticatedError(
        "the group token's signature is wrong: server and worker do not belong to the same scheduler; join again "
        "through the scheduler that this server is registered with");
  }
  if (now_unix_s >= token.expires_at_unix_s) {
    return absl::DeadlineExceededError(
        absl::StrCat("the group token ran out at unix time ", token.expires_at_unix_s, " and it is ", now_unix_s,
                     " now: create the group again, and compare the clocks of scheduler and server"));
  }
  if (token.group_size == 0 || token.rank.value() >= token.group_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the group token is for rank ", token.rank.value(), " of ", token.group_size));
  }
  if (token.group_size > kMaxGroupSize) {
    return absl::InvalidArgumentError(absl::StrCat("the group token is for a group of ", token.group_size,
                                                   " ranks; a server sums at most ", kMaxGroupSize));
  }
  if (token.ranks_per_contribution == 0 || token.ranks_per_contribution > kMaxGroupSize / token.group_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the group token is for ", token.group_size, " contributions of ", token.ranks_per_contribution,
                     " ranks each; a server averages over 1 to ", kMaxGroupSize, " ranks in all"));
  }
  if (token.max_chunk_bytes < kMinChunkBytes || token.max_chunk_bytes > kMaxChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the group token's chunk size of ", token.max_chunk_bytes, " bytes is out of range"));
  }
  return absl::OkStatus();
}

}  // namespace shoal
