#include "net/observed_transport.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/frame.h"
#include "net/forwarding_transport.h"
#include "process/clock.h"

namespace shoal {
namespace {

using What = FlightRecorder::What;

// Summing so much takes a few microseconds for a few ranks, hardly longer than reading the clock for each result.
constexpr size_t kPayloadOfSomeSize = 16 << 10;

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

// A payload that has a checksum, from its offer to its end.
struct Expected {
  PeerId peer;
  uint32_t checksum = 0;
  uint64_t payload_bytes = 0;
  const std::byte* payload = nullptr;  // where it lands, once it was accepted
};

class ObservedTransport final : public ForwardingTransport, private PayloadLender {
 public:
  ObservedTransport(std::unique_ptr<Transport> below, const ObservedTransportOptions& options)
      : ForwardingTransport(std::move(below)), options_(options) {}

  absl::StatusOr<PeerId> Connect(const std::string& address) override;
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override;
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override;
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override;
  bool AcceptsAtOnce(OfferId offer) const override { return !offers_.contains(offer) && below()->AcceptsAtOnce(offer); }
  PayloadLender* lender() override { return below()->lender() == nullptr ? nullptr : this; }
  void Decline(OfferId offer) override;
  void Close(PeerId peer) override;
  std::span<const TransportEvent> Poll() override;
  TransportReport Report(std::span<const PeerId> peers) const override;

 private:
  const std::byte* Borrow(OfferId offer) override;
  void Return(OfferId offer) override { below()->lender()->Return(offer); }

  absl::Status SendWithChecksum(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                                uint64_t token);
  void ExpectLanding(OfferId offer, const std::byte* buffer, uint64_t token, const absl::Status& accepted);
  std::span<const TransportEvent> CheckEvents(std::span<const TransportEvent> events);
  // What became of an event with its check.
  absl::Status CheckEvent(const TransportEvent& event);
  void NoteOffer(const TransportEvent& event);
  // OK, or what is wrong with the payload; then its connection is cut.
  absl::Status Check(const Expected& expected);
  void ForgetPeer(PeerId peer);

  // Before a call: what it sends may arrive before it returns.
  void ReadTimeIfOld() {
    if (options_.recorder == nullptr || !time_is_old_) return;
    options_.recorder->SetTime(MonotonicNs());
    time_is_old_ = false;
  }
  void Record(What what, PeerId peer, FlightRecorder::Numbers numbers, uint64_t payload_bytes, bool failed,
              std::span<const std::byte> frame) {
    if (options_.recorder == nullptr) return;
    ReadTimeIfOld();
    options_.recorder->Add(what, peer.value(), numbers, payload_bytes, failed, frame);
  }

  const ObservedTransportOptions options_;
  bool time_is_old_ = true;  // most rounds of a waiting loop add nothing, and need no clock
  absl::flat_hash_set<PeerId> askers_;
  absl::flat_hash_map<OfferId, Expected> offers_;     // not answered yet
  absl::flat_hash_map<uint64_t, Expected> landings_;  // by token of Accept
  absl::flat_hash_map<PeerId, absl::Status> cut_;
  std::vector<TransportEvent> events_;  // of the last Poll, if one of them had to be changed
  uint64_t corrupted_payloads_ = 0;
};

absl::StatusOr<PeerId> ObservedTransport::Connect(const std::string& address) {
  ReadTimeIfOld();
  absl::StatusOr<PeerId> peer = below()->Connect(address);
  Record(What::kConnect, peer.value_or(PeerId()), {}, 0, !peer.ok(), {});
  return peer;
}

absl::Status ObservedTransport::SendNote(PeerId peer, std::span<const std::byte> note) {
  ReadTimeIfOld();
  absl::Status status = below()->SendNote(peer, note);
  Record(What::kSendNote, peer, {}, 0, !status.ok(), note);
  return status;
}

absl::Status ObservedTransport::Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                                     uint64_t token) {
  // A server sums within the round in which the last contribution came: how long that took shows in this time.
  time_is_old_ = time_is_old_ || payload.size() > kPayloadOfSomeSize;
  ReadTimeIfOld();
  const bool wants_checksum = options_.checksums == Checksums::kToAll || askers_.contains(peer);
  absl::Status status = wants_checksum && HasPayloadChecksumField(header)
                            ? SendWithChecksum(peer, header, payload, token)
                            : below()->Send(peer, header, payload, token);
  Record(What::kSend, peer, {.token = token}, payload.size(), !status.ok(), header);
  return status;
}

absl::Status ObservedTransport::SendWithChecksum(PeerId peer, std::span<const std::byte> header,
                                                 std::span<const std::byte> payload, uint64_t token) {
  std::array<std::byte, kFrameHeaderBytes> with_checksum;
  std::copy_n(header.begin(), with_checksum.size(), with_checksum.begin());
  WritePayloadChecksum(PayloadChecksum(payload), with_checksum);
  return below()->Send(peer, with_checksum, payload, token);
}

absl::Status ObservedTransport::Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) {
  ReadTimeIfOld();
  absl::Status status = below()->Accept(offer, buffer, token);
  ExpectLanding(offer, buffer.data(), token, status);
  Record(What::kAccept, PeerId(), {offer.value(), token}, buffer.size(), !status.ok(), {});
  return status;
}

