#include "core/frame.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/bucket_plan.h"

namespace shoal {
namespace {

static_assert(std::endian::native == std::endian::little, "the frame is written as little endian");

constexpr uint32_t kMagic = 0x4c4f4853;  // "SHOL"
constexpr size_t kPayloadChecksumOffset = 88;
// Bits of one byte.
constexpr uint8_t kNarrowed = 1;
constexpr uint8_t kScaledToAll = 2;

// Writes and reads plain numbers at a running position; bounds are the caller's (fixed sizes, checked beforehand).
class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}
  template <typename T>
  Writer& Put(T value) {
    std::memcpy(at_, &value, sizeof(value));
    at_ += sizeof(value);
    return *this;
  }

 private:
  std::byte* at_;
};

class Reader {
 public:
  explicit Reader(const std::byte* at) : at_(at) {}
  template <typename T>
  T Get() {
    T value;
    std::memcpy(&value, at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }

 private:
  const std::byte* at_;
};

bool IsFrameType(uint8_t number) {
  switch (number) {
#define X(name, value, text) case value:
    SHOAL_FRAME_TYPES(X)
#undef X
    return true;
    default:
      return false;
  }
}

bool IsRefusal(uint8_t number) {
  switch (number) {
#define X(name, value, text) case value:
    SHOAL_REFUSALS(X)
#undef X
    return true;
    default:
      return false;
  }
}

Note StartNote(const FrameHeader& header) {
  Note note;
  const FrameHeaderBytes bytes = EncodeHeader(header);
  std::memcpy(note.bytes.data(), bytes.data(), bytes.size());
  note.size = bytes.size();
  return note;
}

// An empty body may have no address, which memcpy does not take.
void Append(std::span<const std::byte> body, Note* note) {
  std::copy(body.begin(), body.end(), note->bytes.begin() + static_cast<std::ptrdiff_t>(note->size));
  note->size += body.size();
}

absl::Status CheckPayloadFields(const FrameHeader& header) {
  if (header.chunk_elements == 0 || header.bucket_elements == 0) {
    return absl::InvalidArgumentError("the push or result frame has no elements");
  }
  if (header.first_element >= header.bucket_elements ||
      header.chunk_elements > header.bucket_elements - header.first_element) {
    return absl::InvalidArgumentError("the frame's chunk reaches beyond its bucket");
  }
  if (header.chunk_elements > header.codec.ElementsIn(kMaxChunkBytes)) {
    return absl::InvalidArgumentError("the frame's chunk is larger than any chunk may be");
  }
  if (header.chunk.value() >= kMaxChunksPerBucket) {
    return absl::InvalidArgumentError("the frame's chunk number is out of range");
  }
  if (!CanReduce(header.codec.tensor_type(), header.reduce_op)) {
    return absl::InvalidArgumentError(absl::StrCat("the frame asks for premul-sum of ",
                                                   std::string(DataTypeName(header.codec.tensor_type())),
                                                   ", which only floating types have"));
  }
  if (!std::isfinite(header.premul_factor)) return absl::InvalidArgumentError("the frame's factor is not finite");
  if (header.op == OpNumber(0)) return absl::InvalidArgumentError("the push or result frame has no op number");
  return absl::OkStatus();
}

}  // namespace

std::string_view FrameTypeName(FrameType type) {
  switch (type) {
#define X(name, number, text) \
  case FrameType::name:       \
    return text;
    SHOAL_FRAME_TYPES(X)
#undef X
  }
  return "unknown";
}

std::string_view RefusalName(Refusal refusal) {
  switch (refusal) {
#define X(name, number, text) \
  case Refusal::name:         \
    return text;
    SHOAL_REFUSALS(X)
#undef X
  }
  return "unknown";
}

FrameHeaderBytes EncodeHeader(const FrameHeader& header) {
  FrameHeaderBytes bytes{};
  Writer(bytes.data())
      .Put(kMagic)
      .Put(kWireVersion)
      .Put(static_cast<uint8_t>(header.type))
      .Put(header.codec.type_number())
      .Put(static_cast<uint8_t>(header.reduce_op))
      .Put(header.group.value())
      .Put(header.epoch.value())
      .Put(header.op.value())
      .Put(header.landed_watermark.value())
      .Put(header.commit_watermark.value())
      .Put(header.bucket_elements)
      .Put(header.first_element)
      .Put(header.premul_factor)
      .Put(header.chunk_elements)
      .Put(header.chunk.value())
      .Put(header.rank.value())
      .Put(header.contributors)
      .Put(header.payload_crc32c)
      .Put(static_cast<uint8_t>(header.refusal))
      .Put(static_cast<uint8_t>((header.codec.is_identity() ? 0 : kNarrowed) |
                                (header.scaled_to_all ? kScaledToAll : 0)))
      .Put(static_cast<uint8_t>(header.in_one_go ? 1 : 0))
      .Put(header.in_flight);
  return bytes;
}

