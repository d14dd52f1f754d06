#include "net/shm/shm_transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "net/payload_copy.h"
#include "net/shm/shm_connections.h"
#include "process/socket_address.h"

namespace shoal {
namespace {

// A Poll looks after the rings each time, after the sockets only now and then: they cost a system call and say little.
constexpr int kMaxPollsWithoutSockets = 32;

}  // namespace

absl::StatusOr<PeerId> ShmTransportImpl::Connect(const std::string& address) {
  if (absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(address); !parsed.ok()) return parsed.status();
  absl::StatusOr<PeerId> peer = ConnectIfOnThisNode(address);
  if (!absl::IsNotFound(peer.status())) return peer;
  const PeerId id(next_id_++);
  pending_.Add(
      {.kind = TransportEventKind::kPeerDown, .peer = id, .status = absl::UnavailableError(peer.status().message())});
  return id;
}

absl::Status ShmTransportImpl::SendNote(PeerId peer_id, std::span<const std::byte> note) {
  if (note.empty() || note.size() > kMaxNoteBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a note has 1 to ", kMaxNoteBytes, " bytes, not ", note.size()));
  }
  const absl::StatusOr<Peer*> found = FindUpPeer(peer_id);
  if (!found.ok()) return found.status();
  Peer& peer = **found;
  if (peer.words.empty()) {
    const absl::StatusOr<bool> sent = TryNote(peer, RecordType::kNote, 0, note);
    if (sent.value_or(false)) {
      Publish(peer);
      return absl::OkStatus();
    }
  }
  if (peer.notes_waiting >= options_.limits.max_notes_per_peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat(peer.notes_waiting, " notes to ", peer.name, " wait for the peer already"));
  }
  ++peer.notes_waiting;
  WaitingWord& waiting = peer.words.emplace_back();
  waiting.note_bytes = note.size();
  std::copy(note.begin(), note.end(), waiting.note.begin());
  return absl::OkStatus();
}

absl::Status ShmTransportImpl::Send(PeerId peer_id, std::span<const std::byte> header,
                                    std::span<const std::byte> payload, uint64_t token) {
  if (header.size() > kMaxNoteBytes || payload.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a header has at most ", kMaxNoteBytes, " bytes and a payload at least one"));
  }
  const absl::StatusOr<Peer*> found = FindUpPeer(peer_id);
  if (!found.ok()) return found.status();
  Peer& peer = **found;
  if (peer.sends_waiting >= options_.limits.max_sends_per_peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat(peer.sends_waiting, " payloads to ", peer.name, " wait for the peer already"));
  }
  ++peer.sends_waiting;
  if (!peer.IsAnythingWaiting()) {
    const absl::StatusOr<bool> sent = TrySend(peer, header, payload, token);
    if (sent.value_or(false)) {
      Publish(peer);
      return absl::OkStatus();
    }
  }
  WaitingPayload& waiting = peer.payloads.emplace_back();
  waiting.header_bytes = header.size();
  std::copy(header.begin(), header.end(), waiting.header.begin());
  waiting.payload = payload;
  waiting.token = token;
  return absl::OkStatus();
}

absl::Status ShmTransportImpl::Accept(OfferId offer_id, std::span<std::byte> buffer, uint64_t token) {
  const auto found = offers_.find(offer_id);
  if (found == offers_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no offer ", offer_id.value(), " (any more)"));
  }
  Offer& offer = found->second;
  Peer& peer = *offer.peer;
  if (buffer.size() != offer.payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the offer from ", peer.name, " has ", offer.payload_bytes, " bytes, the buffer ", buffer.size()));
  }
  if (offer.kept) {
    AskFor(peer, offer.send_number, {.offer = offer_id, .token = token, .buffer = buffer});
    --peer.offers;
    offers_.erase(found);
    return absl::OkStatus();
  }
  CopyPayload(buffer.data(), offer.payload, buffer.size());
  // Its owner says first that it uses the memory for something else, then does so.
  std::atomic_thread_fence(std::memory_order_acquire);
  absl::Status status;
  if (peer.inbox->stage() != SideStage::kOpen && offer.send_number != 0) {
    status = absl::UnavailableError(absl::StrCat(peer.name, " closed the connection"));
  }
  pending_.Add({.kind = TransportEventKind::kLanded,
                .peer = peer.id,
                .offer = offer_id,
                .token = token,
                .payload_bytes = buffer.size(),
                .status = std::move(status)});
  Decline(offer_id);
  return absl::OkStatus();
}

