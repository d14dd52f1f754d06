#include "net/ucx/handshake_message.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/hash.h"

namespace shoal {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied to the wire as they are");

constexpr char kMagic[] = {'S', 'H', 'O', 'A', 'L', 'N', 'E', 'T'};
constexpr size_t kVersionAt = 8;
constexpr size_t kKindAt = 12;
constexpr size_t kLengthAt = 16;
constexpr size_t kBodyAt = 20;
constexpr size_t kChecksumBytes = 8;
constexpr size_t kPortBytes = 4;

template <typename Number>
void Append(std::vector<std::byte>* out, Number number) {
  const auto bytes = std::as_bytes(std::span(&number, 1));
  out->insert(out->end(), bytes.begin(), bytes.end());
}

template <typename Number>
Number Read(std::span<const std::byte> bytes, size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

uint64_t Checksum(std::span<const std::byte> bytes) {
  uint64_t sum = StableHash({bytes.size()});
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    sum = StableHash({sum, word});
  }
  return sum;
}

absl::Status NotShoal(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status CheckLength(HandshakeKind kind, size_t length) {
  switch (kind) {
    case HandshakeKind::kGreeting:
      if (length >= kPortBytes && length <= kPortBytes + kMaxSettingsBytes) return absl::OkStatus();
      break;
    case HandshakeKind::kWelcome:
      if (length == kPortBytes) return absl::OkStatus();
      break;
    case HandshakeKind::kRefusal:
      if (length <= kMaxRefusalBytes) return absl::OkStatus();
      break;
  }
  return NotShoal(absl::StrCat("a handshake of kind ", static_cast<uint32_t>(kind), " with ", length, " bytes"));
}

std::string PrintableText(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte byte : bytes) {
    const auto character = static_cast<unsigned char>(byte);
    text.push_back(isprint(character) != 0 && character < 0x80 ? static_cast<char>(character) : '?');
  }
  return text;
}

}  // namespace

std::vector<std::byte> EncodeHandshake(const HandshakeMessage& message) {
  std::vector<std::byte> out;
  out.reserve(kMaxHandshakeBytes);
  const auto magic = std::as_bytes(std::span(kMagic));
  out.insert(out.end(), magic.begin(), magic.end());
  Append(&out, message.version);
  Append(&out, static_cast<uint32_t>(message.kind));
  const bool refusal = message.kind == HandshakeKind::kRefusal;
  const std::string text =
      refusal ? message.refusal.substr(0, kMaxRefusalBytes) : message.settings.substr(0, kMaxSettingsBytes);
  Append(&out, static_cast<uint32_t>((refusal ? 0 : kPortBytes) + text.size()));
  if (!refusal) Append(&out, uint32_t{message.port});
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
  Append(&out, Checksum(out));
  return out;
}

absl::StatusOr<std::optional<HandshakeMessage>> DecodeHandshake(std::span<const std::byte> bytes) {
  const auto magic = std::as_bytes(std::span(kMagic));
  const size_t compared = std::min(bytes.size(), magic.size());
  if (!std::ranges::equal(bytes.first(compared), magic.first(compared))) {
    return NotShoal("it does not start like the greeting of a Shoal process");
  }
  if (bytes.size() < kKindAt + sizeof(uint32_t)) return std::nullopt;
  HandshakeMessage message;
  message.version = Read<uint32_t>(bytes, kVersionAt);
  message.kind = static_cast<HandshakeKind>(Read<uint32_t>(bytes, kKindAt));
  if (message.version != kTransportVersion && message.kind != HandshakeKind::kRefusal) {
    return absl::FailedPreconditionError(absl::StrCat("transport versions differ: the sender of the handshake has ",
                                                      message.version, ", its receiver ", kTransportVersion));
  }
  if (bytes.size() < kBodyAt) return std::nullopt;
  const size_t length = Read<uint32_t>(bytes, kLengthAt);
  if (absl::Status status = CheckLength(message.kind, length); !status.ok()) return status;
  const size_t total = kBodyAt + length + kChecksumBytes;
  if (bytes.size() < total) return std::nullopt;
  if (bytes.size() > total) return NotShoal(absl::StrCat(bytes.size() - total, " bytes after a handshake"));
  if (Read<uint64_t>(bytes, kBodyAt + length) != Checksum(bytes.first(kBodyAt + length))) {
    return NotShoal("a handshake with a wrong checksum");
  }
  const std::span<const std::byte> body = bytes.subspan(kBodyAt, length);
  if (message.kind == HandshakeKind::kRefusal) {
    message.refusal = PrintableText(body);
    return message;
  }
  const auto port = Read<uint32_t>(body, 0);
  if (port == 0 || port > UINT16_MAX) return NotShoal(absl::StrCat("a handshake with port ", port));
  message.port = static_cast<uint16_t>(port);
  message.settings = PrintableText(body.subspan(kPortBytes));
  return message;
}

}  // namespace shoal