bool HasPayloadChecksumField(std::span<const std::byte> header) {
  if (header.size() != kFrameHeaderBytes) return false;
  Reader reader(header.data());
  if (reader.Get<uint32_t>() != kMagic || reader.Get<uint8_t>() != kWireVersion) return false;
  const auto type = static_cast<FrameType>(reader.Get<uint8_t>());
  return type == FrameType::kPush || type == FrameType::kResult;
}

uint32_t ReadPayloadChecksum(std::span<const std::byte> header) {
  return Reader(header.data() + kPayloadChecksumOffset).Get<uint32_t>();
}

void WritePayloadChecksum(uint32_t checksum, std::span<std::byte> header) {
  Writer(header.data() + kPayloadChecksumOffset).Put(checksum);
}

absl::StatusOr<FrameHeader> DecodeHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrameHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the message of ", bytes.size(), " bytes is shorter than a frame"));
  }
  Reader reader(bytes.data());
  if (reader.Get<uint32_t>() != kMagic)
    return absl::InvalidArgumentError("the message does not start as a Shoal frame");
  const uint8_t version = reader.Get<uint8_t>();
  if (version != kWireVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the peer speaks wire version ", static_cast<int>(version),
                                                      ", this process ", static_cast<int>(kWireVersion),
                                                      ": run the same release on workers and servers"));
  }
  const uint8_t type = reader.Get<uint8_t>();
  const uint8_t type_number = reader.Get<uint8_t>();
  const std::optional<ReduceOp> reduce_op = ReduceOpFromWire(reader.Get<uint8_t>());
  if (!IsFrameType(type)) return absl::InvalidArgumentError("the frame's type is unknown");
  if (!reduce_op.has_value()) return absl::InvalidArgumentError("the frame's reduce op is unknown");
  FrameHeader header;
  header.type = static_cast<FrameType>(type);
  header.reduce_op = *reduce_op;
  header.group = GroupId(reader.Get<uint64_t>());
  header.epoch = Epoch(reader.Get<uint64_t>());
  header.op = OpNumber(reader.Get<uint64_t>());
  header.landed_watermark = OpNumber(reader.Get<uint64_t>());
  header.commit_watermark = OpNumber(reader.Get<uint64_t>());
  header.bucket_elements = reader.Get<uint64_t>();
  header.first_element = reader.Get<uint64_t>();
  header.premul_factor = reader.Get<double>();
  header.chunk_elements = reader.Get<uint32_t>();
  header.chunk = ChunkNumber(reader.Get<uint32_t>());
  header.rank = Rank(reader.Get<uint32_t>());
  header.contributors = reader.Get<uint32_t>();
  header.payload_crc32c = reader.Get<uint32_t>();
  const uint8_t refusal = reader.Get<uint8_t>();
  if (!IsRefusal(refusal)) return absl::InvalidArgumentError("the frame's refusal is unknown");
  header.refusal = static_cast<Refusal>(refusal);
  const uint8_t flags = reader.Get<uint8_t>();
  const bool narrowed = (flags & kNarrowed) != 0;
  const std::optional<WireCodec> codec = WireCodec::FromWire(type_number, narrowed);
  if (!codec.has_value() && !narrowed) return absl::InvalidArgumentError("the frame's dtype is unknown");
  if (flags > (kNarrowed | kScaledToAll) || !codec.has_value()) {
    return absl::InvalidArgumentError(
        "the frame says that its float32 numbers were narrowed, but not to a type of the wire");
  }
  header.codec = *codec;
  header.scaled_to_all = (flags & kScaledToAll) != 0;
  if (header.scaled_to_all &&
      (header.reduce_op != ReduceOp::kSum || !CanReduce(header.codec.tensor_type(), ReduceOp::kPremulSum))) {
    return absl::InvalidArgumentError("the frame asks for a scaled sum of what is no sum of floating numbers");
  }
  header.in_one_go = reader.Get<uint8_t>() == 1;  // a measurement's: other values say no
  header.in_flight = reader.Get<uint8_t>();
  if (header.type == FrameType::kPush || header.type == FrameType::kResult) {
    if (absl::Status status = CheckPayloadFields(header); !status.ok()) return status;
  }
  return header;
}

