#include "net/loopback/loopback_transport.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "net/event_list.h"
#include "net/wake_up.h"
#include "process/mutex.h"
#include "process/socket_address.h"

namespace shoal {

class LoopbackTransport;

namespace {

// One for all networks: a transport changes the state of the one at the other end, and no analysis could tell that two
// mutexes which are reached in different ways are the same.
Mutex loopback_mutex;

}  // namespace

class LoopbackNetworkState {
 public:
  uint32_t next_address SHOAL_GUARDED_BY(loopback_mutex) = 1;
  absl::flat_hash_map<std::string, LoopbackTransport*> listeners SHOAL_GUARDED_BY(loopback_mutex);
};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<LoopbackNetworkState> network, std::unique_ptr<WakeUp> wake_up,
                    const LoopbackOptions& options);
  ~LoopbackTransport() override;

  absl::StatusOr<PeerId> Connect(const std::string& address) override;
  absl::Status SendNote(PeerId peer_id, std::span<const std::byte> note) override;
  absl::Status Send(PeerId peer_id, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override;
  absl::Status Accept(OfferId offer_id, std::span<std::byte> buffer, uint64_t token) override;
  bool AcceptsAtOnce(OfferId offer_id) const override;
  void Decline(OfferId offer_id) override;
  void Close(PeerId peer_id) override;
  std::span<const TransportEvent> Poll() override;
  bool Arm() override;
  int wake_fd() const override { return wake_up_->fd(); }
  void Wake() override;
  std::string listen_address() const override { return address_; }
  TransportReport Report(std::span<const PeerId> peers) const override {
    return {.description = "loopback", .peer_transports = std::vector<std::string>(peers.size(), "loopback")};
  }

 private:
  struct Peer {
    LoopbackTransport* remote = nullptr;
    PeerId remote_id;                     // what the remote calls us
    std::map<uint64_t, uint64_t> tokens;  // of sends that wait at the remote, by send number
    size_t notes_unread = 0;              // sent by us, not yet polled by the remote
    size_t offers = 0;                    // from this peer, unanswered
    size_t held_bytes = 0;
  };
  struct Offer {
    PeerId peer;
    std::span<const std::byte> payload;  // the sender's buffer, or `copy`
    std::vector<std::byte> copy;
    uint64_t send_number = 0;  // 0: the sender does not wait for an answer
  };

  void Push(TransportEvent event, std::span<const std::byte> bytes = {}) SHOAL_REQUIRES(loopback_mutex);
  PeerId AddPeer(LoopbackTransport* remote) SHOAL_REQUIRES(loopback_mutex);
  bool HasRoomFor(size_t copied_bytes, const Peer& peer) const SHOAL_REQUIRES(loopback_mutex);
  void TakeOffer(std::span<const std::byte> header, Offer offer) SHOAL_REQUIRES(loopback_mutex);
  void Answer(Offer& offer) SHOAL_REQUIRES(loopback_mutex);
  void EndPeer(PeerId peer_id, const absl::Status& why, const absl::Status& why_sends) SHOAL_REQUIRES(loopback_mutex);
  void Disconnect(PeerId peer_id, const absl::Status& why_here, const absl::Status& why_there)
      SHOAL_REQUIRES(loopback_mutex);

  const std::shared_ptr<LoopbackNetworkState> network_;
  const std::unique_ptr<WakeUp> wake_up_;
  const LoopbackOptions options_;
  std::string address_;
  bool woken_ SHOAL_GUARDED_BY(loopback_mutex) = false;
  uint64_t next_peer_ SHOAL_GUARDED_BY(loopback_mutex) = 1;
  uint64_t next_offer_ SHOAL_GUARDED_BY(loopback_mutex) = 1;
  uint64_t next_send_ SHOAL_GUARDED_BY(loopback_mutex) = 1;
  std::map<PeerId, Peer> peers_ SHOAL_GUARDED_BY(loopback_mutex);
  std::map<OfferId, Offer> offers_ SHOAL_GUARDED_BY(loopback_mutex);
  EventList pending_ SHOAL_GUARDED_BY(loopback_mutex);
  EventList returned_ SHOAL_GUARDED_BY(loopback_mutex);
};

LoopbackTransport::LoopbackTransport(std::shared_ptr<LoopbackNetworkState> network, std::unique_ptr<WakeUp> wake_up,
                                     const LoopbackOptions& options)
    : network_(std::move(network)), wake_up_(std::move(wake_up)), options_(options) {
  if (!options_.listen) return;
  MutexLock lock(loopback_mutex);
  const uint32_t number = network_->next_address++;
  address_ = absl::StrCat("127.", number >> 16 & 255, ".", number >> 8 & 255, ".", number & 255, ":1");
  network_->listeners[address_] = this;
}

