#include "core/token.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <concepts>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/bucket_plan.h"
#include "core/hmac_sha256.h"
#include "core/little_endian.h"

namespace shoal {
namespace {

constexpr size_t kSignatureBytes = 32;
constexpr std::string_view kRosterPurpose = "shoal roster";  // else a token's bytes could be taken for a roster's

std::array<std::byte, kSignatureBytes> Signature(const TokenKey& key, const GroupToken& token) {
  return HmacSha256(key, TokenBytesToSign(token));
}

template <std::unsigned_integral Number>
void AppendLittleEndian(Number number, std::vector<std::byte>* bytes) {
  bytes->resize(bytes->size() + sizeof(number));
  WriteLittleEndian(bytes->data() + bytes->size() - sizeof(number), number);
}

// `ranks` is what comes before the signature: four bytes for each rank that is lost, little endian.
std::array<std::byte, kSignatureBytes> SignatureOfRoster(const TokenKey& key, GroupId group, Epoch epoch,
                                                         std::span<const std::byte> ranks) {
  std::vector<std::byte> signed_bytes;
  for (const char c : kRosterPurpose) signed_bytes.push_back(static_cast<std::byte>(c));
  AppendLittleEndian(group.value(), &signed_bytes);
  AppendLittleEndian(epoch.value(), &signed_bytes);
  signed_bytes.insert(signed_bytes.end(), ranks.begin(), ranks.end());
  return HmacSha256(key, signed_bytes);
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

std::vector<std::byte> SealRoster(const TokenKey& key, GroupId group, Epoch epoch, const Roster& roster) {
  std::vector<std::byte> bytes;
  if (roster.IsWhole()) return bytes;
  for (const Rank rank : roster.lost()) AppendLittleEndian(rank.value(), &bytes);
  const auto signature = SignatureOfRoster(key, group, epoch, bytes);
  bytes.insert(bytes.end(), signature.begin(), signature.end());
  return bytes;
}

absl::StatusOr<Roster> CheckRoster(const TokenKey& key, GroupId group, Epoch epoch, uint32_t group_size,
                                   std::span<const std::byte> sealed) {
  absl::StatusOr<Roster> roster = DecodeRoster(group_size, sealed);
  if (!roster.ok() || roster->IsWhole()) return roster;
  const std::span<const std::byte> ranks = sealed.first(sealed.size() - kSignatureBytes);
  const auto expected = SignatureOfRoster(key, group, epoch, ranks);
  if (CRYPTO_memcmp(expected.data(), sealed.data() + ranks.size(), expected.size()) != 0) {
    return absl::UnauthenticatedError(
        "the signature of who is in the epoch is wrong: server and worker do not belong to the same scheduler");
  }
  return roster;
}

absl::StatusOr<Roster> DecodeRoster(uint32_t group_size, std::span<const std::byte> sealed) {
  if (sealed.empty()) return Roster(group_size);
  const size_t rank_bytes = sealed.size() - std::min(sealed.size(), kSignatureBytes);
  const size_t count = rank_bytes / sizeof(uint32_t);
  if (rank_bytes % sizeof(uint32_t) != 0 || count == 0 || count > Roster::kMaxLost || count >= group_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("what says who is in the epoch has ", sealed.size(), " bytes, for a group of ", group_size));
  }
  std::vector<Rank> lost;
  for (size_t i = 0; i < count; ++i) {
    const Rank rank(ReadLittleEndian<uint32_t>(sealed.data() + i * sizeof(uint32_t)));
    if (rank.value() >= group_size || (!lost.empty() && rank <= lost.back())) {
      return absl::InvalidArgumentError(absl::StrCat("the ranks that are not in the epoch are out of order at rank ",
                                                     rank.value(), " of ", group_size));
    }
    lost.push_back(rank);
  }
  return Roster(group_size, std::move(lost));
}

}  // namespace shoal
