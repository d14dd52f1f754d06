#include "net/tcp/record.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/frame.h"
#include "core/little_endian.h"
#include "core/utf8.h"

namespace shoal {
namespace {

constexpr size_t kVersionsBytes = 4;  // of a greeting

// In a refusal, before its text.
constexpr std::byte kTryAgain{0};
constexpr std::byte kNeverAgain{1};

std::string Describe(const VersionRange& range) {
  return range.oldest == range.newest ? absl::StrCat(range.newest) : absl::StrCat(range.oldest, " to ", range.newest);
}

}  // namespace

std::array<std::byte, kRecordHeadBytes> EncodeRecordHead(const RecordHead& head) {
  std::array<std::byte, kRecordHeadBytes> bytes{};
  WriteLittleEndian(bytes.data(), static_cast<uint16_t>(head.kind));
  WriteLittleEndian(bytes.data() + 2, head.header_bytes);
  WriteLittleEndian(bytes.data() + 8, head.payload_bytes);
  return bytes;
}

absl::StatusOr<RecordHead> DecodeRecordHead(std::span<const std::byte, kRecordHeadBytes> bytes) {
  const auto kind = ReadLittleEndian<uint16_t>(bytes.data());
  const auto zero = ReadLittleEndian<uint32_t>(bytes.data() + 4);
  if (kind < static_cast<uint16_t>(RecordKind::kGreeting) || kind > static_cast<uint16_t>(RecordKind::kPayload) ||
      zero != 0) {
    return absl::InvalidArgumentError(absl::StrCat("no record has kind ", kind, " and ", zero, " in its head"));
  }
  const RecordHead head{.kind = static_cast<RecordKind>(kind),
                        .header_bytes = ReadLittleEndian<uint16_t>(bytes.data() + 2),
                        .payload_bytes = ReadLittleEndian<uint64_t>(bytes.data() + 8)};
  const bool is_payload = head.kind == RecordKind::kPayload;
  if (head.header_bytes > kMaxNoteBytes || (head.payload_bytes > 0) != is_payload ||
      (head.header_bytes == 0 && !is_payload)) {
    return absl::InvalidArgumentError(absl::StrCat("no record of kind ", kind, " has a header of ", head.header_bytes,
                                                   " bytes and a payload of ", head.payload_bytes));
  }
  return head;
}

std::vector<std::byte> GreetingBody(const VersionRange& versions, std::string_view carries) {
  const auto text = std::as_bytes(std::span(carries.substr(0, kMaxNoteBytes - kVersionsBytes)));
  std::vector<std::byte> body(kVersionsBytes + text.size());
  WriteLittleEndian(body.data(), versions.oldest);
  WriteLittleEndian(body.data() + 2, versions.newest);
  std::ranges::copy(text, body.begin() + kVersionsBytes);
  return body;
}

std::string WhatGreetingCarries(std::span<const std::byte> greeting) {
  const std::span<const std::byte> text = greeting.subspan(std::min(greeting.size(), kVersionsBytes));
  return MakePrintable({reinterpret_cast<const char*>(text.data()), text.size()});
}

absl::StatusOr<uint16_t> AgreeOnVersion(std::span<const std::byte> greeting) {
  if (greeting.size() < kVersionsBytes) return absl::InvalidArgumentError("a greeting without versions");
  const VersionRange theirs{.oldest = ReadLittleEndian<uint16_t>(greeting.data()),
                            .newest = ReadLittleEndian<uint16_t>(greeting.data() + 2)};
  const VersionRange ours;
  if (theirs.newest < theirs.oldest) return absl::InvalidArgumentError("a greeting with an empty range of versions");
  if (theirs.newest < ours.oldest || theirs.oldest > ours.newest) {
    return absl::FailedPreconditionError(absl::StrCat("the process that connects speaks version ", Describe(theirs),
                                                      " of the transport and the one that listens ", Describe(ours),
                                                      ": install the same release of Shoal on both"));
  }
  return std::min(theirs.newest, ours.newest);
}

std::vector<std::byte> WelcomeBody(uint16_t version) {
  std::vector<std::byte> body(2);
  WriteLittleEndian(body.data(), version);
  return body;
}

absl::StatusOr<uint16_t> VersionOfWelcome(std::span<const std::byte> welcome) {
  if (welcome.size() < 2) return absl::InvalidArgumentError("a welcome without a version");
  const auto version = ReadLittleEndian<uint16_t>(welcome.data());
  if (version < kOldestTcpVersion || version > kNewestTcpVersion) {
    return absl::InvalidArgumentError(absl::StrCat("a welcome to version ", version, ", which was not offered"));
  }
  return version;
}

std::vector<std::byte> RefusalBody(const absl::Status& why) {
  const auto text = std::as_bytes(std::span(why.message()).first(std::min(why.message().size(), kMaxNoteBytes - 1)));
  std::vector<std::byte> body(1 + text.size());
  body[0] = absl::IsFailedPrecondition(why) ? kNeverAgain : kTryAgain;
  std::ranges::copy(text, body.begin() + 1);
  return body;
}

absl::Status ReasonOfRefusal(std::span<const std::byte> refusal) {
  if (refusal.empty()) return absl::UnavailableError("");
  const std::string_view text(reinterpret_cast<const char*>(refusal.data()) + 1, refusal.size() - 1);
  const std::string printable = MakePrintable(text);
  return refusal[0] == kNeverAgain ? absl::FailedPreconditionError(printable) : absl::UnavailableError(printable);
}

}  // namespace shoal