LoopbackTransport::~LoopbackTransport() {
  MutexLock lock(loopback_mutex);
  network_->listeners.erase(address_);
  while (!peers_.empty()) {
    Disconnect(peers_.begin()->first, absl::OkStatus(), absl::UnavailableError("the peer closed the connection"));
  }
}

void LoopbackTransport::Push(TransportEvent event, std::span<const std::byte> bytes) {
  pending_.Add(std::move(event), bytes);
  wake_up_->Signal();
}

PeerId LoopbackTransport::AddPeer(LoopbackTransport* remote) {
  const PeerId id(next_peer_++);
  peers_[id].remote = remote;
  Push({.kind = TransportEventKind::kPeerUp, .peer = id});
  return id;
}

absl::StatusOr<PeerId> LoopbackTransport::Connect(const std::string& address) {
  if (absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(address); !parsed.ok()) return parsed.status();
  MutexLock lock(loopback_mutex);
  if (peers_.size() >= options_.limits.max_peers) {
    return absl::ResourceExhaustedError(absl::StrCat("all ", options_.limits.max_peers, " connections are in use"));
  }
  const auto found = network_->listeners.find(address);
  const bool refused = found == network_->listeners.end() || found->second == this ||
                       found->second->peers_.size() >= found->second->options_.limits.max_peers;
  if (refused) {
    const PeerId id(next_peer_++);
    Push({.kind = TransportEventKind::kPeerDown,
          .peer = id,
          .status = absl::UnavailableError(absl::StrCat("connection to ", address, " refused"))});
    return id;
  }
  LoopbackTransport* remote = found->second;
  const PeerId here = AddPeer(remote);
  const PeerId there = remote->AddPeer(this);
  peers_[here].remote_id = there;
  remote->peers_[there].remote_id = here;
  return here;
}

absl::Status LoopbackTransport::SendNote(PeerId peer_id, std::span<const std::byte> note) {
  if (note.empty() || note.size() > kMaxNoteBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a note has 1 to ", kMaxNoteBytes, " bytes, not ", note.size()));
  }
  MutexLock lock(loopback_mutex);
  const auto found = peers_.find(peer_id);
  if (found == peers_.end()) return absl::NotFoundError("no such peer");
  Peer& peer = found->second;
  if (peer.notes_unread >= options_.limits.max_notes_per_peer) {
    return absl::ResourceExhaustedError(absl::StrCat(peer.notes_unread, " notes wait for this peer already"));
  }
  ++peer.notes_unread;
  peer.remote->Push({.kind = TransportEventKind::kNote, .peer = peer.remote_id}, note);
  return absl::OkStatus();
}

absl::Status LoopbackTransport::Send(PeerId peer_id, std::span<const std::byte> header,
                                     std::span<const std::byte> payload, uint64_t token) {
  if (header.size() > kMaxNoteBytes || payload.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a header has at most ", kMaxNoteBytes, " bytes and a payload at least one"));
  }
  MutexLock lock(loopback_mutex);
  const auto found = peers_.find(peer_id);
  if (found == peers_.end()) return absl::NotFoundError("no such peer");
  Peer& peer = found->second;
  const bool copied = payload.size() < options_.rendezvous_threshold_bytes;
  const Peer& there = peer.remote->peers_.at(peer.remote_id);
  if (peer.tokens.size() >= options_.limits.max_sends_per_peer ||
      !peer.remote->HasRoomFor(copied ? payload.size() : 0, there)) {
    return absl::ResourceExhaustedError(absl::StrCat(there.offers, " payloads wait for this peer already"));
  }
  Offer offer{.peer = peer.remote_id, .payload = payload};
  if (copied) {
    offer.copy.assign(payload.begin(), payload.end());
    offer.payload = offer.copy;
  } else {
    offer.send_number = next_send_++;
    peer.tokens[offer.send_number] = token;
  }
  const bool sent_at_once = offer.send_number == 0;
  peer.remote->TakeOffer(header, std::move(offer));
  if (sent_at_once) Push({.kind = TransportEventKind::kSent, .peer = peer_id, .token = token});
  return absl::OkStatus();
}

bool LoopbackTransport::HasRoomFor(size_t copied_bytes, const Peer& peer) const {
  return peer.offers < options_.limits.max_offers_per_peer &&
         peer.held_bytes + copied_bytes <= options_.limits.max_held_bytes_per_peer;
}

