#include "net/flight_recorder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shoal {
namespace {

using What = FlightRecorder::What;

const char* NameOf(What what) {
  switch (what) {
    case What::kConnect:
      return "connect";
    case What::kSendNote:
      return "send note";
    case What::kSend:
      return "send";
    case What::kAccept:
      return "accept";
    case What::kDecline:
      return "decline";
    case What::kClose:
      return "close";
    case What::kPeerUp:
      return "peer up";
    case What::kPeerDown:
      return "peer down";
    case What::kNote:
      return "note";
    case What::kOffered:
      return "offered";
    case What::kLanded:
      return "landed";
    case What::kSent:
      return "sent";
    case What::kNodeOp:
      return "within node";
  }
  return "?";
}

std::string FrameText(const FrameHeaderBytes& bytes) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(bytes);
  if (!header.ok()) return absl::StrCat(" (", header.status().message(), ")");
  std::string text = absl::StrCat(" ", std::string(FrameTypeName(header->type)), " group=", header->group.value(),
                                  " epoch=", header->epoch.value(), " rank=", header->rank.value());
  if (header->op != OpNumber()) absl::StrAppend(&text, " op=", header->op.value(), " chunk=", header->chunk.value());
  if (header->type == FrameType::kPush && header->contributors != 0) text += " handed-over";
  if (header->refusal != Refusal::kNone) {
    absl::StrAppend(&text, " refusal=", std::string(RefusalName(header->refusal)));
  }
  const uint64_t landed = header->landed_watermark.value();
  const uint64_t commit = header->commit_watermark.value();
  if (landed != 0 || commit != 0) absl::StrAppend(&text, " landed=", landed, " commit=", commit);
  return text;
}

// How long it took, and each stage that it came to the end of.
std::string NodeOpText(const FlightRecorder::NodeOp& op) {
  std::string text =
      absl::StrCat(" group=", op.group, " op=", op.op, " length_ns=", op.ended_ns - std::min(op.ended_ns, op.begun_ns));
  uint64_t before_ns = op.begun_ns;
  const auto add = [&](const char* stage, uint64_t ended_ns) {
    if (ended_ns == 0) return;
    absl::StrAppend(&text, " ", stage, "_ns=", ended_ns - std::min(ended_ns, before_ns));
    before_ns = ended_ns;
  };
  add("contribute", op.contributed_ns);
  add("reduce", op.reduced_ns);
  add("publish", op.published_ns);
  return text;
}

}  // namespace

void FlightRecorder::Add(What what, uint64_t peer, Numbers numbers, uint64_t payload_bytes, bool failed,
                         std::span<const std::byte> frame) {
  Entry& entry = newest_.Next();
  entry.at_ns = now_ns_;
  entry.peer = peer;
  entry.numbers = numbers;
  entry.payload_bytes = payload_bytes;
  entry.what = what;
  entry.failed = failed;
  if (frame.size() >= kFrameHeaderBytes) {
    std::copy_n(frame.begin(), kFrameHeaderBytes, entry.content.emplace<FrameHeaderBytes>().begin());
  } else {
    entry.content = std::monostate();
  }
  KeepForTrace(entry);
}

void FlightRecorder::AddNodeOp(const NodeOp& op, uint64_t payload_bytes, bool failed) {
  Entry& entry = newest_.Next();
  entry = {
      .at_ns = op.ended_ns, .payload_bytes = payload_bytes, .what = What::kNodeOp, .failed = failed, .content = op};
  KeepForTrace(entry);
}

void FlightRecorder::KeepForTrace(const Entry& entry) {
  if (!is_traced_.load(std::memory_order_relaxed)) return;
  const MutexLock lock(trace_mutex_);
  if (trace_ != nullptr) trace_->Next() = entry;
}

std::string FlightRecorder::Text(Now now) const { return newest_.Text(now, std::numeric_limits<size_t>::max()); }

void FlightRecorder::StartTrace() {
  auto ring = std::make_unique<Ring>(kTraceEntries);
  const MutexLock lock(trace_mutex_);
  trace_ = std::move(ring);
  is_traced_.store(true, std::memory_order_relaxed);
}

std::string FlightRecorder::StopTrace(Now now, size_t most_bytes) {
  std::unique_ptr<Ring> ring;
  {
    const MutexLock lock(trace_mutex_);
    ring = std::move(trace_);
    is_traced_.store(false, std::memory_order_relaxed);
  }
  return ring == nullptr ? "" : ring->Text(now, most_bytes);
}

std::string FlightRecorder::Line(const Entry& entry, Now now) {
  const double ago_s = now.monotonic_ns > entry.at_ns ? static_cast<double>(now.monotonic_ns - entry.at_ns) / 1e9 : 0;
  // What its stages took is exact as well, and ops that follow one another must not seem to overlap.
  const int digits = entry.what == What::kNodeOp ? 9 : 6;
  std::string line = absl::StrFormat("-%.*f %s", digits, ago_s, NameOf(entry.what));
  if (entry.peer != 0) absl::StrAppend(&line, " peer=", entry.peer);
  if (entry.numbers.offer != 0) absl::StrAppend(&line, " offer=", entry.numbers.offer);
  if (entry.numbers.token != 0) absl::StrAppend(&line, " token=", entry.numbers.token);
  if (const auto* frame = std::get_if<FrameHeaderBytes>(&entry.content)) absl::StrAppend(&line, FrameText(*frame));
  if (const auto* op = std::get_if<NodeOp>(&entry.content)) absl::StrAppend(&line, NodeOpText(*op));
  if (entry.payload_bytes != 0) absl::StrAppend(&line, " payload=", entry.payload_bytes);
  absl::StrAppend(&line, entry.failed ? " FAILED\n" : "\n");
  return line;
}

std::string FlightRecorder::Ring::Text(Now now, size_t most_bytes) const {
  const auto head = [&](uint64_t kept) {
    return absl::StrCat("The last ", kept, " of ", added_, " events, in seconds before unix_ms=", now.unix_ms, ":\n");
  };
  const uint64_t held = std::min<uint64_t>(added_, entries_.size());
  size_t bytes = head(held).size();
  std::vector<std::string> lines;  // the newest first
  for (uint64_t i = added_; i > added_ - held; --i) {
    lines.push_back(Line(entries_[(i - 1) % entries_.size()], now));
    bytes += lines.back().size();
    if (bytes <= most_bytes) continue;
    lines.pop_back();
    break;
  }
  std::string text = head(lines.size());
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) text += *line;
  return text;
}

}  // namespace shoal