void ObservedTransport::ExpectLanding(OfferId offer, const std::byte* buffer, uint64_t token,
                                      const absl::Status& accepted) {
  const auto found = offers_.find(offer);
  if (found == offers_.end() || absl::IsInvalidArgument(accepted)) return;
  if (accepted.ok()) {
    found->second.payload = buffer;
    landings_.insert_or_assign(token, found->second);
  }
  offers_.erase(found);
}

void ObservedTransport::Decline(OfferId offer) {
  Record(What::kDecline, PeerId(), {.offer = offer.value()}, 0, false, {});
  offers_.erase(offer);
  below()->Decline(offer);
}

void ObservedTransport::Close(PeerId peer) {
  Record(What::kClose, peer, {}, 0, false, {});
  below()->Close(peer);
}

const std::byte* ObservedTransport::Borrow(OfferId offer) {
  const std::byte* const data = below()->lender()->Borrow(offer);
  const auto found = offers_.find(offer);
  if (data == nullptr || found == offers_.end()) return data;
  Expected expected = found->second;
  expected.payload = data;
  offers_.erase(found);
  if (Check(expected).ok()) return data;
  // The offer is gone with its loan: an Accept finds nothing.
  Return(offer);
  return nullptr;
}

std::span<const TransportEvent> ObservedTransport::Poll() {
  const std::span<const TransportEvent> events = CheckEvents(below()->Poll());
  time_is_old_ = true;
  for (const TransportEvent& event : events) {
    Record(WhatOf(event.kind), event.peer, {event.offer.value(), event.token}, event.payload_bytes, !event.status.ok(),
           event.bytes);
  }
  return events;
}

std::span<const TransportEvent> ObservedTransport::CheckEvents(std::span<const TransportEvent> events) {
  events_.clear();
  for (size_t i = 0; i < events.size(); ++i) {
    absl::Status status = CheckEvent(events[i]);
    if (status == events[i].status && events_.empty()) continue;
    if (events_.empty()) events_.assign(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(i));
    events_.push_back(events[i]);
    events_.back().status = std::move(status);
  }
  return events_.empty() ? events : std::span<const TransportEvent>(events_);
}

absl::Status ObservedTransport::CheckEvent(const TransportEvent& event) {
  absl::Status status = event.status;
  if (event.kind == TransportEventKind::kOffered) {
    NoteOffer(event);
  } else if (event.kind == TransportEventKind::kLanded) {
    const auto found = landings_.find(event.token);
    if (found == landings_.end()) return status;
    if (status.ok()) status = Check(found->second);
    landings_.erase(found);
  } else if (event.kind == TransportEventKind::kPeerDown) {
    const auto found = cut_.find(event.peer);
    if (found != cut_.end()) status = found->second;
    ForgetPeer(event.peer);
  }
  return status;
}

void ObservedTransport::NoteOffer(const TransportEvent& event) {
  const uint32_t checksum = HasPayloadChecksumField(event.bytes) ? ReadPayloadChecksum(event.bytes) : 0;
  if (checksum == 0) return;
  if (options_.checksums == Checksums::kToAskers) askers_.insert(event.peer);
  offers_.insert_or_assign(event.offer,
                           Expected{.peer = event.peer, .checksum = checksum, .payload_bytes = event.payload_bytes});
}

absl::Status ObservedTransport::Check(const Expected& expected) {
  const uint32_t found = PayloadChecksum({expected.payload, expected.payload_bytes});
  if (found == expected.checksum) return absl::OkStatus();
  ++corrupted_payloads_;
  absl::Status status = absl::DataLossError(absl::StrCat(
      "a payload of ", expected.payload_bytes, " bytes was changed on its way: its CRC32C is ",
      absl::Hex(found, absl::kZeroPad8), ", that of what was sent ", absl::Hex(expected.checksum, absl::kZeroPad8)));
  cut_.insert_or_assign(expected.peer, status);
  below()->Close(expected.peer);
  return status;
}

void ObservedTransport::ForgetPeer(PeerId peer) {
  askers_.erase(peer);
  cut_.erase(peer);
  absl::erase_if(offers_, [peer](const auto& entry) { return entry.second.peer == peer; });
}

TransportReport ObservedTransport::Report(std::span<const PeerId> peers) const {
  TransportReport report = below()->Report(peers);
  report.corrupted_payloads = corrupted_payloads_;
  return report;
}

}  // namespace

uint32_t PayloadChecksum(std::span<const std::byte> payload) {
  // The library reads through a pointer that is not const, and counts in int; no chunk is so large.
  auto* const data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(payload.data()));
  const uint32_t crc = ~crc32_iscsi(data, static_cast<int>(payload.size()), ~uint32_t{0});
  return crc == 0 ? 1 : crc;
}

std::unique_ptr<Transport> MakeObservedTransport(std::unique_ptr<Transport> below,
                                                 const ObservedTransportOptions& options) {
  return std::make_unique<ObservedTransport>(std::move(below), options);
}

}  // namespace shoal