void LoopbackTransport::TakeOffer(std::span<const std::byte> header, Offer offer) {
  Peer& peer = peers_.at(offer.peer);
  ++peer.offers;
  peer.held_bytes += offer.copy.size();
  const OfferId id(next_offer_++);
  Push({.kind = TransportEventKind::kOffered, .peer = offer.peer, .offer = id, .payload_bytes = offer.payload.size()},
       header);
  offers_.emplace(id, std::move(offer));
}

void LoopbackTransport::Answer(Offer& offer) {
  Peer& peer = peers_.at(offer.peer);
  --peer.offers;
  peer.held_bytes -= offer.copy.size();
  if (offer.send_number == 0) return;
  Peer& sender = peer.remote->peers_.at(peer.remote_id);
  const auto waiting = sender.tokens.extract(offer.send_number);
  peer.remote->Push({.kind = TransportEventKind::kSent, .peer = peer.remote_id, .token = waiting.mapped()});
}

absl::Status LoopbackTransport::Accept(OfferId offer_id, std::span<std::byte> buffer, uint64_t token) {
  MutexLock lock(loopback_mutex);
  const auto found = offers_.find(offer_id);
  if (found == offers_.end()) return absl::NotFoundError("no such offer");
  Offer& offer = found->second;
  if (buffer.size() != offer.payload.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the offer has ", offer.payload.size(), " bytes, the buffer ", buffer.size()));
  }
  std::memcpy(buffer.data(), offer.payload.data(), buffer.size());
  Push({.kind = TransportEventKind::kLanded,
        .peer = offer.peer,
        .offer = offer_id,
        .token = token,
        .payload_bytes = buffer.size()});
  Answer(offer);
  offers_.erase(found);
  return absl::OkStatus();
}

bool LoopbackTransport::AcceptsAtOnce(OfferId offer_id) const {
  const MutexLock lock(loopback_mutex);
  return offers_.contains(offer_id);
}

void LoopbackTransport::Decline(OfferId offer_id) {
  MutexLock lock(loopback_mutex);
  const auto found = offers_.find(offer_id);
  if (found == offers_.end()) return;
  Answer(found->second);
  offers_.erase(found);
}

void LoopbackTransport::EndPeer(PeerId peer_id, const absl::Status& why, const absl::Status& why_sends) {
  for (const auto& [number, token] : peers_.at(peer_id).tokens) {
    Push({.kind = TransportEventKind::kSent, .peer = peer_id, .token = token, .status = why_sends});
  }
  std::erase_if(offers_, [peer_id](const auto& entry) { return entry.second.peer == peer_id; });
  Push({.kind = TransportEventKind::kPeerDown, .peer = peer_id, .status = why});
  peers_.erase(peer_id);
}

void LoopbackTransport::Disconnect(PeerId peer_id, const absl::Status& why_here, const absl::Status& why_there) {
  const Peer& peer = peers_.at(peer_id);
  peer.remote->EndPeer(peer.remote_id, why_there, absl::UnavailableError("the peer closed the connection"));
  EndPeer(peer_id, why_here, absl::CancelledError("the connection was closed"));
}

void LoopbackTransport::Close(PeerId peer_id) {
  MutexLock lock(loopback_mutex);
  if (!peers_.contains(peer_id)) return;
  Disconnect(peer_id, absl::OkStatus(), absl::UnavailableError("the peer closed the connection"));
}

std::span<const TransportEvent> LoopbackTransport::Poll() {
  MutexLock lock(loopback_mutex);
  returned_.Clear();
  returned_.Swap(pending_);
  const std::span<const TransportEvent> events = returned_.events();
  for (const TransportEvent& event : events) {
    if (event.kind != TransportEventKind::kNote) continue;
    if (const auto found = peers_.find(event.peer); found != peers_.end()) {
      --found->second.remote->peers_.at(found->second.remote_id).notes_unread;
    }
  }
  return events;
}

bool LoopbackTransport::Arm() {
  MutexLock lock(loopback_mutex);
  wake_up_->Drain();
  return pending_.empty() && !std::exchange(woken_, false);
}

void LoopbackTransport::Wake() {
  MutexLock lock(loopback_mutex);
  woken_ = true;
  wake_up_->Signal();
}

LoopbackNetwork::LoopbackNetwork() : state_(std::make_shared<LoopbackNetworkState>()) {}
LoopbackNetwork::~LoopbackNetwork() = default;

absl::StatusOr<std::unique_ptr<Transport>> LoopbackNetwork::MakeTransport(const LoopbackOptions& options) {
  absl::StatusOr<std::unique_ptr<WakeUp>> wake_up = WakeUp::Make();
  if (!wake_up.ok()) return wake_up.status();
  return std::make_unique<LoopbackTransport>(state_, *std::move(wake_up), options);
}

}  // namespace shoal
