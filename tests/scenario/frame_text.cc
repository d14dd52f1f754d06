#include "tests/scenario/frame_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/frame.h"

namespace shoal {
namespace {

std::string Group(const FrameHeader& header) {
  return absl::StrCat("group ", header.group.value(), " epoch ", header.epoch.value());
}

std::string Chunk(const FrameHeader& header) {
  return absl::StrCat("all-reduce ", header.op.value(), " chunk ", header.chunk.value());
}

std::string Elements(const FrameHeader& header) {
  return absl::StrCat(header.chunk_elements, " ", WireCodecName(header.codec));
}

std::string Quoted(std::span<const std::byte> body) { return absl::StrCat("\"", DecodeText(body), "\""); }

std::string HelloText(const FrameHeader& header, std::span<const std::byte> body) {
  const absl::StatusOr<GroupToken> token = DecodeToken(body);
  if (!token.ok()) return absl::StrCat("with a token that is none: ", token.status().message());
  const std::string results =
      header.op == OpNumber() ? "" : absl::StrCat(", has results up to all-reduce ", header.op.value());
  return absl::StrCat(Group(header), ", rank ", header.rank.value(), " of ", token->group_size, results);
}

std::string WelcomeText(const FrameHeader& header, std::span<const std::byte> body) {
  const absl::StatusOr<Welcome> welcome = DecodeWelcome(body);
  if (!welcome.ok()) return std::string(welcome.status().message());
  return absl::StrCat(Group(header), ", credit ", welcome->credit_chunks, " chunks");
}

std::string RefuseText(const FrameHeader& header, std::span<const std::byte> body) {
  const std::string what = header.op == OpNumber() ? Group(header) : Chunk(header);
  const std::string why = body.empty() ? "" : absl::StrCat(": ", Quoted(body));
  return absl::StrCat(what, ", ", std::string(RefusalName(header.refusal)), why);
}

std::string PushText(const FrameHeader& header) {
  const std::string handed_over = header.contributors == 0 ? "" : ", the result, handed over";
  return absl::StrCat(Chunk(header), " in epoch ", header.epoch.value(), ", ", Elements(header), handed_over);
}

std::string ResultText(const FrameHeader& header) {
  return absl::StrCat(Chunk(header), " in epoch ", header.epoch.value(), ", ", Elements(header), " from ",
                      header.contributors, " ranks");
}

std::string WaitingText(const FrameHeader& header, std::span<const std::byte> body) {
  const absl::StatusOr<Waiting> waiting = DecodeWaiting(body);
  if (!waiting.ok()) return std::string(waiting.status().message());
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < waiting->listed_count; ++i) ranks.push_back(waiting->ranks[i].value());
  return absl::StrCat("for rank ", absl::StrJoin(ranks, " and "), " at ", Chunk(header));
}

std::string TextOf(const FrameHeader& header, std::span<const std::byte> body) {
  switch (header.type) {
    case FrameType::kHello:
      return HelloText(header, body);
    case FrameType::kWelcome:
      return WelcomeText(header, body);
    case FrameType::kRefuse:
      return RefuseText(header, body);
    case FrameType::kPush:
      return PushText(header);
    case FrameType::kResult:
      return ResultText(header);
    case FrameType::kCommit:
      return header.op == OpNumber()
                 ? Group(header)
                 : absl::StrCat(Group(header), ", tell me when all have all-reduce ", header.op.value());
    case FrameType::kWaiting:
      return WaitingText(header, body);
    case FrameType::kGroupFailed:
    case FrameType::kRankLost:
      return absl::StrCat(Group(header), ", rank ", header.rank.value(), ": ", Quoted(body));
    case FrameType::kAsk:
      return absl::StrCat(Chunk(header), " in epoch ", header.epoch.value(), ": do you have its result?");
    case FrameType::kLeaveGroup:
      return Group(header);
    case FrameType::kBye:
    case FrameType::kProbe:
      return "";
  }
  return "";
}

}  // namespace

std::string FrameText(std::span<const std::byte> frame) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(frame);
  if (!header.ok()) return absl::StrCat("malformed: ", header.status().message());
  std::string text(FrameTypeName(header->type));
  if (const std::string rest = TextOf(*header, frame.subspan(kFrameHeaderBytes)); !rest.empty()) {
    absl::StrAppend(&text, " ", rest);
  }
  std::vector<std::string> watermarks;
  // The header of a welcome is that of the hello that it answers, and of a refuse that of what is refused.
  const bool is_answer = header->type == FrameType::kWelcome || header->type == FrameType::kRefuse;
  if (header->landed_watermark != OpNumber() && !is_answer) {
    watermarks.push_back(absl::StrCat("landed here ", header->landed_watermark.value()));
  }
  if (header->commit_watermark != OpNumber()) {
    watermarks.push_back(absl::StrCat("landed everywhere ", header->commit_watermark.value()));
  }
  if (!watermarks.empty()) absl::StrAppend(&text, " [", absl::StrJoin(watermarks, ", "), "]");
  return text;
}

}  // namespace shoal
