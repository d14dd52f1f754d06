#include "net/flight_recorder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "net/forwarding_transport.h"
#include "process/clock.h"

namespace shoal {
namespace {

using What = FlightRecorder::What;

// Summing so much takes a few microseconds for a few ranks, hardly longer than reading the clock for each result.
constexpr size_t kPayloadOfSomeSize = 16 << 10;

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

What WhatOf(TransportEventKind kind) {
  switch (kind) {
    case TransportEventKind::kPeerUp:
      return What::kPeerUp;
    case TransportEventKind::kPeerDown:
      return What::kPeerDown;
    case TransportEventKind::kNote:
      return What::kNote;
    case TransportEventKind::kOffered:
      return What::kOffered;
    case TransportEventKind::kLanded:
      return What::kLanded;
    case TransportEventKind::kSent:
      break;
  }
  return What::kSent;
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

class RecordedTransport final : public ForwardingTransport {
 public:
  RecordedTransport(std::unique_ptr<Transport> below, FlightRecorder* recorder)
      : ForwardingTransport(std::move(below)), recorder_(recorder) {}

  absl::StatusOr<PeerId> Connect(const std::string& address) override {
    ReadTimeIfOld();
    absl::StatusOr<PeerId> peer = below()->Connect(address);
    Add(What::kConnect, peer.ok() ? peer->value() : 0, {}, 0, !peer.ok(), {});
    return peer;
  }
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override {
    ReadTimeIfOld();
    absl::Status status = below()->SendNote(peer, note);
    Add(What::kSendNote, peer.value(), {}, 0, !status.ok(), note);
    return status;
  }
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override {
    // A server sums within the round in which the last contribution came: how long that took shows in this time.
    if (payload.size() > kPayloadOfSomeSize) {
      ReadTime();
    } else {
      ReadTimeIfOld();
    }
    absl::Status status = below()->Send(peer, header, payload, token);
    Add(What::kSend, peer.value(), {.token = token}, payload.size(), !status.ok(), header);
    return status;
  }
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override {
    ReadTimeIfOld();
    absl::Status status = below()->Accept(offer, buffer, token);
    Add(What::kAccept, 0, {offer.value(), token}, buffer.size(), !status.ok(), {});
    return status;
  }
  void Decline(OfferId offer) override {
    Add(What::kDecline, 0, {.offer = offer.value()}, 0, false, {});
    below()->Decline(offer);
  }
  void Close(PeerId peer) override {
    Add(What::kClose, peer.value(), {}, 0, false, {});
    below()->Close(peer);
  }
  std::span<const TransportEvent> Poll() override {
    const std::span<const TransportEvent> events = below()->Poll();
    time_is_old_ = true;
    for (const TransportEvent& event : events) {
      Add(WhatOf(event.kind), event.peer.value(), {event.offer.value(), event.token}, event.payload_bytes,
          !event.status.ok(), event.bytes);
    }
    return events;
  }

 private:
  // Before a call: what it sends may arrive before it returns.
  void ReadTimeIfOld() {
    if (time_is_old_) ReadTime();
  }
  void ReadTime() {
    recorder_->SetTime(MonotonicNs());
    time_is_old_ = false;
  }
  void Add(What what, uint64_t peer, FlightRecorder::Numbers numbers, uint64_t payload_bytes, bool failed,
           std::span<const std::byte> frame) {
    ReadTimeIfOld();
    recorder_->Add(what, peer, numbers, payload_bytes, failed, frame);
  }

  FlightRecorder* const recorder_;
  bool time_is_old_ = true;  // most rounds of a waiting loop add nothing, and need no clock
};

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
  const std::lock_guard lock(trace_mutex_);
  if (trace_ != nullptr) trace_->Next() = entry;
}

std::string FlightRecorder::Text(Now now) const { return newest_.Text(now, std::numeric_limits<size_t>::max()); }

void FlightRecorder::StartTrace() {
  auto ring = std::make_unique<Ring>(kTraceEntries);
  const std::lock_guard lock(trace_mutex_);
  trace_ = std::move(ring);
  is_traced_.store(true, std::memory_order_relaxed);
}

std::string FlightRecorder::StopTrace(Now now, size_t most_bytes) {
  std::unique_ptr<Ring> ring;
  {
    const std::lock_guard lock(trace_mutex_);
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

std::unique_ptr<Transport> MakeRecordedTransport(std::unique_ptr<Transport> below, FlightRecorder* recorder) {
  return std::make_unique<RecordedTransport>(std::move(below), recorder);
}

}  // namespace shoal
