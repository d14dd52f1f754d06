// The part of ShmTransportImpl that concerns records: what is said on a connection, and what is lent by it.
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/shm/shm_connections.h"

namespace shoal {
namespace {

// Of one peer in one Poll, so that none keeps the others waiting.
constexpr int kMaxRecordsPerRead = 64;
constexpr int kMaxRecordsInRing = static_cast<int>(kRingBytes / kRecordAlignment);

}  // namespace

absl::StatusOr<ShmTransportImpl::Peer*> ShmTransportImpl::FindUpPeer(PeerId peer_id) {
  const auto found = peers_.find(peer_id);
  if (found == peers_.end() || found->second->state == PeerState::kGuest ||
      found->second->state == PeerState::kEnding) {
    return absl::NotFoundError(absl::StrCat("there is no connection ", peer_id.value(), " (any more)"));
  }
  if (found->second->state != PeerState::kUp) {
    return absl::FailedPreconditionError(absl::StrCat("the connection to ", found->second->name, " is not up yet"));
  }
  return found->second.get();
}

absl::StatusOr<bool> ShmTransportImpl::TryNote(Peer& peer, RecordType type, uint64_t send_number,
                                               std::span<const std::byte> note) {
  return peer.outbox->Append({.type = type, .send_number = send_number}, note, {},
                             peer.inbox->header().consumed.load(std::memory_order_acquire));
}

absl::StatusOr<bool> ShmTransportImpl::TrySend(Peer& peer, std::span<const std::byte> header,
                                               std::span<const std::byte> payload, uint64_t token) {
  const uint64_t consumed = peer.inbox->header().consumed.load(std::memory_order_acquire);
  RecordHeader record{.type = RecordType::kInline, .payload_bytes = payload.size()};
  if (payload.size() <= kMaxInlineBytes) {
    const absl::StatusOr<bool> appended = peer.outbox->Append(record, header, payload, consumed);
    if (appended.value_or(false)) FinishSend(peer, token, absl::OkStatus());
    return appended;
  }
  Lent lent{.token = token, .bytes = payload.size()};
  record.type = RecordType::kLent;
  record.send_number = peer.next_send_number;
  if (options_.region != nullptr) {
    const std::span<std::byte> region = options_.region->bytes();
    lent.in_region =
        payload.data() >= region.data() && payload.data() + payload.size() <= region.data() + region.size();
    if (lent.in_region) record.offset = static_cast<uint64_t>(payload.data() - region.data()) | kInRegionBit;
  }
  if (!lent.in_region) {
    const std::optional<uint64_t> offset = arena_.Take(payload.size());
    if (!offset.has_value()) return TryKeep(peer, header, payload, token, consumed);
    lent.offset = *offset;
    record.offset = *offset;
  }
  const absl::StatusOr<bool> appended = peer.outbox->Append(record, header, {}, consumed);
  if (!appended.value_or(false)) {
    if (!lent.in_region) arena_.Give(lent.offset, lent.bytes);
    return appended;
  }
  ++peer.next_send_number;
  peer.lent.emplace(record.send_number, lent);
  if (!lent.in_region) {
    std::memcpy(arena_memory_->bytes().data() + kStatusPageBytes + lent.offset, payload.data(), payload.size());
    FinishSend(peer, token, absl::OkStatus());
  }
  return true;
}

void ShmTransportImpl::FinishSend(Peer& peer, uint64_t token, absl::Status status) {
  --peer.sends_waiting;
  pending_.Add({.kind = TransportEventKind::kSent, .peer = peer.id, .token = token, .status = std::move(status)});
}

void ShmTransportImpl::Publish(Peer& peer) {
  if (peer.outbox->Publish()) RingIfAsleep(peer);
}

void ShmTransportImpl::RingIfAsleep(Peer& peer) {
  // The peer says that it sleeps and then looks at our records; we publish and then look whether it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto* const status = reinterpret_cast<const StatusPage*>(peer.their_arena->bytes().data());
  const uint64_t sleeps = status->sleeps.load(std::memory_order_relaxed);
  if (sleeps % 2 == 0 || sleeps == peer.rung_for_sleep) return;
  peer.rung_for_sleep = sleeps;
  RingBell(peer.socket.get());
}

void ShmTransportImpl::SayWord(Peer& peer, RecordType type, uint64_t send_number) {
  if (peer.words.empty()) {
    if (TryNote(peer, type, send_number, {}).value_or(false)) return Publish(peer);
  }
  WaitingWord& waiting = peer.words.emplace_back();
  waiting.type = type;
  waiting.send_number = send_number;
}

bool ShmTransportImpl::Flush(Peer& peer) {
  peer.outbox->header().wants_room.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool any = false;
  absl::Status failure;
  while (peer.IsAnythingWaiting()) {
    const bool piece = !peer.asked.empty() && (peer.payloads.empty() || peer.piece_is_next);
    const absl::StatusOr<bool> sent = !peer.words.empty() ? TryNextWord(peer)
                                      : piece             ? TryNextPiece(peer)
                                                          : TryNextPayload(peer);
    failure = sent.status();
    if (!sent.value_or(false)) break;
    any = true;
  }
  if (!peer.IsAnythingWaiting()) peer.outbox->header().wants_room.store(0, std::memory_order_relaxed);
  Publish(peer);
  if (!failure.ok()) {
    const absl::Status why(failure.code(), absl::StrCat(peer.name, ": ", failure.message()));
    EndPeer(peer, why, why);
  }
  return any;
}

absl::StatusOr<bool> ShmTransportImpl::TryNextWord(Peer& peer) {
  const WaitingWord& next = peer.words.front();
  const absl::StatusOr<bool> sent =
      TryNote(peer, next.type, next.send_number, std::span(next.note).first(next.note_bytes));
  if (!sent.value_or(false)) return sent;
  if (next.type == RecordType::kNote) --peer.notes_waiting;
  peer.words.pop_front();
  return true;
}

absl::StatusOr<bool> ShmTransportImpl::TryNextPayload(Peer& peer) {
  const WaitingPayload& next = peer.payloads.front();
  const absl::StatusOr<bool> sent =
      TrySend(peer, std::span(next.header).first(next.header_bytes), next.payload, next.token);
  if (!sent.value_or(false)) return sent;
  peer.payloads.pop_front();
  peer.piece_is_next = true;
  return true;
}

void ShmTransportImpl::ReadPeer(Peer& peer, bool ended) {
  // Looked at before the records: a peer says all it has to say, a ring of it at most, and then that it closes.
  const bool closed = ended || peer.inbox->stage() != SideStage::kOpen;
  const int most = closed ? kMaxRecordsInRing : kMaxRecordsPerRead;
  const uint64_t consumed_before = peer.inbox->consumed();
  absl::Status status;
  for (int i = 0; i < most && status.ok(); ++i) {
    const absl::StatusOr<std::optional<OutboxReader::Record>> record = peer.inbox->Next();
    if (record.ok() && !record->has_value()) break;
    status = record.ok() ? OnRecord(peer, **record) : record.status();
  }
  if (peer.inbox->consumed() != consumed_before) {
    peer.outbox->header().consumed.store(peer.inbox->consumed(), std::memory_order_release);
    // The peer says that it wants room and then looks for it; we make room and then look whether it wants any.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (peer.inbox->header().wants_room.load(std::memory_order_relaxed) != 0) RingIfAsleep(peer);
  }
  if (!status.ok()) {
    const absl::Status why(status.code(), absl::StrCat(peer.name, ": ", status.message()));
    return EndPeer(peer, why, why);
  }
  if (closed) {
    const absl::Status why = absl::UnavailableError(
        absl::StrCat(peer.name, ended ? " closed the connection or died" : " closed the connection"));
    EndPeer(peer, why, why);
  }
}

absl::Status ShmTransportImpl::OnRecord(Peer& peer, const OutboxReader::Record& record) {
  switch (record.fixed.type) {
    case RecordType::kNote:
      if (record.header.empty()) return absl::InvalidArgumentError("it sends an empty note");
      pending_.Add({.kind = TransportEventKind::kNote, .peer = peer.id}, record.header);
      return absl::OkStatus();
    case RecordType::kInline:
    case RecordType::kLent:
    case RecordType::kKept:
      return OnPayload(peer, record);
    case RecordType::kReturned:
      return OnReturned(peer, record.fixed.send_number);
    case RecordType::kAsked:
      return OnAsked(peer, record.fixed.send_number);
    case RecordType::kPiece:
      return OnPiece(peer, record);
    default:
      return absl::InvalidArgumentError("its shared memory holds a record of an unknown type");
  }
}

absl::Status ShmTransportImpl::OnPayload(Peer& peer, const OutboxReader::Record& record) {
  Offer offer{.peer = &peer, .payload_bytes = record.fixed.payload_bytes};
  const bool is_inline = record.fixed.type == RecordType::kInline;
  if (peer.offers >= options_.limits.max_offers_per_peer ||
      (is_inline && peer.held_bytes + offer.payload_bytes > options_.limits.max_held_bytes_per_peer)) {
    return absl::ResourceExhaustedError("it sends more than its limit allows");
  }
  const absl::Status status = is_inline                                ? TakeInline(peer, record, &offer)
                              : record.fixed.type == RecordType::kLent ? TakeLent(peer, record.fixed, &offer)
                                                                       : TakeKept(peer, record.fixed, &offer);
  if (!status.ok()) return status;
  ++peer.offers;
  const OfferId id(next_id_++);
  pending_.Add(
      {.kind = TransportEventKind::kOffered, .peer = peer.id, .offer = id, .payload_bytes = offer.payload_bytes},
      record.header);
  offers_.emplace(id, std::move(offer));
  return absl::OkStatus();
}

absl::Status ShmTransportImpl::TakeInline(Peer& peer, const OutboxReader::Record& record, Offer* offer) {
  if (record.payload.empty() || record.payload.size() > kMaxInlineBytes) {
    return absl::InvalidArgumentError("its ring holds a payload that is empty or too large");
  }
  if (free_blocks_.empty()) {
    offer->block = std::make_unique<std::byte[]>(kMaxInlineBytes);
  } else {
    offer->block = std::move(free_blocks_.back());
    free_blocks_.pop_back();
  }
  std::memcpy(offer->block.get(), record.payload.data(), record.payload.size());
  offer->payload = offer->block.get();
  peer.held_bytes += offer->payload_bytes;
  return absl::OkStatus();
}

absl::Status ShmTransportImpl::TakeLent(const Peer& peer, const RecordHeader& record, Offer* offer) {
  offer->in_region = (record.offset & kInRegionBit) != 0;
  const uint64_t offset = offer->in_region ? record.offset & ~kInRegionBit : record.offset + kStatusPageBytes;
  const PeerMemory* const memory = offer->in_region ? peer.their_region.get() : peer.their_arena.get();
  const uint64_t size = memory == nullptr ? 0 : memory->bytes().size();
  if (offer->payload_bytes == 0 || offset > size || offer->payload_bytes > size - offset || record.send_number == 0) {
    return absl::InvalidArgumentError("it offers memory outside of its shared memory");
  }
  offer->payload = memory->bytes().data() + offset;
  offer->send_number = record.send_number;
  return absl::OkStatus();
}

absl::Status ShmTransportImpl::OnReturned(Peer& peer, uint64_t send_number) {
  const auto found = peer.lent.find(send_number);
  if (found == peer.lent.end()) return OnUnwanted(peer, send_number);
  const Lent lent = found->second;
  peer.lent.erase(found);
  if (lent.in_region) {
    FinishSend(peer, lent.token, absl::OkStatus());
  } else {
    arena_.Give(lent.offset, lent.bytes);
  }
  return absl::OkStatus();
}

void ShmTransportImpl::ReleaseBlock(Offer& offer) {
  if (offer.block == nullptr) return;
  offer.peer->held_bytes -= offer.payload_bytes;
  free_blocks_.push_back(std::move(offer.block));
}

}  // namespace shoal
