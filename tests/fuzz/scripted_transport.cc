#include "tests/fuzz/scripted_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/fuzz/fuzz_input.h"

namespace shoal {
namespace {

bool Overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

PeerId ScriptedTransport::GivePeer() {
  const PeerId peer(next_peer_++);
  peers_.push_back(peer);
  Give({.kind = TransportEventKind::kPeerUp, .peer = peer});
  return peer;
}

void ScriptedTransport::GiveNote(PeerId peer, std::span<const std::byte> note) {
  Give({.kind = TransportEventKind::kNote, .peer = peer}, note.first(std::min(note.size(), kMaxNoteBytes)));
}

void ScriptedTransport::GiveOffer(PeerId peer, std::span<const std::byte> header, uint64_t payload_bytes) {
  const OfferId offer(next_offer_++);
  offers_[offer] = {peer, payload_bytes};
  Give({.kind = TransportEventKind::kOffered, .peer = peer, .offer = offer, .payload_bytes = payload_bytes},
       header.first(std::min(header.size(), kMaxNoteBytes)));
}

void ScriptedTransport::LosePeer(PeerId peer) {
  for (size_t i = accepts_.size(); i-- > 0;) {
    if (accepts_[i].peer == peer) End(&accepts_, i, TransportEventKind::kLanded, false);
  }
  for (size_t i = sends_.size(); i-- > 0;) {
    if (sends_[i].peer == peer) End(&sends_, i, TransportEventKind::kSent, false);
  }
  std::erase_if(offers_, [peer](const auto& entry) { return entry.second.peer == peer; });
  std::erase(peers_, peer);
  Give({.kind = TransportEventKind::kPeerDown, .peer = peer, .status = absl::UnavailableError("connection reset")});
}

void ScriptedTransport::EndAccept(uint32_t which, bool ok) {
  if (!accepts_.empty()) End(&accepts_, which % accepts_.size(), TransportEventKind::kLanded, ok);
}

void ScriptedTransport::EndSend(uint32_t which, bool ok) {
  if (!sends_.empty()) End(&sends_, which % sends_.size(), TransportEventKind::kSent, ok);
}

void ScriptedTransport::End(std::vector<Operation>* operations, size_t index, TransportEventKind kind, bool ok) {
  const Operation operation = (*operations)[index];
  operations->erase(operations->begin() + static_cast<std::ptrdiff_t>(index));
  // What lands is written up to this moment.
  if (kind == TransportEventKind::kLanded) std::memset(operation.buffer.data(), 1, operation.buffer.size());
  Give({.kind = kind,
        .token = operation.token,
        .status = ok ? absl::OkStatus() : absl::UnavailableError("connection reset")});
}

absl::StatusOr<PeerId> ScriptedTransport::Connect(const std::string&) {
  Require(false, "a server connects to nobody");
  return absl::UnimplementedError("");
}

absl::Status ScriptedTransport::SendNote(PeerId peer, std::span<const std::byte> note) {
  Require(note.size() <= kMaxNoteBytes && DecodeHeader(note).ok(), "a server's note is a frame");
  return IsUp(peer) ? absl::OkStatus() : absl::NotFoundError("no such peer");
}

absl::Status ScriptedTransport::Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                                     uint64_t token) {
  const absl::StatusOr<FrameHeader> frame = DecodeHeader(header);
  Require(frame.ok() && frame->type == FrameType::kResult, "a server's payload is a result");
  Require(payload.size() == frame->payload_bytes(), "a result is whole");
  RequireInSlotMemory(payload);
  if (!IsUp(peer)) return absl::NotFoundError("no such peer");
  Require(results_.emplace(peer, frame->group, frame->rank, frame->op, frame->chunk).second,
          "I2: a chunk is summed once");
  const auto offset = static_cast<size_t>(payload.data() - slot_memory_.data());
  sends_.push_back({peer, slot_memory_.subspan(offset, payload.size()), token});
  return absl::OkStatus();
}

absl::Status ScriptedTransport::Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) {
  const auto found = offers_.find(offer);
  if (found == offers_.end()) {
    Require(offer.value() > 0 && offer.value() < next_offer_, "what is accepted was offered");
    return absl::NotFoundError("the offer is gone with its peer");
  }
  Require(buffer.size() == found->second.bytes, "a buffer has its payload's size");
  RequireInSlotMemory(buffer);
  for (const Operation& other : accepts_) {
    Require(!Overlap(buffer, other.buffer), "two payloads don't land in one place");
  }
  for (const Operation& other : sends_) {
    Require(!Overlap(buffer, other.buffer), "nothing lands where a result is being sent from");
  }
  accepts_.push_back({found->second.peer, buffer, token});
  offers_.erase(found);
  return absl::OkStatus();
}

void ScriptedTransport::Decline(OfferId offer) {
  Require(offer.value() > 0 && offer.value() < next_offer_, "what is declined was offered");
  offers_.erase(offer);
}

void ScriptedTransport::Close(PeerId peer) {
  if (IsUp(peer)) LosePeer(peer);
}

std::span<const TransportEvent> ScriptedTransport::Poll() {
  std::swap(polled_, events_);
  events_.clear();
  poll_result_.clear();
  for (const Held& held : polled_) {
    poll_result_.push_back(held.event);
    poll_result_.back().bytes = held.bytes;
  }
  return poll_result_;
}

bool ScriptedTransport::IsUp(PeerId peer) const {
  return std::find(peers_.begin(), peers_.end(), peer) != peers_.end();
}

void ScriptedTransport::Give(TransportEvent event, std::span<const std::byte> bytes) {
  events_.push_back({std::move(event), {bytes.begin(), bytes.end()}});
}

void ScriptedTransport::RequireInSlotMemory(std::span<const std::byte> buffer) const {
  Require(!buffer.empty() && buffer.data() >= slot_memory_.data() &&
              buffer.data() + buffer.size() <= slot_memory_.data() + slot_memory_.size(),
          "a buffer lies in slot memory");
}

}  // namespace shoal