void ShmTransportImpl::Decline(OfferId offer_id) {
  const auto found = offers_.find(offer_id);
  if (found == offers_.end()) return;
  Peer& peer = *found->second.peer;
  const uint64_t send_number = found->second.send_number;
  ReleaseBlock(found->second);
  --peer.offers;
  offers_.erase(found);
  if (send_number != 0) SayWord(peer, RecordType::kReturned, send_number);
}

// Memory of a process that died stays mapped here as it was.
bool ShmTransportImpl::AcceptsAtOnce(OfferId offer_id) const {
  const auto found = offers_.find(offer_id);
  return found != offers_.end() && !found->second.kept &&
         (found->second.send_number == 0 || found->second.peer->inbox->stage() == SideStage::kOpen);
}

TransportReport ShmTransportImpl::Report(std::span<const PeerId> peers) const {
  return {.description = "shared memory",
          .shared_memory_peers = up_.size(),
          .peer_transports = std::vector<std::string>(peers.size(), "shared memory")};
}

const std::byte* ShmTransportImpl::Borrow(OfferId offer_id) {
  const auto found = offers_.find(offer_id);
  // What lies in the sender's region may be used for something else when the sender closes.
  if (found == offers_.end() || found->second.in_region || found->second.kept) return nullptr;
  Peer& peer = *found->second.peer;
  const std::byte* const payload = found->second.payload;
  --peer.offers;
  ++peer.borrowed;
  borrowed_.emplace(offer_id, std::move(found->second));
  offers_.erase(found);
  return payload;
}

void ShmTransportImpl::Return(OfferId offer_id) {
  const auto found = borrowed_.find(offer_id);
  if (found == borrowed_.end()) return;
  Peer& peer = *found->second.peer;
  const uint64_t send_number = found->second.send_number;
  ReleaseBlock(found->second);
  borrowed_.erase(found);
  --peer.borrowed;
  if (peer.state == PeerState::kEnding) return Settle(peer, /*peer_is_dead=*/!peer.socket.valid());
  if (send_number != 0) SayWord(peer, RecordType::kReturned, send_number);
}

void ShmTransportImpl::Close(PeerId peer_id) {
  const auto found = peers_.find(peer_id);
  if (found == peers_.end()) return;
  Peer& peer = *found->second;
  if (peer.state == PeerState::kGuest || peer.state == PeerState::kEnding) return;
  EndPeer(peer, absl::CancelledError("the connection was closed"), absl::OkStatus());
}

std::span<const TransportEvent> ShmTransportImpl::Poll() {
  const bool was_asleep = sleeps_ % 2 == 1;
  if (was_asleep) status_page().sleeps.store(++sleeps_, std::memory_order_relaxed);
  // Continues after the peer that was read last, so that peers that send much don't keep the others waiting.
  for (size_t i = 0; i < up_.size() && pending_.size() < options_.limits.max_events_per_poll; ++i, ++next_up_) {
    if (next_up_ >= up_.size()) next_up_ = 0;
    Peer* const peer = up_[next_up_];
    ReadPeer(*peer);
    if (next_up_ < up_.size() && up_[next_up_] == peer && peer->IsAnythingWaiting()) Flush(*peer);
  }
  if (was_asleep || ++polls_without_sockets_ >= kMaxPollsWithoutSockets) {
    polls_without_sockets_ = 0;
    PollSockets();
  }
  returned_.Clear();
  returned_.Swap(pending_);
  return returned_.events();
}

bool ShmTransportImpl::Arm() {
  if (!pending_.empty()) return false;
  if (sleeps_ % 2 == 0) status_page().sleeps.store(++sleeps_, std::memory_order_relaxed);
  // A peer that publishes from here on sees that we sleep; what was published before, we see.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool idle = true;
  for (size_t i = 0; i < up_.size() && idle; ++i) {
    Peer& peer = *up_[i];
    idle = !peer.inbox->HasMore() && peer.inbox->stage() == SideStage::kOpen &&
           (!peer.IsAnythingWaiting() || !Flush(peer)) && pending_.empty();
  }
  if (!idle) status_page().sleeps.store(++sleeps_, std::memory_order_relaxed);
  return idle;
}

absl::StatusOr<std::unique_ptr<ShmTransport>> MakeShmTransport(const ShmTransportOptions& options) {
  auto transport = std::make_unique<ShmTransportImpl>(options);
  if (absl::Status status = transport->Start(); !status.ok()) return status;
  return transport;
}

}  // namespace shoal