std::array<std::byte, kGroupTokenSignedBytes> TokenBytesToSign(const GroupToken& token) {
  std::array<std::byte, kGroupTokenSignedBytes> bytes{};
  Writer(bytes.data())
      .Put(token.job.value())
      .Put(token.group.value())
      .Put(token.epoch.value())
      .Put(token.incarnation.value())
      .Put(token.expires_at_unix_s)
      .Put(token.rank.value())
      .Put(token.group_size)
      .Put(token.max_chunk_bytes)
      .Put(token.credit_chunks)
      .Put(token.ranks_per_contribution);
  return bytes;
}

std::array<std::byte, kGroupTokenBytes> EncodeToken(const GroupToken& token) {
  std::array<std::byte, kGroupTokenBytes> bytes;
  const auto signed_bytes = TokenBytesToSign(token);
  std::memcpy(bytes.data(), signed_bytes.data(), signed_bytes.size());
  std::memcpy(bytes.data() + signed_bytes.size(), token.signature.data(), token.signature.size());
  return bytes;
}

absl::StatusOr<GroupToken> DecodeToken(std::span<const std::byte> body) {
  if (body.size() < kGroupTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a group token has ", kGroupTokenBytes, " bytes, not ", body.size()));
  }
  Reader reader(body.data());
  GroupToken token;
  token.job = JobId(reader.Get<uint64_t>());
  token.group = GroupId(reader.Get<uint64_t>());
  token.epoch = Epoch(reader.Get<uint64_t>());
  token.incarnation = Incarnation(reader.Get<uint64_t>());
  token.expires_at_unix_s = reader.Get<uint64_t>();
  token.rank = Rank(reader.Get<uint32_t>());
  token.group_size = reader.Get<uint32_t>();
  token.max_chunk_bytes = reader.Get<uint32_t>();
  token.credit_chunks = reader.Get<uint32_t>();
  token.ranks_per_contribution = reader.Get<uint32_t>();
  std::memcpy(token.signature.data(), body.data() + kGroupTokenSignedBytes, token.signature.size());
  return token;
}

Note MakeNote(const FrameHeader& header) { return StartNote(header); }

Note MakeHello(const FrameHeader& header, std::span<const std::byte> token, std::span<const std::byte> roster) {
  Note note = StartNote(header);
  Append(token.first(std::min(token.size(), kMaxNoteBodyBytes)), &note);
  Append(roster.first(std::min(roster.size(), kMaxNoteBytes - note.size)), &note);
  return note;
}

Note MakeWelcome(const FrameHeader& header, const Welcome& welcome) {
  Note note = StartNote(header);
  Writer(note.bytes.data() + note.size).Put(welcome.incarnation.value()).Put(welcome.credit_chunks);
  note.size += 12;
  return note;
}

Note MakeWaiting(const FrameHeader& header, const Waiting& waiting) {
  Note note = StartNote(header);
  Writer writer(note.bytes.data() + note.size);
  writer.Put(waiting.missing_count).Put(waiting.listed_count);
  for (Rank rank : waiting.ranks) writer.Put(rank.value());
  note.size += 8 + 4 * kMaxMissingRanks;
  return note;
}

Note MakeTextNote(const FrameHeader& header, std::string_view text) {
  Note note = StartNote(header);
  Append(std::as_bytes(std::span(text.substr(0, kMaxReasonTextBytes))), &note);
  return note;
}

absl::StatusOr<Welcome> DecodeWelcome(std::span<const std::byte> body) {
  if (body.size() < 12) return absl::InvalidArgumentError("the welcome is too short");
  Reader reader(body.data());
  Welcome welcome;
  welcome.incarnation = Incarnation(reader.Get<uint64_t>());
  welcome.credit_chunks = reader.Get<uint32_t>();
  if (welcome.credit_chunks == 0) return absl::InvalidArgumentError("the welcome grants no credit");
  return welcome;
}

absl::StatusOr<Waiting> DecodeWaiting(std::span<const std::byte> body) {
  if (body.size() < 8 + 4 * kMaxMissingRanks) return absl::InvalidArgumentError("the waiting note is too short");
  Reader reader(body.data());
  Waiting waiting;
  waiting.missing_count = reader.Get<uint32_t>();
  waiting.listed_count = reader.Get<uint32_t>();
  if (waiting.listed_count > kMaxMissingRanks)
    return absl::InvalidArgumentError("the waiting note lists too many ranks");
  for (Rank& rank : waiting.ranks) rank = Rank(reader.Get<uint32_t>());
  return waiting;
}

std::string DecodeText(std::span<const std::byte> body) {
  std::string text(reinterpret_cast<const char*>(body.data()), std::min(body.size(), kMaxReasonTextBytes));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return text;
}

}  // namespace shoal
