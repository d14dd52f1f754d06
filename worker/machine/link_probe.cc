#include "worker/machine/link_probe.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shoal {
namespace {

constexpr std::array<std::byte, LinkProbe::kPayloadBytes> kPayload{};
// Echoes that one Poll returns together have the same time; no link is as fast as that would say.
constexpr uint64_t kMinTrainNs = 1'000;
// A wait for a processor makes the second half look fast and the whole train slow, so the whole train's rate, a few
// times over, is the limit. The highest figure of all ranks counts: that of a rank that had to wait must not be far
// off.
constexpr uint64_t kMaxOverWholeTrain = 4;

}  // namespace

void LinkProbe::Begin(Connections::Use connection, uint64_t deadline_ns) {
  running_ = true;
  connection_ = std::move(connection);
  deadline_ns_ = deadline_ns;
}

void LinkProbe::End(const LinkFacts& facts, WorkerActions* actions) {
  running_ = false;
  connection_ = {};
  actions->push_back(LinkMeasured{facts});
}

void LinkProbe::Tick(Now now, bool closing, WorkerActions* actions) {
  if (running_ && (now.monotonic_ns >= deadline_ns_ || closing)) End({}, actions);
}

void LinkProbe::OnEcho(const FrameHeader& header, Now now, WorkerActions* actions) {
  if (TakeEcho(header, now, actions)) End(facts_, actions);
}

void LinkProbe::OnUp(PeerId peer, Now now, WorkerActions* actions) {
  peer_ = peer;
  next_ = 0;
  facts_ = {};
  SendRoundTrip(now, actions);
}

void LinkProbe::SendRoundTrip(Now now, WorkerActions* actions) {
  sent_ns_ = now.monotonic_ns;
  actions->push_back(WorkerSendNoteAction{peer_, MakeNote({.type = FrameType::kProbe, .chunk = ChunkNumber(next_)})});
}

void LinkProbe::SendMessages(Now now, WorkerActions* actions) {
  sent_ns_ = now.monotonic_ns;
  for (uint32_t i = 0; i < kMessages; ++i) {
    actions->push_back(
        WorkerSendNoteAction{peer_, MakeNote({.type = FrameType::kProbe, .chunk = ChunkNumber(kRoundTrips + i)})});
  }
}

void LinkProbe::SendTrain(Now now, WorkerActions* actions) {
  sent_ns_ = now.monotonic_ns;
  for (uint32_t i = 0; i < kTrainPayloads; ++i) {
    actions->push_back(
        WorkerSendAction{.peer = peer_,
                         .header = EncodeHeader({.type = FrameType::kProbe, .chunk = ChunkNumber(kFirstOfTrain + i)}),
                         .data = kPayload.data(),
                         .bytes = kPayload.size(),
                         .token = kToken});
  }
}

uint64_t LinkProbe::BeyondRoundTrip(Now now) const {
  const uint64_t whole_ns = now.monotonic_ns - sent_ns_;
  return whole_ns - std::min(facts_.round_trip_ns, whole_ns);
}

bool LinkProbe::TakeEcho(const FrameHeader& header, Now now, WorkerActions* actions) {
  if (header.chunk.value() != next_) return false;
  ++next_;
  if (next_ <= kRoundTrips) {
    const uint64_t round_trip_ns = std::max<uint64_t>(now.monotonic_ns - sent_ns_, 1);
    facts_.round_trip_ns = facts_.round_trip_ns == 0 ? round_trip_ns : std::min(facts_.round_trip_ns, round_trip_ns);
    if (next_ < kRoundTrips) {
      SendRoundTrip(now, actions);
    } else {
      SendMessages(now, actions);
    }
    return false;
  }
  if (next_ == kFirstOfTrain) {
    facts_.message_ns = std::max<uint64_t>(BeyondRoundTrip(now) / kMessages, 1);
    SendTrain(now, actions);
  }
  if (next_ == kFirstOfTrain + kTrainPayloads / 2) half_ns_ = now.monotonic_ns;
  if (next_ < kFirstOfTrain + kTrainPayloads) return false;
  const auto rate = [](uint32_t payloads, uint64_t ns) {
    return uint64_t{kPayloadBytes} * payloads * kNsPerS / std::max(ns, kMinTrainNs);
  };
  facts_.bytes_per_s = std::min(rate(kTrainPayloads / 2, now.monotonic_ns - half_ns_),
                                kMaxOverWholeTrain * rate(kTrainPayloads, BeyondRoundTrip(now)));
  return true;
}

}  // namespace shoal
