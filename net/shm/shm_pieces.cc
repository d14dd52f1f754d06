// The part of ShmTransportImpl that concerns payloads for which the arena has no room: they stay with the sender's
// user, and come through the ring in pieces once they are asked for (docs/adr/0018).
#include <algorithm>
#include <cstring>
#include <utility>

#include "net/shm/shm_connections.h"

namespace shoal {

absl::StatusOr<bool> ShmTransportImpl::TryKeep(Peer& peer, std::span<const std::byte> header,
                                               std::span<const std::byte> payload, uint64_t token, uint64_t consumed) {
  const RecordHeader record{
      .type = RecordType::kKept, .payload_bytes = payload.size(), .send_number = peer.next_send_number};
  const absl::StatusOr<bool> appended = peer.outbox->Append(record, header, {}, consumed);
  if (appended.value_or(false)) peer.kept.emplace(peer.next_send_number++, Kept{.payload = payload, .token = token});
  return appended;
}

absl::StatusOr<bool> ShmTransportImpl::TryNextPiece(Peer& peer) {
  const auto found = peer.kept.find(peer.asked.front());
  Kept& kept = found->second;
  const std::span<const std::byte> left = kept.payload.subspan(kept.sent_bytes);
  const std::span<const std::byte> piece = left.first(std::min(left.size(), kMaxPieceBytes));
  const RecordHeader record{
      .type = RecordType::kPiece, .payload_bytes = piece.size(), .send_number = peer.asked.front()};
  const uint64_t consumed = peer.inbox->header().consumed.load(std::memory_order_acquire);
  const absl::StatusOr<bool> appended = peer.outbox->Append(record, {}, piece, consumed);
  if (!appended.value_or(false)) return appended;
  peer.piece_is_next = false;
  kept.sent_bytes += piece.size();
  if (kept.sent_bytes == kept.payload.size()) {
    const uint64_t token = kept.token;
    peer.kept.erase(found);
    peer.asked.pop_front();
    FinishSend(peer, token, absl::OkStatus());
  }
  return true;
}

absl::Status ShmTransportImpl::TakeKept(Peer& peer, const RecordHeader& record, Offer* offer) {
  if (record.payload_bytes == 0 || record.send_number <= peer.newest_kept) {
    return absl::InvalidArgumentError("it offers a payload that it can't have kept");
  }
  peer.newest_kept = record.send_number;
  offer->send_number = record.send_number;
  offer->kept = true;
  return absl::OkStatus();
}

void ShmTransportImpl::AskFor(Peer& peer, uint64_t send_number, const Landing& landing) {
  peer.landings.emplace(send_number, landing);
  SayWord(peer, RecordType::kAsked, send_number);
}

absl::Status ShmTransportImpl::OnAsked(Peer& peer, uint64_t send_number) {
  const auto found = peer.kept.find(send_number);
  if (found == peer.kept.end() || found->second.asked) {
    return absl::InvalidArgumentError("it asks for a payload that is not kept for it");
  }
  found->second.asked = true;
  peer.asked.push_back(send_number);
  return absl::OkStatus();
}

absl::Status ShmTransportImpl::OnPiece(Peer& peer, const OutboxReader::Record& record) {
  const auto found = peer.landings.find(record.fixed.send_number);
  if (found == peer.landings.end()) return absl::InvalidArgumentError("it sends a piece that nobody asked for");
  Landing& landing = found->second;
  const std::span<std::byte> left = landing.buffer.subspan(landing.landed_bytes);
  if (record.payload.empty() || record.payload.size() > left.size()) {
    return absl::InvalidArgumentError("it sends another number of bytes than it was asked for");
  }
  std::memcpy(left.data(), record.payload.data(), record.payload.size());
  landing.landed_bytes += record.payload.size();
  if (landing.landed_bytes < landing.buffer.size()) return absl::OkStatus();
  pending_.Add({.kind = TransportEventKind::kLanded,
                .peer = peer.id,
                .offer = landing.offer,
                .token = landing.token,
                .payload_bytes = landing.buffer.size()});
  peer.landings.erase(found);
  return absl::OkStatus();
}

absl::Status ShmTransportImpl::OnUnwanted(Peer& peer, uint64_t send_number) {
  const auto found = peer.kept.find(send_number);
  if (found == peer.kept.end() || found->second.asked) {
    return absl::InvalidArgumentError("it returns a payload that was not lent to it");
  }
  const uint64_t token = found->second.token;
  peer.kept.erase(found);
  FinishSend(peer, token, absl::OkStatus());
  return absl::OkStatus();
}

void ShmTransportImpl::EndPieces(Peer& peer, const absl::Status& why) {
  for (const auto& [number, kept] : std::exchange(peer.kept, {})) FinishSend(peer, kept.token, why);
  peer.asked.clear();
  for (const auto& [number, landing] : std::exchange(peer.landings, {})) {
    pending_.Add({.kind = TransportEventKind::kLanded,
                  .peer = peer.id,
                  .offer = landing.offer,
                  .token = landing.token,
                  .payload_bytes = landing.buffer.size(),
                  .status = why});
  }
}

}  // namespace shoal
