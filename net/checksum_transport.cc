#include "net/checksum_transport.h"

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

namespace shoal {
namespace {

// A payload that has a checksum, from its offer to its end.
struct Expected {
  PeerId peer;
  uint32_t checksum = 0;
  uint64_t payload_bytes = 0;
  const std::byte* payload = nullptr;  // where it lands, once it was accepted
};

class ChecksumTransport final : public ForwardingTransport, private PayloadLender {
 public:
  ChecksumTransport(std::unique_ptr<Transport> below, Checksums mode)
      : ForwardingTransport(std::move(below)), mode_(mode) {}

  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override;
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override;
  bool AcceptsAtOnce(OfferId offer) const override { return !offers_.contains(offer) && below()->AcceptsAtOnce(offer); }
  PayloadLender* lender() override { return below()->lender() == nullptr ? nullptr : this; }
  void Decline(OfferId offer) override {
    offers_.erase(offer);
    below()->Decline(offer);
  }
  std::span<const TransportEvent> Poll() override;
  TransportReport Report(std::span<const PeerId> peers) const override {
    TransportReport report = below()->Report(peers);
    report.corrupted_payloads = corrupted_payloads_;
    return report;
  }

 private:
  const std::byte* Borrow(OfferId offer) override;
  void Return(OfferId offer) override { below()->lender()->Return(offer); }
  void NoteOffer(const TransportEvent& event);
  // OK, or what is wrong with the payload; then its connection is cut.
  absl::Status Check(const Expected& expected);
  void ForgetPeer(PeerId peer);

  const Checksums mode_;
  absl::flat_hash_set<PeerId> askers_;
  absl::flat_hash_map<OfferId, Expected> offers_;     // not answered yet
  absl::flat_hash_map<uint64_t, Expected> landings_;  // by token of Accept
  absl::flat_hash_map<PeerId, absl::Status> cut_;
  std::vector<TransportEvent> events_;  // of the last Poll, if one of them had to be changed
  uint64_t corrupted_payloads_ = 0;
};

absl::Status ChecksumTransport::Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                                     uint64_t token) {
  const bool wanted = mode_ == Checksums::kToAll || askers_.contains(peer);
  if (!wanted || !HasPayloadChecksumField(header)) return below()->Send(peer, header, payload, token);
  std::array<std::byte, kFrameHeaderBytes> with_checksum;
  std::copy_n(header.begin(), with_checksum.size(), with_checksum.begin());
  WritePayloadChecksum(PayloadChecksum(payload), with_checksum);
  return below()->Send(peer, with_checksum, payload, token);
}

absl::Status ChecksumTransport::Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) {
  absl::Status status = below()->Accept(offer, buffer, token);
  const auto found = offers_.find(offer);
  if (found == offers_.end() || absl::IsInvalidArgument(status)) return status;
  if (status.ok()) {
    found->second.payload = buffer.data();
    landings_.insert_or_assign(token, found->second);
  }
  offers_.erase(found);
  return status;
}

const std::byte* ChecksumTransport::Borrow(OfferId offer) {
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

std::span<const TransportEvent> ChecksumTransport::Poll() {
  const std::span<const TransportEvent> events = below()->Poll();
  events_.clear();
  for (size_t i = 0; i < events.size(); ++i) {
    const TransportEvent& event = events[i];
    absl::Status status = event.status;
    if (event.kind == TransportEventKind::kOffered) {
      NoteOffer(event);
    } else if (event.kind == TransportEventKind::kLanded) {
      const auto found = landings_.find(event.token);
      if (found != landings_.end()) {
        if (status.ok()) status = Check(found->second);
        landings_.erase(found);
      }
    } else if (event.kind == TransportEventKind::kPeerDown) {
      const auto found = cut_.find(event.peer);
      if (found != cut_.end()) status = found->second;
      ForgetPeer(event.peer);
    }
    if (status == event.status && events_.empty()) continue;
    if (events_.empty()) events_.assign(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(i));
    events_.push_back(event);
    events_.back().status = std::move(status);
  }
  return events_.empty() ? events : std::span<const TransportEvent>(events_);
}

void ChecksumTransport::NoteOffer(const TransportEvent& event) {
  const uint32_t checksum = HasPayloadChecksumField(event.bytes) ? ReadPayloadChecksum(event.bytes) : 0;
  if (checksum == 0) return;
  if (mode_ == Checksums::kToAskers) askers_.insert(event.peer);
  offers_.insert_or_assign(event.offer,
                           Expected{.peer = event.peer, .checksum = checksum, .payload_bytes = event.payload_bytes});
}

absl::Status ChecksumTransport::Check(const Expected& expected) {
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

void ChecksumTransport::ForgetPeer(PeerId peer) {
  askers_.erase(peer);
  cut_.erase(peer);
  absl::erase_if(offers_, [peer](const auto& entry) { return entry.second.peer == peer; });
}

}  // namespace

uint32_t PayloadChecksum(std::span<const std::byte> payload) {
  // The library reads through a pointer that is not const, and counts in int; no chunk is so large.
  auto* const data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(payload.data()));
  const uint32_t crc = ~crc32_iscsi(data, static_cast<int>(payload.size()), ~uint32_t{0});
  return crc == 0 ? 1 : crc;
}

std::unique_ptr<Transport> MakeChecksumTransport(std::unique_ptr<Transport> below, Checksums mode) {
  return std::make_unique<ChecksumTransport>(std::move(below), mode);
}

}  // namespace shoal
