// The frame codec: whatever the bytes, the answer is a value or a refusal, and a value survives the way out and back.
#include <cctype>
#include <cstring>

#include "core/bucket_plan.h"
#include "core/frame.h"
#include "core/token.h"
#include "tests/fuzz/fuzz_input.h"

namespace shoal {
namespace {

void RequireNoteFits(const Note& note) {
  Require(note.size >= kFrameHeaderBytes && note.size <= kMaxNoteBytes, "a note fits into a note's size");
}

void TryHeader(std::span<const std::byte> bytes) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(bytes);
  if (!header.ok()) {
    Require(!header.status().message().empty(), "a refusal says why");
    return;
  }
  Require(!FrameTypeName(header->type).empty() && !RefusalName(header->refusal).empty(), "what was read has a name");
  const FrameHeaderBytes again = EncodeHeader(*header);
  constexpr size_t kReadBytes = kFrameHeaderBytes - 2;  // the last two are not read
  Require(std::memcmp(again.data(), bytes.data(), kReadBytes) == 0, "a header is written as it was read");
  const absl::StatusOr<FrameHeader> read_again = DecodeHeader(again);
  Require(read_again.ok(), "what was written can be read");
  Require(EncodeHeader(*read_again) == again, "a header is the same after a second way");
  if (header->type == FrameType::kPush || header->type == FrameType::kResult) {
    Require(header->payload_bytes() <= kMaxChunkBytes, "a payload has a bound");
    // What a server does next with it.
    const absl::StatusOr<BucketPlan> plan = MakeBucketPlan(header->bucket_elements, header->codec, kMinChunkBytes);
    Require(!plan.ok() || plan->chunk_count <= kMaxChunksPerBucket, "a bucket has a bound");
  }
}

void TryBody(std::span<const std::byte> body) {
  const FrameHeader header{.type = FrameType::kRefuse};
  const std::string text = DecodeText(body);
  Require(text.size() <= kMaxReasonTextBytes, "text has a bound");
  for (const char c : text) Require(std::isprint(static_cast<unsigned char>(c)) != 0, "text can be printed");
  RequireNoteFits(MakeTextNote(header, {reinterpret_cast<const char*>(body.data()), body.size()}));
  RequireNoteFits(MakeHello(header, body));
  if (const absl::StatusOr<Welcome> welcome = DecodeWelcome(body); welcome.ok()) {
    const Note note = MakeWelcome(header, *welcome);
    RequireNoteFits(note);
    Require(*DecodeWelcome(note.view().subspan(kFrameHeaderBytes)) == *welcome, "a welcome survives the way");
  }
  if (const absl::StatusOr<Waiting> waiting = DecodeWaiting(body); waiting.ok()) {
    const Note note = MakeWaiting(header, *waiting);
    RequireNoteFits(note);
    Require(*DecodeWaiting(note.view().subspan(kFrameHeaderBytes)) == *waiting, "a waiting note survives the way");
  }
  if (const absl::StatusOr<GroupToken> token = DecodeToken(body); token.ok()) {
    Require(std::memcmp(EncodeToken(*token).data(), body.data(), kGroupTokenBytes) == 0, "a token survives the way");
    TokenKey key;
    key.fill(std::byte{0xa7});
    Require(!CheckToken(key, *token, 0).ok(), "nobody signs without the key");
    // Signed by the scheduler's key it may still be nonsense.
    GroupToken signed_token = *token;
    SignToken(key, &signed_token);
    if (CheckToken(key, signed_token, 0).ok()) {
      Require(signed_token.rank.value() < signed_token.group_size && signed_token.group_size <= kMaxGroupSize &&
                  signed_token.ranks_per_contribution >= 1 &&
                  uint64_t{signed_token.ranks_per_contribution} * signed_token.group_size <= kMaxGroupSize &&
                  signed_token.max_chunk_bytes <= kMaxChunkBytes,
              "a token that is taken is within its bounds");
    }
  }
}

}  // namespace
}  // namespace shoal

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  shoal::TryHeader(bytes);
  shoal::TryBody(bytes);
  if (size > shoal::kFrameHeaderBytes) shoal::TryBody(bytes.subspan(shoal::kFrameHeaderBytes));
  return 0;
}
